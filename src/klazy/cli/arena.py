"""``klazy arena``: every learner and rule over one suite of games, and yours among them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from klazy.base.checks import InvalidInput
from klazy.base.files import write_durably
from klazy.base.parallel import WorkerLost
from klazy.cli.terminal import Json, make_importable, print_table, read_command_line, say, show_progress

ARENA_FOLDER = Path("arena")
FRESH = 100  # the first seed on which no learner was designed


def arena(
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look in a minute: fewer and shorter games.")
    ] = False,
    fresh: Annotated[
        int | None,
        typer.Option(
            min=FRESH,
            max=2**32 - 2,
            help="Draw new synthetic games, from this seed on; seeds below 100 were used to design learners.",
            show_default=False,
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help="A learner that an installed package offers (`klazy list`), or your own as module:Class or module:function, "
            "also from this folder, which needs --trust."
        ),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import and call your own learners: their code can do anything.")
    ] = False,
    only: Annotated[list[str] | None, typer.Option(help="Play one family of games; may be repeated.")] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for finished games and the page arena.html.")
    ] = ARENA_FOLDER,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of processes; 1 uses none but this one.", show_default="as many as cores"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank every learner and rule over a fixed suite of games, against the certified optimum. Add your own.

    You can stop it at any moment and start it again: finished games are stored.

    \b
    Examples:
      klazy arena --quick
      klazy arena --fresh 1000
      klazy arena --quick --learner mine:Mine --trust
    """  # fmt: skip
    from klazy.studies.arena import play_suite
    from klazy.studies.arena.page import describe_ranking, make_arena_page, warn
    from klazy.studies.arena.table import shorten_ranking
    from klazy.studies.contenders import import_own

    if learner and trust:
        make_importable()
    own = import_own(learner or [], trust)
    seed = 0 if fresh is None else fresh
    with show_progress() as bar:
        task = bar.add_task("playing", total=None)
        try:
            found = play_suite(
                own,
                seed=seed,
                quick=quick,
                only=only or (),
                out=out,
                jobs=jobs,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        except WorkerLost as lost:
            raise InvalidInput(
                f"a worker died ({lost}); retry with fewer --jobs. Finished games are stored."
            ) from None
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    out.mkdir(parents=True, exist_ok=True)
    page = out / "arena.html"
    write_durably(page, make_arena_page(found, read_command_line()).encode())
    say("\n".join([*warn(found), *describe_ranking(found)]))
    print()
    print_table(shorten_ranking(found.rank()))
    for name, why in found.missing.items():
        say(f"not played: {name}, {why}")
    say(str(page))
