"""Back-tests of portfolios: prices in, what each rule would have earned after costs out, beside the benchmarks of the trade.

:func:`backtest` is the door. A ``Market`` is what prices say, ``simulate`` is the account, with its trades, costs and
cash, and :class:`Backtest` is the result.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy import show
from klazy.base.amounts import format_share
from klazy.base.cells import TIMES
from klazy.base.checks import (
    Array,
    InvalidInput,
    integer,
    non_negative,
    number,
    one_of,
    positive,
    real_array,
)
from klazy.base.html import load_macros, show_card
from klazy.base.install import explain_missing
from klazy.base.progress import show_progress
from klazy.base.tables import Tabular, write_plainly
from klazy.contrib import (
    OLMAR,
    PAMR,
    ImpactMovement,
    SoftBayes,
    ensemble_auto,
    exponentiated_gradient,
    newton_shares,
)
from klazy.costs import LogWealthCosts
from klazy.families import TINY, LogWealth, name_quotes
from klazy.game.run import run
from klazy.hindsight.dollars import plan_dollars
from klazy.hindsight.optimum import EPS
from klazy.learners import Learner, auto
from klazy.movement import Movement, TVMovement
from klazy.sets import CappedSimplex, ConvexSet, Simplex

if TYPE_CHECKING:
    import pandas

    from klazy.show import Figure

__all__ = ["Backtest", "backtest"]

BASIS_POINT = 1e-4
YEAR = np.timedelta64(int(365.25 * 86_400), "s")
# A smaller trade, as a share of wealth, is rounding: it is free.
NO_TRADE = 1e-9
# The equation for what a trade leaves of the wealth is solved by steps, each of which gains three digits at usual costs.
COST_STEPS = 60
# Bootstrap: days that stay together, samples, and the share of them outside the interval on either side.
BLOCK_DAYS = 21
SAMPLES = 2000
TAIL = 0.025
# The kinds of portfolios in the table.
BENCHMARK = "benchmark"
HINDSIGHT = "hindsight"
PUBLISHED = "published"
KLAZY = "klazy"
OWN_KIND = "yours"
# The rule that all others are compared with.
REFERENCE = "1/N daily"
BEST_STOCK = "best stock"
BEST_PATH = "best possible"
# Returns are losses more often than this; prices are never negative, or nearly so.
LOSS_SHARE = 0.1
PLOTS = ("wealth", "drawdown", "turnover", "weights")
CASH = "cash"

# The rules of the literature, with the parameters of their papers.
RULES: dict[str, Any] = {
    "exponentiated gradient": exponentiated_gradient,
    "Soft-Bayes": SoftBayes,
    "online Newton step": newton_shares,
    "PAMR": PAMR,
    "OLMAR": OLMAR,
}
REMEDIES = {
    "returns": "They look like returns, as they are around 0. Pass returns=frame.",
    "relatives": "They look like price relatives, as they are around 1. Pass returns=frame - 1.",
    "prices": "They look like prices. Pass prices=frame.",
    "per cent": "They look like returns in per cent. Pass returns=frame / 100.",
}


class Market(NamedTuple):
    """What prices say: ``growth[t]`` multiplies what is held from date t to date t + 1, cash last.

    ``known[t, i]`` is whether asset i has a price on date t, ``gone[t, i]`` whether it has had its last one before. There are
    T + 1 dates, and ``per_year`` rounds in a year.
    """

    dates: NDArray[Any]
    names: list[str]
    growth: Array
    known: NDArray[np.bool_]
    gone: NDArray[np.bool_]
    per_year: float

    def relatives(self) -> Array:
        """Give the rows that learners see: an asset without a price does what the others do on average."""
        growth = self.growth[:, :-1]
        awake = self.known[1:]
        count = awake.sum(axis=1, keepdims=True)
        mean = np.where(
            count > 0, (growth * awake).sum(axis=1, keepdims=True) / np.maximum(count, 1), 1.0
        )
        return np.where(awake, growth, mean)

    def since(self, first: int) -> "Market":
        """Leave out what was before the date of this number."""
        parts = (
            self.dates[first:],
            self.names,
            self.growth[first:],
            self.known[first:],
            self.gone[first:],
        )
        return Market(*parts, self.per_year)


class TradingTerms(NamedTuple):
    """What a trade costs, and what may be held, by asset, as shares of wealth.

    A trade of x costs rates x + impact x^(3/2), and each order ``fee`` of the first wealth. ``groups`` limit several assets
    together, ``turnover`` what changes hands in a round.
    """

    rates: Array
    impact: Array
    fee: float
    caps: Array
    groups: Sequence[tuple[NDArray[np.intp], float]]
    turnover: float

    def describe(self) -> str:
        """Write the costs, and what else limits trades, in words."""
        low, high = self.rates.min() / BASIS_POINT, self.rates.max() / BASIS_POINT
        price = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        terms = {
            f"{len(self.rates)} assets": True,
            f"{price} basis points per side": True,
            "impact": self.impact.any(),
            "a fee per order": self.fee > 0.0,
            "caps": self.caps.min() < 1.0,
            "groups": len(self.groups) > 0,
            "a turnover limit": self.turnover < np.inf,
        }
        return ", ".join(words for words, is_there in terms.items() if is_there)

    def charge(self, trades: Array, wealth: Array) -> Array:
        """Charge the trades of each portfolio, as a share of its wealth, which is in units of the first."""
        size = np.abs(trades)
        orders = (size > NO_TRADE).sum(axis=-1)
        fees = np.minimum(self.fee * orders, wealth) / wealth
        return (size * (self.rates + self.impact * np.sqrt(size))).sum(axis=-1) + fees

    def limit(self, aim: Array, now: Array, can: NDArray[np.bool_]) -> Array:
        """Make shares that may be held of those aimed at: what cannot be traded stays, what has no room becomes cash."""
        stuck = np.where(can, 0.0, now)
        free = np.where(can, aim, 0.0)
        room = 1.0 - stuck.sum(axis=1)
        total = free.sum(axis=1)
        free = (
            free * np.where(total > 0.0, room / np.where(total > 0.0, total, 1.0), 0.0)[:, None]
        )
        free[:, :-1] = np.minimum(free[:, :-1], self.caps)
        for members, most in self.groups:
            held = free[:, members].sum(axis=1)
            left = np.maximum(most - stuck[:, members].sum(axis=1), 0.0)
            free[:, members] *= np.minimum(1.0, left / np.maximum(held, NO_TRADE))[:, None]
        free[:, -1] += room - free.sum(axis=1)
        return stuck + free


class Account(NamedTuple):
    """What became of several portfolios: wealth in units of the first, shares after trades, and what trades moved and cost.

    ``wealth`` has shape (P, T + 1), ``weights`` (P, T, d + 1), with cash last, the others (P, T), as shares of wealth.
    """

    wealth: Array
    weights: Array
    turnover: Array
    paid: Array


def simulate(market: Market, aims: Array, terms: TradingTerms) -> Account:
    """Trade at each close towards the shares aimed at, pay for it, and let prices carry what is held to the next.

    ``aims`` has shape (P, T, d + 1), with cash last; NaN where nothing is traded. All begin with cash.
    """
    P, T, width = aims.shape
    held = np.zeros((P, width))
    held[:, -1] = 1.0
    wealth = np.ones((P, T + 1))
    weights = np.empty(aims.shape)
    turnover = np.empty((P, T))
    paid = np.empty((P, T))
    orders = np.zeros((P, width))
    is_open = np.zeros(P, dtype=bool)
    for t in range(T):
        can = np.append(market.known[t], True)
        gone = np.append(market.gone[t], False)
        held[:, -1] += held[:, gone].sum(axis=1)
        held[:, gone] = 0.0
        # Who is ruined stays so.
        worth = np.maximum(wealth[:, t], TINY)
        now = held / worth[:, None]
        # An order that a limit of turnover cuts is continued until it is filled, or followed by another.
        is_new = ~np.isnan(aims[:, t, -1])
        orders[is_new] = aims[is_new, t]
        is_open |= is_new
        aim = np.where(is_open[:, None], terms.limit(orders, now, can), now)
        moved = 0.5 * np.abs(aim - now).sum(axis=1)
        part = np.minimum(1.0, terms.turnover / np.maximum(moved, NO_TRADE))
        is_open &= part < 1.0
        aim = now + (aim - now) * part[:, None]
        stuck = now[:, ~can].sum(axis=1)
        loose = 1.0 - stuck
        cost = np.zeros(P)
        after = aim
        for _ in range(COST_STEPS):
            left = np.maximum(1.0 - cost / np.where(loose > NO_TRADE, loose, np.inf), 0.0)
            after = np.where(can, aim * left[:, None], now)
            before, cost = cost, terms.charge((after - now)[:, :-1], worth)
            if np.abs(cost - before).max() <= EPS:
                break
        is_idle = np.abs(aim - now).max(axis=1) <= NO_TRADE
        weights[:, t] = after / np.maximum(after.sum(axis=1, keepdims=True), TINY)
        weights[is_idle, t] = now[is_idle]
        after[is_idle] = now[is_idle]
        paid[:, t] = np.where(is_idle, 0.0, cost)
        turnover[:, t] = np.where(is_idle, 0.0, 0.5 * np.abs(after - now).sum(axis=1))
        held = wealth[:, t, None] * after * market.growth[t]
        wealth[:, t + 1] = held.sum(axis=1)
    return Account(wealth, weights, turnover, paid)


def make_learner(make: Any, domain: ConvexSet, movement: Movement, name: str) -> Learner[Any]:
    """Make a learner from those of ``domain``, ``movement`` and ``costs`` that a class or a function names."""
    learner = make
    why = ""
    if not isinstance(make, Learner):
        offered = {"domain": domain, "movement": movement, "costs": LogWealth()}
        try:
            named = signature(make).parameters
            learner = make(**{key: value for key, value in offered.items() if key in named})
        # A function of the user may raise anything.
        except Exception as failed:
            why = f": {failed}"
    if not isinstance(learner, Learner):
        example = "kl.contrib.SoftBayes or lambda domain: kl.GD(domain, 1.0)"
        raise InvalidInput(
            f"{name} must be a learner or make one, as {example}, got {make!r}{why}."
        )
    return learner


def read_table(data: Any, name: str) -> tuple[NDArray[Any], list[str], Array]:
    """Read a pandas or polars frame: its dates, the names of its other columns, and their numbers."""
    is_pandas = hasattr(data, "iloc") and hasattr(data, "columns")
    if not is_pandas and not hasattr(data, "get_column"):
        kind = type(data).__name__
        raise InvalidInput(
            f"{name} must be a pandas or polars frame with a column per asset, got {kind}."
        )
    if is_pandas and data.columns.nlevels > 1:
        first = data.columns[0][0]
        raise InvalidInput(
            f"{name} must have a column per asset, but its columns are grouped. Pass frame[{first!r}]."
        )
    names = [str(column) for column in data.columns]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise InvalidInput(f"{name} must have a column per asset, but {twice} is there twice.")
    columns = {
        label: data[column].to_numpy() for label, column in zip(names, data.columns, strict=True)
    }
    index: Any = data.index if is_pandas and type(data.index).__name__ != "RangeIndex" else None
    dated = [
        key for key, cells in columns.items() if key.lower() in TIMES or cells.dtype.kind == "M"
    ]
    if dated and (index is None or index.dtype.kind in "iuf"):
        stamps = columns.pop(dated[0])
    elif index is not None:
        has_zone = getattr(index, "tz", None) is not None
        stamps = (index.tz_localize(None) if has_zone else index).to_numpy()
    else:
        raise InvalidInput(f"{name} must have dates, as its index or as a column called date.")
    dates = _read_dates(stamps, name)
    try:
        values = np.column_stack(
            [np.asarray(cells, dtype=np.float64) for cells in columns.values()]
        )
    except (TypeError, ValueError) as failed:
        raise InvalidInput(
            f"{name} must have numbers only, next to its dates: {failed}."
        ) from failed
    if np.isinf(values).any():
        raise InvalidInput(f"{name} must have finite numbers. Leave cells without a price empty.")
    return dates, list(columns), values


def _read_dates(stamps: NDArray[Any], name: str) -> NDArray[Any]:
    """Read ascending dates; numbers are none, because nobody knows what they count."""
    dates = np.full(1, np.datetime64("NaT"))
    if stamps.dtype.kind not in "iuf":
        with suppress(TypeError, ValueError):
            dates = np.array(stamps, dtype="datetime64[s]")
    if np.isnat(dates).any():
        remedy = "Convert them, for example by pandas.to_datetime."
        raise InvalidInput(
            f"{name} must have dates, or text such as 2024-01-31, got {stamps[0]}. {remedy}"
        )
    is_late = np.diff(dates) <= np.timedelta64(0)
    if is_late.any():
        late = dates[1:][is_late][0]
        remedy = "Sort the frame, with one row per date."
        raise InvalidInput(
            f"The dates of {name} must ascend, but {late} is not after the one before it. {remedy}"
        )
    return dates


def _check_quotes(values: Array, names: list[str], given: str) -> None:
    """Reject prices that are returns, and the like, and numbers that neither can be."""
    is_empty = np.isnan(values).all(axis=0)
    if len(values) < 3 or is_empty.any():
        column = f", and {names[int(is_empty.argmax())]} has none" if is_empty.any() else ""
        raise InvalidInput(
            f"{given} must have at least 3 dates, and each column a number{column}."
        )
    low = np.nanmin(values, axis=0)
    found = name_quotes(values)
    if found == "prices" and (values < 0.0).mean() > LOSS_SHARE:
        found = "per cent"
    if found != given:
        raise InvalidInput(f"{given} must be {given}. {REMEDIES[found]}")
    least, ruin = (0.0, 0.0001) if given == "prices" else (-1.0, -0.9999)
    if low.min() <= least:
        column = names[int(low.argmin())]
        remedy = f"For a total loss write {ruin}."
        raise InvalidInput(
            f"{given} must be above {least:g}, got {low.min():g} in {column}. {remedy}"
        )


def make_market(prices: Any, returns: Any, cash: float, per_year: float | None) -> Market:
    """Read prices or returns: when each asset could be traded, and what holding it was worth."""
    if (prices is None) == (returns is None):
        raise InvalidInput("Pass prices=frame or returns=frame, one of the two.")
    given = "prices" if returns is None else "returns"
    dates, names, values = read_table(prices if returns is None else returns, given)
    _check_quotes(values, names, given)
    known = ~np.isnan(values)
    if returns is not None:
        # A return says that there was a price on its date and, for the first one, on the date before.
        first = known.argmax(axis=0)
        values = np.vstack((np.ones(len(names)), np.cumprod(1.0 + np.nan_to_num(values), axis=0)))
        known = np.vstack((np.zeros(len(names), dtype=bool), known))
        known[first, np.arange(len(names))] = True
        dates = np.concatenate((dates[:1] - np.median(np.diff(dates)), dates))
    # Dates before the first price, such as that of the empty row which pct_change leaves, are none to trade on.
    begin = int(known.any(axis=1).argmax())
    dates, values, known = dates[begin:], values[begin:], known[begin:]
    T = len(dates) - 1
    last = np.where(known, np.arange(T + 1)[:, None], 0)
    filled = np.take_along_axis(values, np.maximum.accumulate(last, axis=0), axis=0)
    growth = filled[1:] / filled[:-1]
    # Before an asset is listed nobody holds it.
    growth = np.where(
        np.isnan(growth) | ~np.logical_or.accumulate(known, axis=0)[:-1], 1.0, growth
    )
    if per_year is None:
        per_year = T / float((dates[-1] - dates[0]) / YEAR)
    interest = np.full((T, 1), (1.0 + cash) ** (1.0 / per_year))
    gone = np.arange(T + 1)[:, None] > last.max(axis=0)
    return Market(dates, names, np.hstack((growth, interest)), known, gone, per_year)


def _spread(value: Any, names: list[str], name: str, default: float | None = None) -> Array:
    """Return one number per asset, from a single number, or a mapping or pandas series from assets to numbers."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        value = {str(asset): each for asset, each in value.items()}
        _check_assets(value, names, name)
        missing = [asset for asset in names if asset not in value]
        if default is None and missing:
            raise InvalidInput(f"{name} must name every asset, but {missing[0]} is missing.")
        value = [value.get(asset, default) for asset in names]
    given = real_array(value, name)
    if given.shape not in ((), (len(names),)):
        raise InvalidInput(
            f"{name} must have a number for each of {len(names)} assets, got {given.size}."
        )
    found = np.broadcast_to(given, len(names))
    if found.min() < 0.0:
        raise InvalidInput(f"{name} must not be negative, got {found.min():g}.")
    return np.array(found)


