"""The options that say where rows come from if not from a file, as several commands have them."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from klazy.base.checks import InvalidInput
from klazy.base.install import make_missing
from klazy.base.spans import parse_date, parse_span
from klazy.cli.terminal import option

if TYPE_CHECKING:
    from klazy.sources import RowSource

Text = str | None
FEED_OPTIONS: dict[str, Any] = {
    "prometheus": Annotated[
        Text, option("The address of a Prometheus server to read rows from.")
    ],
    "query": Annotated[
        list[str] | None,
        option("PromQL; several, each as NAME=QUERY, are columns. May be repeated."),
    ],
    "label": Annotated[Text, option("The label whose values are the columns.")],
    "source": Annotated[Text, option("A source of another package, as NAME:TEXT.")],
    "since": Annotated[
        Text, option("Where to begin: a length of time, such as 14d, or an ISO date.")
    ],
    "step": Annotated[Text, option("The time between two rows, such as 60s.")],
    "settle": Annotated[
        Text, option("The time until a row is complete.", "a quarter of the step, at most 5s")
    ],
    "prometheus_user": Annotated[
        Text,
        option(
            "User and password for Prometheus, as USER:PASSWORD.", envvar="KLAZY_PROMETHEUS_USER"
        ),
    ],
    "prometheus_token": Annotated[
        Text, option("A bearer token for Prometheus.", envvar="KLAZY_PROMETHEUS_TOKEN")
    ],
    "prometheus_ca": Annotated[
        Text,
        option(
            "A file with the certificates to trust.", "the system's", envvar="KLAZY_PROMETHEUS_CA"
        ),
    ],
    "prometheus_cert": Annotated[
        Text, option("A file with your own certificate.", envvar="KLAZY_PROMETHEUS_CERT")
    ],
    "prometheus_key": Annotated[
        Text, option("The file with its key.", envvar="KLAZY_PROMETHEUS_KEY")
    ],
}
# Without --step, rows of a source are a minute apart.
STEP_SECONDS = 60.0


class Feed(NamedTuple):
    """A source, the seconds between two of its rows, and those until a row is complete."""

    source: "RowSource"
    step: float
    settle: float


def open_feed(given: Mapping[str, Any], step: float, columns: Sequence[str] = ()) -> Feed | None:
    """Open the source that options name, if they name one.

    ``step`` is the usual one, in seconds. A query without a name gets that of the only column, if there is one.
    """
    url = given["prometheus"]
    installed = given["source"]
    if url is None and installed is None:
        for name in FEED_OPTIONS:
            # A secret of the environment may be there for others.
            if given[name] and not name.startswith("prometheus_"):
                raise InvalidInput(
                    f"--{name} goes with --prometheus URL or --source NAME:TEXT. Add one, or leave it out."
                )
        return None
    try:
        from klazy.sources import Prometheus, open_installed_source
        from klazy.sources.prometheus import VALUE
    except ModuleNotFoundError as missing:
        raise make_missing("--prometheus", missing.name, "cli,serve") from missing
    if url is not None and installed is not None:
        raise InvalidInput("Choose one of --prometheus and --source.")
    if given["step"] is not None:
        step = parse_span(given["step"], "--step")
    settle = None if given["settle"] is None else parse_span(given["settle"], "--settle")
    if url is None:
        return Feed(open_installed_source(installed or "", step), step, settle or 0.0)
    if not given["query"]:
        raise InvalidInput(
            "--prometheus needs a query. Write --query 'sum(rate(http_requests_total[1m]))'."
        )
    user = None
    if given["prometheus_user"] is not None:
        name, _, password = given["prometheus_user"].partition(":")
        user = (name, password)
    source = Prometheus(
        url,
        given["query"],
        step,
        label=given["label"],
        settle=settle,
        auth=user,
        token=given["prometheus_token"],
        ca=given["prometheus_ca"],
        cert=given["prometheus_cert"],
        key=given["prometheus_key"],
    )
    if len(columns) == 1 and source.names == [VALUE]:
        source.names = list(columns)
    unknown = sorted(set(source.names) - set(columns))
    if columns and unknown:
        raise InvalidInput(
            f"The agent has the columns {list(columns)}, and none named {', '.join(unknown)}."
        )
    return Feed(source, step, source.settle)


def read_since(text: str) -> float:
    """Read ``--since``, a length of time before now or an ISO date, as seconds since 1970; a date without a zone is in UTC."""
    when = read_stamp(text)
    if when is not None:
        return when
    try:
        return time.time() - parse_span(text, "--since")
    except InvalidInput:
        message = f"--since must be a length of time, such as 14d, or an ISO date, got {text}."
        raise InvalidInput(message) from None


def read_stamp(text: str) -> float | None:
    """Read an ISO date as seconds since 1970, in UTC if it has no zone; None if it is none."""
    try:
        return parse_date(text)
    except ValueError:
        return None
