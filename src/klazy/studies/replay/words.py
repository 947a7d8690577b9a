"""What a replay says: the answer in words, with its reason, and the table behind it."""

from typing import Any

from klazy.studies.replay.score import Replay
from klazy.studies.tuning import Score

SELDOM = 0.02  # of the rounds in which the projection binds, below which laziness has nothing to act on
SHORT = 50  # rounds that a rule averages, up to which it has a short memory
ALIKE = 0.5  # the correlation of a row with the next from which on costs drift
STEADY = 0.01  # relative to its cost, how near the fixed point is to the best where nothing lasting changes


def judge(found: Replay) -> str:
    """``"helps"`` if something lazy paid less than every simple rule and GD, by more than chance; ``"perhaps"`` if it paid
    less, but within chance; else ``"does not help"``."""
    lazy = found.best("lazy")
    other = found.best("simple", "greedy")
    gain, half = lazy.compare(other)
    if gain <= 0.0 or lazy.ties_with(other):
        return "does not help"
    return "helps" if gain > half else "perhaps"


def answer(found: Replay) -> list[str]:
    """Which contender, what it saves and at what movement; or that laziness does not help here, and why."""
    lazy = found.best("lazy")
    simple = found.best("simple")
    greedy = found.best("greedy")
    other = found.best("simple", "greedy")
    first, second = found.rounds
    said = [
        f"Scored on the last {second} of {first + second} rounds, everyone tuned on {found.tuned} rounds before them."
    ]
    if judge(found) == "does not help":
        said += [
            f"Laziness does not help here: the best that is lazy, {describe(lazy)}, paid {lazy.cost:.6g}, "
            f"{_compare(found, lazy, other)} than {describe(other)} with {other.cost:.6g}.",
            _explain(found, other),
        ]
    else:
        use = f"Use {describe(lazy)}:"
        if judge(found) == "perhaps":
            use = f"Perhaps {describe(lazy)}, but within chance:"
        said += [
            f"{use} it paid {lazy.cost:.6g}, {_compare(found, lazy, simple)} than the best simple rule, "
            f"{describe(simple)}, and {_compare(found, lazy, greedy)} than {describe(greedy)}.",
            f"It paid {lazy.switching:.6g} for moving; {simple.name} {simple.switching:.6g}, GD {greedy.switching:.6g}.",
        ]
        if lazy.name == "k-lazyGD":
            decay = next(score for score in found.scores if score.name == "Decay")
            said.append(
                "It forgets by a clock: where costs change in step with it, that is luck that need not last; "
                f"Decay, which has no clock, paid {decay.cost:.6g}."
            )
    if found.optimum is None:
        return [*said, "The trace is too long to search for the optimum in hindsight."]
    least = min(found.optimum.cost, found.scores[0].cost)
    return [
        *said,
        f"In hindsight {least:.6g} would have done; nothing less than {found.optimum.lower_bound:.6g} could.",
    ]


def _explain(found: Replay, other: Score) -> str:
    """Why not: what beat the lazy says what they lack."""
    fixed = next(score for score in found.scores if score.name == "fixed")
    if fixed.cost - other.cost <= STEADY * abs(other.cost):
        return "One fixed decision is as good as any: nothing that lasts has changed, so there is nothing to follow."
    binds = f"The projection binds in {found.binds:.1%} of rounds"
    if found.binds < SELDOM:
        return f"{binds}; where it does not, every k plays what GD plays."
    forgetful = other.name not in ("fixed", "follow the leader") and other.parameters.get("window", 1) < SHORT
    if found.repeats > ALIKE and forgetful:
        said = "The costs drift faster than they repeat: a row is much like the one before it"
        return f"{said} (correlation {found.repeats:.2f}), and what is longer ago misleads."
    return f"{binds}, and a row is like the one before it with correlation {found.repeats:.2f}: laziness acts, but misses more."


def _compare(found: Replay, score: Score, than: Score) -> str:
    """How much less, with its interval, and in per cent where that means something."""
    gain, half = score.compare(than)
    if score.ties_with(than):
        return "neither less nor more"
    share = f" ({abs(gain) / than.cost:.1%})" if than.cost > 0.0 and score.cost > 0.0 else ""
    word = "less" if gain > 0.0 else "more"
    return f"{abs(gain):.6g}{share} +- {half:.3g} {word}"


def describe(score: Score) -> str:
    """A contender with its parameters."""
    values = _list_parameters(score)
    return f"{score.name} ({values})" if values else score.name


def _list_parameters(score: Score) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in score.parameters.items())


def tabulate(found: Replay) -> list[dict[str, Any]]:
    """One row per contender, the best first, and the optimum at the end."""
    bound = None if found.optimum is None else found.optimum.lower_bound
    rows = []
    for score in found.scores:
        row = _make_row(score.name, _list_parameters(score), score.hitting, score.switching, bound)
        tried = {"candidates": score.candidates, "edge": ", ".join(score.edges)}
        rows.append(row | tried)
    best = found.optimum
    if best is not None:
        row = _make_row("optimum in hindsight", "", best.hitting, best.cost - best.hitting, bound)
        rows.append(row | {"candidates": None, "edge": ""})
    return rows


def _make_row(
    name: str, chosen: str, hitting: float, switching: float, bound: float | None
) -> dict[str, Any]:
    cost = hitting + switching
    above = None if bound is None else max(cost - bound, 0.0)
    return {
        "contender": name,
        "chosen": chosen,
        "hitting": hitting,
        "switching": switching,
        "cost": cost,
        "above_the_bound": above,
    }


def to_dict(found: Replay) -> dict[str, Any]:
    """All of it as plain values."""
    lazy = found.best("lazy")
    simple = found.best("simple")
    greedy = found.best("greedy")
    gains = {"simple": lazy.compare(simple), "GD": lazy.compare(greedy)}
    optimum = None
    lower_bound = None
    if found.optimum is not None:
        optimum = found.optimum.cost
        lower_bound = found.optimum.lower_bound
    return {
        "verdict": judge(found),
        "best": found.scores[0].name,
        "best_lazy": lazy.name,
        "best_simple": simple.name,
        "saved": {than: {"cost": gain, "half": half} for than, (gain, half) in gains.items()},
        "rounds": {"first": found.rounds[0], "tuned": found.tuned, "second": found.rounds[1]},
        "filled": found.source.filled,
        "optimum": optimum,
        "lower_bound": lower_bound,
        "binds": found.binds,
        "repeats": found.repeats,
        "answer": answer(found),
        "table": tabulate(found),
    }