def _read_rates(bps: Any, names: list[str]) -> Array:
    """Return what a side of a trade costs, as a share of it."""
    rates = BASIS_POINT * _spread(bps, names, "bps")
    if rates.max() >= 1.0:
        most = rates.max() / BASIS_POINT
        raise InvalidInput(f"bps must be below 10000, got {most:g}. 10 is a tenth of a per cent.")
    return rates


def _read_impact(impact: ImpactMovement | None, d: int) -> Array:
    """Return what the impact of a trade costs, by asset."""
    if impact is None:
        return np.zeros(d)
    if not isinstance(impact, ImpactMovement) or np.ndim(impact.weight):
        raise InvalidInput(f"impact must be an ImpactMovement with one weight, got {impact!r}.")
    impact.check(d)
    return impact.weight * impact.prices(d)


def _read_groups(
    groups: Mapping[str, Any], names: list[str]
) -> list[tuple[NDArray[np.intp], float]]:
    """Return the places of the assets of each group, with its limit."""
    found = []
    for label, group in groups.items():
        if not isinstance(group, tuple | list) or len(group) != 2 or isinstance(group[0], str):
            wanted = f"groups must give assets and a limit, got {group!r} for {label!r}."
            raise InvalidInput(f'{wanted} Write groups={{"tech": (["AAPL", "MSFT"], 0.3)}}.')
        members, most = group
        _check_assets(members, names, f"groups[{label!r}]")
        places = np.array([names.index(str(each)) for each in members])
        found.append((places, non_negative(most, f"groups[{label!r}]")))
    return found


