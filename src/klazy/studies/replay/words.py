"""What a replay says: the answer in words, with its reason, and the table behind it."""

from typing import TYPE_CHECKING, Any

from klazy.families import LogWealth, Rewards
from klazy.studies.replay.numbers import tell_column, tell_number
from klazy.studies.replay.score import BASELINE
from klazy.studies.tuning import Score

if TYPE_CHECKING:
    from klazy.studies.replay.report import Report, Saving

SELDOM = 0.02  # of the rounds in which the projection binds, below which laziness has nothing to act on
SHORT = 50  # rounds that a rule averages, up to which it has a short memory
ALIKE = 0.5  # the correlation of a row with the next from which on costs drift
STEADY = 0.01  # relative to its cost, how near the fixed point is to the best where nothing lasting changes
NUMBERS = ("hitting", "switching", "cost", "above_the_optimum")


def judge(found: "Report") -> str:
    """``"saves"`` if the best paid less than what is done now by more than chance; ``"perhaps"`` if within chance; else
    ``"keep"``."""
    gain, half = found.best.compare(found.reference)
    if gain <= 0.0 or found.best.ties_with(found.reference):
        return "keep"
    return "saves" if gain > half else "perhaps"


def judge_laziness(found: "Report") -> str:
    """``"helps"`` if something lazy paid less than every simple rule and GD, by more than chance; ``"perhaps"`` if it paid
    less, but within chance; else ``"does not help"``."""
    lazy = found.best_of("lazy")
    other = found.best_of("simple", "greedy")
    gain, half = lazy.compare(other)
    if gain <= 0.0 or lazy.ties_with(other):
        return "does not help"
    return "helps" if gain > half else "perhaps"


def answer(found: "Report") -> list[str]:
    """What would have been saved and by whom; what laziness did; what the best possible was."""
    said = [_tell_savings(found), _tell_laziness(found), _tell_optimum(found)]
    return [*said, *found.notes]


def _tell_savings(found: "Report") -> str:
    best = found.best
    saved = [found.savings[name] for name in (BASELINE, "fixed") if name in found.savings]
    now = _name(found, found.reference.name)
    verdict = judge(found)
    has_baseline = found.reference.name == BASELINE
    if verdict == "keep":
        cost = _tell(found, found.reference.cost)
        if not has_baseline:
            return f"{_begin(now)} was best: it paid {cost}, and no learner or rule paid less."
        fixed = f"{_begin(name_fixed(found))} paid {_tell(found, found.score('fixed').cost)}."
        return f"Keep doing what you do: {now} paid {cost}, and no learner or rule paid less. {fixed}"
    if verdict == "perhaps":
        said = "Keep doing what you do for now" if has_baseline else "No saving is certain"
        return f"{said}: {describe(best)} paid {_tell_saving(found, saved[0])} less than {now}, which may be chance."
    parts = [
        f"{_tell_saving(found, saving)} against {_name(found, saving.against)}"
        for saving in saved
        if saving.cost != 0.0
    ]
    said = "You would have gained" if isinstance(found.setup.family, Rewards) else "You would have saved"
    return f"{said} {' and '.join(parts)}, with {describe(best)}."


def name_fixed(found: "Report") -> str:
    """What it means to play one decision all the time: shares of wealth have to be bought and sold to stay the same."""
    is_rebalanced = isinstance(found.setup.family, LogWealth)
    return "rebalancing to fixed shares" if is_rebalanced else "never moving"


def _name(found: "Report", contender: str) -> str:
    return "what you did until now" if contender == BASELINE else name_fixed(found)


def _begin(words: str) -> str:
    return words[0].upper() + words[1:]


def _tell(found: "Report", value: float) -> str:
    return f"{tell_number(value)} {found.unit}".strip()


def _tell_saving(found: "Report", saving: "Saving") -> str:
    """An amount with its interval, in per cent where that means something, and by the round or the day."""
    share = "" if saving.share is None else f"{saving.share:.1%}, "
    rate = f"{_tell(found, saving.per_round)} a round"
    if saving.per_day is not None:
        rate = f"{_tell(found, saving.per_day)} a day"
    return f"{_tell(found, saving.cost)} +- {tell_number(saving.half, 2)} ({share}{rate})"


def _tell_laziness(found: "Report") -> str:
    lazy = found.best_of("lazy")
    other = found.best_of("simple", "greedy")
    verdict = judge_laziness(found)
    paid = f"{_tell(found, lazy.cost)}, {_compare(found, lazy, other)}"
    if verdict == "does not help":
        said = f"Laziness does not help here: the best lazy learner, {describe(lazy)}, paid {paid}."
        return f"{said} {_explain(found, other)}"
    moved = (
        f"It paid {_tell(found, lazy.switching)} for moving, {other.name} {_tell(found, other.switching)}."
    )
    if verdict == "perhaps":
        return f"Laziness may help: {describe(lazy)} paid {paid}, which may be chance. {moved}"
    said = f"Laziness helps: {describe(lazy)} paid {paid}. {moved}"
    if lazy.name == "k-lazyGD":
        decay = _tell(found, found.score("Decay").cost)
        luck = "if costs happen to change in step with the clock, that is luck"
        said += f" It forgets by a clock: {luck}. Decay, which has no clock, paid {decay}."
    return said


