"""``klazy arena``: every learner and rule over one suite of games, and yours among them."""

import json
from pathlib import Path
from typing import Annotated

from klazy.base.checks import InvalidInput
from klazy.base.files import write_durably
from klazy.base.parallel import WorkerLost
from klazy.base.tables import write_for_papers
from klazy.cli.terminal import (
    Jobs,
    Json,
    Trust,
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


def arena(
    quick: Annotated[bool, flag("--quick", "Play fewer and shorter games, in about a minute.")] = False,
    fresh: Annotated[
        int | None, option("Draw new synthetic games from this seed on.", min=FRESH, max=2**32 - 2)
    ] = None,
    learner: Annotated[
        list[str] | None, option("Add a learner: a name of `klazy list`, or module:Class with --trust.")
    ] = None,
    trust: Trust = False,
    only: Annotated[list[str] | None, option("Play this family of games; repeatable.", "all")] = None,
    suite: Annotated[
        str | None, option("Play this version of the suite: 1 has fewer contenders.", "newest")
    ] = None,
    out: Annotated[Path, option("Folder for results and the page arena.html.", True)] = ARENA_FOLDER,
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
    """  # fmt: skip
    from klazy.show.style import make_pdf
    from klazy.studies.arena import SUITE_VERSION, play_suite
    from klazy.studies.arena.page import ARENA_FIGURES, describe_ranking, list_tables, make_arena_page, warn
    from klazy.studies.arena.table import shorten_ranking
    from klazy.studies.contenders import import_own

    own = import_own(learner or [], trust)
    seed = 0 if fresh is None else fresh
    try:
        found = play_suite(
            own,
            seed=seed,
            quick=quick,
            only=only or (),
            out=out,
            jobs=jobs,
            suite=suite or SUITE_VERSION,
        )
    except WorkerLost as lost:
        message = f"A worker died ({lost}). Retry with fewer --jobs; finished games are stored."
        raise InvalidInput(message) from None
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
