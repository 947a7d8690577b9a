"""The command, and the only module that prints."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import klazy
from klazy import report
from klazy.experiments.definitions import EXPERIMENTS, PRESETS, Settings
from klazy.experiments.reproduce import PARTS, Job, as_object, checked, jobs_of, results, run_jobs

OUT = Path("reproduction")
app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"klazy {klazy.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Smoothed online learning: decisions that should hold still, because changing one's mind costs something."""


@app.command("list")
def list_parts(as_json: Json = False) -> None:
    """Name every part of the reproduction.

    \b
    Example:
      klazy list
    """
    rows = [{"name": name, "kind": part.kind, "about": part.about} for name, part in PARTS.items()]
    print(json.dumps({"parts": rows}, indent=1)) if as_json else _print_table(rows)


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Parts to make, see `klazy list`; all by default.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="paper: as printed. authors: as the published curves were made. Default: both; with --json paper."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where figures, tables and report.html go.", show_default=str(OUT))] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the stochastic sequences and all draws.")] = 42,
    seeds: Annotated[int, typer.Option(min=2, help="How many sequences the seeds part draws.")] = 20,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look in seconds: phases ten times shorter, not the paper's numbers.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores by default.")] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the experiments' totals as one JSON object and nothing else; figures are made only with --out.",
        ),
    ] = False,
) -> None:
    """Make every figure and table of the paper, and what an honest report must also show.

    What is on disk already and was made from the same inputs is not made again.

    \b
    Examples:
      klazy reproduce
      klazy reproduce stochastic seeds --seeds 50 --out here
      klazy reproduce worst-case --preset authors --json
    """  # fmt: skip
    settings = Settings(preset or "paper", seed, seeds, quick)
    if as_json and out is None:
        found = results(names or [], settings.preset, settings)
    else:
        wanted = (
            (checked(names or [], EXPERIMENTS), (settings.preset,))
            if as_json
            else (names or [], (preset,) if preset else PRESETS)
        )
        made = jobs_of(*wanted, settings, out or OUT)
        _run(made, jobs)
        found = report.results_of([(job, job.stored()) for job in made])
        page = report.write(out or OUT, made, report.command_line())
        if not as_json:
            _print_results(found, page, bool(names))
    if as_json:
        print(json.dumps(as_object(settings.preset, found)))


def _run(made: Sequence[Job], workers: int | None) -> None:
    """Make the jobs, with a bar on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task("reproducing", total=sum(PARTS[job.name].seconds for job in made))
        for done in run_jobs(made, workers):
            progress.update(bar, advance=PARTS[done.name].seconds, description=f"{done.name} done")


def _print_results(rows: Sequence[dict[str, Any]], page: Path, some: bool) -> None:
    """The claims; for parts asked for by name their totals before; at last the report's path."""
    if some and rows:
        hidden = ("T", "hitting", "comparator_switching", "comparator_hitting")
        _print_table([{key: value for key, value in row.items() if key not in hidden} for row in rows])
    claims = report.claims_of(rows)
    if claims:
        print("What the paper's better learners save, in per cent, as printed and as found:")
        _print_table(claims)
    print(page)


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    """On a terminal as wide as that; piped, as wide as it must be."""
    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(name.replace("_", " "), justify="right" if isinstance(value, float) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row.values()))
    if not console.is_terminal:
        console.width = 400
    console.print(table)