def _tell_optimum(found: "Report") -> str:
    if found.optimum is None:
        return "The best possible total is not known for this movement."
    least = min(found.optimum.cost, found.best.cost)
    bound = _tell(found, found.optimum.lower_bound)
    if bound == _tell(found, least):
        return f"The best possible total was {bound} (proved)."
    return f"The best possible total was between {bound} and {_tell(found, least)} (proved)."


def _explain(found: "Report", other: Score) -> str:
    """Why not: what beat the lazy says what they lack."""
    fixed = found.score("fixed")
    if fixed.cost - other.cost <= STEADY * abs(other.cost):
        return "One fixed decision is as good as any: nothing changed for long."
    binds = f"Steps leave the set in {found.binds:.1%} of rounds"
    if found.binds < SELDOM:
        return f"{binds}; in all others every k decides what GD decides."
    forgetful = other.name not in ("fixed", "follow the leader") and other.parameters.get("window", 1) < SHORT
    if found.repeats > ALIKE and forgetful:
        said = "The costs drift faster than they repeat: a row is much like the one before"
        return f"{said} (correlation {found.repeats:.2f}), and older rows mislead."
    alike = f"a row is like the one before with correlation {found.repeats:.2f}"
    return f"{binds}, and {alike}: laziness acts, but misses more than it saves."


def _compare(found: "Report", score: Score, than: Score) -> str:
    """How much less or more, with its interval, and in per cent where that means something."""
    gain, half = score.compare(than)
    if score.ties_with(than):
        return f"the same as {describe(than)}"
    share = f" ({abs(gain) / than.cost:.1%})" if than.cost > 0.0 and score.cost > 0.0 else ""
    word = "less" if gain > 0.0 else "more"
    return f"{_tell(found, abs(gain))} +- {tell_number(half, 2)}{share} {word} than {describe(than)}"


def describe(score: Score) -> str:
    """A contender with its parameters."""
    values = list_parameters(score.parameters)
    return f"{score.name} ({values})" if values else score.name


def list_parameters(parameters: dict[str, float]) -> str:
    """Write parameters with a few digits of their values."""
    return ", ".join(f"{name}={value:.4g}" for name, value in parameters.items())


def tabulate(found: "Report") -> list[dict[str, Any]]:
    """One row per contender, the best first, and the optimum at the end; numbers in full."""
    bound = None if found.optimum is None else found.optimum.lower_bound
    rows = []
    for score in found.scores:
        row = _make_row(score.name, score.parameters, score.hitting, score.switching, bound)
        tried = {"moves": score.moves, "candidates": score.candidates, "edge": ", ".join(score.edges)}
        rows.append(row | tried)
    best = found.optimum
    if best is not None:
        row = _make_row("optimum in hindsight", {}, best.hitting, best.switching, bound)
        rows.append(row | {"moves": None, "candidates": None, "edge": ""})
    return rows


def _make_row(
    name: str, parameters: dict[str, float], hitting: float, switching: float, bound: float | None
) -> dict[str, Any]:
    cost = hitting + switching
    above = None if bound is None else max(cost - bound, 0.0)
    return {
        "contender": name,
        "chosen": list_parameters(parameters),
        "parameters": parameters,
        "hitting": hitting,
        "switching": switching,
        "cost": cost,
        "above_the_optimum": above,
    }


def write_table(found: "Report", shown: int | None = None) -> list[dict[str, Any]]:
    """The table with numbers as people read them; ``shown`` are the first rows, with the baseline, fixed and the optimum."""
    rows = tabulate(found)
    if shown is not None:
        always = (BASELINE, "fixed", "optimum in hindsight")
        rows = [row for at, row in enumerate(rows) if at < shown or row["contender"] in always]
    unit = f" ({found.unit})" if found.unit else ""
    columns = {name: tell_column([row[name] for row in rows]) for name in NUMBERS}
    written = []
    for at, row in enumerate(rows):
        line: dict[str, Any] = {"contender": row["contender"], "chosen": row["chosen"]}
        for name in NUMBERS:
            line[name + unit] = columns[name][at]
        moves = row["moves"]
        written.append(line | {"moves": moves, "edge": row["edge"]})
    return written


def write_plainly(rows: list[dict[str, Any]]) -> str:
    """A table as text: words to the left, numbers to the right."""
    names = list(rows[0])
    cells = [[name.replace("_", " ") for name in names]]
    for row in rows:
        cells.append(["" if row[name] is None else str(row[name]) for name in names])
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    left = [name in ("contender", "chosen", "edge") for name in names]
    lines = []
    for line in cells:
        parts = []
        for text, width, to_the_left in zip(line, widths, left, strict=True):
            parts.append(text.ljust(width) if to_the_left else text.rjust(width))
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)
