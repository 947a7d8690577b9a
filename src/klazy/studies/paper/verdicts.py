"""The paper's claims and whether they hold here: one verdict for each sentence, from the sections that were made."""

from collections.abc import Mapping
from typing import NamedTuple

from klazy.studies.paper.claims import CLAIMS, Claim
from klazy.studies.paper.definitions import PRESETS
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.section import TEXT, Row, Stored, evaluate, fill, list_columns

HOLDS = "holds"
CHANGED = "holds with a change"
PARTLY = "in part"
FAILS = "does not hold"
COLOURS = {HOLDS: "green", CHANGED: "blue", PARTLY: "amber", FAILS: "red"}
FIGURES: dict[str, str] = TEXT["figures"]
# Settings that gains were measured with. Beta and prior of the ensembles' experiments are not printed.
HOW = {"paper": "as printed", "authors": "with the published code's settings"}
UNPRINTED = "with the lemma's beta and Algorithm 3's prior, for the experiments' are not printed"
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
    for words in TEXT["verdicts"].values():
        tables = [_read_table(sections, *need.split("/")) for need in words["needs"]]
        if all(tables) and (words.get("quick") or not quick):
            verdicts.append(_judge_sentence(words, tables))
    for claim in () if quick else CLAIMS:
        made = {preset: _read_table(sections, claim.experiment, RESULTS, preset) for preset in PRESETS}
        gains = {preset: claim.measure(rows) for preset, rows in made.items() if rows}
        if any(claim.agrees(gain) for gain in gains.values()) or len(gains) == len(PRESETS):
            verdicts.append(_judge_gain(claim, gains))
    return verdicts


def describe_findings(sections: Sections) -> str:
    """Say what the paper does not: who is best with each learner at its own best sigma."""
    rows = _read_table(sections, "best-sigma", "best-sigma")
    return fill(TEXT["findings"]["best-sigma"], rows=rows) if rows else ""


def _read_table(sections: Sections, name: str, table: str, preset: str = PRESETS[0]) -> list[Row]:
    """Return a table of a part, or no rows if it was not made."""
    if (name, preset) not in sections:
        return []
    return sections[name, preset].tables[table]


def _judge_sentence(words: Mapping[str, str], tables: list[list[Row]]) -> Verdict:
    """Apply the rules of text.toml: the first that is true gives the verdict."""
    c, d = (list_columns(rows) for rows in (tables[0], tables[-1]))
    rules = {"holds": HOLDS, "changed": CHANGED, "partly": PARTLY}
    grade = FAILS
    for rule in reversed(rules):
        if rule in words and evaluate(words[rule], c=c, d=d):
            grade = rules[rule]
    found = fill(words["found"], rows=tables[0], d=d)
    erratum = fill(words.get("erratum", ""))
    return Verdict(words["claim"], words["quotation"], words["where"], grade, found, erratum)


def _judge_gain(claim: Claim, gains: Mapping[str, float | None]) -> Verdict:
    """Judge a printed gain; one with settings that are not printed may come out with the published code's."""
    how = HOW
    agrees = [preset for preset, gain in gains.items() if claim.agrees(gain)]
    grade = FAILS
    if any(gain is not None and gain > 0.0 for gain in gains.values()):
        grade = PARTLY
    if claim.experiment.startswith("ensemble"):
        how = HOW | {"paper": UNPRINTED}
        if "authors" in agrees:
            grade = CHANGED
    if "paper" in agrees:
        grade = HOLDS
    found = []
    for preset in reversed(list(gains)):
        gain = gains[preset]
        amount = "nothing to gain" if gain is None else f"{gain:.1f}%"
        found.append(f"{amount} {how[preset]}")
    text = (
        f"{claim.better} has {claim.printed}% less {claim.quantity} than {claim.worse} ({claim.experiment})"
    )
    erratum = TEXT["errata"].get(claim.experiment, "")
    return Verdict(text, claim.quotation, claim.where, grade, ", ".join(found), erratum)
