"""Small real data with source and licence: flights, requests to a cache and to language models, stock prices.

Every function returns a polars frame, its first column the time. What the source lacks is null here; nothing is
repaired. :data:`SOURCES` says where each set comes from (``print(SOURCES["flights"])``), README.md next to this file what its
licence says and what was done, and scripts/make_datasets.py makes the files again from packages on PyPI.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import InvalidInput, instance, integer, one_of, positive
from klazy.base.install import explain_missing
from klazy.datasets.sources import SOURCES, Provenance

if TYPE_CHECKING:
    import polars

__all__ = ["CARRIERS", "SOURCES", "Provenance"]
__all__ += ["cache_requests", "flights", "llm_requests", "stock_prices"]

#: All sixteen, by number of flights; the first nine have more than 10 000 each, the tenth half as many.
CARRIERS = (
    "UA",
    "B6",
    "EV",
    "DL",
    "AA",
    "MQ",
    "US",
    "9E",
    "WN",
    "VX",
    "FL",
    "AS",
    "F9",
    "YV",
    "HA",
    "OO",
)
AVERAGED = {
    "departure_delay": "departed",
    "arrival_delay": "arrived",
}  # a mean, and the flights it is over


def flights(
    measure: str = "departure_delay", hours: int = 1, carriers: Iterable[str] = CARRIERS[:9]
) -> "polars.DataFrame":
    """Load flights from New York in 2013: delays or numbers of flights, by carrier.

    A flight belongs to the hour in which it was scheduled to depart, local time. A mean is null where a carrier had nothing to
    average: no flight scheduled, or all of them cancelled. Cancelled flights are in no mean, nor, for arrivals, are those that
    departed but have no arrival delay (diverted, or not recorded). Intervals in which none of all sixteen carriers had a flight
    scheduled, as at night, have no row.

    Parameters
    ----------
    measure : str, optional
        ``"departure_delay"``, the default, or ``"arrival_delay"``, the mean in minutes (early is negative); ``"scheduled"`` or
        ``"cancelled"``, a number of flights.
    hours : int, optional
        The length of an interval; it must divide a day. Default: 1.
    carriers : list of str, optional
        The carriers. Default: the nine largest of :data:`CARRIERS`.

    Returns
    -------
    polars.DataFrame
        A row per interval, a column per carrier, ``time`` the interval's beginning.

    Raises
    ------
    ValueError
        If an argument is unknown.

    Examples
    --------
    >>> hourly = flights()
    >>> hourly.shape, hourly["UA"].null_count()
    ((6936, 10), 729)
    """
    measure = one_of(measure, "measure", (*AVERAGED, "scheduled", "cancelled"))
    hours = integer(hours, "hours")
    if 24 % hours:
        raise InvalidInput(f"hours must be 1, 2, 3, 4, 6, 8, 12 or 24, got {hours}.")
    instance(carriers, "carriers", Iterable, "a list such as ['UA', 'DL']")
    carriers = [one_of(carrier, "carrier", CARRIERS) for carrier in carriers]
    if not carriers or len(set(carriers)) < len(carriers):
        raise InvalidInput(
            f"carriers must have at least one carrier, and each of them once, got {carriers}."
        )
    pl = _import_polars("flights")
    frame = _read_dataset(pl, "flights").with_columns(
        departed=pl.col("scheduled") - pl.col("cancelled")
    )
    columns = []
    for carrier in carriers:
        its_own = pl.col("carrier") == carrier
        value = pl.col(measure).filter(its_own).sum()
        if measure in AVERAGED:
            count = pl.col(AVERAGED[measure]).filter(its_own).sum()
            value = pl.when(count > 0).then(value / count)
        columns.append(value.alias(carrier))
    interval = pl.col("time").dt.truncate(f"{hours}h")
    return frame.group_by(interval).agg(columns).sort("time")


def cache_requests() -> "polars.DataFrame":
    """Load requests to one of Twitter's caches over 88 minutes.

    They are all requests for one object in 64 of the first ten million of a trace. Objects are numbered 0, 1, ... as they first
    appear, so those with ``object % 4 == 0``, say, are again such a sample, of a quarter. Which requests are writes is not
    recorded.

    Returns
    -------
    polars.DataFrame
        ``time`` in seconds, ``object``, its ``size`` in bytes.

    Examples
    --------
    >>> requests = cache_requests()
    >>> requests.height, requests["object"].n_unique()
    (112004, 14151)
    """
    return _read_dataset(_import_polars("cache_requests"), "cache_requests")


def llm_requests(
    service: str = "conversation", seconds: float | None = None
) -> "polars.DataFrame":
    """Load an hour of requests to a language-model service.

    Parameters
    ----------
    service : str, optional
        ``"conversation"``, the default, or ``"code"``; time runs from its first request.
    seconds : float, optional
        Sum over intervals of this length; requests after the last whole interval are left out, because a part of one would look
        like a lull. Default: single requests.

    Returns
    -------
    polars.DataFrame
        ``time`` in seconds, ``prompt_tokens``, ``output_tokens``. For intervals ``time`` is the beginning, with the number of
        ``requests`` and the sums of tokens, zero where none came.

    Raises
    ------
    ValueError
        If an argument is unknown, or an interval too short or too long.

    Examples
    --------
    >>> llm_requests("code", seconds=60).select("requests", "prompt_tokens").max().row(0)
    (632, 1327909)
    """
    service = one_of(service, "service", ("conversation", "code"))
    pl = _import_polars("llm_requests")
    frame = _read_dataset(pl, "llm_requests").filter(pl.col("service") == service)
    microseconds = frame["microseconds"].to_numpy()
    tokens = pl.col("prompt_tokens", "output_tokens")
    if (
        seconds is None
    ):  # NumPy divides; polars multiplies by 1e-6, which is off in the last digit
        return frame.select(pl.Series("time", microseconds / 1e6), tokens)
    length = 1e6 * positive(seconds, "seconds")
    last = int(microseconds[-1])
    if not 1000 <= length <= last:
        raise InvalidInput(f"seconds must be between 0.001 and {last // 10**6}, got {seconds}.")
    length = round(length)
    begins = np.arange(last // length) * length
    grid = pl.DataFrame({"microseconds": begins, "time": begins / 1e6})
    requests = pl.len().cast(pl.Int64).alias("requests")
    sums = frame.group_by(pl.col("microseconds") // length * length).agg(requests, tokens.sum())
    joined = grid.join(sums, on="microseconds", how="left", maintain_order="left")
    return joined.drop("microseconds").fill_null(0)  # an interval without requests had none


def stock_prices(measure: str = "price") -> "polars.DataFrame":
    """Load daily prices of 20 stocks of the S&P 500 from 1990 to 2022; needs skfolio, in which they come.

    The companies were chosen in hindsight, and all lasted 33 years: every portfolio of them looks better than could have been
    known. Compare such portfolios with each other only.

    Parameters
    ----------
    measure : str, optional
        ``"price"``, the default, is the adjusted closing price; ``"relative"`` is that price over the one of the day before, as
        :class:`~klazy.LogWealthCosts` takes it; the first day has none.

    Returns
    -------
    polars.DataFrame
        A row per day, a column per stock.

    Raises
    ------
    ModuleNotFoundError
        If skfolio is not installed (``klazy[datasets]``).
    """
    measure = one_of(measure, "measure", ("price", "relative"))
    pl = _import_polars("stock_prices")
    with explain_missing("stock_prices", "skfolio", "datasets"):
        from skfolio.datasets import load_sp500_dataset  # pyright: ignore[reportMissingImports]
    table = load_sp500_dataset()
    stocks = {str(name): table[name].to_numpy() for name in table.columns}
    dates = pl.Series(table.index.to_numpy()).cast(pl.Date)
    prices = pl.DataFrame({"time": dates} | stocks, nan_to_null=True)
    if measure == "price":
        return prices
    each = pl.exclude("time")
    return prices.with_columns(each / each.shift(1)).slice(1)


def _import_polars(owner: str) -> Any:
    """Import the library when a data set is first needed."""
    with explain_missing(owner, "polars", "cli"):
        import polars
    return polars


def _read_dataset(pl: Any, name: str) -> "polars.DataFrame":
    """Read the file of a data set, its small integers as wide ones, which do not overflow when they are added or multiplied."""
    frame = pl.read_parquet(SOURCES[name].file)
    return frame.with_columns(pl.selectors.integer().cast(pl.Int64))
