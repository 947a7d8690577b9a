"""What the paper claims, and whether it holds here: one verdict for each sentence, from the sections that were made."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from klazy.studies.paper.claims import CLAIMS, Claim
from klazy.studies.paper.definitions import PRESETS
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.extras.fallback import LEMMA
from klazy.studies.paper.section import Row, Stored

HOLDS = "holds"
CHANGED = "holds with a change"
PARTLY = "in part"
FAILS = "does not hold"
COLOURS = {HOLDS: "green", CHANGED: "blue", PARTLY: "amber", FAILS: "red"}
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
SAME = 1e-9  # points and regrets that differ by less are the same up to rounding
NEAR = 1.1  # times the regret of greedy experts alone, up to which an ensemble counts as fallen back to them
# Of a step of a proof, of a constant or of a printed setting, by theorem or experiment.
ERRATA = {
    "theorem-1": "Algorithm 2 starts from any x_1 in X with p_{1:0} = 0, which is right for x_1 = 0 only; "
    "p_{1:0} = -sigma x_1 is right for all. Subcase 1.a of the proof lacks a minus sign.",
    "theorem-2": "A flip between -1 and 1 has length 2, so the comparator's path is twice the printed one. A block of k "
    "rounds has two flips, so tau cannot exceed about 2T/k: at T = k = 100 and tau = 198 the last line of the proof would "
    "give 4950, and no regret on [-1, 1] exceeds 398.",
    "theorem-5": "The last line of the proof lacks the factor c sqrt(2R) of the theorem's k; the order is the same.",
    "theorem-8": "Constants inside the proof: the last line for the expert lacks a factor sqrt(2), and the last bound on "
    "ln(1/w) is 0 at P_T = 0, where ln(1/w) = ln(2/C) > 0. The appendix's s and s* are not those of the text, which are right.",
    "variance": "The proof takes the phase to start at 0 and needs sigma >= G/(2 sqrt(2) R). The bound is true without "
    "either, for n_t >= 1.",
    "worst-case": "Published code: phases of 600 rounds and sigma = sqrt(t / 10), where 300 and sqrt(t / 8) are printed.",
    "ensemble-stochastic": "Published code: slacks 500, 250, 125, 60, 30, where k = 5 sigma / 2 gives 612, 306, 153, 76, 38.",
    "ensemble-corrupted": "Published code: phases of 4000 rounds, where 2000 are printed.",
}
# Experiments whose rate beta and prior the paper does not print.
UNPRINTED = ("ensemble-stochastic", "ensemble-corrupted")
Sections = Mapping[tuple[str, str], Stored]  # by part and preset


class Verdict(NamedTuple):
    """A claim, the sentence that is judged and where it is, whether it holds, what was found.

    The erratum is of a step of the proof, of a constant or of a printed setting; a sentence may hold in spite of one.
    """

    claim: str
    quotation: str
    where: str
    verdict: str
    found: str
    erratum: str = ""


def judge_claims(sections: Sections, quick: bool = False) -> list[Verdict]:
    """A verdict on each claim whose parts were made; of a quick run only those that short sequences can judge."""
    judges = STATEMENTS
    if not quick:
        judges = STATEMENTS + NUMBERS
    verdicts = []
    for judge in judges:
        verdicts += judge(sections)
    return verdicts


def describe_findings(sections: Sections) -> str:
    """What klazy finds that the paper says nothing about: each learner at its own best sigma."""
    found = []
    for name in ("stochastic", "corrupted"):
        rows = _read_table(sections, "best-sigma", "best-sigma")
        best = {row["learner"]: row["at_best_sigma"] for row in rows if row["experiment"] == name}
        if best:
            winner = min(best, key=best.__getitem__)
            said = f"on the {name} sequence {winner} is best with {best[winner]:.5g}"
            if winner != "GD":
                said += f" (GD {best['GD']:.5g})"
            found.append(said)
    if not found:
        return ""
    return (
        "The paper compares its learners at one sigma for all, and claims nothing beyond that. With each learner at its own "
        f"best constant sigma in hindsight, {', and '.join(found)}."
    )


def _list_results(sections: Sections, name: str, preset: str = PRESETS[0]) -> list[Row]:
    """The rows of an experiment, or none where it was not made."""
    if (name, preset) not in sections:
        return []
    return sections[name, preset].tables[RESULTS]


def _read_table(sections: Sections, name: str, table: str) -> list[Row]:
    if (name, PRESETS[0]) not in sections:
        return []
    return sections[name, PRESETS[0]].tables[table]


def _judge_theorem_1(sections: Sections) -> Iterator[Verdict]:
    rows = _read_table(sections, "statements", "theorem-1")
    if rows:
        apart = max(row["difference_from_origin"] for row in rows)
        pruned = sum(row["pruned_from_origin"] for row in rows)
        elsewhere = max(row["difference_from_elsewhere"] for row in rows)
        yield Verdict(
            "Theorem 1: for a constant sigma both forms play the same points",
            "The iterates of k-lazyGD, …, coincide with those of the FTRL routine",
            "Thm. 1",
            _grade(apart < SAME and pruned > 0),
            f"Algorithm 2, line by line, differs by at most {apart:.1g} over {pruned} prunings from x_1 = 0, "
            f"and by {elsewhere:.2g} from another point",
            ERRATA["theorem-1"],
        )


def _judge_theorem_2(sections: Sections) -> Iterator[Verdict]:
    rows = _read_table(sections, "lower-bound", "lower-bound")
    if rows:
        exact = all(abs(row["measured"] - row["exact"]) < 1e-6 for row in rows)
        enough = all(row["measured"] >= row["printed"] for row in rows)
        least = min(row["measured"] / (row["k"] * row["P_T"]) for row in rows)
        slacks = ", ".join(str(row["k"]) for row in rows)
        verdict = CHANGED if exact and enough else FAILS
        yield Verdict(
            "Theorem 2: regret of order k times the path length, for path lengths up to about 4RT/k",
            "any tau in [1, 2R(T-1)] … with P_T = floor(tau) … such that R_T = Omega(k P_T)",
            "Thm. 2, Fig. 3",
            verdict,
            f"regret is at least {least:.2g} k P_T on the wave for k = {slacks}",
            ERRATA["theorem-2"],
        )


def _judge_theorem_5(sections: Sections) -> Iterator[Verdict]:
    rows = _read_table(sections, "statements", "theorem-5")
    if rows:
        above = sum(row["regret"] > row["realised_bound"] + SAME for row in rows)
        nearest = max(row["regret"] / row["realised_bound"] for row in rows)
        yield Verdict(
            "Theorem 5: the regret bound of k-lazyGD, and its order when tuned",
            "the dynamic regret with switching cost of k-lazyGD satisfies [the bound]",
            "Thm. 5",
            _grade(above == 0),
            f"{above} of {len(rows)} runs are above the bound; the nearest has {100.0 * nearest:.0f} % of it",
            ERRATA["theorem-5"],
        )


def _judge_theorem_8(sections: Sections) -> Iterator[Verdict]:
    rows = _read_table(sections, "statements", "theorem-8")
    if rows:
        found = "; ".join(
            f"{row['sequence']}: regret {row['regret']:.4g}, {row['regret'] / row['order']:.2g} times the order, "
            f"bound with constants {row['corrected']:.5g}"
            for row in rows
        )
        yield Verdict(
            "Theorem 8: the order of the ensemble's regret",
            "guarantees R_T = O(sqrt((P_T+1)T))",
            "Thm. 8",
            _grade(all(row["regret"] <= row["corrected"] for row in rows)),
            found,
            ERRATA["theorem-8"],
        )


def _judge_variance(sections: Sections) -> Iterator[Verdict]:
    rows = _read_table(sections, "statements", "variance")
    if rows:
        above = sum(row["above_printed"] for row in rows)
        sharper = sum(row["above_corrected"] for row in rows)
        rounds = sum(row["rounds"] for row in rows)
        yield Verdict(
            "Proposition 11: a step is bounded by the gradient's deviation from the phase's mean",
            "||x_{t+1} - x_t|| <= 5/(4 sigma) ||g_t - mu_t|| + 4R/n_t",
            "App. I.1, Prop. 11",
            _grade(above == 0),
            f"{above} of {rounds} steps are above it; {sharper} are above a sharper bound that implies it",
            ERRATA["variance"],
        )


def _judge_remark(sections: Sections) -> Iterator[Verdict]:
    moves = [row["switching"] for row in _read_table(sections, "statements", "counterexample")]
    drawn = _read_table(sections, "statements", "random-moves")
    if moves:
        means = [row["mean_switching"] for row in drawn]
        always = moves[1] <= moves[0] and drawn[0]["runs_not_decreasing"] == 0
        falling = all(after < before for before, after in pairwise(means))
        share = 100.0 * drawn[0]["runs_not_decreasing"] / drawn[0]["runs"]
        yield Verdict(
            "Switching decreases in k",
            "the switching cost is decreasing in k (from the previous propositions)",
            "Sec. 4.3, remarks at Thm. 5",
            _grade(always, falling),
            f"on average {', '.join(f'{mean:.1f}' for mean in means)} for k = {', '.join(str(row['k']) for row in drawn)} over "
            f"{drawn[0]['runs']} random runs, not in {share:.3g} % of them; six gradients on the l1 ball make k = 1 move "
            f"{moves[0]:.5g} and k = 2 move {moves[1]:.5g}",
        )


def _judge_examples(sections: Sections) -> Iterator[Verdict]:
    for name, number in (("example-i", "(i)"), ("example-ii", "(ii)")):
        rows = {row["learner"]: row for row in _list_results(sections, name)}
        if rows:
            greedy = rows["GD"]
            lazy = rows["LazyGD"]
            moves_less = lazy["switching"] < greedy["switching"]
            pays_less = lazy["hitting"] < greedy["hitting"]
            yield Verdict(
                f"Example {number}: GD moves more than LazyGD and pays more for hitting",
                "causes worse movement and hitting cost than aggregating all past gradients",
                f"App. C, {FIGURES[name]}",
                _grade(moves_less and pays_less, moves_less or pays_less),
                f"switching {greedy['switching']:.4g} and {lazy['switching']:.4g}, "
                f"hitting {greedy['hitting']:.4g} and {lazy['hitting']:.4g}",
            )


def _judge_slacks(sections: Sections) -> Iterator[Verdict]:
    slacks = (65, 150, 300)
    total = {row["learner"]: row["total_regret"] for row in _list_results(sections, "stochastic")}
    if total:
        better = [k for k in slacks if total[f"k={k}"] < total["GD"]]
        yield Verdict(
            "On the stochastic sequence k=65, k=150 and k=300 have less total regret than GD",
            "k in {65,150,300} all outperform the GD benchmark",
            "App. D.1, Fig. 8",
            _grade(len(better) == len(slacks), bool(better)),
            ", ".join(f"k={k} {total[f'k={k}']:.5g}" for k in slacks) + f", GD {total['GD']:.5g}",
        )


def _judge_takeaway(sections: Sections) -> Iterator[Verdict]:
    better = []
    worse = []
    for name in ("stochastic", "corrupted"):
        total = {row["learner"]: row["total_regret"] for row in _list_results(sections, name)}
        if not total:
            return
        for label, value in total.items():
            if label.startswith("k="):
                said = f"{label} on the {name} sequence ({value:.5g}, GD {total['GD']:.5g})"
                (better if value < total["GD"] else worse).append(said)
    found = f"{len(better)} of the {len(better) + len(worse)} printed slacks have less total regret than GD"
    if worse:
        found += f"; not {' and '.join(worse)}"
    yield Verdict(
        "Mostly, laziness lowers total regret on the stochastic and on the corrupted sequence",
        "The reduction in switching mostly dominates the minor loss in tracking, resulting in lower overall regret",
        "App. D.3 (iii), Figs. 8 and 10",
        _grade(len(better) > len(worse), bool(better)),
        found,
    )


def _judge_worst_case(sections: Sections) -> Iterator[Verdict]:
    total = {row["learner"]: row["total_regret"] for row in _list_results(sections, "worst-case")}
    if total:
        best = min(total, key=total.__getitem__)
        yield Verdict(
            "In the worst case GD beats k-lazyGD",
            "every switch is informative and delaying movement is always worse than immediate movements",
            f"App. D.3, {FIGURES['worst-case']}",
            _grade(best == "GD"),
            ", ".join(f"{label} {value:.4g}" for label, value in total.items()),
            ERRATA["worst-case"],
        )


def _judge_gains(sections: Sections) -> Iterator[Verdict]:
    for claim in CLAIMS:
        gains = {}
        for preset in PRESETS:
            rows = _list_results(sections, claim.experiment, preset)
            if rows:
                gains[preset] = claim.measure(rows)
        if any(claim.agrees(gain) for gain in gains.values()) or len(gains) == len(PRESETS):
            yield _judge_gain(claim, gains)


def _judge_gain(claim: Claim, gains: Mapping[str, float | None]) -> Verdict:
    agrees = [preset for preset, gain in gains.items() if claim.agrees(gain)]
    gained = [preset for preset, gain in gains.items() if gain is not None and gain > 0.0]
    verdict = _grade(PRESETS[0] in agrees, bool(gained))
    names = {"paper": "as printed", "authors": "with the published code's settings"}
    if claim.experiment in UNPRINTED:
        names["paper"] = "with the lemma's beta and Algorithm 3's prior, for the experiments' are not printed"
        if agrees == ["authors"]:
            verdict = CHANGED
    found = ", ".join(
        f"{_format_gain(gains[preset])} {names[preset]}" for preset in reversed(PRESETS) if preset in gains
    )
    said = (
        f"{claim.better} has {claim.printed} % less {claim.quantity} than {claim.worse} ({claim.experiment})"
    )
    return Verdict(said, claim.quotation, claim.where, verdict, found, ERRATA.get(claim.experiment, ""))


def _format_gain(gain: float | None) -> str:
    return "nothing to gain" if gain is None else f"{gain:.1f} %"


def _judge_fallback(sections: Sections) -> Iterator[Verdict]:
    rows = _read_table(sections, "fallback", "fallback")
    if rows:
        near = [row["beta"] for row in rows if row["together"] <= NEAR * row["greedy_alone"]]
        found = "; ".join(
            f"{row['together']:.4g} and {row['greedy_alone']:.4g} at {row['beta']} "
            f"({100.0 * row['greedy_weight_at_last']:.0f} % on greedy)"
            for row in rows
        )
        yield Verdict(
            "In the worst case the ensemble falls back to greedy descent",
            "in worst-case settings the ensemble naturally falls back to the fully greedy strategy",
            f"App. D.3, at {FIGURES['worst-case']}",
            _grade(LEMMA in near, bool(near)),
            "total regret of lazy and greedy experts together, and of greedy ones alone, by beta, with the weight on greedy "
            f"experts at the end: {found}",
        )


def _grade(whole: bool, some: bool = False) -> str:
    if whole:
        return HOLDS
    return PARTLY if some else FAILS


Judge = Callable[[Sections], Iterator[Verdict]]
# What short sequences can judge as well as long ones: theorems, and the two examples, which are never shortened.
STATEMENTS: tuple[Judge, ...] = (
    _judge_theorem_1,
    _judge_theorem_2,
    _judge_theorem_5,
    _judge_theorem_8,
    _judge_variance,
    _judge_remark,
    _judge_examples,
)
# Numbers of the paper's own sequences.
NUMBERS: tuple[Judge, ...] = (
    _judge_slacks,
    _judge_takeaway,
    _judge_gains,
    _judge_worst_case,
    _judge_fallback,
)
