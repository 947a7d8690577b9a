"""The tables of docs/reproduction.md, from the parts that `klazy reproduce` makes: python benchmarks/reproduction.py."""

from collections import Counter
from pathlib import Path
from typing import Any

from klazy.studies.paper import PRESETS, PaperSettings, report
from klazy.studies.paper.reproduce import PARTS, list_jobs, load_sections, run_jobs
from klazy.studies.paper.section import Stored
from klazy.studies.paper.verdicts import Verdict, judge_claims
from pages import markdown, run

HEADING = "## The tables"


def side_by_side(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return total regret and switching of every learner in both presets."""
    by = {(row["preset"], row["experiment"], row["learner"]): row for row in rows}
    return [
        {"experiment": name, "learner": label}
        | {f"{key.replace('_', ' ')}, {preset}": by[preset, name, label][key]
           for key in ("switching", "total_regret", "distance_closed") for preset in PRESETS}
        for preset, name, label in by
        if preset == PRESETS[0]
    ]  # fmt: skip


def in_hindsight(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the costs of the optimum, the comparator, the best fixed point and the first learner."""
    first = {(row["experiment"], row["preset"]): row for row in reversed(rows)}
    return [
        {"experiment": name, "preset": preset, "optimum": row["optimum"], "its gap": f"{row['optimum_gap']:.1e}",
         "comparator": row["comparator_hitting"] + row["comparator_switching"],
         "best fixed point": row["best_fixed"] + row["best_fixed_switching"],
         "first learner": f"{row['learner']} {row['hitting'] + row['switching']:.6g}"}
        for (name, preset), row in sorted(first.items())
    ]  # fmt: skip


def judged(verdicts: list[Verdict]) -> list[str]:
    """Return the count of each verdict, and a table of all."""
    counts = Counter(each.verdict for each in verdicts)
    rows = []
    for each in verdicts:
        quoted = f'"{each.quotation}" ({each.where})'.replace("|", "\\|")
        rows.append(
            {"verdict": each.verdict, "claim": each.claim, "the sentence that is judged": quoted, "found": each.found,
             "erratum of a proof, constant or setting": each.erratum}
        )  # fmt: skip
    counted = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    return [f"Verdicts on {len(verdicts)} claims: {counted}.", "", *markdown(rows)]


def picture(section: Stored, name: str, file: Path) -> list[str]:
    """Copy one of a part's figures next to the page, and return the lines that show it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(section.read_figure(name, "png"))
    return [f"![{section.captions[name]}](figures/{file.name})", ""]


def tables(out: Path, page: Path) -> str:
    jobs = list_jobs([], PRESETS, PaperSettings(), out)
    list(run_jobs(jobs))
    sections = load_sections(jobs)
    rows = report.collect_results(sections.values())
    parts = {name: section for (name, _), section in sections.items()}
    picture(parts["geometry"], "geometry", page / "figures" / "geometry.png")  # of docs/limits.md
    lines = ["### The verdicts", "", *judged(judge_claims(sections))]
    lines += ["### The printed gains, in per cent", "", *markdown(report.check_claims(rows))]
    extras = {name: section for name, section in parts.items() if PARTS[name].kind == "extra"}
    lines += [
        "### What each difference does to them",
        "",
        *markdown(extras["presets"].tables["presets"]),
    ]
    lines += ["### Every learner in both presets", "", *markdown(side_by_side(rows))]
    lines += [
        "### What was paid, and the optimum in hindsight",
        "",
        *markdown(in_hindsight(rows)),
    ]
    for name, section in extras.items():
        if name != "presets":
            lines += [f"### {section.title} (`klazy reproduce {name}`)", ""]
            lines += [line for said in section.text for line in (said, "")]
        if name == "best-sigma":
            lines += picture(section, "stochastic", page / "figures" / "best-sigma.png")
    return "\n".join(lines)


if __name__ == "__main__":
    run(__doc__, HEADING, "reproduction", tables)
