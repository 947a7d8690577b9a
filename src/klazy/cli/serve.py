"""``klazy serve`` and ``klazy tokens``: decisions over HTTP, and who may ask for them."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from klazy.base.checks import InvalidInput
from klazy.base.install import make_missing
from klazy.cli.terminal import Json, print_table, say

if TYPE_CHECKING:
    from klazy.live.store import Store

StoreOption = Annotated[str, typer.Option("--store", help="An SQLite file, or a postgresql:// URL.")]
tokens_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def serve(
    store: StoreOption = "decisions.db",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = 8321,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Number of processes that serve.")] = 1,
    sync: Annotated[
        str,
        typer.Option(help="always: a round survives a power loss. batch: it survives a kill, and is faster."),
    ] = "always",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Ask for no tokens; on a loopback address only.")
    ] = False,
    rate: Annotated[
        float, typer.Option(min=1.0, help="Maximum requests per second, per token and worker.")
    ] = 5000.0,
    body: Annotated[int, typer.Option(min=1000, help="Maximum bytes in a request.")] = 4 << 20,
    dim: Annotated[int, typer.Option(min=1, help="Maximum coordinates of an agent.")] = 10_000,
    numbers: Annotated[
        int, typer.Option(min=1, help="Maximum numbers in an agent's state: windows times coordinates.")
    ] = 200_000,
    agents: Annotated[int, typer.Option(min=1, help="Maximum agents in the store.")] = 10_000,
    patience: Annotated[
        float, typer.Option(min=0.1, help="Seconds until a request must be complete.")
    ] = 10.0,
    budget: Annotated[
        float, typer.Option(min=0.1, help="Maximum seconds of processor time for the rounds of a request.")
    ] = 30.0,
    proxy: Annotated[
        str,
        typer.Option(
            envvar="FORWARDED_ALLOW_IPS",
            help="Addresses of proxies, separated by commas, whose X-Forwarded headers say who asks.",
            show_default="none",
        ),
    ] = "",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve the agents of a store over HTTP, with a page to look at. Ctrl-C, SIGTERM or SIGHUP stops it.

    \b
    Examples:
      klazy tokens add operator --role admin --store decisions.db
      klazy serve --store decisions.db --host 0.0.0.0 --workers 2
      klazy serve --insecure
    """  # fmt: skip
    if log_level not in ("debug", "info", "warning", "error"):
        raise InvalidInput(f"--log-level must be debug, info, warning or error, got {log_level}.")
    try:
        from klazy.serve.server import serve as run
        from klazy.serve.settings import Settings
    except ModuleNotFoundError as missing:
        raise make_missing("serve", missing.name or "", "cli,serve") from missing
    settings = Settings(
        store=store,
        host=host,
        port=port,
        workers=workers,
        sync=sync,
        insecure=insecure,
        rate=rate,
        body=body,
        body_seconds=patience,
        header_seconds=patience,
        dim=dim,
        numbers=numbers,
        agents=agents,
        budget=budget,
        proxy=proxy,
        log_level=log_level,
    )
    run(settings)


def _open(store: str, *, read_only: bool = False) -> "Store":
    from klazy.live.store import open_store

    return open_store(store, read_only=read_only)


@tokens_app.callback()
def tokens() -> None:
    """Decide who may use the service: each caller has a token with a role."""


@tokens_app.command("add", short_help="Make a token and print it once.")
def add(
    name: Annotated[str, typer.Argument(help="The token's name in lists and logs.")],
    store: StoreOption = "decisions.db",
    role: Annotated[str, typer.Option(help="reader, writer or admin.")] = "writer",
    agent: Annotated[str | None, typer.Option(help="Allow this agent only.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it. The store keeps only its hash, so it cannot be shown again.

    \b
    Examples:
      klazy tokens add operator --role admin --store decisions.db
      klazy tokens add eu-west-feed --role writer --agent eu-west
    """  # fmt: skip
    from klazy.serve.access import add_token

    with _open(store) as opened:
        token = add_token(opened, name, role, agent)
    if as_json:
        token = json.dumps({"name": name, "role": role, "agent": agent, "token": token})
    print(token)


@tokens_app.command("list", short_help="List tokens, without their secrets.")
def list_tokens(store: StoreOption = "decisions.db", as_json: Json = False) -> None:
    """List the tokens of a store: names, roles and agents.

    \b
    Example:
      klazy tokens list --store decisions.db
    """  # fmt: skip
    from klazy.live.inspection import format_time

    with _open(store, read_only=True) as opened:
        tokens = opened.list_tokens()
    found = []
    for token in tokens:
        created = format_time(token.at, "seconds")
        found.append({"name": token.name, "role": token.role, "agent": token.agent, "created": created})
    if as_json:
        print(json.dumps(found))
    elif found:
        print_table(found)
    else:
        print("No tokens yet.")


@tokens_app.command("revoke", short_help="Revoke a token.")
def revoke(
    name: Annotated[str, typer.Argument(help="The name of a token; klazy tokens list shows them.")],
    store: StoreOption = "decisions.db",
) -> None:
    """Revoke a token. Within two seconds no worker accepts it.

    \b
    Example:
      klazy tokens revoke eu-west-feed --store decisions.db
    """  # fmt: skip
    with _open(store) as opened:
        there = opened.remove_token(name)
    if not there:
        raise InvalidInput(
            f"No token named {name!r}. klazy tokens list --store {store} lists the existing ones."
        )
    say(f"{name}: revoked.")
