"""The command, and the only modules that print."""

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import klazy
from klazy.base.options import write_as_flags
from klazy.base.own import OWN_MODULES, import_own_modules
from klazy.cli import (
    agents,
    arena,
    configfile,
    doctor,
    live,
    replay,
    reproduce,
    serve,
    sweep,
    warm,
)

# Every command with its summary, in the order and under the headings of the help.
GROUPS: dict[str, dict[str, tuple[Any, str]]] = {
    "Start with one of these": {
        "replay": (replay.replay, "See what you would have saved on a file of past costs."),
        "live": (live.live, "Decide row by row: rows in, decisions out."),
        "arena": (arena.app, "Rank every learner, and yours, over a suite of games."),
        "reproduce": (reproduce.reproduce, "Make every figure and table of the paper again."),
    },
    "Run decisions": {
        "serve": (serve.serve, "Serve agents over HTTP, with a page."),
        "config": (configfile.app, "Check a configuration file."),
        "tokens": (serve.tokens_app, "Decide who may use the service."),
        "agents": (agents.agents, "List the agents of a store."),
        "history": (agents.history, "Print or draw the rounds of an agent."),
        "check": (agents.check, "Replay every round of a store and compare."),
        "backup": (agents.backup, "Copy a store while its agents run."),
    },
    "Run studies": {
        "sweep": (sweep.app, "Run a study of many runs, here or on a cluster."),
        "list": (
            reproduce.list_parts,
            "List the parts of the reproduction, and learners of other packages.",
        ),
    },
    "Look after this installation": {
        "doctor": (
            doctor.doctor,
            "Show what is installed, what is missing, and where kernels are stored.",
        ),
        "warm": (warm.warm, "Compile kernels ahead of time."),
    },
}
EXAMPLES = (
    "klazy replay load.csv --domain box --upper 100 --costs pinball --short 4 --html report.html",
    "klazy replay load.csv --domain box --upper 100 --costs pinball --short 4 --emit agent.json",
    "klazy live agent.json --state decisions.db < today.csv",
    "klazy arena --quick",
    "klazy reproduce --quick",
)
IMPORT = "Modules of your own, separated by commas, whose classes agents and files may name; their code is run."


class _Grouped(TyperGroup):
    """Help text that lists commands by purpose, with examples, before the options."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        super().format_help_text(ctx, formatter)
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])
        with formatter.section("Examples"):
            for example in EXAMPLES:
                formatter.write(f"  {example}\n")
        formatter.write_paragraph()
        formatter.write_text(
            "`klazy COMMAND --help` explains a command, with examples of its own."
        )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write nothing: the commands are listed before the options."""


app = typer.Typer(
    cls=_Grouped,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in GROUPS.values():
    for name, (command, _) in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"klazy {klazy.__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    own_modules: Annotated[
        str, typer.Option("--import", help=IMPORT, envvar=OWN_MODULES, show_default=False)
    ] = "",
) -> None:
    """Decide again and again when changing your mind costs something.

    klazy replays past costs to see what a steadier decision would have saved, and runs that decision live.
    """
    context.with_resource(write_as_flags())
    if own_modules:
        os.environ[OWN_MODULES] = own_modules
        import_own_modules()
