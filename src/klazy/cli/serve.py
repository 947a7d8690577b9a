"""``klazy serve`` and ``klazy tokens``: decisions over HTTP, and who may ask for them."""

import json
from dataclasses import fields
from typing import Annotated, Any

import typer

from klazy.base.checks import InvalidInput
from klazy.base.install import make_missing
from klazy.cli.configfile import Config
from klazy.cli.terminal import Json, option, print_rows, say, take_options
from klazy.live.inspection import format_time
from klazy.live.store import open_store
from klazy.serve.settings import Settings

StoreOption = Annotated[str, option("An SQLite file, or a postgresql:// URL.", True)]
tokens_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _list_settings() -> dict[str, Any]:
    """Return an option for each setting."""
    found: dict[str, Any] = {}
    for setting in fields(Settings):
        # A flag has no opposite.
        names = [f"--{setting.name}"] if setting.type is bool else []
        found[setting.name] = Annotated[setting.type, typer.Option(*names, **setting.metadata)]
    return found


@take_options(_list_settings() | {"config": Config}, vars(Settings()))
def serve(**options: Any) -> None:
    """Serve the agents of a store over HTTP, with a page to look at. Ctrl-C, SIGTERM or SIGHUP stops it.

    \b
    Examples:
      klazy tokens add operator --role admin --store decisions.db
      klazy serve --store decisions.db --host 0.0.0.0 --workers 2
      klazy serve --insecure
      KLAZY_SERVE_WORKERS=2 klazy serve --config klazy.toml
    """  # fmt: skip
    options.pop("config")
    settings = Settings(**options)
    try:
        from klazy.serve.server import serve as run
    except ModuleNotFoundError as missing:
        raise make_missing("serve", missing.name or "", "cli,serve") from missing
    run(settings)


@tokens_app.callback()
def tokens() -> None:
    """Decide who may use the service: each caller has a token with a role."""


@tokens_app.command("add", short_help="Make a token and print it once.")
def add(
    name: Annotated[str, typer.Argument(help="The token's name in lists and logs.")],
    store: StoreOption = Settings.store,
    role: Annotated[str, option("reader, writer or admin.", True)] = "writer",
    agent: Annotated[str | None, option("Allow this agent only.", "all")] = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it. The store keeps only its hash, so it cannot be shown again.

    \b
    Examples:
      klazy tokens add operator --role admin --store decisions.db
      klazy tokens add eu-west-feed --role writer --agent eu-west
    """  # fmt: skip
    from klazy.serve.access import add_token

    with open_store(store) as opened:
        token = add_token(opened, name, role, agent)
    if as_json:
        token = json.dumps({"name": name, "role": role, "agent": agent, "token": token})
    print(token)


@tokens_app.command("list", short_help="List tokens, without their secrets.")
def list_tokens(store: StoreOption = Settings.store, as_json: Json = False) -> None:
    """List the tokens of a store: names, roles and agents.

    \b
    Example:
      klazy tokens list --store decisions.db
    """  # fmt: skip
    with open_store(store, read_only=True) as opened:
        tokens = opened.list_tokens()
    found = []
    for token in tokens:
        created = format_time(token.at, "seconds")
        found.append(
            {"name": token.name, "role": token.role, "agent": token.agent, "created": created}
        )
    print_rows(found, as_json, "No tokens yet.")


@tokens_app.command("revoke", short_help="Revoke a token.")
def revoke(
    name: Annotated[
        str, typer.Argument(help="The name of a token; klazy tokens list shows them.")
    ],
    store: StoreOption = Settings.store,
) -> None:
    """Revoke a token. Within two seconds no worker accepts it.

    \b
    Example:
      klazy tokens revoke eu-west-feed --store decisions.db
    """  # fmt: skip
    with open_store(store) as opened:
        there = opened.remove_token(name)
    if not there:
        raise InvalidInput(
            f"No token named {name!r}. klazy tokens list --store {store} lists the existing ones."
        )
    say(f"{name}: revoked.")
