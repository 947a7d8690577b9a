"""The paper's claims and whether they hold here: one verdict for each sentence, from the sections that were made.

The sentences are in text.toml, the rules that judge them in :data:`VERDICT_RULES`, under the same names.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.studies.paper.claims import CLAIMS, Claim
from klazy.studies.paper.definitions import PRESETS
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.section import REPORT_TEXT, Row, Stored, fill, list_columns

HOLDS = "holds"
CHANGED = "holds with a change"
PARTLY = "in part"
FAILS = "does not hold"
COLOURS = {HOLDS: "green", CHANGED: "blue", PARTLY: "amber", FAILS: "red"}
PAPER_FIGURES: dict[str, str] = REPORT_TEXT["figures"]
Sections = Mapping[tuple[str, str], Stored]  # by part and preset
Columns = Mapping[str, Array]
TOLERANCE = 1e-9  # for rounding errors of regrets and points
# An ensemble whose regret is within this factor of greedy experts alone has fallen back to them.
FALLBACK_FACTOR = 1.1


class Verdict(NamedTuple):
    """A claim, the sentence that is judged and its place, the verdict, and the finding.

    The erratum is of a step of the proof, of a constant or of a printed setting; a sentence may hold in spite of one.
    """

    claim: str
    quotation: str
    where: str
    verdict: str
    found: str
    erratum: str = ""


def judge_claims(sections: Sections, quick: bool = False) -> list[Verdict]:
    """Judge each claim whose parts were made; after a quick run only those that short sequences can judge."""
    verdicts = []
    for name, words in REPORT_TEXT["verdicts"].items():
        tables = [_read_table(sections, *need.split("/")) for need in words["needs"]]
        if all(tables) and (words.get("quick") or not quick):
            columns = [list_columns(rows) for rows in tables]
            grade = VERDICT_RULES[name](*columns)
            verdicts.append(_make_verdict(words, grade, rows=tables[0], d=columns[-1]))
    for claim in () if quick else CLAIMS:
        made = {
            preset: _read_table(sections, claim.experiment, RESULTS, preset) for preset in PRESETS
        }
        gains = {preset: claim.measure(rows) for preset, rows in made.items() if rows}
        is_found = any(claim.agrees(gain) for gain in gains.values())
        if is_found or len(gains) == len(PRESETS):
            grade = judge_gain(claim, gains)
            verdicts.append(_make_verdict(REPORT_TEXT["gain"], grade, claim=claim, gains=gains))
    return verdicts


def describe_findings(sections: Sections) -> str:
    """Say what the paper does not: who is best with each learner at its own best sigma."""
    rows = _read_table(sections, "best-sigma", "best-sigma")
    return fill(REPORT_TEXT["findings"]["best-sigma"], rows=rows) if rows else ""


def _read_table(sections: Sections, name: str, table: str, preset: str = PRESETS[0]) -> list[Row]:
    """Return a table of a part, or no rows if it was not made."""
    if (name, preset) not in sections:
        return []
    return sections[name, preset].tables[table]


def _make_verdict(words: Mapping[str, str], grade: str, **values: Any) -> Verdict:
    """Fill in the sentences of a claim."""
    about = {
        name: fill(words.get(name, ""), **values) for name in Verdict._fields if name != "verdict"
    }
    return Verdict(verdict=grade, **about)


def judge_gain(claim: Claim, gains: Mapping[str, float | None]) -> str:
    """Judge a printed gain from the gains in both presets, in per cent."""
    agrees = [preset for preset, gain in gains.items() if claim.agrees(gain)]
    if "paper" in agrees:
        return HOLDS
    # Beta and prior of the ensembles' experiments are not printed, so the authors' are no contradiction.
    if "authors" in agrees and claim.experiment.startswith("ensemble"):
        return CHANGED
    is_positive = any(gain is not None and gain > 0.0 for gain in gains.values())
    return _grade(False, partly=is_positive)


def _grade(holds: Any, partly: Any = False) -> str:
    """Return the verdict on a claim that holds, or else holds in part."""
    if holds:
        return HOLDS
    return PARTLY if partly else FAILS


def _judge_theorem_1(c: Columns) -> str:
    is_same = c["difference_from_origin"].max() < TOLERANCE
    return _grade(is_same and c["pruned_from_origin"].sum() > 0)


def _judge_theorem_2(c: Columns) -> str:
    is_exact = np.abs(c["measured"] - c["exact"]).max() < 1e-6
    is_above = (c["measured"] >= c["printed"]).all()
    # The printed path length is half of the comparator's, so the theorem holds only with another one.
    return CHANGED if is_exact and is_above else FAILS


def _judge_remark(c: Columns, random: Columns) -> str:
    """Judge whether more slack moves less: in the counterexample and in each random run, or on average."""
    less = c["switching"][1] <= c["switching"][0]
    always = random["runs_not_decreasing"][0] == 0
    mean = random["mean_switching"]
    return _grade(less and always, partly=(mean[1:] < mean[:-1]).all())


def _judge_example(c: Columns) -> str:
    """Judge whether the second learner moves less than the first, and pays less for hitting."""
    moves_less = c["switching"][1] < c["switching"][0]
    hits_less = c["hitting"][1] < c["hitting"][0]
    return _grade(moves_less and hits_less, partly=moves_less or hits_less)


def _judge_slacks(c: Columns) -> str:
    better = _compare_slacks(c)[:3]
    return _grade(better.all(), partly=better.any())


def _judge_takeaway(stochastic: Columns, corrupted: Columns) -> str:
    better = np.concatenate((_compare_slacks(stochastic), _compare_slacks(corrupted)))
    return _grade(better.sum() > 4, partly=better.any())


def _compare_slacks(c: Columns) -> Array:
    """Return which slacks have less total regret than GD; rows are GD, LazyGD and the slacks."""
    regret = c["total_regret"]
    return regret[2:] < regret[0]


def _judge_fallback(c: Columns) -> str:
    """Judge whether all experts together have about the regret of the greedy ones: at the lemma's rate, or at another."""
    near = c["together"] <= FALLBACK_FACTOR * c["greedy_alone"]
    return _grade(near[0], partly=near.any())


VERDICT_RULES: dict[str, Callable[..., str]] = {
    "theorem-1": _judge_theorem_1,
    "theorem-2": _judge_theorem_2,
    "theorem-5": lambda c: _grade((c["regret"] <= c["realised_bound"] + TOLERANCE).all()),
    "theorem-8": lambda c: _grade((c["regret"] <= c["corrected"]).all()),
    "variance": lambda c: _grade(c["above_printed"].sum() == 0),
    "remark": _judge_remark,
    "example-i": _judge_example,
    "example-ii": _judge_example,
    "slacks": _judge_slacks,
    "takeaway": _judge_takeaway,
    "worst-case": lambda c: _grade(c["total_regret"].argmin() == 0),
    "fallback": _judge_fallback,
}
