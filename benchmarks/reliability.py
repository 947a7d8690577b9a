"""The table of docs/reliability.md, from the records that the torture tests left: python benchmarks/reliability.py.

`make torture` runs the tests whole and then this; `make test` runs a sample of each, and the table says so.
"""

import json
from pathlib import Path

from pages import markdown, run

HEADING = "## What was tried"
SAMPLE = "A row marked *sample* comes from `make test`, or from a part of `make torture`. A full `make torture` tries more."


def tabulate(records: Path) -> list[str]:
    """One row for each record, in the order of their names."""
    rows = []
    sampled = False
    for file in sorted(records.glob("*.json")):
        about = json.loads(file.read_text(encoding="utf-8"))
        often = f"{about['tried']:,}".replace(",", " ")
        if not about["full"]:
            often = f"{often} (sample)"
            sampled = True
        rows.append(
            {"what": about["what"], "how often": often, "when": about["date"], "outcome": about["outcome"]}
        )
    if not rows:
        raise SystemExit(f"{records} has no records; run make torture.")
    lines = markdown(rows)
    return [SAMPLE, "", *lines] if sampled else lines


def make_page(out: Path, folder: Path) -> str:
    return "\n".join(tabulate(out))


if __name__ == "__main__":
    run(__doc__, HEADING, "build/torture", make_page)
