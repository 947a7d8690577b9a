"""The reproduction as one HTML page."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from klazy.base.files import write_durably
from klazy.base.html import render
from klazy.base.tables import write_for_papers
from klazy.studies.paper.claims import CLAIMS
from klazy.studies.paper.definitions import PRESETS, PaperSettings
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.reproduce import PARTS
from klazy.studies.paper.section import Row, Stored, list_versions
from klazy.studies.paper.verdicts import COLOURS, PAPER_FIGURES, describe_findings, judge_claims

REPORT_COLUMNS = ("learner", "switching", "hitting", "dynamic_regret", "total_regret")
REPORT_COLUMNS += ("certified_bound", "distance_closed")
QUICK = "A quick look: phases are ten times shorter, so no number here is the paper's, and printed numbers are not judged."
PRESET_NAMES = {
    "paper": "as printed, with the theory's settings where the experiments' are not printed",
    "authors": "as the published curves were made",
}


def write_report(
    out: Path, stored: Mapping[tuple[str, str], Stored], settings: PaperSettings, command: str
) -> Path:
    """Put sections together as ``report.html``, and write their figures, their tables, and ``results.parquet``.

    Figures and tables of all sections are in the folders ``figures`` and ``tables`` too, for papers.
    """
    for section in stored.values():
        section.write_files()
        names = section.folder.parts[-2:]
        figures = {
            "-".join((*names, name)): section.read_figure(name, "pdf") for name in section.figures
        }
        tables = {"-".join((*names, name)): rows for name, rows in section.tables.items()}
        write_for_papers(out, tables, figures)
    rows = collect_results(stored.values())
    if rows:
        import polars

        table = BytesIO()
        polars.DataFrame(rows).write_parquet(table)
        write_durably(out / "results.parquet", table.getvalue())
    quick = settings.quick
    verdicts = judge_claims(stored, quick)
    findings = ""
    if verdicts and not quick:
        findings = describe_findings(stored)
    text = render(
        "paper.html",
        out=out,
        quick=QUICK if quick else "",
        verdicts=verdicts,
        colours=COLOURS,
        findings=findings,
        claims=check_claims(rows, quick),
        presets=PRESET_NAMES,
        sections=list(_list_sections(stored)),
        add_comparators=_add_comparators,
        command=command,
        settings=settings,
        versions=list_versions() | {"Python": platform.python_version()},
        machine=(platform.system(), platform.machine(), _name_processor(), os.cpu_count()),
    )
    page = out / "report.html"
    write_durably(page, text.encode())
    return page


def _list_sections(stored: Mapping[tuple[str, str], Stored]) -> Iterator[dict[str, Any]]:
    """Yield every part with its sections by preset."""
    for name in dict.fromkeys(name for name, _ in stored):
        sections = {preset: section for (part, preset), section in stored.items() if part == name}
        yield {
            "name": name,
            "title": next(iter(sections.values())).title,
            "figure": PAPER_FIGURES.get(name),
            "played": PARTS[name].kind == "experiment",
            "stored": sections,
        }


def collect_results(sections: Iterable[Stored]) -> list[Row]:
    """Return one row per preset, experiment and learner."""
    return [row for section in sections for row in section.tables.get(RESULTS, [])]


def check_claims(rows: Sequence[Row], quick: bool = False) -> list[Row]:
    """Return every printed gain whose experiment is among the rows, with the gain in each preset, in per cent.

    The last column names the presets in which the printed number comes out; a quick run has none.
    """
    played = {(row["preset"], row["experiment"]) for row in rows}
    found = []
    for claim in CLAIMS:
        presets = [preset for preset in PRESETS if (preset, claim.experiment) in played]
        if not presets:
            continue
        gains: dict[str, float | None] = dict.fromkeys(PRESETS)
        for preset in presets:
            gains[preset] = claim.measure([row for row in rows if row["preset"] == preset])
        text = f"{claim.experiment}: {claim.better} against {claim.worse}, {claim.quantity}"
        row: Row = {"claim": text, "printed": claim.printed, **gains}
        found.append(row)
        if quick:
            continue
        agrees = [preset for preset in presets if claim.agrees(gains[preset])]
        none = "neither" if len(presets) == len(PRESETS) else f"not in {presets[0]}"
        row["comes out in"] = ", ".join(agrees) or none
    return found


def select_columns(row: Row) -> Row:
    """Return the columns of a learner's row that a table shows."""
    return {name: row.get(name) for name in REPORT_COLUMNS}


def _add_comparators(rows: Sequence[Row]) -> list[Row]:
    """Return the learners' rows, and a row for everything that they are compared with."""
    row = rows[0]
    optimum = f"optimum, gap {row['optimum_gap']:.1e}"
    moving = row["optimum"] - row["optimum_hitting"]
    others = (
        ("comparator", row["comparator_switching"], row["comparator_hitting"], None),
        ("best fixed point", row["best_fixed_switching"], row["best_fixed"], None),
        (optimum, moving, row["optimum_hitting"], 1.0),
    )
    names = ("learner", "switching", "hitting", "distance_closed")
    compared: list[Row] = [dict(zip(names, values, strict=True)) for values in others]
    return [select_columns(row) for row in (*rows, *compared)]


def _name_processor() -> str:
    """Return the processor's name, where the system has it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
