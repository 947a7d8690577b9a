"""What a replay says: the answer in words, with its reason, and the table behind it."""

from typing import Any

from klazy.replay.contenders import CANDIDATES
from klazy.replay.score import Replay, Score

SELDOM = 0.02  # of the rounds in which the projection binds, below which laziness has nothing to act on
ALIKE = 0.5  # the correlation of a row with the next from which on costs drift
STEADY = 0.01  # relative to its cost, how near the fixed point is to the best where nothing lasting changes


def helps(found: Replay) -> bool:
    """Whether something lazy paid less than every simple rule and GD, by more than chance."""
    gain, half = found.saved(found.best("lazy"), found.best("simple", "greedy"))
    return gain > half


def answer(found: Replay) -> list[str]:
    """Which contender, what it saves and at what movement; or that laziness does not help here, and why."""
    lazy, simple, greedy = found.best("lazy"), found.best("simple"), found.best("greedy")
    first, second = found.rounds
    said = [f"Scored on the last {second} of {first + second} rounds, everyone tuned on {found.tuned} rounds before them."]
    if helps(found):
        said += [
            f"Use {named(lazy)}: it paid {lazy.cost:.6g}, {_less(found, lazy, simple)} than the best simple rule, "
            f"{named(simple)}, and {_less(found, lazy, greedy)} than {named(greedy)}.",
            f"It paid {lazy.switching:.6g} for moving; {simple.name} {simple.switching:.6g}, GD {greedy.switching:.6g}.",
        ]
    else:
        other = found.best("simple", "greedy")
        said += [
            f"Laziness does not help here: the best that is lazy, {named(lazy)}, paid {lazy.cost:.6g}, "
            f"{_less(found, lazy, other)} than {named(other)} with {other.cost:.6g}.",
            _reason(found),
        ]
    if found.lower_bound is not None:
        said.append(f"In hindsight {found.optimum:.6g} would have done; nothing less than {found.lower_bound:.6g} could.")
    else:
        said.append("The trace is too long to search for the optimum in hindsight.")
    return said


def _reason(found: Replay) -> str:
    """Why not."""
    if found.binds < SELDOM:
        return f"The projection binds in {found.binds:.1%} of rounds; where it does not, every k plays what GD plays."
    if found.repeats > ALIKE:
        said = "The costs drift faster than they repeat: a row is much like the one before it"
        return f"{said} (correlation {found.repeats:.2f}), and what is longer ago misleads."
    best, fixed = found.scores[0], next(score for score in found.scores if score.name == "fixed")
    if fixed.cost - best.cost <= STEADY * abs(best.cost):
        return "One fixed decision is as good as any: nothing that lasts has changed, so there is nothing to follow."
    said = f"The projection binds in {found.binds:.1%} of rounds, and a row is like the one before it with correlation"
    return f"{said} {found.repeats:.2f}: laziness could act, but the gain is within chance, or eaten up by what it misses."


def _less(found: Replay, score: Score, than: Score) -> str:
    """How much less, with its interval, and in per cent where that means something."""
    gain, half = found.saved(score, than)
    share = f" ({abs(gain) / than.cost:.1%})" if than.cost > 0.0 and score.cost > 0.0 else ""
    if gain == 0.0:
        return "neither less nor more"
    return f"{abs(gain):.6g}{share} +- {half:.3g} {'less' if gain > 0.0 else 'more'}"


def named(score: Score) -> str:
    """A contender with its parameters."""
    values = ", ".join(f"{name}={value:.4g}" for name, value in score.parameters.items())
    return f"{score.name} ({values})" if values else score.name


def table(found: Replay) -> list[dict[str, Any]]:
    """One row per contender, the best first, and the optimum at the end."""
    rows = [
        {
            "contender": score.name,
            "chosen": named(score).removeprefix(score.name).strip(" ()"),
            "hitting": score.hitting,
            "switching": score.switching,
            "cost": score.cost,
            "edge": ", ".join(score.edges),
            "above_the_optimum": None if found.lower_bound is None else score.cost - found.lower_bound,
        }
        for score in found.scores
    ]
    if found.optimum is not None and found.lower_bound is not None:
        blank: dict[str, Any] = dict.fromkeys(rows[0])
        gap = found.optimum - found.lower_bound
        rows.append(
            blank
            | {"contender": "optimum in hindsight", "chosen": "", "edge": "", "cost": found.optimum, "above_the_optimum": gap}
        )
    return rows


def as_object(found: Replay) -> dict[str, Any]:
    """All of it as plain values."""
    lazy, simple, greedy = found.best("lazy"), found.best("simple"), found.best("greedy")
    gains = {"simple": found.saved(lazy, simple), "GD": found.saved(lazy, greedy)}
    return {
        "helps": helps(found),
        "best": found.scores[0].name,
        "best_lazy": lazy.name,
        "best_simple": simple.name,
        "saved": {than: {"cost": gain, "half": half} for than, (gain, half) in gains.items()},
        "rounds": {"first": found.rounds[0], "tuned": found.tuned, "second": found.rounds[1]},
        "candidates": CANDIDATES,
        "filled": found.source.filled,
        "optimum": found.optimum,
        "lower_bound": found.lower_bound,
        "binds": found.binds,
        "repeats": found.repeats,
        "answer": answer(found),
        "table": table(found),
    }
