"""The reproduction as one HTML page."""

import os
import platform
from collections.abc import Iterator, Sequence
from html import escape
from io import BytesIO
from pathlib import Path

from klazy.base.files import write_durably
from klazy.base.html import embed_figure, make_page, make_paragraph, make_table
from klazy.studies.paper.claims import CLAIMS
from klazy.studies.paper.definitions import PRESETS
from klazy.studies.paper.experiments import RESULTS
from klazy.studies.paper.reproduce import PARTS, Job
from klazy.studies.paper.section import Row, Stored, list_versions
from klazy.studies.paper.verdicts import (
    CHANGED,
    COLOURS,
    FAILS,
    FIGURES,
    HOLDS,
    PARTLY,
    Verdict,
    describe_findings,
    judge_claims,
)

MOST_ROWS = 60  # of a table on the page; longer ones are in their file
COLUMNS = (
    "learner",
    "switching",
    "hitting",
    "dynamic_regret",
    "total_regret",
    "certified_bound",
    "distance_closed",
)
VERDICT_COLUMNS = (
    "verdict",
    "claim",
    "the sentence that is judged",
    "found",
    "erratum of a proof, constant or setting",
)
QUICK = "A quick look: phases are ten times shorter, so no number here is the paper's, and printed numbers are not judged."
PRESET_NAMES = {
    "paper": "as printed, with the theory's settings where the experiments' are not printed",
    "authors": "as the published curves were made",
}
TITLE = "klazy: the paper reproduced"
HEADING = """<h1>Partially lazy gradient descent, reproduced</h1>
<p>klazy has computed the figures and tables of <em>Partially Lazy Gradient Descent for Smoothed Online Learning</em> (Mhaisen
and Iosifidis) again. Every number on this page comes from that run.</p>"""
TERMS = """<p class="small"><b>Hitting</b> is what the rounds charged, <b>switching</b> what moving charged, at a move cost of 1
unless it says otherwise. <b>Dynamic regret</b> is hitting above the comparator's, <b>total regret</b> adds switching above the
comparator's. The <b>certified bound</b> is one on total regret, from the exact run. The <b>distance closed</b> is how far a
learner comes on the way from the first learner's cost to the certified optimum.</p>"""
STYLE = """
body { max-width: 88rem; }
.report > nav { position: sticky; top: 0; background: #fff; z-index: 1; overflow-x: auto; border-bottom: 1px solid #ccc; }
.report > nav ul { columns: auto; display: flex; gap: 1rem; white-space: nowrap; list-style: none; }
.report > nav ul { padding: .5rem 0; margin: 0; }
.report section { scroll-margin-top: 3rem; } .report main { min-width: 0; }
.verdict { font-weight: 600; white-space: nowrap; padding: 0 .5rem; border-radius: .3rem; }
.green { background: #d3f0dd; color: #05552a; } .amber { background: #ffe9b8; color: #6b4400; }
.blue { background: #d7e8fb; color: #0b3a6b; } .red { background: #fbd5d5; color: #7c0d0d; }
.verdicts td { text-align: left; vertical-align: baseline; min-width: 9rem; } .verdicts th { text-align: left; }
.verdicts q { font-style: italic; } .verdicts .where { color: #444; }
@media (max-width: 48rem) {
  .verdicts, .verdicts tbody, .verdicts tr, .verdicts td { display: block; }
  .verdicts thead, .verdicts td:empty { display: none; }
  .verdicts tr { border-bottom: 1px solid #ddd; padding: .5rem 0; } .verdicts td { border: 0; padding: .1rem 0; }
  .verdicts td[data-name]::before { content: attr(data-name) ": "; font-weight: 600; }
}
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; }
@media (min-width: 64rem) {
  .report { display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 2rem; align-items: start; }
  .report > nav { max-height: 100vh; overflow: auto; border: 0; font-size: .85rem; }
  .report > nav ul { display: block; white-space: normal; } .report > nav li { margin: .3rem 0; }
}
"""


