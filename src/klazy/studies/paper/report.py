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
QUICK = "A quick look: phases are ten times shorter, so that no number here is the paper's."
PRESET_NAMES = {"paper": "as printed", "authors": "as the published curves were made"}
TITLE = "klazy: the paper reproduced"
INTRODUCTION = """<h1>Partially lazy gradient descent, reproduced</h1>
<p>Figures and tables of <em>Partially Lazy Gradient Descent for Smoothed Online Learning</em> (Mhaisen and Iosifidis), computed
anew by klazy, and what an honest report must also show. Total regret is dynamic regret plus the learner's movement less the
comparator's, with movement weight 1 unless it says otherwise; the certified bound is one on it, computed from the exact run,
before any rounding that a preset measures with. The distance closed is the part of the way from the first learner's cost to
that of the optimum in hindsight.</p>"""


def write_report(out: Path, jobs: Sequence[Job], command: str) -> Path:
    """Put the sections of finished jobs together as ``report.html``, and their rows as ``results.parquet``."""
    stored = [(job, job.load()) for job in jobs]
    rows = collect_results(jobs)
    if rows:
        import polars

        table = BytesIO()
        polars.DataFrame(rows).write_parquet(table)
        write_durably(out / "results.parquet", table.getvalue())
    parts = {"claims": ("The paper's claims, checked", _write_claims(rows))} if check_claims(rows) else {}
    for name in dict.fromkeys(job.name for job in jobs):
        sections = {job.settings.preset: section for job, section in stored if job.name == name}
        parts[name] = (next(iter(sections.values())).title, _write_part(out, name, sections))
    parts["made"] = ("How this page was made", _write_making(jobs, command))
    contents = "".join(
        f'<li><a href="#{name}">{escape(title)}</a></li>' for name, (title, _) in parts.items()
    )
    body = "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>{text}</section>\n'
        for name, (title, text) in parts.items()
    )
    warning = make_paragraph(QUICK, "warn") if any(job.settings.quick for job in jobs) else ""
    text = f"{INTRODUCTION}\n{warning}\n<nav><ul>{contents}</ul></nav>\n{body}"
    page = out / "report.html"
    write_durably(page, make_page(TITLE, text).encode())
    return page


def collect_results(jobs: Sequence[Job]) -> list[Row]:
    """One row per preset, experiment and learner."""
    rows = []
    for job in jobs:
        rows += job.load().tables.get(RESULTS, [])
    return rows


def check_claims(rows: Sequence[Row]) -> list[Row]:
    """Every printed gain whose experiment is among the rows, with what it is in each preset, in per cent."""
    played = {(row["preset"], row["experiment"]) for row in rows}
    found = []
    for claim in CLAIMS:
        presets = [preset for preset in PRESETS if (preset, claim.experiment) in played]
        if not presets:
            continue
        gains: dict[str, float | None] = dict.fromkeys(PRESETS)
        for preset in presets:
            gains[preset] = claim.measure([row for row in rows if row["preset"] == preset])
        agrees = [preset for preset in presets if claim.rounds_to_printed(gains[preset])]
        if agrees:
            verdict = ", ".join(agrees)
        elif len(presets) == len(PRESETS):
            verdict = "neither"
        else:
            verdict = f"not in {presets[0]}"
        said = f"{claim.experiment}: {claim.better} against {claim.worse}, {claim.quantity}"
        found.append({"claim": said, "printed": claim.printed, **gains, "as printed in": verdict})
    return found


def _write_claims(rows: Sequence[Row]) -> str:
    about = (
        "What the better learner saves, in per cent, as printed and as found in each preset: "
        + "; ".join(f"{preset}, {said}" for preset, said in PRESET_NAMES.items())
        + ". The last column names the presets in which the gain, rounded to the printed digits, is the printed one."
    )
    shown = []
    for row in check_claims(rows):
        rounded = {key: round(value, 2) for key, value in row.items() if isinstance(value, float)}
        shown.append(row | rounded)
    return make_paragraph(about) + make_table(shown)


def _write_part(out: Path, name: str, sections: dict[str, Stored]) -> str:
    """A part's words, tables and figures; an experiment's once for each preset."""
    parts = []
    played = PARTS[name].kind == "experiment"
    for preset, section in sections.items():
        if played:
            parts.append(f"<h3>Preset {preset}: {PRESET_NAMES[preset]}</h3>")
        parts += map(make_paragraph, section.text)
        if section.note:
            parts.append(make_paragraph(section.note, "small"))
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
        yield embed_figure(section.figure_path(name), caption, broad=name in ("geometry", "phases"))


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
