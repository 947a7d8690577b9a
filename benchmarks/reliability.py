"""The table of docs/reliability.md, from the records that the torture tests left: python benchmarks/reliability.py.

`make torture` runs the tests whole and then this; `make test` runs a sample of each, and the table says so. What was tried more
often before stays in the table, with its date.
"""

import json
from pathlib import Path

from pages import markdown, run

HEADING = "## What was tried"
SAMPLED = "(sample)"
SAMPLE = "A row marked *sample* comes from `make test`, or from a part of `make torture`. A full `make torture` tries more."


def tabulate(records: Path, page: Path) -> list[str]:
    """One row for each record, and for each row of the page that no record of as many tries replaces."""
    rows = {row["what"]: row for row in read_rows(page)}
    for file in sorted(records.glob("*.json")):
        about = json.loads(file.read_text(encoding="utf-8"))
        known = rows.get(about["what"])
        if known is not None and not about["full"] and count_tries(known) > about["tried"]:
            continue
        often = f"{about['tried']:,}".replace(",", " ")
        if not about["full"]:
            often = f"{often} {SAMPLED}"
        rows[about["what"]] = {
            "what": about["what"],
            "how often": often,
            "when": about["date"],
            "outcome": about["outcome"],
        }
    if not rows:
        raise SystemExit(f"{records} has no records; run make torture.")
    lines = markdown([rows[what] for what in sorted(rows, key=str.lower)])
    is_sampled = any(SAMPLED in row["how often"] for row in rows.values())
    return [SAMPLE, "", *lines] if is_sampled else lines


def read_rows(page: Path) -> list[dict[str, str]]:
    """The rows of the page's own table; none where there is no page."""
    if not page.exists():
        return []
    _, _, table = page.read_text(encoding="utf-8").partition(HEADING)
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    names, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(names, row, strict=True)) for row in rows]


def count_tries(row: dict[str, str]) -> int:
    """How often a row of the page says that something was tried."""
    return int(row["how often"].removesuffix(SAMPLED).replace(" ", ""))


def make_page(out: Path, folder: Path) -> str:
    return "\n".join(tabulate(out, folder / "reliability.md"))


if __name__ == "__main__":
    run(__doc__, HEADING, "build/torture", make_page)
