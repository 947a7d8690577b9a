"""The words and tables of a replay: the answer with its reason, and numbers with a few digits."""

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.amounts import DIGITS, format_amount, format_column, format_interval, format_share
from klazy.families import LogWealth, Rewards
from klazy.studies.contenders import (
    ADVISED,
    EQUAL,
    FIXED,
    FORECASTING,
    GREEDY,
    HELD,
    LAZY,
    SIMPLE,
    YOURS,
)
from klazy.studies.replay.scoring import BASELINE, OPTIMUM
from klazy.studies.tuning import Score

if TYPE_CHECKING:
    from klazy.studies.replay.jobs import JobsReport
    from klazy.studies.replay.report import Report, Saving

# If the projection binds in a smaller share of the rounds, laziness has nothing to act on.
SELDOM = 0.02
# A rule that averages fewer rounds has a short memory.
SHORT_MEMORY = 50
# Costs drift if a row and the next have a larger correlation.
ALIKE = 0.5
# Nothing lasting changes if the fixed point is this near to the best, relative to its cost.
STEADY = 0.01
# Of a larger logarithm there is no number.
MOST_LOG = 700.0
# How contenders decide that are given neither forecasts nor advice.
UNTOLD = (SIMPLE, GREEDY, LAZY, YOURS)
# The end of a sentence about a difference that the data do not decide.
UNCERTAIN = "which is within the margin of error"
# The headings of the columns with costs.
COST_HEADINGS = {
    "hitting": "operating",
    "switching": "switching",
    "cost": "total cost",
    "above_the_optimum": "above the optimum",
}
YEAR_DAYS = 365.25


def judge(found: "Report") -> str:
    """Return ``"saves"`` if the best paid less than the reference, ``"perhaps"`` if within chance, else ``"keep"``."""
    return judge_gain(found.best, found.reference, "saves", "keep")


def judge_laziness(found: "Report") -> str:
    """Return ``"helps"`` if a lazy learner paid less than simple rules and GD, ``"perhaps"`` if within chance, else ``"does not
    help"``."""
    return judge_gain(
        found.best_of("lazy"), found.best_of("simple", "greedy"), "helps", "does not help"
    )


def judge_told(found: "Report", style: str) -> str | None:
    """Return ``"help"`` if the best with forecasts, or with advice, paid less than the best without, ``"perhaps"`` if within
    chance, else ``"do not help"``; None without them."""
    if not any(score.kind == style for score in found.scores):
        return None
    return judge_gain(found.best_of(style), found.best_of(*UNTOLD), "help", "do not help")


def judge_gain(one: Score, other: Score, yes: str, no: str) -> str:
    gain, half = one.compare(other)
    if gain <= 0.0 or one.ties_with(other):
        return no
    return yes if gain > half else "perhaps"


def answer(found: "Report") -> list[str]:
    """Write what would have been saved and with whom, what laziness did, and what the best possible was."""
    told = [
        _describe_told(found, style, verdict)
        for style in (FORECASTING, ADVISED)
        if (verdict := judge_told(found, style)) is not None
    ]
    wealth = [_describe_wealth(found)] if isinstance(found.setup.family, LogWealth) else []
    return [
        _describe_savings(found),
        _describe_laziness(found),
        *told,
        _describe_optimum(found),
        *found.notes,
        *wealth,
    ]


def _describe_savings(found: "Report") -> str:
    reference = found.reference
    now = name_now(found)
    verdict = judge(found)
    has_baseline = reference.name == BASELINE
    if verdict == "keep":
        paid = f"paid {_format(found, reference.cost)}, and no learner or rule paid less."
        fixed = _capitalize(name_fixed(found))
        if not has_baseline:
            return f"{fixed} was best: it {paid}"
        cost = _format(found, found.score(FIXED).cost)
        return f"Keep doing what you do: {now} {paid} {fixed} paid {cost}."
    best = format_contender(found.best)
    if verdict == "perhaps":
        saving = _format_saving(found, found.savings[reference.name])
        start = "Keep doing what you do for now" if has_baseline else "No saving is certain"
        return f"{start}: {best} paid {saving} less than {now}, {UNCERTAIN}."
    # The one against what you do comes first.
    saved = [saving for saving in reversed(found.savings.values()) if saving.cost != 0.0]
    parts = [
        f"{_format_saving(found, saving)} against {_name(found, saving.against)}"
        for saving in saved
    ]
    verb = "gained" if isinstance(found.setup.family, Rewards) else "saved"
    return f"You would have {verb} {' and '.join(parts)}, with {best}."


