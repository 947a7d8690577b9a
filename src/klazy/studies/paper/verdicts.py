"""The paper's claims and whether they hold here: one verdict for each sentence, from the sections that were made."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from klazy.studies.paper.claims import CLAIMS
from klazy.studies.paper.definitions import PRESETS
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.section import REPORT_TEXT, Row, Stored, evaluate, fill, list_columns

HOLDS = "holds"
CHANGED = "holds with a change"
PARTLY = "in part"
FAILS = "does not hold"
COLOURS = {HOLDS: "green", CHANGED: "blue", PARTLY: "amber", FAILS: "red"}
FIGURES: dict[str, str] = REPORT_TEXT["figures"]
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
    for words in REPORT_TEXT["verdicts"].values():
        tables = [_read_table(sections, *need.split("/")) for need in words["needs"]]
        if all(tables) and (words.get("quick") or not quick):
            verdicts.append(_judge(words, rows=tables[0], d=list_columns(tables[-1])))
    for claim in () if quick else CLAIMS:
        made = {preset: _read_table(sections, claim.experiment, RESULTS, preset) for preset in PRESETS}
        gains = {preset: claim.measure(rows) for preset, rows in made.items() if rows}
        agrees = [preset for preset, gain in gains.items() if claim.agrees(gain)]
        if agrees or len(gains) == len(PRESETS):
            verdicts.append(_judge(REPORT_TEXT["gain"], claim=claim, gains=gains, agrees=agrees))
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


def _judge(words: Mapping[str, str], **values: Any) -> Verdict:
    """Fill in a claim of text.toml; the first of its rules that is true gives the verdict."""
    rules = {"holds": HOLDS, "changed": CHANGED, "partly": PARTLY}
    true = [grade for rule, grade in rules.items() if rule in words and evaluate(words[rule], **values)]
    grade = true[0] if true else FAILS
    about = {name: fill(words.get(name, ""), **values) for name in Verdict._fields if name != "verdict"}
    return Verdict(verdict=grade, **about)
