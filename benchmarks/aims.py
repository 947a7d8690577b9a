"""What speed is aimed at and what was reached, gathered from the sections of docs/benchmarks.md.  python benchmarks/aims.py

It measures nothing: each number is the cell of a table in that page, which the command of its section prints.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pages

HEADING = "## Aims"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


class Aim(NamedTuple):
    """Numbers that have an aim: their section, the words at the start of their rows, their column, and what they may be."""

    section: str
    rows: tuple[str, ...]
    column: str
    least: float
    most: float
    what: str


FIRST = "The first second"
PAYS = "Moving only if it pays, d = 5"
SERVICE = "Speed of the service"
GPU = "On a GPU"
RUN = "us a round in `run`"
PLAIN = "over the plain endpoint"
RATE = "learner-rounds a second"
ANY = float("inf")
AIMS = [
    Aim(FIRST, ("first `kl.run` of GD", "first `kl.run` of KL"), "CPU-s", 0, 1.2, "first run"),
    Aim(FIRST, ("first `kl.run` of auto",), "CPU-s", 0, 3, "first run of `auto`"),
    Aim(FIRST, ("first `Agent",), "CPU-s", 0, 3, "first round of an agent of `auto`"),
    Aim(FIRST, ("first `klazy replay`",), "CPU-s", 0, 6, "first replay"),
    Aim(FIRST, ("first `kl.", "first `Ag"), "with kernels", 0, 0.35, "first five, with kernels"),
    Aim(FIRST, ("first `klazy replay`",), "with kernels", 0, 0.8, "replay, with kernels"),
    Aim(GPU, ("auto, l2 ball | 155",), "times", 100, ANY, "`auto` on a GPU, l2 ball"),
    Aim(GPU, ("auto, simplex | 155",), "times", 100, ANY, "`auto` on a GPU, simplex"),
    Aim(GPU, ("k-lazyGD, sqrt sigma, l2",), RATE, 1.5e11, ANY, "k-lazyGD on a GPU, l2 ball"),
    Aim(GPU, ("k-lazyGD, sqrt sigma, l1",), RATE, 1.2e11, ANY, "k-lazyGD on a GPU, l1 ball"),
    Aim(GPU, ("10,000,000 | 10,000 ",), "sweep / kernels", 0, 1.5, "sweep of 10^7 short runs"),
    Aim(GPU, ("10,000,000 | 100,000 ",), "sweep / kernels", 0, 1.5, "sweep of 10^7 long runs"),
    Aim("auto", ("simplex | 50 | noisy",), RUN, 0, 20, "`auto`, simplex, d = 50"),
    Aim("auto", ("simplex | 1000 | noisy",), RUN, 0, 250, "`auto`, simplex, d = 1000"),
    Aim(PAYS, ("box | 64 | 256",), "times C", 0, 1, "`Reluctant`, box, long horizon"),
    Aim(SERVICE, ("wait of one",), PLAIN, 0, 1.5, "one client's wait for a round"),
    Aim(SERVICE, ('rounds a second, 1000 in a request, `sync="batch"`',), PLAIN, 8, ANY, "bulk"),
    Aim("The tests", ("`make test`",), "minutes", 0, 6, "`make test` in a new clone"),
]


def read_section(page: str, heading: str) -> str:
    """Return the text under a heading, up to the next one of any level."""
    found = re.search(
        rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", page, re.DOTALL | re.MULTILINE
    )
    if found is None:
        raise SystemExit(f"{PAGE} has no heading {heading!r}.")
    return found[1]


def split_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def find_numbers(page: str, aim: Aim) -> list[float]:
    """Return the numbers of an aim; a row or a column that is not there ends the script."""
    head: list[str] = []
    numbers = []
    before = ""
    for line in read_section(page, aim.section).splitlines():
        if line.startswith("|--"):
            head = split_cells(before)
        elif aim.column in head and line[2:].startswith(aim.rows):
            number, *_ = split_cells(line)[head.index(aim.column)].split()
            numbers.append(float(number))
        before = line
    if not numbers:
        raise SystemExit(
            f"{PAGE} has no {aim.column!r} in rows {aim.rows} under {aim.section!r}."
        )
    return numbers


def describe(page: str, aim: Aim) -> dict[str, str]:
    """Return the row of an aim."""
    numbers = find_numbers(page, aim)
    reached = " to ".join(f"{number:g}" for number in sorted({min(numbers), max(numbers)}))
    if min(numbers) < aim.least or max(numbers) > aim.most:
        reached += " (missed)"
    name = re.sub(r"[^\w\s-]", "", aim.section.lower()).replace(" ", "-")
    return {
        "what": aim.what,
        "aim": f"at most {aim.most:g}" if aim.least == 0 else f"at least {aim.least:g}",
        "reached": reached,
        "section": f"[{aim.section}](#{name})",
    }


ABOUT = (
    "What each section below was to reach, and what was reached, in the units of its table. Where an aim is missed, the "
    "section says what limits it. Gathered by `python benchmarks/aims.py`."
)


def make(out: Path, folder: Path) -> str:
    """Return the text after the heading."""
    page = PAGE.read_text(encoding="utf-8")
    return "\n".join([ABOUT, "", *pages.markdown([describe(page, aim) for aim in AIMS])])


if __name__ == "__main__":
    pages.run(__doc__, HEADING, "build/aims", make)