def list_facts(found: "Report") -> dict[str, str]:
    """List what the first screen of a report shows: each number with what it is, the saving first."""
    best = found.best
    now = name_now(found)
    saving = found.savings[found.reference.name]
    facts = {f"saved against {now}": _format_interval(found, saving.cost, saving.half)}
    if saving.per_day is None:
        facts["a round"] = _format(found, saving.per_round)
    else:
        facts["a day"] = _format(found, saving.per_day)
        facts["a year, if it goes on like this"] = _format(
            found, float(f"{YEAR_DAYS * saving.per_day:.3g}")
        )
    if saving.share is not None:
        facts[f"less than {now} paid"] = f"{saving.share:.1%}"
    possible = 0.0
    if found.optimum is not None:
        possible = found.reference.cost - found.optimum.lower_bound
    if possible > 0.0:
        facts[f"of the {_format(found, possible)} that were possible"] = (
            f"{saving.cost / possible:.0%}"
        )
    facts[f"moves in {found.rounds[1]} rounds"] = str(best.moves)
    return facts


def name_fixed(found: "Report") -> str:
    """Name what it means to play one decision: shares of wealth must be bought and sold to stay the same."""
    is_rebalanced = isinstance(found.setup.family, LogWealth)
    return "rebalancing to fixed shares" if is_rebalanced else "never moving"


def _name(found: "Report", contender: str) -> str:
    if contender != BASELINE:
        return name_fixed(found)
    return "what you did until now" if found.setup.rule is None else "the autoscaler's rule"


def name_now(found: "Report") -> str:
    """Name the decisions that others are compared with."""
    return _name(found, found.reference.name)


def _capitalize(words: str) -> str:
    return words[0].upper() + words[1:]


def _format(found: "Report", value: float, digits: int = DIGITS) -> str:
    return f"{format_amount(value, digits)} {found.unit}".strip()


def _format_saving(found: "Report", saving: "Saving") -> str:
    """Write an amount with its interval, in per cent where that means something, and by the round or the day."""
    share = "" if saving.share is None else f"{saving.share:.1%}, "
    rate = f"{_format(found, saving.per_round)} a round"
    if saving.per_day is not None:
        rate = f"{_format(found, saving.per_day)} a day"
    return f"{_format_interval(found, saving.cost, saving.half)} ({share}{rate})"


def _format_interval(found: "Report", value: float, half: float) -> str:
    """Write a number with half the width of its interval, in the same unit."""
    return f"{format_interval(value, half)} {found.unit}".strip()


def _describe_laziness(found: "Report") -> str:
    lazy = found.best_of("lazy")
    other = found.best_of("simple", "greedy")
    verdict = judge_laziness(found)
    name = format_contender(lazy)
    paid = f"{_format(found, lazy.cost)}, {_compare(found, lazy, other)}"
    if verdict == "does not help":
        reason = explain_laziness(found, other)
        return (
            f"Laziness does not help here: the best lazy learner, {name}, paid {paid}. {reason}"
        )
    theirs = f"that of {other.name} {_format(found, other.switching)}"
    switching = f"Its switching cost was {_format(found, lazy.switching)}, {theirs}."
    if verdict == "perhaps":
        return f"Laziness may help: {name} paid {paid}, {UNCERTAIN}. {switching}"
    text = f"Laziness helps: {name} paid {paid}. {switching}"
    if lazy.name == "k-lazyGD":
        decay = _format(found, found.score("Decay").cost)
        luck = "if costs happen to change in step with the clock, that is luck"
        text += f" It forgets by a clock: {luck}. Decay, which has no clock, paid {decay}."
    return text


def _describe_told(found: "Report", style: str, verdict: str) -> str:
    told = found.best_of(style)
    untold = found.best_of(*UNTOLD)
    paid = f"{_format(found, told.cost)}, {_compare(found, told, untold)}"
    those = "them" if style == FORECASTING else "it"
    said = f"{format_contender(told)} paid {paid}, the best without {those}"
    if verdict == "perhaps":
        return f"Your {style} may help: {said}, {UNCERTAIN}."
    helps, does_not = (
        ("help", "do not help") if style == FORECASTING else ("helps", "does not help")
    )
    return f"Your {style} {helps if verdict == 'help' else f'{does_not} here'}: {said}."


