"""The command, and the only modules that print."""

from typing import Annotated

import typer

import klazy
from klazy.cli import agents, arena, doctor, live, replay, reproduce, serve, sweep, warm

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("reproduce", short_help="Make the paper's figures and tables, and an honest report.")(
    reproduce.reproduce
)
app.command("list", short_help="Name every part of the reproduction.")(reproduce.list_parts)
app.command("replay", short_help="Tell what laziness would have saved on your own trace.")(replay.replay)
app.command("live", short_help="Decide live: rows in, decisions out.")(live.live)
app.command("agents", short_help="List the agents of a store.")(agents.agents)
app.command("history", short_help="Print or draw the rounds of an agent.")(agents.history)
app.command("check", short_help="Play every agent of a store again, and compare.")(agents.check)
app.command("backup", short_help="Copy a store while its agents go on.")(agents.backup)
app.command("migrate", short_help="Bring an agent of an older klazy into a store.")(agents.migrate)
app.command("serve", short_help="Serve agents over HTTP, with a page.")(serve.serve)
app.add_typer(serve.tokens_app, name="tokens", short_help="Say who may use the service.")
app.add_typer(sweep.app, name="sweep", short_help="Play a study of many runs, here or on a cluster.")
app.command("arena", short_help="Rank all learners, and yours, over a suite of games.")(arena.arena)
app.command("doctor", short_help="Say what is installed, missing, and where kernels are kept.")(doctor.doctor)
app.command("warm", short_help="Compile kernels before somebody waits for them.")(warm.warm)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"klazy {klazy.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Smoothed online learning: decisions that should hold still, because changing one's mind costs something."""
