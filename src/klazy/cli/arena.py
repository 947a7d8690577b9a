"""``klazy arena``: every learner and rule over one suite of games, and yours among them."""

import json
import secrets
from pathlib import Path
from typing import Annotated

import typer

from klazy.base.checks import InvalidInput
from klazy.base.files import write_durably
from klazy.base.parallel import WorkerLost
from klazy.base.progress import show_progress
from klazy.base.tables import write_for_papers
from klazy.cli.terminal import (
    Jobs,
    Json,
    PlayByDefault,
    Trust,
    Unnamed,
    explain_os_error,
    flag,
    make_folder,
    option,
    print_table,
    read_command_line,
    say,
)

ARENA_FOLDER = Path("arena")
# The first seed on which no learner was designed.
FRESH = 100
# Games that are played again.
SAMPLE = 5
app = typer.Typer(cls=PlayByDefault, rich_markup_mode=None)


@app.callback()
def arena() -> None:
    """Rank all learners over a fixed suite of games, against the certified optimum."""


@app.command("play", cls=Unnamed)
def play_arena(
    quick: Annotated[
        bool, flag("--quick", "Play fewer and shorter games, in about a minute.")
    ] = False,
    fresh: Annotated[
        int | None,
        option("Draw new synthetic games from this seed on.", min=FRESH, max=2**32 - 2),
    ] = None,
    learner: Annotated[
        list[str] | None,
        option("Add a learner: a name of `klazy list`, or module:Class with --trust."),
    ] = None,
    trust: Trust = False,
    only: Annotated[
        list[str] | None, option("Play this family of games; repeatable.", "all")
    ] = None,
    every: Annotated[int, option("Play each so many-th game alone.", "all of them", min=1)] = 1,
    suite: Annotated[
        str | None,
        option("Play this version of the suite: 1 has fewer games and contenders.", "newest"),
    ] = None,
    submit: Annotated[
        Path | None,
        option("Write a results file here: of your learners, or of all if you add none."),
    ] = None,
    out: Annotated[
        Path, option("Folder for results and the page arena.html.", True)
    ] = ARENA_FOLDER,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Rank all learners over a fixed suite of games, against the certified optimum.

    You can stop it at any time and start it again: finished games are stored.

    \b
    Examples:
      klazy arena --quick
      klazy arena --fresh 1000
      klazy arena --quick --learner mine:Mine --trust
      klazy arena --fresh 7000 --learner mine:Mine --trust --submit mine.json
      klazy arena verify mine.json --trust
    """  # fmt: skip
    from klazy.show.style import make_pdf
    from klazy.studies.arena import SUITE_VERSION, play_suite
    from klazy.studies.arena.page import (
        ARENA_FIGURES,
        describe_ranking,
        list_tables,
        make_arena_page,
        warn,
    )
    from klazy.studies.arena.submission import make_submission
    from klazy.studies.arena.table import shorten_ranking
    from klazy.studies.contenders import import_own

    own = import_own(learner or [], trust)
    if submit is not None:
        make_folder(submit.parent)
    seed = 0 if fresh is None else fresh
    try:
        found = play_suite(
            own,
            seed=seed,
            quick=quick,
            only=only or (),
            every=every,
            out=out,
            jobs=jobs,
            suite=suite or SUITE_VERSION,
        )
    except WorkerLost as lost:
        message = f"A worker died ({lost}). Retry with fewer --jobs; finished games are stored."
        raise InvalidInput(message) from None
    if submit is not None:
        results = make_submission(found, learner or [])
        with explain_os_error(f"write {submit}"):
            write_durably(submit, results.write().encode())
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    make_folder(out)
    page = out / "arena.html"
    write_durably(page, make_arena_page(found, read_command_line()).encode())
    figures = {name: make_pdf(found.plot(name)) for name in ARENA_FIGURES}
    with explain_os_error(f"write to {out}"):
        write_for_papers(out, list_tables(found), figures)
    say("\n".join([*warn(found), *describe_ranking(found)]))
    print()
    print_table(shorten_ranking(found.rank()))
    for name, why in found.missing.items():
        say(f"Not played: {name}, {why}")
    say(str(page))
    if submit is not None:
        say(f"{submit}; `klazy arena verify {submit}` plays some of its games again")


@app.command("verify")
def verify_results(
    file: Annotated[Path, typer.Argument(help="A file of `klazy arena --submit`.")],
    sample: Annotated[int, option("How many of its games to play again.", True, min=1)] = SAMPLE,
    draw: Annotated[
        int | None, option("The seed that the games are drawn with.", "a new one", min=0)
    ] = None,
    trust: Trust = False,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Play some games of a results file again, and compare every figure.

    Each game is played as by `klazy arena`: the optimum, the best tuned contender and each entrant are found anew. The status
    is 1 if a figure differs.

    \b
    Examples:
      klazy arena verify results.json
      klazy arena verify results.json --sample 20 --draw 3
      klazy arena verify mine.json --trust
    """  # fmt: skip
    from klazy.studies.arena.submission import read_submission, replay_sample

    claimed = read_submission(file)
    chosen = secrets.randbelow(10_000) if draw is None else draw
    with show_progress("playing games") as report_progress:
        games, differences = replay_sample(
            claimed,
            sample,
            chosen,
            trust=trust,
            jobs=jobs,
            progress=lambda done, total: report_progress(done / total, f"{done} of {total}"),
        )
    if as_json:
        told = {
            "draw": chosen,
            "games": [game.name for game in games],
            "differences": differences,
        }
        print(json.dumps(told))
    else:
        share = f"{len(claimed.games)} of the {len(claimed.list_suite())} games"
        say(f"{', '.join(claimed.names)}: {share} of suite {claimed.suite}, seed {claimed.seed}.")
        say(f"Played again (--draw {chosen}):")
        for game in games:
            say(f"  {game.name}")
        if differences:
            print_table(differences)
        else:
            say("All figures are as claimed.")
    if differences:
        raise typer.Exit(1)