def _describe_optimum(found: "Report") -> str:
    if found.optimum is None:
        has_limits = found.setup.ramp is not None or found.setup.lead > 0
        within = " within these limits" if has_limits else ""
        return f"The best possible total is not known for this movement{within}."
    least = _format(found, min(found.optimum.cost, found.best.cost))
    bound = _format(found, found.optimum.lower_bound)
    if bound == least:
        return f"The best possible total was {bound} (proved)."
    return f"The best possible total was between {bound} and {least} (proved)."


def _describe_wealth(found: "Report") -> str:
    """Write costs of log-wealth as what became of 1, and the move cost in basis points."""
    names = {
        found.best.name: format_contender(found.best),
        FIXED: name_fixed(found),
        EQUAL: EQUAL,
        HELD: HELD,
    }
    scores = {score.name: score for score in found.scores}
    became = [
        f"{words} turned 1 into {np.exp(min(-scores[name].cost, MOST_LOG)):.4g}"
        for name, words in names.items()
        if name in scores
    ]
    price = _price_turnover(found)
    terms = "" if price is None else f"At {price / 2.0 * 1e4:.3g} basis points per side, "
    return f"{terms}{', '.join(became)}. klazy.portfolio.backtest adds Sharpe ratios, drawdowns and pictures."


def _price_turnover(found: "Report") -> float | None:
    """Return what it costs to sell all and buy something else; None unless a trade pays for its size alone."""
    movement = found.setup.movement
    swaps = np.eye(found.source.dim)[0] - np.eye(found.source.dim)[1:]
    prices = movement.distance(np.vstack((swaps, -swaps)))
    is_even = (
        movement.grouped is False and movement.degree == 1.0 and np.ndim(movement.weight) == 0
    )
    return (
        float(movement.weight * prices[0])
        if is_even and len(prices) and np.ptp(prices) == 0.0
        else None
    )


def _measure_wealth(found: "Report", score: Any) -> dict[str, float | None]:
    """Return by what wealth grew, and how much of it was traded, in a year, or in all where there are no dates."""
    years = 1.0 if found.days is None else found.days / YEAR_DAYS
    price = _price_turnover(found)
    turnover = score.switching / price / years if price else None
    return {"growth": float(np.expm1(min(-score.cost / years, MOST_LOG))), "turnover": turnover}


def explain_laziness(found: "Report", other: Score) -> str:
    """Explain why laziness does not help, by what beat it."""
    fixed = found.score(FIXED)
    if fixed.cost - other.cost <= STEADY * abs(other.cost):
        return "One fixed decision is as good as any: nothing changed for long."
    binds = f"Steps leave the set in {found.binds:.1%} of rounds"
    if found.binds < SELDOM:
        return f"{binds}; in all others every k decides what GD decides."
    remembers = other.name in (FIXED, "follow the leader")
    if (
        found.repeats > ALIKE
        and not remembers
        and other.parameters.get("window", 1) < SHORT_MEMORY
    ):
        drift = "The costs drift faster than they repeat: a row is much like the one before"
        return f"{drift} (correlation {found.repeats:.2f}), and older rows mislead."
    alike = f"a row is like the one before with correlation {found.repeats:.2f}"
    return f"{binds}, and {alike}: laziness acts, but misses more than it saves."


def _compare(found: "Report", score: Score, than: Score) -> str:
    """Write how much less or more, with its interval, and in per cent where that means something."""
    gain, half = score.compare(than)
    name = format_contender(than)
    if score.ties_with(than):
        return f"the same as {name}"
    share = f" ({abs(gain) / than.cost:.1%})" if than.cost > 0.0 and score.cost > 0.0 else ""
    word = "less" if gain > 0.0 else "more"
    return f"{_format_interval(found, abs(gain), half)}{share} {word} than {name}"


def format_contender(score: Score) -> str:
    """Write a contender with its parameters."""
    values = format_parameters(score.parameters)
    return f"{score.name} ({values})" if values else score.name


def format_parameters(parameters: dict[str, float]) -> str:
    """Write parameters with a few digits of their values."""
    return ", ".join(f"{name}={value:.4g}" for name, value in parameters.items())


