"""What the paper claims, and whether it holds here: one verdict for each sentence, from the sections that were made."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from klazy.studies.paper.claims import CLAIMS, Claim
from klazy.studies.paper.definitions import PRESETS
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.extras import LEMMA
from klazy.studies.paper.section import TEXT, Row, Stored

HOLDS = "holds"
CHANGED = "holds with a change"
PARTLY = "in part"
FAILS = "does not hold"
COLOURS = {HOLDS: "green", CHANGED: "blue", PARTLY: "amber", FAILS: "red"}
FIGURES: dict[str, str] = TEXT["figures"]
# Points and regrets that differ by less are the same up to rounding.
SAME = 1e-9
# Up to this many times the regret of greedy experts alone, an ensemble counts as fallen back to them.
NEAR = 1.1
# Settings that gains were measured with. Beta and prior of the ensembles' experiments are not printed.
HOW = {"paper": "as printed", "authors": "with the published code's settings"}
UNPRINTED = "with the lemma's beta and Algorithm 3's prior, for the experiments' are not printed"
Rows = list[Row]
Sections = Mapping[tuple[str, str], Stored]  # by part and preset


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
    for name, words in TEXT["verdicts"].items():
        tables = [_read_table(sections, *need.split("/")) for need in words["needs"]]
        if all(tables) and (words.get("quick") or not quick):
            grade, values = JUDGES[name](*tables)
            found = words["found"].format(**values)
            about = (words["claim"], words["quotation"], words["where"])
            verdicts.append(Verdict(*about, grade, found, words.get("erratum", "")))
    for claim in () if quick else CLAIMS:
        made = {preset: _read_table(sections, claim.experiment, RESULTS, preset) for preset in PRESETS}
        gains = {preset: claim.measure(rows) for preset, rows in made.items() if rows}
        if any(claim.agrees(gain) for gain in gains.values()) or len(gains) == len(PRESETS):
            verdicts.append(_judge_gain(claim, gains))
    return verdicts


def describe_findings(sections: Sections) -> str:
    """Say what the paper does not: who is best with each learner at its own best sigma."""
    found = []
    for name in ("stochastic", "corrupted"):
        rows = _read_table(sections, "best-sigma", "best-sigma")
        best = {row["learner"]: row["at_best_sigma"] for row in rows if row["experiment"] == name}
        if best:
            winner = min(best, key=best.__getitem__)
            greedy = "" if winner == "GD" else f" (GD {best['GD']:.5g})"
            found.append(f"on the {name} sequence {winner} is best with {best[winner]:.5g}{greedy}")
    return TEXT["findings"]["best-sigma"].format(found=", and ".join(found)) if found else ""


def _read_table(sections: Sections, name: str, table: str, preset: str = PRESETS[0]) -> Rows:
    """Return a table of a part, or no rows if it was not made."""
    if (name, preset) not in sections:
        return []
    return sections[name, preset].tables[table]


def _grade(holds: bool, partly: bool = False) -> str:
    if holds:
        return HOLDS
    return PARTLY if partly else FAILS


def _judge_theorem_1(rows: Rows) -> tuple[str, Row]:
    apart = max(row["difference_from_origin"] for row in rows)
    pruned = sum(row["pruned_from_origin"] for row in rows)
    elsewhere = max(row["difference_from_elsewhere"] for row in rows)
    grade = _grade(apart < SAME and pruned > 0)
    return grade, {"apart": apart, "pruned": pruned, "elsewhere": elsewhere}


def _judge_theorem_2(rows: Rows) -> tuple[str, Row]:
    exact = all(abs(row["measured"] - row["exact"]) < 1e-6 for row in rows)
    enough = all(row["measured"] >= row["printed"] for row in rows)
    least = min(row["measured"] / (row["k"] * row["P_T"]) for row in rows)
    return CHANGED if exact and enough else FAILS, {"least": least, "slacks": _list_slacks(rows)}


def _judge_theorem_5(rows: Rows) -> tuple[str, Row]:
    above = sum(row["regret"] > row["realised_bound"] + SAME for row in rows)
    nearest = max(row["regret"] / row["realised_bound"] for row in rows)
    return _grade(above == 0), {"above": above, "runs": len(rows), "nearest": nearest}


def _judge_theorem_8(rows: Rows) -> tuple[str, Row]:
    times = [row | {"times": row["regret"] / row["order"]} for row in rows]
    return _grade(all(row["regret"] <= row["corrected"] for row in rows)), {
        "found": _join("theorem-8", times)
    }


def _judge_variance(rows: Rows) -> tuple[str, Row]:
    keys = {"above": "above_printed", "sharper": "above_corrected", "rounds": "rounds"}
    found = {name: sum(row[key] for row in rows) for name, key in keys.items()}
    return _grade(found["above"] == 0), found


def _judge_remark(moves: Rows, drawn: Rows) -> tuple[str, Row]:
    one, two = (row["switching"] for row in moves)
    means = [row["mean_switching"] for row in drawn]
    rising = drawn[0]["runs_not_decreasing"]
    runs = drawn[0]["runs"]
    falling = all(after < before for before, after in pairwise(means))
    grade = _grade(two <= one and rising == 0, falling)
    text = ", ".join(f"{mean:.1f}" for mean in means)
    about = {"one": one, "two": two, "means": text, "slacks": _list_slacks(drawn), "runs": runs}
    return grade, about | {"share": 100.0 * rising / runs}


def _judge_example(rows: Rows) -> tuple[str, Row]:
    by = {row["learner"]: row for row in rows}
    greedy, lazy = by["GD"], by["LazyGD"]
    less = [lazy[cost] < greedy[cost] for cost in ("switching", "hitting")]
    return _grade(all(less), any(less)), {"greedy": greedy, "lazy": lazy}


def _judge_slacks(rows: Rows) -> tuple[str, Row]:
    total = _total_regrets(rows)
    printed = ("k=65", "k=150", "k=300")
    better = [total[label] < total["GD"] for label in printed]
    found = ", ".join(f"{label} {total[label]:.5g}" for label in (*printed, "GD"))
    return _grade(all(better), any(better)), {"found": found}


def _judge_takeaway(*tables: Rows) -> tuple[str, Row]:
    better = 0
    worse = []
    for rows in tables:
        total = _total_regrets(rows)
        for label, value in total.items():
            if label.startswith("k=") and value < total["GD"]:
                better += 1
            elif label.startswith("k="):
                name = rows[0]["experiment"]
                worse.append(f"{label} on the {name} sequence ({value:.5g}, GD {total['GD']:.5g})")
    grade = _grade(better > len(worse), better > 0)
    rest = f"; not {' and '.join(worse)}" if worse else ""
    return grade, {"better": better, "number": better + len(worse), "worse": rest}


def _judge_worst_case(rows: Rows) -> tuple[str, Row]:
    total = _total_regrets(rows)
    found = ", ".join(f"{label} {value:.4g}" for label, value in total.items())
    return _grade(min(total, key=total.__getitem__) == "GD"), {"found": found}


def _judge_fallback(rows: Rows) -> tuple[str, Row]:
    near = [row["beta"] for row in rows if row["together"] <= NEAR * row["greedy_alone"]]
    return _grade(LEMMA in near, bool(near)), {"found": _join("fallback", rows)}


def _judge_gain(claim: Claim, gains: Mapping[str, float | None]) -> Verdict:
    """Judge a printed gain; one of settings that are not printed may come out with the published code's."""
    agrees = [preset for preset, gain in gains.items() if claim.agrees(gain)]
    grade = _grade("paper" in agrees, any(gain is not None and gain > 0.0 for gain in gains.values()))
    how = HOW
    if claim.experiment.startswith("ensemble"):
        how = HOW | {"paper": UNPRINTED}
        if agrees == ["authors"]:
            grade = CHANGED
    found = ", ".join(f"{_format_gain(gains[preset])} {how[preset]}" for preset in reversed(list(gains)))
    text = (
        f"{claim.better} has {claim.printed} % less {claim.quantity} than {claim.worse} ({claim.experiment})"
    )
    erratum = TEXT["errata"].get(claim.experiment, "")
    return Verdict(text, claim.quotation, claim.where, grade, found, erratum)


def _format_gain(gain: float | None) -> str:
    return "nothing to gain" if gain is None else f"{gain:.1f} %"


def _total_regrets(rows: Rows) -> dict[str, float]:
    return {row["learner"]: row["total_regret"] for row in rows}


def _list_slacks(rows: Rows) -> str:
    return ", ".join(str(row["k"]) for row in rows)


def _join(name: str, rows: Rows) -> str:
    """Return one phrase for each row."""
    return "; ".join(TEXT["verdicts"][name]["row"].format_map(row) for row in rows)


JUDGES: dict[str, Callable[..., tuple[str, dict[str, Any]]]] = {
    "theorem-1": _judge_theorem_1,
    "theorem-2": _judge_theorem_2,
    "theorem-5": _judge_theorem_5,
    "theorem-8": _judge_theorem_8,
    "variance": _judge_variance,
    "remark": _judge_remark,
    "example-i": _judge_example,
    "example-ii": _judge_example,
    "slacks": _judge_slacks,
    "takeaway": _judge_takeaway,
    "worst-case": _judge_worst_case,
    "fallback": _judge_fallback,
}
