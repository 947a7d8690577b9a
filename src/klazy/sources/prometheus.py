"""Rows of Prometheus, and of what speaks its language: Thanos, Mimir, VictoriaMetrics."""

import json
import math
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx

from klazy.base.checks import InvalidInput, positive
from klazy.sources.base import SourceAway, TimedRow

# Steps in a request; Prometheus allows 11 000.
STEPS_PER_REQUEST = 10_000
# Scrapes arrive late: a row is asked for after this share of a step, and at most so many seconds.
SETTLE_SHARE = 0.25
SETTLE_SECONDS = 5.0
# Prometheus itself gives up on a query after two minutes.
TIMEOUT = httpx.Timeout(10.0, read=150.0)
# The column of a single query without a name.
VALUE = "value"
# Prometheus answers so where the query can never be right.
BAD_QUERY = 400
# Time stamps are compared in milliseconds, which is what Prometheus has.
MILLI = 1000
_NAMED = re.compile(r"\s*(\w+)\s*=(?![=~])\s*(.+)", re.DOTALL)


class Prometheus:
    """Rows of a Prometheus server: the values of queries at multiples of a step.

    Parameters
    ----------
    url : str
        Its address, such as ``"http://localhost:9090"``.
    queries : sequence of str
        PromQL. Several are columns, each with its name: ``"eu=sum(rate(http_requests_total{region='eu'}[1m]))"``.
    step : float
        Seconds between two rows.
    label : str, optional
        The label whose values are the columns, for a single query that gives several series.
    settle : float, optional
        Seconds after a time stamp until its row is complete, as scrapes arrive late. Default: a quarter of the step, at most 5.
    auth : tuple of str, optional
        User and password.
    token : str, optional
        A bearer token.
    ca : str, optional
        A file with the certificates that the server's is checked against. Default: those of the system.
    cert : str, optional
        A file with a certificate of one's own.
    key : str, optional
        The file with its key, if it is not in the same file.

    Raises
    ------
    ValueError
        If queries have no names, or two the same.

    Examples
    --------
    >>> Prometheus("http://localhost:9090", ["sum(rate(http_requests_total[1m]))"], step=60.0).names
    ['value']
    """

    def __init__(
        self,
        url: str,
        queries: Sequence[str],
        step: float = 60.0,
        *,
        label: str | None = None,
        settle: float | None = None,
        auth: tuple[str, str] | None = None,
        token: str | None = None,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
    ) -> None:
        self.step = positive(step, "step", "Write 60.0 for a row per minute.")
        self._step = max(round(self.step * MILLI), 1)
        self.settle = min(SETTLE_SHARE * self.step, SETTLE_SECONDS) if settle is None else settle
        self.label = label
        self.names, self.queries = _read_queries(queries, label)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as failed:
            raise InvalidInput(
                f"The address of Prometheus must be a URL, got {url}: {failed}."
            ) from None
        if address.scheme not in ("http", "https") or not address.host:
            raise InvalidInput(
                f"The address of Prometheus must be a URL, got {url}. Write http://localhost:9090."
            )
        self._options: dict[str, Any] = {
            "base_url": address,
            "auth": auth,
            "headers": headers,
            "verify": _trust(ca, cert, key),
            "timeout": TIMEOUT,
        }
        # Messages show the address without its password.
        self.url = str(address.copy_with(username=None, password=None)).rstrip("/")
        self._clock: Callable[[], float] = time.time

    def read(self, since: float | None) -> Iterator[TimedRow]:
        """Read the rows after a time stamp, up to the last one that has data.

        Parameters
        ----------
        since : float or None
            The time stamp of the last row that is known; None for the newest row only.

        Returns
        -------
        iterator of TimedRow
            The rows, the oldest first. Cells without data are missing, also where no cell has any.
        """
        newest = math.floor((self._clock() - self.settle) * MILLI / self._step)
        at = newest if since is None else math.floor(since * MILLI / self._step + 0.5) + 1
        # Rows without data wait here until one with data comes: it may come late.
        first = at
        with httpx.Client(**self._options) as client:
            while at <= newest:
                end = min(at + STEPS_PER_REQUEST - 1, newest)
                found = self._ask(client, at, end)
                for place in sorted(found):
                    for gap in range(first, place):
                        yield self._make_row(gap, {})
                    yield self._make_row(place, found[place])
                    first = place + 1
                at = end + 1

    def _make_row(self, place: int, cells: dict[str, float | None]) -> TimedRow:
        missing: dict[str, float | None] = dict.fromkeys(self.names)
        return TimedRow(place * self._step / MILLI, missing | cells)

    def _ask(
        self, client: httpx.Client, first: int, last: int
    ) -> dict[int, dict[str, float | None]]:
        """Return the cells of these rows by their number and column; rows without data are left out."""
        rows: dict[int, dict[str, float | None]] = {}
        for name, query in zip(self.names or [""], self.queries, strict=True):
            for labels, values in self._ask_query(client, query, first, last):
                column = name if self.label is None else labels.get(self.label, "")
                for at, text in values:
                    number = float(text)
                    if not math.isnan(number):
                        rows.setdefault(round(at * MILLI / self._step), {})[column] = number
        return rows

    def _ask_query(
        self, client: httpx.Client, query: str, first: int, last: int
    ) -> Iterator[tuple[dict[str, str], list[Any]]]:
        """Yield the labels and the values of each series."""
        form = {
            "query": query,
            "start": f"{first * self._step / MILLI:.3f}",
            "end": f"{last * self._step / MILLI:.3f}",
            "step": f"{self.step:.3f}",
        }
        try:
            answer = client.post("api/v1/query_range", data=form)
        except httpx.HTTPError as failed:
            reason = str(failed) or type(failed).__name__
            raise SourceAway(f"{self.url} does not answer: {reason.rstrip('.')}.") from None
        try:
            found = answer.json()
            reason = found.get("error", "")
        except (json.JSONDecodeError, AttributeError, UnicodeDecodeError):
            found = {}
            reason = answer.reason_phrase
        if answer.status_code == BAD_QUERY and found:
            raise InvalidInput(f"{self.url} rejects the query {query!r}: {reason}.")
        if not answer.is_success or found.get("status") != "success":
            raise SourceAway(f"{self.url} answers with status {answer.status_code}: {reason}.")
        series = found["data"]["result"]
        if self.label is None and len(series) > 1:
            # While servers are replaced there may be two for a moment.
            raise SourceAway(
                f"The query {query!r} gives {len(series)} series. Name the label whose values are the columns, "
                "or add them up with sum(...)."
            )
        for one in series:
            yield one["metric"], one["values"]


def _read_queries(queries: Sequence[str], label: str | None) -> tuple[list[str], list[str]]:
    """Return the names of the columns, which a label gives later, and the queries."""
    if label is not None:
        if len(queries) != 1:
            raise InvalidInput(
                f"A label goes with one query, got {len(queries)}. Leave the label out."
            )
        return [], list(queries)
    names = []
    texts = []
    for query in queries:
        named = _NAMED.fullmatch(query)
        if named is None and len(queries) > 1:
            raise InvalidInput(
                f"Each of several queries needs a name, got {query!r}. Write eu=sum(...)."
            )
        names.append(VALUE if named is None else named[1])
        texts.append(query if named is None else named[2])
    if not texts or len(set(names)) < len(names):
        raise InvalidInput(
            f"There must be a query, and each must have a name of its own, got {list(queries)}."
        )
    return names, texts


def _trust(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    """Return the certificates to trust, and the client's own."""
    if key is not None and cert is None:
        raise InvalidInput(f"A key needs its certificate, got the key {key} only.")
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except OSError as failed:
        given = ", ".join(file for file in (ca, cert, key) if file is not None)
        raise InvalidInput(
            f"Cannot read the certificates in {given}: {failed.strerror or failed}."
        ) from None
    return context