def describe_winners(reports: "list[Report]") -> str:
    """Write which contender wins at which move costs."""
    ascending = sorted(reports, key=lambda found: found.setup.move_cost)
    parts = []
    for name, group in groupby(ascending, key=lambda found: found.best.name):
        move_costs = [format_amount(found.setup.move_cost) for found in group]
        low = move_costs[0]
        high = move_costs[-1]
        where = f"at {low}" if low == high else f"from {low} to {high}"
        parts.append(f"{name} {where}")
    if len(parts) == 1:
        return f"The same paid least at every move cost: {parts[0]}."
    return f"Who paid least depends on the move cost: {', '.join(parts)}."


def describe_folds(found: "Report") -> str:
    """Write whether the winner of the single split wins in every fold."""
    folds = found.folds
    winner = found.best.name
    wins = Counter(fold.best.name for fold in folds)
    if list(wins) == [winner]:
        return f"{winner} also wins all {len(folds)} folds, each tuned on the rows before it."
    names = ", ".join(f"{name} in {count}" for name, count in wins.most_common())
    text = f"The winner differs between folds: {names} of {len(folds)}."
    if winner == FIXED:
        return text
    better = sum(fold.find(winner).cost < fold.find(FIXED).cost for fold in folds)
    single = f"{winner}, the winner of the single split, paid less than {name_fixed(found)}"
    return f"{text} {single} in {better} of {len(folds)}."


def tabulate_scores(found: "Report") -> list[dict[str, Any]]:
    """Make a row per contender, the best first, and one of the optimum at the end; numbers in full."""
    optimum = [] if found.optimum is None else [found.optimum]
    is_wealth = isinstance(found.setup.family, LogWealth)
    return [
        {
            "contender": score.name,
            "chosen": format_parameters(score.parameters),
            "parameters": score.parameters,
            "hitting": score.hitting,
            "switching": score.switching,
            "cost": score.cost,
            "above_the_optimum": found.above_optimum(score.cost),
            **(_measure_wealth(found, score) if is_wealth else {}),
            "moves": score.moves,
            "candidates": score.candidates,
            "at_grid_limit": ", ".join(score.at_limit),
        }
        for score in (*found.scores, *optimum)
    ]


def tabulate_move_costs(reports: "list[Report]") -> list[dict[str, Any]]:
    """Make a row per move cost: who paid least, how much, and how far it moved."""
    return [_describe_winner(found) for found in reports]


def _describe_winner(found: "Report") -> dict[str, Any]:
    best = found.best
    move_cost = found.setup.move_cost
    saving = found.savings[FIXED]
    return {
        "move_cost": move_cost,
        "best": best.name,
        "parameters": best.parameters,
        "cost": best.cost,
        "above_the_optimum": found.above_optimum(best.cost),
        "movement": best.switching / move_cost if move_cost > 0.0 else None,
        "saved": saving.cost,
        "half": saving.half,
    }


def tabulate_folds(found: "Report") -> list[dict[str, Any]]:
    """Make a row per fold and contender."""
    rows = []
    for at, fold in enumerate(found.folds, 1):
        place = {"fold": at, "first_row": fold.first + 1, "last_row": fold.last}
        for score in fold.scores:
            paid = {"contender": score.name, "cost": score.cost, "parameters": score.parameters}
            rows.append(place | paid)
    return rows


def write_table(found: "Report", shown: int | None = None) -> list[dict[str, Any]]:
    """Make the table with rounded numbers; ``shown`` are the first rows, with the benchmarks and the optimum."""
    rows = tabulate_scores(found)
    if shown is not None:
        always = (BASELINE, FIXED, EQUAL, HELD, OPTIMUM)
        rows = [row for at, row in enumerate(rows) if at < shown or row["contender"] in always]
    columns: dict[str, list[Any]] = {
        name: [row[name] for row in rows] for name in ("contender", "chosen")
    }
    for name, heading in COST_HEADINGS.items():
        columns[add_unit(found, heading)] = format_column([row[name] for row in rows])
    if "growth" in rows[0]:
        period = "" if found.days is None else " a year"
        columns[f"growth{period}"] = [format_share(row["growth"]) for row in rows]
        columns[f"turnover{period}"] = [
            None if row["turnover"] is None else f"{row['turnover']:.1f}" for row in rows
        ]
    columns["moves"] = [row["moves"] for row in rows]
    columns["at grid limit"] = [row["at_grid_limit"] for row in rows]
    return [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ]


def add_unit(found: "Report | JobsReport", label: str) -> str:
    """Add the unit of costs to a label, if there is one."""
    return f"{label} ({found.unit})" if found.unit else label