def _find_date(dates: NDArray[Any], start: Any) -> int:
    """Return the number of the first date that is not before ``start``."""
    try:
        first = int(np.searchsorted(dates, np.datetime64(str(start)[:19], "s")))
    except ValueError as failed:
        raise InvalidInput(f"start must be a date such as 2024-01-31, got {start}.") from failed
    if first > len(dates) - 3:
        raise InvalidInput(f"start must be before the last dates, got {start}.")
    return first


def _check_assets(assets: Any, names: list[str], name: str) -> None:
    unknown = [str(asset) for asset in assets if str(asset) not in names]
    if unknown:
        raise InvalidInput(
            f"{name} must name assets, got {unknown[0]!r}. They are {', '.join(names)}."
        )


def _aim_at(given: Any, market: Market, name: str) -> dict[str, Array]:
    """Turn somebody's own weights into aims: dated ones are bought on their dates, others every day, and once."""
    T, width = market.growth.shape
    aims = np.full((T, width), np.nan)
    if not hasattr(given, "columns"):
        if np.ndim(given) == 0 and not isinstance(given, Mapping):
            example = 'weights={"mine": {"AAPL": 0.6, "BAC": 0.4}}'
            raise InvalidInput(
                f"weights must name portfolios, got {given!r} for {name!r}. Write {example}."
            )
        x = _spread(given, market.names, f"weights[{name!r}]", 0.0)
        held = aims.copy()
        held[0] = _with_cash(x, name)
        return {f"{name} daily": np.tile(held[0], (T, 1)), f"{name} held": held}
    dates, columns, values = read_table(given, f"weights[{name!r}]")
    if CASH in columns and CASH not in market.names:
        # What the shares leave over is cash.
        values = np.delete(values, columns.index(CASH), axis=1)
        columns.remove(CASH)
    _check_assets(columns, market.names, f"weights[{name!r}]")
    places = np.searchsorted(market.dates, dates)
    if places.min(initial=T) >= T:
        raise InvalidInput(
            f"weights[{name!r}] must have a date before {market.dates[-1]}, the last one."
        )
    for place, row in zip(places, np.nan_to_num(values), strict=True):
        if place < T:
            x = dict(zip(columns, row.tolist(), strict=True))
            aims[place] = _with_cash(_spread(x, market.names, f"weights[{name!r}]", 0.0), name)
    return {name: aims}


