"""The tables of docs/reproduction.md, from the parts that `klazy reproduce` makes: python benchmarks/reproduction.py."""

import argparse
from pathlib import Path
from typing import Any

from klazy import report
from klazy.experiments import PRESETS, Settings
from klazy.experiments.reproduce import PARTS, jobs_of, run_jobs

HEADING = "## The tables"


def markdown(rows: list[dict[str, Any]]) -> list[str]:
    head = "| " + " | ".join(name.replace("_", " ") for name in rows[0]) + " |"
    sides = "|" + "|".join("---" if isinstance(value, str) else "--:" for value in rows[0].values()) + "|"
    texts = [[f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    return [head, sides, *("| " + " | ".join(text) + " |" for text in texts), ""]


def side_by_side(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Total regret and switching of every learner in both presets."""
    by = {(row["preset"], row["experiment"], row["learner"]): row for row in rows}
    return [
        {"experiment": name, "learner": label}
        | {f"{key.replace('_', ' ')}, {preset}": by[preset, name, label][key]
           for key in ("switching", "total_regret", "distance_closed") for preset in PRESETS}
        for preset, name, label in by
        if preset == PRESETS[0]
    ]  # fmt: skip


def in_hindsight(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the optimum, the comparator, the best fixed point and the first learner paid."""
    first = {(row["experiment"], row["preset"]): row for row in reversed(rows)}
    return [
        {"experiment": name, "preset": preset, "optimum": row["optimum"], "its gap": f"{row['optimum_gap']:.1e}",
         "comparator": row["comparator_hitting"] + row["comparator_switching"], "best fixed point": row["best_fixed"],
         "first learner": f"{row['learner']} {row['hitting'] + row['switching']:.6g}"}
        for (name, preset), row in sorted(first.items())
    ]  # fmt: skip


def tables(out: Path) -> str:
    jobs = jobs_of([], PRESETS, Settings(), out)
    list(run_jobs(jobs))
    stored = [(job, job.stored()) for job in jobs]
    rows = report.results_of(jobs)
    lines = ["### The printed gains, in per cent", "", *markdown(report.claims_of(rows))]
    extras = {job.name: section for job, section in stored if PARTS[job.name].kind == "extra"}
    lines += ["### What each difference does to them", "", *markdown(extras["presets"].tables["presets"])]
    lines += ["### Every learner in both presets", "", *markdown(side_by_side(rows))]
    lines += ["### What was paid, and the optimum in hindsight", "", *markdown(in_hindsight(rows))]
    for name, section in extras.items():
        if name != "presets":
            lines += [f"### {section.title} (`klazy reproduce {name}`)", ""]
            lines += [line for said in section.text for line in (said, "")]
    return "\n".join(lines)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("reproduction"), help="where the parts are kept")
    arguments.add_argument("--write", type=Path, help=f"put the tables into this file, after its heading {HEADING!r}")
    options = arguments.parse_args()
    before, heading, _ = options.write.read_text().partition(HEADING) if options.write else ("", HEADING, "")
    if not heading:
        raise SystemExit(f"{options.write} has no heading {HEADING!r}.")
    text = tables(options.out)
    print(text)
    if options.write:
        options.write.write_text(f"{before}{HEADING}\n\n{text}")
