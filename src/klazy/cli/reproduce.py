"""``klazy list`` and ``klazy reproduce``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klazy.base.checks import InvalidInput
from klazy.base.files import lock_file
from klazy.base.parallel import WorkerLost
from klazy.base.progress import show_progress
from klazy.cli.terminal import (
    Jobs,
    Json,
    flag,
    make_folder,
    option,
    print_table,
    read_command_line,
    say,
)

# Other commands start faster without importing the paper.
if TYPE_CHECKING:
    from klazy.studies.paper import PaperSettings

DEFAULT_OUT = Path("reproduction")
QUICK_HELP = (
    "A first look: phases ten times shorter, so not the paper's numbers; extras only if named. Takes about 25 "
    "seconds of processor time at first, half of it to compile kernels, which are cached."
)
JSON_HELP = "Print the experiments' totals as one JSON object and nothing else; no figures unless --out is given."


def list_parts(as_json: Json = False) -> None:
    """List the parts of the reproduction, and the learners that other installed packages offer.

    \b
    Example:
      klazy list
    """
    from klazy.studies.installed import list_installed
    from klazy.studies.paper.reproduce import PARTS

    learners = [{"name": name, "code": code} for name, code in list_installed().items()]
    rows = [
        {"name": name, "kind": part.kind, "about": part.about} for name, part in PARTS.items()
    ]
    if as_json:
        print(json.dumps({"parts": rows, "learners": learners}, indent=1))
        return
    print_table(rows)
    if learners:
        print(
            "\nLearners of other packages, for `klazy arena --learner NAME` and as the rule of a study:"
        )
        print_table(learners)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Parts to make; `klazy list` names them. Default: all."),
    ] = None,
    preset: Annotated[
        str | None,
        option(
            "paper: as printed. authors: as the published curves were made. Default: both; with --json: paper."
        ),
    ] = None,
    out: Annotated[
        Path | None, option("Folder for figures, tables and report.html.", str(DEFAULT_OUT))
    ] = None,
    seed: Annotated[
        int,
        option("Seed of the stochastic sequences and of all draws.", True, min=0, max=2**32 - 1),
    ] = 42,
    seeds: Annotated[
        int | None,
        option("Number of sequences in the part `seeds`. Default: 20, with --quick 5.", min=2),
    ] = None,
    quick: Annotated[bool, flag("--quick", QUICK_HELP)] = False,
    jobs: Jobs = None,
    as_json: Annotated[bool, flag("--json", JSON_HELP)] = False,
) -> None:
    """Reproduce every figure and table of the paper, with a report on which claims hold.

    Parts that are in the folder already, made from the same inputs, are not made again.

    \b
    Examples:
      klazy reproduce
      klazy reproduce stochastic seeds --seeds 50 --out here
      klazy reproduce worst-case --preset authors --json
    """  # fmt: skip
    from klazy.studies.paper import EXPERIMENTS, PRESETS, PaperSettings
    from klazy.studies.paper.reproduce import (
        FIRST_LOOK,
        compute_results,
        group_results,
        select_names,
    )

    settings = PaperSettings(preset or PRESETS[0], seed, seeds or (5 if quick else 20), quick)
    wanted = names or []
    if as_json:
        if out is None:
            found = compute_results(wanted, settings.preset, settings)
        else:
            chosen = select_names(wanted, EXPERIMENTS, "experiment")
            found, _ = _make_report(chosen, (settings.preset,), settings, out, jobs)
        print(json.dumps(group_results(settings.preset, found)))
        return
    if quick and not names:
        wanted = FIRST_LOOK
    presets = (preset,) if preset else PRESETS
    found, page = _make_report(wanted, presets, settings, out or DEFAULT_OUT, jobs)
    _print_results(found, page, bool(names), quick)


def _make_report(
    names: list[str],
    presets: Sequence[str],
    settings: "PaperSettings",
    out: Path,
    workers: int | None,
) -> tuple[list[dict[str, Any]], Path]:
    """Make the named parts, and a report on all parts in the folder; return their rows, and the report's path."""
    from klazy.studies.paper import PRESETS, report
    from klazy.studies.paper.reproduce import PARTS, list_jobs, load_sections, run_jobs

    made = list_jobs(names, presets, settings, out)
    make_folder(out)
    try:
        lock = lock_file(out / ".lock", wait=False)
    except BlockingIOError:
        message = (
            f"Another process writes to {out}. Wait for it, or choose another folder with --out."
        )
        raise InvalidInput(message) from None
    seconds = sum(PARTS[job.name].seconds for job in made)
    spent = 0.0
    with lock, show_progress("reproducing") as report_progress:
        try:
            for done in run_jobs(made, workers):
                spent += PARTS[done.name].seconds
                report_progress(spent / seconds, f"{done.name} done")
        except WorkerLost as lost:
            message = (
                f"A worker process ended: {lost}. Use fewer --jobs; finished parts are stored."
            )
            raise InvalidInput(message) from None
        present = load_sections(list_jobs([], PRESETS, settings, out))
        rows = report.collect_results(present[job.name, job.settings.preset] for job in made)
        return rows, report.write_report(out, present, settings, read_command_line())


def _print_results(rows: Sequence[dict[str, Any]], page: Path, named: bool, quick: bool) -> None:
    """Print the totals, if parts were named, the printed gains, and the report's path."""
    from klazy.studies.paper import report

    if quick:
        print(report.QUICK)
    if named and rows:
        shared = ("preset", "experiment")
        print_table(
            [{key: row[key] for key in shared} | report.select_columns(row) for row in rows]
        )
    claims = report.check_claims(rows, quick)
    if claims:
        print("What the paper's better learners save, in per cent, as printed and as found:")
        print_table(claims)
    say(str(page))