def write_report(out: Path, jobs: Sequence[Job], command: str) -> Path:
    """Put the sections of finished jobs together as ``report.html``, and their rows as ``results.parquet``."""
    stored = [(job, job.load()) for job in jobs]
    rows = collect_results(jobs)
    if rows:
        import polars

        table = BytesIO()
        polars.DataFrame(rows).write_parquet(table)
        write_durably(out / "results.parquet", table.getvalue())
    parts = {}
    quick = any(job.settings.quick for job in jobs)
    sections = {(job.name, job.settings.preset): section for job, section in stored}
    verdicts = judge_claims(sections, quick)
    if verdicts:
        parts["verdicts"] = ("What holds, and what does not", _write_verdicts(verdicts))
        findings = describe_findings(sections)
        if findings and not quick:
            parts["findings"] = ("Apart from the paper's claims", make_paragraph(findings))
    if check_claims(rows, quick):
        parts["claims"] = ("The printed gains, in per cent", _write_claims(rows, quick))
    for name in dict.fromkeys(job.name for job in jobs):
        sections = {job.settings.preset: section for job, section in stored if job.name == name}
        parts[name] = (next(iter(sections.values())).title, _write_part(out, name, sections))
    parts["made"] = ("How this page was made", TERMS + _write_making(jobs, command))
    contents = "".join(
        f'<li><a href="#{name}">{escape(title)}</a></li>' for name, (title, _) in parts.items()
    )
    body = "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>{text}</section>\n'
        for name, (title, text) in parts.items()
    )
    warning = make_paragraph(QUICK, "warn") if quick else ""
    nav = f'<nav aria-label="Contents"><ul>{contents}</ul></nav>'
    text = f'<div class="report">{nav}<main>{HEADING}\n{warning}\n{body}</main></div>'
    page = out / "report.html"
    write_durably(page, make_page(TITLE, text, STYLE).encode())
    return page


def count_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Say how many claims hold, in one sentence."""
    counts = []
    for verdict in COLOURS:
        count = sum(each.verdict == verdict for each in verdicts)
        if count:
            counts.append(f"{count} {_conjugate(verdict, count)}")
    return f"Of {len(verdicts)} claims {', '.join(counts)}."


def _write_verdicts(verdicts: Sequence[Verdict]) -> str:
    """The count of each verdict, and a table of all, with its colour."""
    head = "".join(f"<th scope=col>{name}</th>" for name in VERDICT_COLUMNS)
    body = ""
    for each in verdicts:
        mark = f'<span class="verdict {COLOURS[each.verdict]}">{escape(each.verdict)}</span>'
        quoted = f'<q>{escape(each.quotation)}</q> <span class="where">({escape(each.where)})</span>'
        body += f"<tr><td>{mark}</td><td>{escape(each.claim)}</td><td>{quoted}</td>"
        body += f'<td data-name="Found">{escape(each.found)}</td><td data-name="Erratum">{escape(each.erratum)}</td></tr>'
    table = f'<table class="verdicts"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    apart = (
        "Errata stand apart: a sentence may hold while a step of its proof or a printed constant does not."
    )
    count = make_paragraph(count_verdicts(verdicts), "answer")
    return count + make_paragraph(apart) + f'<div class="wide" tabindex="0">{table}</div>'


def _conjugate(verdict: str, count: int) -> str:
    """A verdict as the end of a sentence on so many claims."""
    one, many = {
        HOLDS: ("holds", "hold"),
        CHANGED: ("holds", "hold"),
        PARTLY: ("holds in part", "hold in part"),
        FAILS: ("does not hold", "do not hold"),
    }[verdict]
    said = one if count == 1 else many
    if verdict == CHANGED:
        said += " with a correction or with settings that are not printed"
    return said


def collect_results(jobs: Sequence[Job]) -> list[Row]:
    """One row per preset, experiment and learner."""
    rows = []
    for job in jobs:
        rows += job.load().tables.get(RESULTS, [])
    return rows


def check_claims(rows: Sequence[Row], quick: bool = False) -> list[Row]:
    """Every printed gain whose experiment is among the rows, with what it is in each preset, in per cent.

    The last column says in which presets the printed number comes out; a quick run has none.
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
        said = f"{claim.experiment}: {claim.better} against {claim.worse}, {claim.quantity}"
        row: Row = {"claim": said, "printed": claim.printed, **gains}
        found.append(row)
        if quick:
            continue
        agrees = [preset for preset in presets if claim.agrees(gains[preset])]
        if agrees:
            verdict = ", ".join(agrees)
        elif len(presets) == len(PRESETS):
            verdict = "neither"
        else:
            verdict = f"not in {presets[0]}"
        row["comes out in"] = verdict
    return found