def _with_cash(x: Array, name: str) -> Array:
    if x.sum() > 1.0 + NO_TRADE:
        raise InvalidInput(
            f"weights[{name!r}] must add up to at most 1, got {x.sum():g}. The rest is cash."
        )
    return np.append(x, max(0.0, 1.0 - x.sum()))


def _benchmark(market: Market) -> dict[str, Array]:
    """List equal parts, restored daily, monthly or never, and the stock that was best."""
    T, width = market.growth.shape
    equal = np.append(np.ones(width - 1), 0.0) / (width - 1)
    daily = np.tile(equal, (T, 1))
    months = market.dates[:-1].astype("datetime64[M]")
    is_new = np.append(True, months[1:] != months[:-1])
    best = market.growth[:, :-1].prod(axis=0).argmax()
    return {
        REFERENCE: daily,
        "1/N monthly": np.where(is_new[:, None], daily, np.nan),
        "1/N held": np.where(np.arange(T)[:, None] == 0, daily, np.nan),
        BEST_STOCK: np.tile(np.eye(width)[best], (T, 1)),
    }


def _find_best_path(market: Market, terms: TradingTerms) -> tuple[Array, float]:
    """Find the best sequence that holds one asset at a time, and bound the wealth of any portfolio.

    The bound is a logarithm, and counts what is proportional to a trade. The sequence avoids what a whole
    portfolio would pay for impact. The bound knows neither fees nor limits.
    """
    gone = np.hstack((market.gone[:-1], np.zeros((len(market.growth), 1), dtype=bool)))
    known = np.hstack((market.known[:-1], ~gone[:, -1:]))
    growth = np.log(np.where(gone, market.growth[:, -1:], market.growth))

    def price(rates: Array) -> tuple[Array, Array]:
        rates = np.append(np.minimum(rates, 1.0 - NO_TRADE), 0.0)
        # What is gone has become cash: it can be left for nothing, and not be bought.
        leave = np.where(gone, 0.0, np.where(known, np.log1p(-rates), -np.inf))
        return leave, np.where(known, -np.log1p(rates), -np.inf)

    start = np.eye(growth.shape[1])[-1]
    paid = price(terms.rates)
    plan = plan_dollars(growth, *paid)
    rounding = (len(start) + 100) * EPS * float(np.abs(growth).max(axis=1).sum() + len(growth))
    bound = float(plan.worth[0, -1]) + rounding
    if terms.impact.any():
        paid = price(terms.rates + terms.impact)
        plan = plan_dollars(growth, *paid)
    return plan.follow(start, growth, *paid), bound


