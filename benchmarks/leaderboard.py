"""The page of what was handed in, docs/leaderboard.md, and the schema of such files: python benchmarks/leaderboard.py."""

import json
from pathlib import Path

import numpy as np

from klazy.studies.arena import Entry
from klazy.studies.arena.submission import Submission, read_submission
from klazy.studies.arena.table import average_ratios
from pages import markdown, run

HEADING = "## Results"
FOLDER = Path(__file__).with_name("leaderboard")
SCHEMA = Path(__file__).with_name("leaderboard.schema.json")
NAME = "auto"


def write_schema() -> str:
    """The JSON schema of results files."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Submission.model_json_schema(),
    }
    return json.dumps(schema, indent=1) + "\n"


def describe_suite(results: Submission) -> str:
    """Which games results are of."""
    quick = "quick, " if results.quick else ""
    return f"{results.suite}, {quick}seed {results.seed}"


def list_rows(files: dict[str, Submission]) -> list[dict[str, str]]:
    """A row for each entrant, by suite, the best first."""
    known = find_known(files)
    rows = []
    for name, results in files.items():
        suite = describe_suite(results)
        beside = [known.get((suite, game.entry)) for game in results.games]
        for row in results.summarize():
            entrant = row["entrant"]
            shown = {
                "suite": suite,
                "entrant": f"[{entrant.name}]({entrant.url})" if entrant.url else entrant.name,
                "told": entrant.told,
                "games": f"{len(results.games)} of {len(results.list_suite())}",
                "best tuned = 1": f"{row['best_tuned']:.3f}",
                "picked = 1": f"{row['picked']:.3f}",
                "lost by 2 %": f"{row['worse_by_2_%']:.0%}",
                f"{NAME} in these games": ""
                if None in beside
                else f"{average_ratios(np.array(beside)):.3f}",
                "file": f"`{name}`",
            }
            rows.append((suite, row["best_tuned"], shown))
    return [shown for _, _, shown in sorted(rows, key=lambda each: each[:2])]


def find_known(files: dict[str, Submission]) -> dict[tuple[str, Entry], float]:
    """What auto pays in each game, where a file has it, times the best tuned contender."""
    found = {}
    for results in files.values():
        if NAME in results.names:
            ratios = results.find_ratios()[:, results.names.index(NAME)].tolist()
            keys = [(describe_suite(results), game.entry) for game in results.games]
            found |= dict(zip(keys, ratios, strict=True))
    return found


def write_tables() -> str:
    """The results of all files."""
    files = {file.name: read_submission(file) for file in sorted(FOLDER.glob("*.json"))}
    return "\n".join(markdown(list_rows(files)))


def make(out: Path, page: Path) -> str:
    SCHEMA.write_text(write_schema())
    return write_tables()


if __name__ == "__main__":
    run(__doc__, HEADING, "leaderboard", make)
