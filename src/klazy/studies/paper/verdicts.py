"""What the paper claims, and whether it holds here: one verdict for each claim, from the sections that were made."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from klazy.studies.paper.claims import CLAIMS, Claim
from klazy.studies.paper.definitions import PRESETS
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.section import Row, Stored

HOLDS = "holds"
PARTLY = "in part"
FAILS = "does not hold"
COLOURS = {HOLDS: "green", PARTLY: "amber", FAILS: "red"}
# Where the paper has them; figures are counted as in the paper, which has no numbered tables.
FIGURES = {
    "example-i": "Figs. 1 and 5",
    "example-ii": "Figs. 1 and 6",
    "stochastic": "Fig. 8",
    "corrupted": "Fig. 10",
    "worst-case": "Fig. 11",
    "ensemble-stochastic": "Fig. 12",
    "ensemble-corrupted": "Fig. 13",
    "phases": "Figs. 2, 7 and 9",
    "lower-bound": "Fig. 3",
    "geometry": "Fig. 4",
    "ensemble": "Fig. 14",
    "staleness": "Prop. 3, Fig. 15",
}
Sections = Mapping[tuple[str, str], Stored]  # by part and preset


class Verdict(NamedTuple):
    """A claim, where the paper makes it, whether it holds, what was found, and why."""

    claim: str
    where: str
    verdict: str
    found: str
    why: str


def judge_claims(sections: Sections) -> list[Verdict]:
    """A verdict on each claim whose parts were made."""
    verdicts = []
    for judge in JUDGES:
        verdicts += judge(sections)
    return verdicts


def _list_results(sections: Sections, name: str, preset: str = PRESETS[0]) -> list[Row]:
    """The rows of an experiment, or none where it was not made."""
    if (name, preset) not in sections:
        return []
    return sections[name, preset].tables[RESULTS]


def _read_table(sections: Sections, name: str, table: str) -> list[Row]:
    if (name, PRESETS[0]) not in sections:
        return []
    return sections[name, PRESETS[0]].tables[table]


def _judge_examples(sections: Sections) -> Iterator[Verdict]:
    for name, number in (("example-i", "(i)"), ("example-ii", "(ii)")):
        rows = {row["learner"]: row for row in _list_results(sections, name)}
        if rows:
            greedy = rows["GD"]
            lazy = rows["LazyGD"]
            moves_less = lazy["switching"] < greedy["switching"]
            pays_less = lazy["hitting"] <= greedy["hitting"]
            found = (
                f"switching {lazy['switching']:.4g} and {greedy['switching']:.4g}, "
                f"hitting {lazy['hitting']:.4g} and {greedy['hitting']:.4g}"
            )
            verdict = _grade(moves_less and pays_less, moves_less)
            claim = f"Example {number}: LazyGD moves less than GD and pays no more for hitting"
            yield Verdict(claim, FIGURES[name], verdict, found, "The costs were made for it.")


def _judge_slacks(sections: Sections) -> Iterator[Verdict]:
    for name, slacks in (("stochastic", (65, 150, 300)), ("corrupted", (50, 150, 500))):
        total = {row["learner"]: row["total_regret"] for row in _list_results(sections, name)}
        if not total:
            continue
        better = [k for k in slacks if total[f"k={k}"] < total["GD"]]
        found = ", ".join(f"k={k} {total[f'k={k}']:.5g}" for k in slacks) + f", GD {total['GD']:.5g}"
        why = "One sigma for all."
        verdict = _grade(len(better) == len(slacks), bool(better))
        tuned = _read_table(sections, "best-sigma", "best-sigma")
        best = {row["learner"]: row["at_best_sigma"] for row in tuned if row["experiment"] == name}
        if best:
            winner = min(best, key=best.__getitem__)
            least = best[winner]
            if winner == "GD":
                why = "With each learner at its own best sigma GD is best."
                verdict = _grade(False, bool(better))
            elif least > 0.0:
                gain = 100.0 * (1.0 - least / best["GD"])
                why = f"With each learner at its own best sigma the gain is {gain:.1f} %, by {winner}."
        claim = f"On the {name} sequence {', '.join(f'k={k}' for k in slacks)} have less total regret than GD"
        yield Verdict(claim, FIGURES[name], verdict, found, why)


def _judge_worst_case(sections: Sections) -> Iterator[Verdict]:
    total = {row["learner"]: row["total_regret"] for row in _list_results(sections, "worst-case")}
    if total:
        best = min(total, key=total.__getitem__)
        found = ", ".join(f"{label} {value:.4g}" for label, value in total.items())
        claim = "In the worst case GD beats k-lazyGD"
        yield Verdict(
            claim, FIGURES["worst-case"], _grade(best == "GD"), found, "Every change matters there."
        )


def _judge_gains(sections: Sections) -> Iterator[Verdict]:
    for claim in CLAIMS:
        gains = {}
        for preset in PRESETS:
            rows = _list_results(sections, claim.experiment, preset)
            if rows:
                gains[preset] = claim.measure(rows)
        if gains:
            yield _judge_gain(claim, gains)


def _judge_gain(claim: Claim, gains: Mapping[str, float | None]) -> Verdict:
    found = ", ".join(f"{_format_gain(gain)} ({preset})" for preset, gain in gains.items())
    agrees = [preset for preset, gain in gains.items() if claim.rounds_to_printed(gain)]
    gained = [preset for preset, gain in gains.items() if gain is not None and gain > 0.0]
    why = "It comes out with the settings as printed."
    if PRESETS[0] not in agrees:
        why = "It comes out with the authors' own settings only." if agrees else "Another number comes out."
        if PRESETS[0] in gains and PRESETS[0] not in gained:
            why += " As printed, the lazy experts have more."
    said = (
        f"{claim.better} has {claim.printed} % less {claim.quantity} than {claim.worse} ({claim.experiment})"
    )
    verdict = _grade(PRESETS[0] in agrees, bool(agrees or gained))
    return Verdict(said, FIGURES[claim.experiment], verdict, found, why)


def _format_gain(gain: float | None) -> str:
    return "nothing to gain" if gain is None else f"{gain:.1f} %"


def _judge_fallback(sections: Sections) -> Iterator[Verdict]:
    rows = _read_table(sections, "fallback", "fallback")
    if rows:
        regret = {row["rule for beta"] or "GD": row["total_regret"] for row in rows}
        found = ", ".join(f"{label} {value:.4g}" for label, value in regret.items())
        falls = [rule for rule, value in regret.items() if rule != "GD" and value <= regret["GD"]]
        why = "The lemma's rate is too small to find the best expert in time."
        if falls:
            why += f" It does with beta {', '.join(falls)}."
        claim = "In the worst case the ensemble falls back to greedy descent"
        yield Verdict(claim, "remark at Fig. 11", _grade("lemma" in falls), found, why)


def _judge_statements(sections: Sections) -> Iterator[Verdict]:
    forms = _read_table(sections, "statements", "forms")
    if not forms:
        return
    apart = forms[0]["difference"]
    why = "As printed for a constant sigma only; klazy anchors the increments."
    found = f"points differ by {apart:.1g} under a schedule"
    same = _grade(False, apart < 1e-9)
    yield Verdict(
        "Theorem 1: the projection and the FTRL form play the same points", "Thm. 1", same, found, why
    )
    ensembles = _read_table(sections, "statements", "theorem-8")
    bounded = all(row["regret"] <= row["corrected"] for row in ensembles)
    found = "; ".join(
        f"{row['sequence']}: regret {row['regret']:.4g}, bound {row['corrected']:.4g}" for row in ensembles
    )
    why = "The order holds. Two steps to the printed constants do not."
    yield Verdict("Theorem 8: the ensemble's regret", "Thm. 8", _grade(False, bounded), found, why)
    steps = _read_table(sections, "statements", "variance")
    wrong = sum(row["above_printed"] for row in steps)
    stronger = sum(row["above_corrected"] for row in steps)
    found = f"{wrong} steps above the printed bound, {stronger} above the corrected one"
    why = "The corrected bound is smaller, and needs no condition on sigma."
    verdict = _grade(False, wrong == 0 and stronger == 0)
    yield Verdict(
        "A step is bounded by the gradient's deviation from the mean", "appendix", verdict, found, why
    )
    moves = [row["switching"] for row in _read_table(sections, "statements", "remark")]
    found = f"k = 1 moves {moves[0]:.4g}, k = 2 moves {moves[1]:.4g}"
    why = "Six gradients on the l1 ball are enough."
    yield Verdict("Movement decreases in k", "remark at Thm. 5", _grade(moves[1] <= moves[0]), found, why)


def _judge_bounds(sections: Sections) -> Iterator[Verdict]:
    waves = _read_table(sections, "lower-bound", "lower-bound")
    if waves:
        most = max(abs(row["measured"] - row["exact"]) for row in waves)
        why = "The comparator's path is twice as long as printed."
        found = f"measured and exact regret differ by {most:.1g}"
        claim = "Theorem 2: k-lazyGD's regret is at least of order k times the path length"
        yield Verdict(claim, "Thm. 2, Fig. 3", _grade(False, most < 1e-6), found, why)
    rows = []
    for name, preset in sections:
        if preset == PRESETS[0]:
            rows += sections[name, preset].tables.get(RESULTS, [])
    if rows:
        above = sum(row["total_regret"] > row["certified_bound"] + 1e-9 for row in rows)
        found = f"{above} of {len(rows)} runs are above their certified bound"
        why = "The tuned form lacks a factor c sqrt(2R) in print."
        yield Verdict(
            "Theorem 5: the regret bound of k-lazyGD", "Thm. 5", _grade(False, above == 0), found, why
        )


def _grade(whole: bool, some: bool = False) -> str:
    if whole:
        return HOLDS
    return PARTLY if some else FAILS


JUDGES: tuple[Callable[[Sections], Iterator[Verdict]], ...] = (
    _judge_examples,
    _judge_slacks,
    _judge_gains,
    _judge_worst_case,
    _judge_fallback,
    _judge_bounds,
    _judge_statements,
)