def _choose_yearly(aims: Sequence[Array], wealth: Array, dates: NDArray[Any]) -> Array:
    """Play, year by year, the one that has earned most before that year; the first one to begin with."""
    years = dates[:-1].astype("datetime64[Y]")
    chosen = np.array(aims[0])
    for year in np.unique(years)[1:]:
        begin = int(np.searchsorted(years, year))
        best = int(wealth[:, begin].argmax())
        chosen[begin:] = aims[best][begin:]
    return chosen


@dataclass(eq=False, repr=False)
class Backtest(Tabular):
    """What portfolios became after costs. :func:`backtest` makes it; ``print`` it, or let a notebook show it.

    Parameters
    ----------
    market : Market
        The prices, from the first date on which anything was held.
    kinds : dict of str to str
        What each portfolio is, by its name.
    account : Account
        What became of them.
    bound : float
        No portfolio can have multiplied its wealth by more than exp(bound), whatever it did.
    cash : float
        What cash earned a year.
    about : str
        The terms, in words.
    seed : int
        Of the bootstrap.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"A": [5.0, 5.5, 5.5], "B": [5.0, 5.0, 6.0]}, index=pd.date_range("2024-01-01", periods=3))
    >>> found = kl.portfolio.backtest(prices=frame, bps=100.0, learners={})
    >>> round(found.summary["best possible"]["wealth"], 4), round(float(np.exp(found.bound)), 4)
    (1.2811, 1.2811)
    >>> found.to_pandas("best possible")["B"].tolist()
    [0.0, 1.0]
    """

    market: Market
    kinds: dict[str, str]
    account: Account
    bound: float
    cash: float
    about: str
    seed: int = 0

    @property
    def names(self) -> list[str]:
        """The portfolios."""
        return list(self.kinds)

    @cached_property
    def returns(self) -> Array:
        """What each earned in each round after costs, of shape (P, T)."""
        wealth = self.account.wealth
        # Who is ruined earns nothing.
        before = np.where(wealth[:, :-1] > 0.0, wealth[:, :-1], np.inf)
        return np.where(np.isinf(before), 0.0, wealth[:, 1:] / before - 1.0)

    @cached_property
    def drawdown(self) -> Array:
        """How far each was below its highest wealth so far, of shape (P, T + 1)."""
        wealth = self.account.wealth
        return wealth / np.maximum.accumulate(wealth, axis=1) - 1.0

    @cached_property
    def ahead(self) -> Array:
        """By what each grew faster than equal parts, in logarithms a year: the mean, and a 95 % interval, of shape (P, 3)."""
        logs = np.diff(np.log(np.maximum(self.account.wealth, TINY)), axis=1)
        beyond = logs - logs[self.names.index(REFERENCE)]
        T = beyond.shape[1]
        block = min(BLOCK_DAYS, T)
        sums = np.cumsum(
            np.hstack((np.zeros((len(beyond), 1)), beyond, beyond[:, :block])), axis=1
        )
        blocks = sums[:, block : block + T] - sums[:, :T]
        count = -(-T // block)
        starts = np.random.default_rng(self.seed).integers(T, size=(SAMPLES, count))
        means = np.array([each[starts].sum(axis=1) for each in blocks]) / (count * block)
        ends = np.quantile(means, (TAIL, 1.0 - TAIL), axis=1)
        return self.market.per_year * np.column_stack((beyond.mean(axis=1), *ends))

    @cached_property
    def summary(self) -> dict[str, dict[str, float]]:
        """The figures of each portfolio, by its name.

        ``wealth`` is what 1 became. ``growth``, ``volatility``, ``turnover`` and ``cost`` are for a year: what wealth grew by
        (compounded), the standard deviation of returns, the wealth that changed hands (a whole portfolio sold and bought is
        1), and what trading cost, as shares of the wealth of the moment. ``sharpe`` and ``sortino`` are for a year, above cash;
        Sortino's divides by the root of the mean square of what was lost. ``drawdown`` is the largest. ``ahead`` is the
        logarithmic growth a year beyond that of 1/N daily, from ``low`` to ``high`` with 95 % confidence, by bootstrap of
        blocks of 21 rounds.
        """
        per_year = self.market.per_year
        years = self.returns.shape[1] / per_year
        root = np.sqrt(per_year)
        excess = self.returns - ((1.0 + self.cash) ** (1.0 / per_year) - 1.0)
        below = np.sqrt((np.minimum(excess, 0.0) ** 2).mean(axis=1))
        final = self.account.wealth[:, -1]
        mean = excess.mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            columns = {
                "wealth": final,
                "growth": final ** (1.0 / years) - 1.0,
                "volatility": root * self.returns.std(axis=1, ddof=1),
                "sharpe": root * mean / excess.std(axis=1, ddof=1),
                "sortino": root * mean / below,
                "drawdown": np.abs(self.drawdown.min(axis=1)),
                "turnover": self.account.turnover.sum(axis=1) / years,
                "cost": self.account.paid.sum(axis=1) / years,
            }
        columns |= dict(zip(("ahead", "low", "high"), self.ahead.T, strict=True))
        rows = np.column_stack(list(columns.values())).tolist()
        return {
            name: dict(zip(columns, row, strict=True))
            for name, row in zip(self.names, rows, strict=True)
        }

    def list_rows(self) -> list[dict[str, Any]]:
        """List the rows of the table.

        Returns
        -------
        list of dict
            The figures of each portfolio by their names, the richest first, those of hindsight last.
        """
        found = self.summary
        names = sorted(
            found, key=lambda name: (self.kinds[name] == HINDSIGHT, -found[name]["wealth"])
        )
        return [{"portfolio": name, "kind": self.kinds[name]} | found[name] for name in names]

    def _show_rows(self) -> list[dict[str, str]]:
        """Write the table in the units of the trade."""
        shown = []
        for row in self.list_rows():
            ahead, low, high = (format_share(row[name], "+") for name in ("ahead", "low", "high"))
            cells = {
                "portfolio": row["portfolio"],
                "kind": row["kind"],
                "wealth": f"{row['wealth']:.4g}",
            }
            cells["growth"] = format_share(row["growth"])
            cells[f"ahead of {REFERENCE}"] = f"{ahead} ({low} to {high})"
            cells["volatility"] = format_share(row["volatility"])
            # Who holds cash alone has no ratios.
            for name in ("sharpe", "sortino"):
                cells[name.capitalize()] = f"{row[name]:.2f}" if np.isfinite(row[name]) else ""
            cells |= {"drawdown": f"{row['drawdown']:.0%}", "turnover": f"{row['turnover']:.1f}"}
            shown.append(cells | {"cost": f"{row['cost'] / BASIS_POINT:.0f} bp"})
        return shown

    @property
    def verdict(self) -> list[str]:
        """What the table says, in sentences."""
        begin, end = self.market.dates[[0, -1]].astype("datetime64[D]")
        rounds = f"{len(self.market.growth)} rounds from {begin} to {end}, {self.about}"
        found = [f"{rounds}. Rates, ratios, turnover and cost are for a year."]
        online = {
            name: row for name, row in self.summary.items() if self.kinds[name] != HINDSIGHT
        }
        clear = [name for name, row in online.items() if row["low"] > 0.0]
        behind = [name for name, row in online.items() if row["high"] < 0.0]
        found.append(
            f"Beat {REFERENCE} after costs, beyond chance: {', '.join(clear) or 'nobody'}."
        )
        found.append(f"Lost to it, beyond chance: {', '.join(behind) or 'nobody'}.")
        reached = self.summary[BEST_PATH]["wealth"]
        most = f"could have multiplied wealth by more than {np.exp(self.bound):.4g} (proved)"
        if np.log(max(reached, TINY)) > self.bound - NO_TRADE:
            found.append(f"Nobody {most}, and one way does.")
        else:
            free = "Even without impact, fees per order and limits, nobody"
            found.append(f"{free} {most}. With them, the best way found reaches {reached:.4g}.")
        return found

    def __repr__(self) -> str:
        """Write the table and what it says."""
        table = write_plainly(self._show_rows())
        words = [textwrap.fill(line, table.index("\n")) for line in self.verdict]
        return "\n".join([table, "", *words])

    @show_card
    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        parts = load_macros()
        return parts.card(
            "Back-test",
            "after costs",
            parts.table(self._show_rows()),
            parts.paragraphs(self.verdict),
        )

    def to_pandas(self, figure: str | None = None) -> "pandas.DataFrame":
        """Export the table, or a figure of every date.

        Parameters
        ----------
        figure : str, optional
            ``"wealth"``, ``"drawdown"``, ``"returns"``, ``"turnover"`` or ``"cost"``: a column per portfolio. The name of a
            portfolio gives its weights after trades, a column per asset. Default: the table.

        Returns
        -------
        DataFrame
            A frame with the names of portfolios, or dates, as its index.
        """
        with explain_missing("to_pandas", "pandas", "portfolio"):
            import pandas
        if figure is None:
            return pandas.DataFrame(self.list_rows()).set_index("portfolio")
        dates = self.market.dates
        if figure in self.kinds:
            weights = self.account.weights[self.names.index(figure)]
            return pandas.DataFrame(weights, index=dates[:-1], columns=[*self.market.names, CASH])
        account = self.account
        series = {
            "wealth": account.wealth,
            "drawdown": self.drawdown,
            "returns": self.returns,
            "turnover": account.turnover,
            "cost": account.paid,
        }
        values = series[one_of(figure, "figure", (*series, *self.kinds))]
        # Trades are made at the beginning of a round, and its return is known at its end.
        index = {len(dates): dates}.get(
            values.shape[1], dates[1:] if figure == "returns" else dates[:-1]
        )
        return pandas.DataFrame(values.T, index=index, columns=self.names)

    def plot(
        self, figure: str = "wealth", portfolios: Sequence[str] | str | None = None
    ) -> "Figure":
        """Draw wealth, drawdown, turnover, or the weights of one portfolio.

        Parameters
        ----------
        figure : str, optional
            ``"wealth"``, ``"drawdown"``, ``"turnover"``, added up, or ``"weights"``.
            Wealth and turnover have a logarithmic scale.
        portfolios : str or list of str, optional
            Which to draw. Default: all without hindsight, or the richest of these for weights.

        Returns
        -------
        Figure
            A matplotlib figure.
        """
        one_of(figure, "figure", PLOTS)
        online = [row["portfolio"] for row in self.list_rows() if row["kind"] != HINDSIGHT]
        chosen: Sequence[str] = online[:1] if figure == "weights" else online
        if portfolios is not None:
            chosen = [portfolios] if isinstance(portfolios, str) else list(portfolios)
        places = [
            self.names.index(one_of(name, "portfolios", tuple(self.kinds))) for name in chosen
        ]
        dates = self.market.dates
        if figure == "weights":
            shares = self.account.weights[places[0]]
            return show.draw_shares(dates[:-1], shares, [*self.market.names, CASH], chosen[0])
        values = {
            "wealth": self.account.wealth,
            "drawdown": 100.0 * self.drawdown,
            "turnover": np.cumsum(self.account.turnover, axis=1),
        }[figure]
        curves = {name: values[place] for name, place in zip(chosen, places, strict=True)}
        x = dates[: values.shape[1]]
        labels = {
            "wealth": "wealth, from 1",
            "drawdown": "drawdown in %",
            "turnover": "wealth traded, added up",
        }
        is_log = figure != "drawdown"
        if is_log:
            # What is 0 runs along the bottom.
            drawn = np.array(list(curves.values()))
            least = drawn[drawn > 0.0].min(initial=1.0)
            curves = {name: np.maximum(curve, least) for name, curve in curves.items()}
        return show.draw_cumulative(
            x, curves, show.choose_looks(curves), "", labels[figure], log=is_log
        )


def backtest(
    prices: Any = None,
    *,
    returns: Any = None,
    weights: Mapping[str, Any] | None = None,
    learners: Mapping[str, Any] | None = None,
    bps: "float | Mapping[Any, float] | pandas.Series" = 10.0,
    impact: ImpactMovement | None = None,
    fee: float = 0.0,
    capital: float = 1e6,
    cash: float | None = None,
    cap: "float | Mapping[Any, float] | pandas.Series" = 1.0,
    groups: Mapping[str, tuple[Sequence[str], float]] | None = None,
    turnover: float | None = None,
    start: Any = None,
    per_year: float | None = None,
    seed: int = 0,
) -> Backtest:
    """Play portfolios on past prices, after costs, beside 1/N, the best stock, rules of the literature and the best possible.

    Every rule decides at a close with what was known then, buys at that close, and holds until the next. Costs are charged on
    what has to be traded: the difference to the shares that prices have made of the last ones. An asset without a price on
    a date can neither be bought nor sold then; after its last price it is paid out in cash at that price. What has no room
    under caps and groups stays in cash. All portfolios begin with cash, and pay for their first purchase.

    Parameters
    ----------
    prices, returns : pandas or polars frame
        One of the two: prices, or returns such as 0.01 for one per cent. A column per asset, dates as the index or as a column;
        empty cells where there is none.
    weights : mapping, optional
        Portfolios of your own, by name. A frame holds shares on the dates when you trade, and what you buy drifts in between.
        A mapping from assets to shares, or a list of them, is restored daily, and also held. What is missing to 1 is cash. What
        ``to_pandas(name)`` gives is such a frame, too.
    learners : mapping, optional
        Learners, by name, or what makes one from ``domain``, ``movement`` and ``costs``, or from those of them that it names,
        such as ``kl.contrib.SoftBayes``. A list of them is chosen from once a year: the one that has earned most so far, after
        costs. Default: klazy's ``auto`` and ``ensemble_auto``, and rules of the literature.
    bps : float, mapping or pandas series, optional
        What each side of a trade costs in basis points, commission and half the spread; one number, or by asset. Default: 10.
    impact : ImpactMovement, optional
        What trades cost on top, as a share of wealth. Default: nothing.
    fee : float, optional
        What each order costs, in the currency of ``capital``. Default: 0.
    capital : float, optional
        The wealth at the start, which only ``fee`` is compared with. Default: 1e6.
    cash : float, optional
        What cash earns a year. If it is given, learners may hold cash, too, and Sharpe ratios are above it. Default: they are
        invested fully, and what is left over earns nothing.
    cap : float, mapping or pandas series, optional
        The most of the wealth in one asset. Default: 1.
    groups : mapping, optional
        The most in several assets together, by name: ``{"tech": (["AAPL", "MSFT"], 0.3)}``.
    turnover : float, optional
        The most of the wealth that changes hands on one date: trades are made smaller. Default: no limit.
    start : date, optional
        When the account is opened. Learners learn before it. Default: the first date.
    per_year : float, optional
        Rounds in a year. Default: as the dates say.
    seed : int, optional
        For the bootstrap. Default: 0.

    Returns
    -------
    Backtest
        The table, and everything in it by date.

    Raises
    ------
    ValueError
        If prices are returns or the other way round, dates do not ascend, or limits leave no room.

    Examples
    --------
    >>> import pandas as pd
    >>> days = pd.date_range("2024-01-01", periods=4)
    >>> frame = pd.DataFrame({"A": [100.0, 110.0, 121.0, 121.0], "B": [50.0, 50.0, 50.0, 40.0]}, index=days)
    >>> found = kl.portfolio.backtest(prices=frame, bps=0.0, learners={})
    >>> {name: round(row["wealth"], 4) for name, row in found.summary.items()}
    {'1/N daily': 0.9923, '1/N monthly': 1.005, '1/N held': 1.005, 'best stock': 1.21, 'best possible': 1.21}
    """
    rate = 0.0 if cash is None else number(cash, "cash")
    if rate <= -1.0:
        raise InvalidInput(f"cash must be above -1, got {cash}. 0.02 is two per cent a year.")
    market = make_market(
        prices, returns, rate, None if per_year is None else positive(per_year, "per_year")
    )
    names = market.names
    caps = _spread(cap, names, "cap", 1.0)
    if cash is None and caps.sum() < 1.0:
        raise InvalidInput(
            f"cap leaves room for {caps.sum():g} of the wealth only. Write cash=0.0 to allow cash."
        )
    terms = TradingTerms(
        _read_rates(bps, names),
        _read_impact(impact, len(names)),
        non_negative(fee, "fee") / positive(capital, "capital"),
        caps,
        _read_groups(groups or {}, names),
        np.inf if turnover is None else positive(turnover, "turnover"),
    )
    first = 0 if start is None else _find_date(market.dates, start)
    opened = market.since(first)
    with show_progress("back-testing") as report:
        kinds, aims = _list_aims(
            market, opened, first, terms, learners, weights, cash is not None, report
        )
        report(None, BEST_PATH)
        path, bound = _find_best_path(opened, terms)
        kinds[BEST_PATH] = HINDSIGHT
        account = simulate(opened, np.array([*aims, path]), terms)
    about = terms.describe() + (f", cash at {rate:.2%} a year" if rate else "")
    return Backtest(opened, kinds, account, bound, rate, about, integer(seed, "seed", least=0))


def _list_aims(
    market: Market,
    opened: Market,
    first: int,
    terms: TradingTerms,
    learners: Mapping[str, Any] | None,
    weights: Mapping[str, Any] | None,
    has_cash: bool,
    report: Callable[..., None],
) -> tuple[dict[str, str], list[Array]]:
    """List what everyone aims at, and of which kind they are; the account is opened on the date numbered ``first``."""
    found = {name: (BENCHMARK, aim) for name, aim in _benchmark(opened).items()}
    found[BEST_STOCK] = HINDSIGHT, found[BEST_STOCK][1]

    def add(name: str, kind: str, aim: Array) -> None:
        if name in found or name == BEST_PATH:
            raise InvalidInput(
                f"The table has a portfolio called {name} already. Choose another name for yours."
            )
        found[name] = kind, aim

    for argument, mapping in (("weights", weights), ("learners", learners)):
        if mapping is not None and not isinstance(mapping, Mapping):
            kind = type(mapping).__name__
            raise InvalidInput(
                f'{argument} must be a mapping from names, got {kind}. Write {argument}={{"mine": ...}}.'
            )
    for name, given in (weights or {}).items():
        for label, aim in _aim_at(given, opened, name).items():
            add(label, OWN_KIND, aim)
    rows = market.relatives()
    caps = terms.caps
    if has_cash:
        rows = np.hstack((rows, market.growth[:, -1:]))
        caps = np.append(caps, 1.0)
    width = rows.shape[1]
    domain = (
        Simplex(width) if caps.min() >= 1.0 else CappedSimplex(width, cap=np.minimum(caps, 1.0))
    )
    # Moving a share of the wealth sells it and buys something else.
    movement = TVMovement(2.0 * float(terms.rates.mean()))
    costs = LogWealthCosts(rows)

    def play(name: str, make: Any) -> Array:
        learner = make_learner(make, domain, movement, f"learners[{name!r}]")
        report(None, name)
        x = run(learner, costs, movement=movement, engine="auto").x[first:]
        return x if has_cash else np.hstack((x, np.zeros((len(x), 1))))

    default: dict[str, Any] = {}
    if learners is None:
        default = RULES
        add("auto", KLAZY, play("auto", auto))
        add("ensemble_auto", KLAZY, play("ensemble_auto", ensemble_auto))
    for name, make in (default or learners or {}).items():
        kind = PUBLISHED if name in default else OWN_KIND
        if isinstance(make, list | tuple) and make:
            candidates = [play(name, each) for each in make]
            tried = simulate(opened, np.array(candidates), terms)
            add(name, kind, _choose_yearly(candidates, tried.wealth, opened.dates))
        else:
            add(name, kind, play(name, make))
    return {name: kind for name, (kind, _) in found.items()}, [aim for _, aim in found.values()]
