"""``klazy sweep``: play a study, draw it."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from klazy.base.checks import InvalidInput, one_of
from klazy.base.files import write_durably
from klazy.cli.terminal import (
    Jobs,
    Json,
    PlayByDefault,
    Trust,
    Unnamed,
    flag,
    make_folder,
    option,
    print_table,
    say,
)

if TYPE_CHECKING:
    from klazy.studies.sweep.execute import Sweep

SHOWN_CELLS = 40  # in a table; if there are more, it shows the best of each learner


RelativeTo = Annotated[
    str | None, option("A learner: show how much more or less the others have, in per cent.")
]
HeldOut = Annotated[
    bool,
    flag(
        "--held-out", "Choose the best cells on even seeds, and show their results on odd seeds."
    ),
]


app = typer.Typer(cls=PlayByDefault, rich_markup_mode=None)


@app.callback()
def sweep() -> None:
    """Run a study of many runs, on this machine or a cluster, and draw it."""


@app.command("play", cls=Unnamed)
def play_study(
    study: Annotated[
        Path | None, typer.Argument(help="A TOML file, see --init.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, option("Folder for the results.", "the study's file, without .toml")
    ] = None,
    init: Annotated[
        bool, flag("--init", "Print an example study with every key explained.")
    ] = False,
    backend: Annotated[str, option("local, dask, ray or spark.", True)] = "local",
    address: Annotated[str | None, option("Address of the cluster's scheduler.")] = None,
    jobs: Jobs = None,
    device: Annotated[
        str | None,
        option(
            "cpu, cuda (a GPU), cuda:0,1 (several), or auto (a GPU if there is one).",
            "the study's",
        ),
    ] = None,
    seed: Annotated[int | None, option("Use this seed instead of the study's.", min=0)] = None,
    retry_failed: Annotated[
        bool, flag("--retry-failed", "Repeat runs that failed before.")
    ] = False,
    relative_to: RelativeTo = None,
    held_out: HeldOut = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Run a study: every learner, at every value of its grid, on every sequence, at every move cost.

    You can stop it at any moment and start it again: no run is played twice. `klazy sweep plot --help` explains how to draw
    the results.

    \b
    Examples:
      klazy sweep --init > study.toml
      klazy sweep study.toml --out results
      klazy sweep study.toml --out results --device auto
      klazy sweep study.toml --out results --backend dask --address tcp://scheduler:8786
      klazy sweep plot results
    """  # fmt: skip
    from klazy.studies.sweep.study import Study, read_example
    from klazy.studies.sweep.tasks import check_held_out

    if init:
        print(read_example(), end="")
        return
    if study is None:
        raise InvalidInput(
            "Name the file of a study. `klazy sweep --init > study.toml` makes one."
        )
    chosen = Study.read(study, trust=trust)
    names = tuple(spec.name for spec in chosen.learners)
    if relative_to is not None:
        one_of(relative_to, "--relative-to", names)
    if held_out:
        check_held_out(chosen)
    if seed is not None:
        chosen = Study(**chosen.to_dict() | {"seed": seed})
    folder = out or study.with_suffix("")
    from klazy.studies.sweep import sweep as play

    found = play(
        chosen,
        folder,
        backend=backend,
        address=address,
        jobs=jobs,
        retry_failed=retry_failed,
        device=device,
    )
    if as_json:
        print(json.dumps(found.counts()))
    else:
        _print_sweep(found, folder, relative_to, held_out)
    if found.failed == found.runs:
        raise InvalidInput(
            f"All {found.runs} runs failed, the first with {found.errors['error'][0]}"
        )


def _print_sweep(found: "Sweep", folder: Path, relative_to: str | None, held_out: bool) -> None:
    """Print the best cells or all, failures, the speed, and where the results are."""
    from klazy.studies.sweep.frame import summarize_cells

    metric = found.study.metrics[0]
    if found.failed < found.runs:
        cells = found.cells(relative_to=relative_to, held_out=held_out)
        write_durably(folder / "cells.csv", cells.write_csv().encode())
        table = summarize_cells(cells, SHOWN_CELLS)
        less = f", in per cent more than {relative_to}'s" if relative_to else ""
        chosen = " on the odd seeds, best cells chosen by the even ones" if held_out else ""
        say(
            f"{found.study.name}: {metric.replace('_', ' ')}{less}, mean and 95 % interval of each cell's runs{chosen}"
        )
        if len(table) < len(cells):
            say(
                f"The best cell of each learner and setting, of {len(cells)}; all are in {folder / 'cells.csv'}"
            )
        print_table(table)
    for key, error in found.errors.head(3).iter_rows():
        say(f"failed: {key[:8]} {error}")
    rate = found.learner_rounds / found.seconds
    print(
        f"{found.runs} runs: {found.computed} computed, {found.reused} reused, {found.failed} failed, {found.seconds:.1f} s"
    )
    if found.computed:
        print(f"{rate / 1e6:.1f} million learner-rounds per second, on {found.device}")
    say(
        f"{folder}; `klazy sweep plot {folder}` draws it, klazy.load_sweep({str(folder)!r}) reads it"
    )


@app.command("plot")
def plot_study(
    folder: Annotated[Path, typer.Argument(help="The folder of a sweep.")],
    metric: Annotated[str | None, option("What to draw.", "the study's first")] = None,
    x: Annotated[str | None, option("A parameter to draw lines over.", "all that vary")] = None,
    y: Annotated[str | None, option("A second parameter, for a heat map.")] = None,
    relative_to: RelativeTo = None,
    held_out: HeldOut = False,
    out: Annotated[Path | None, option("Folder for the figures.", "FOLDER/figures")] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Draw a sweep: heat maps over two parameters with the best cell marked, lines with 95 % bands over one.

    \b
    Examples:
      klazy sweep plot results
      klazy sweep plot results --x k --y sigma --metric switching
    """  # fmt: skip
    from klazy import show
    from klazy.studies.sweep.drawing import draw_cells
    from klazy.studies.sweep.execute import load_study

    _, runs = load_study(folder, trust=trust)
    shown = metric or runs.metric
    cells = runs.cells(shown, relative_to=relative_to, held_out=held_out)
    label = shown.replace("_", " ")
    if relative_to is not None:
        label += f", % more than {relative_to}'s"
    into = out or folder / "figures"
    make_folder(into)
    files = []
    with tempfile.TemporaryDirectory(prefix=".figures-", dir=into) as fresh:
        for name, figure in draw_cells(cells, label, x, y):
            show.write_figure(figure, Path(fresh, name))
            files.append(str(into / f"{name}.png"))
        # A link in its place is replaced, and its target stays as it is.
        for file in Path(fresh).iterdir():
            file.replace(into / file.name)
    if as_json:
        print(json.dumps({"figures": files}))
    else:
        say("\n".join(files) or "Nothing varies, so there is nothing to draw.")