def _write_claims(rows: Sequence[Row], quick: bool) -> str:
    about = (
        "What the better learner saves, as printed and as found in each preset ("
        + "; ".join(f"{preset}: {said}" for preset, said in PRESET_NAMES.items())
        + ")."
    )
    if not quick:
        about += " The last column names the presets whose gain is within one unit of the last printed digit."
    shown = []
    for row in check_claims(rows, quick):
        rounded = {key: round(value, 2) for key, value in row.items() if isinstance(value, float)}
        shown.append(row | rounded)
    return make_paragraph(about) + make_table(shown)


def _write_part(out: Path, name: str, sections: dict[str, Stored]) -> str:
    """A part's words, tables and figures; an experiment's once for each preset, the second one folded."""
    parts = []
    if name in FIGURES:
        parts.append(make_paragraph(f"In the paper: {FIGURES[name]}.", "small"))
    played = PARTS[name].kind == "experiment"
    for number, (preset, section) in enumerate(sections.items()):
        heading = f"Preset {preset}: {PRESET_NAMES[preset]}"
        text = _write_section(out, section, played)
        if played and number == 0:
            text = f"<h3>{heading}</h3>{text}"
        elif played:
            text = f"<details><summary>{heading}</summary>{text}</details>"
        parts.append(text)
    return "".join(parts)


def _write_section(out: Path, section: Stored, played: bool) -> str:
    parts = [make_paragraph(said) for said in section.text]
    for label, rows in section.tables.items():
        if len(rows) > MOST_ROWS:
            file = (section.folder / f"{label}.parquet").relative_to(out)
            parts.append(make_paragraph(f"All {len(rows)} rows are in {file}.", "small"))
            continue
        if played:
            rows = _add_comparators(rows)
        parts.append(make_table(rows))
    if section.captions:
        figures = "".join(_embed_figures(section))
        parts.append(f'<div class="figures">{figures}</div>')
    if section.note:
        note = make_paragraph(section.note, "small")
        parts.append(f"<details><summary>Settings</summary>{note}</details>")
    return "".join(parts)


def select_columns(row: Row) -> Row:
    """What a table shows of a learner's row."""
    return {name: row.get(name) for name in COLUMNS}


def _add_comparators(rows: Sequence[Row]) -> list[Row]:
    """The learners' rows without what they share, and what they are measured against as rows of their own."""
    row = rows[0]
    best = row["optimum"]
    hit = row["optimum_hitting"]
    others = (
        {
            "learner": "comparator",
            "switching": row["comparator_switching"],
            "hitting": row["comparator_hitting"],
        },
        {
            "learner": "best fixed point",
            "switching": row["best_fixed_switching"],
            "hitting": row["best_fixed"],
        },
        {
            "learner": f"optimum, gap {row['optimum_gap']:.1e}",
            "switching": best - hit,
            "hitting": hit,
            "distance_closed": 1.0,
        },
    )
    return [select_columns(row) for row in (*rows, *others)]


def _embed_figures(section: Stored) -> Iterator[str]:
    for name, caption in section.captions.items():
        yield embed_figure(
            section.figure_path(name), caption, broad=name in ("geometry", "phases", "ensemble")
        )


def _write_making(jobs: Sequence[Job], command: str) -> str:
    settings = jobs[0].settings
    rows = [
        {"what": "command", "value": command},
        {"what": "seed, of the stochastic sequences and of all draws", "value": str(settings.seed)},
        {"what": "sequences of the seeds extra, spawned from it", "value": str(settings.seeds)},
        *({"what": name, "value": version} for name, version in list_versions().items()),
        {"what": "Python", "value": platform.python_version()},
        {
            "what": "machine",
            "value": f"{platform.system()} {platform.machine()}, {_name_processor()}, {os.cpu_count()} cores",
        },
    ]
    return make_table(rows)


def _name_processor() -> str:
    """The processor's own name where the system tells it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
