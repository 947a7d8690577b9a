"""The games of the arena: which there are, and how each is made from its name alone.

A suite is fixed: a change to what any game is made of, or to who plays, takes a new version. Games of one sequence differ in
the price of moving alone. Version 2 has the games of version 1, and two more contenders, for demands and targets.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.costs import Costs, LinearCosts, LogWealthCosts, PinballCosts, QuadraticCosts
from klazy.movement import L1Movement, L2Movement, Movement, TVMovement
from klazy.sequences import corrupted, stochastic
from klazy.sets import Box, CappedSimplex, ConvexSet, L2Ball, Simplex

SUITES = ("1", "2")
SUITE_VERSION = SUITES[-1]
RELATIVE_PRICES = (
    0.1,
    0.3,
    1.0,
    3.0,
    10.0,
    30.0,
)  # in units of what a round's costs differ by across the set
FEW_PRICES = (0.3, 3.0, 30.0)
SEEDS = 2
FULL_ROUNDS = 4000
QUICK_ROUNDS = 1500  # rounds of a quick look
DIM = 5
GOODS = 3  # goods in a game of demands
UNIT_ROUNDS = 500  # rounds from which the unit of prices is found
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0])  # so that the paper's sequences mean something on a simplex
CAP = 10.0  # on the stock of a good


class Setting(NamedTuple):
    """A set, costs, and what a unit of movement costs at a relative price of 1; ``spread`` is that of a round's costs."""

    domain: ConvexSet
    costs: Costs
    movement: type[Movement]
    unit: float
    spread: float


class Entry(NamedTuple):
    """A game of the suite, by name. :func:`list_games` lists them.

    Parameters
    ----------
    family : str
        What its sequence is like.
    place : str
        On which set it is played.
    price : float
        The relative price of moving.
    seed : int or None
        What the sequence is drawn from; None for data.
    rounds : int
        The number of rounds.

    Examples
    --------
    >>> Entry("phases", "ball", 0.1, 0, 2000).name
    'phases, ball, seed 0, price 0.1'
    """

    family: str
    place: str
    price: float
    seed: int | None
    rounds: int

    @property
    def sequence(self) -> str:
        """What it shares with the same game at other prices."""
        name = f"{self.family}, {self.place}"
        return name if self.seed is None else f"{name}, seed {self.seed}"

    @property
    def name(self) -> str:
        """Sequence and price."""
        return f"{self.sequence}, price {self.price:g}"

    def make(self) -> "Game":
        """Make the game.

        Returns
        -------
        Game
            It can be played.
        """
        setting = _make_setting(self.family, self.place, self.seed, self.rounds)
        movement = setting.movement(self.price * setting.unit)
        return Game(self, setting.domain, setting.costs, movement, setting.spread)


@dataclass(frozen=True, eq=False)
class Game:
    """A game of the suite that can be played. :meth:`Entry.make` makes it.

    Parameters
    ----------
    entry : Entry
        Its name.
    domain : ConvexSet
        The set of decisions.
    costs : Costs
        The costs of all rounds.
    movement : Movement
        The movement cost.
    spread : float
        How much the cost of a round differs across the set.
    """

    entry: Entry
    domain: ConvexSet
    costs: Costs
    movement: Movement
    spread: float

    @property
    def half(self) -> int:
        """Rounds that parameters are chosen on; the others are scored."""
        return self.costs.T // 2

    @property
    def first(self) -> Costs:
        """The costs of the first half."""
        return self.costs.window(1, self.half)

    @property
    def second(self) -> Costs:
        """The costs of the second half."""
        return self.costs.window(self.half + 1, self.costs.T)

    @property
    def scale(self) -> float:
        """The spread of all costs that are scored."""
        return self.spread * (self.costs.T - self.half)


def list_games(seed: int = 0, *, quick: bool = False) -> list[Entry]:
    """List the suite: every synthetic sequence with two seeds from this one on, all data, at six prices.

    Parameters
    ----------
    seed : int, optional
        The first seed.
    quick : bool, optional
        A quick look has one seed, half of the prices, each family on one set, and fewer rounds.

    Returns
    -------
    list of Entry
        Names of games; ``make()`` makes one that can be played.

    Examples
    --------
    >>> from klazy.studies.arena import list_games
    >>> games = list_games()
    >>> len(games), games[0].name
    (450, 'phases, ball, seed 0, price 0.1')
    >>> games[0].make().domain
    L2Ball(dim=5)
    """
    found: list[tuple[str, str, int | None]] = []
    if quick:
        places = itertools.cycle(SET_KINDS)
        found += [(family, next(places), seed) for family in LINEAR_FAMILIES]
        found += [(family, next(iter(kinds)), seed) for family, kinds in CURVED_FAMILIES.items()]
        found += [(family, place, None) for family, place in QUICK_DATA]
        return _list_prices(found, QUICK_ROUNDS, QUICK_ROUNDS, FEW_PRICES)
    for draw in range(seed, seed + SEEDS):
        found += [(family, place, draw) for family in LINEAR_FAMILIES for place in SET_KINDS]
        found += [(family, place, draw) for family, kinds in CURVED_FAMILIES.items() for place in kinds]
    found += [(family, place, None) for family, kinds in DATA_FAMILIES.items() for place in kinds]
    return _list_prices(found, FULL_ROUNDS, 0, RELATIVE_PRICES)


def _list_prices(
    sequences: list[tuple[str, str, int | None]], drawn: int, real: int, prices: tuple[float, ...]
) -> list[Entry]:
    """Return every sequence at every price, with this many rounds if it is drawn, or of data; 0 is all data."""
    found = []
    for (family, place, seed), price in itertools.product(sequences, prices):
        found.append(Entry(family, place, price, seed, real if seed is None else drawn))
    return found


def find_missing_data(entries: list[Entry]) -> dict[str, str]:
    """Return the families of games whose data are not installed, and the reason."""
    missing = {}
    if any(entry.family == "stocks" for entry in entries):
        try:
            _read_relatives()
        except ImportError as failed:
            missing["stocks"] = str(failed)
    return missing


@lru_cache(maxsize=4)  # games of one sequence are played one after the other
def _make_setting(family: str, place: str, seed: int | None, rounds: int) -> Setting:
    if family in LINEAR_FAMILIES:
        domain, movement = SET_KINDS[place]()
        return _measure(
            domain, LinearCosts(LINEAR_FAMILIES[family](_seed(family, place, seed), rounds)), movement
        )
    if family in CURVED_FAMILIES:
        return CURVED_FAMILIES[family][place](_seed(family, place, seed), rounds)
    if family in DATA_FAMILIES:
        return DATA_FAMILIES[family][place](rounds)
    known = ", ".join((*LINEAR_FAMILIES, *CURVED_FAMILIES, *DATA_FAMILIES))
    raise InvalidInput(f"family must be one of {known}, got {family!r}.")


def _seed(family: str, place: str, seed: int | None) -> "np.random.Generator":
    """Return a random stream for a sequence, which does not depend on other sequences."""
    name = [ord(letter) for letter in f"{family}/{place}"]
    return np.random.default_rng([seed or 0, *name])


def _measure(domain: ConvexSet, costs: Costs, movement: type[Movement]) -> Setting:
    """Find the price at which to cross the set costs as much as a round's cost differs across it, by its slope at the start."""
    x = domain.start
    if isinstance(costs, PinballCosts):
        x = np.full(domain.dim, CAP / 2.0)
    rounds = np.unique(np.linspace(1, costs.T // 2, UNIT_ROUNDS).astype(int)).tolist()
    g = np.array([costs.subgradient(t, x) for t in rounds])
    across = domain.argmin_linear(-g) - domain.argmin_linear(g)
    spread = float(np.vecdot(g, across).mean())
    far = float(movement().distance(across).max())
    return Setting(domain, costs, movement, spread / far, spread)


# The sets on which linear costs are played, with what moving costs there.
SET_KINDS: dict[str, Callable[[], tuple[ConvexSet, type[Movement]]]] = {
    "ball": lambda: (L2Ball(DIM), L2Movement),
    "box": lambda: (Box(-np.ones(DIM), np.ones(DIM)), L1Movement),
    "simplex": lambda: (Simplex(DIM), TVMovement),
}


def _draw_phases(rng: "np.random.Generator", T: int) -> Array:
    """Draw the paper's stochastic sequence with random phases."""
    made = stochastic(rng, phases=12, length=-(-T // 12), dim=DIM, random_phases=True)
    return SIGNS * made.costs.data[:T]


def _draw_bursts(rng: "np.random.Generator", T: int) -> Array:
    """Draw the paper's corrupted sequence with random phases."""
    made = corrupted(rng, phases=8, length=-(-T // 8), dim=DIM, random_phases=True)
    return SIGNS * made.costs.data[:T]


def _draw_noise(rng: "np.random.Generator", T: int, d: int = DIM) -> Array:
    return rng.normal(size=(T, d))


def _draw_walk(rng: "np.random.Generator", T: int) -> Array:
    """Draw a random walk under noise."""
    return 0.05 * _draw_noise(rng, T).cumsum(axis=0) + 0.5 * _draw_noise(rng, T)


def _smooth(noise: Array, keep: float) -> Array:
    """Return x_t = keep x_{t-1} + noise_t, of variance one in the long run."""
    smooth = np.sqrt(1.0 - keep**2) * noise
    for t in range(1, len(smooth)):
        smooth[t] += keep * smooth[t - 1]
    return smooth


def _draw_ar(rng: "np.random.Generator", T: int) -> Array:
    """Draw means that return, with a memory of 20 to 500 rounds, under noise."""
    memory = 20.0 * 25.0 ** rng.random()
    return _smooth(_draw_noise(rng, T), 1.0 - 1.0 / memory) + 0.5 * _draw_noise(rng, T)


def _draw_rotating(rng: "np.random.Generator", T: int) -> Array:
    """Draw a direction that turns in a plane, once in 30 to 600 rounds, under noise."""
    period = 30.0 * 20.0 ** rng.random()
    plane, _ = np.linalg.qr(rng.normal(size=(DIM, 2)))
    angle = 2.0 * np.pi * (np.arange(T) / period + rng.random())
    return np.column_stack((np.cos(angle), np.sin(angle))) @ plane.T + 0.3 * _draw_noise(rng, T)


def _draw_season(rng: "np.random.Generator", T: int, d: int = DIM) -> Array:
    """Draw means that repeat after 24, 48 or 168 rounds, of two waves each, under noise."""
    period = rng.choice([24, 48, 168])
    t = np.arange(T)[:, None] / period
    wave = np.sin(2.0 * np.pi * (t + rng.random(d))) + 0.5 * np.sin(4.0 * np.pi * (t + rng.random(d)))
    return wave + 0.5 * _draw_noise(rng, T, d)


def _draw_iid(rng: "np.random.Generator", T: int) -> Array:
    """Draw independent rounds around one mean per coordinate."""
    return 0.1 * rng.normal(size=DIM) + _draw_noise(rng, T)


def _draw_levels(rng: "np.random.Generator", T: int, d: int = DIM) -> Array:
    """Draw means that change after 50 to 1000 rounds."""
    lasting = 50.0 * 20.0 ** rng.random()
    regime = (rng.random(T) < 1.0 / lasting).cumsum()
    return rng.normal(size=(regime[-1] + 1, d))[regime]


def _draw_regimes(rng: "np.random.Generator", T: int) -> Array:
    return _draw_levels(rng, T) + _draw_noise(rng, T)


LINEAR_FAMILIES: dict[str, Callable[["np.random.Generator", int], Array]] = {
    "phases": _draw_phases,
    "bursts": _draw_bursts,
    "random walk": _draw_walk,
    "AR(1)": _draw_ar,
    "rotating": _draw_rotating,
    "seasonal": _draw_season,
    "i.i.d.": _draw_iid,
    "regimes": _draw_regimes,
}


def _store_goods(demands: Array) -> Setting:
    """Keep goods in stock: a unit that is missing costs four, one too many costs one."""
    d = demands.shape[1]
    domain = Box(np.zeros(d), np.full(d, CAP))
    return _measure(domain, PinballCosts(demands.clip(0.0, CAP), 4.0, 1.0), L1Movement)


def _sell_wandering(rng: "np.random.Generator", T: int) -> Setting:
    wander = _smooth(_draw_noise(rng, T, GOODS), 0.995)
    return _store_goods(5.0 + 1.5 * wander + 0.7 * _draw_noise(rng, T, GOODS))


def _sell_seasonal(rng: "np.random.Generator", T: int) -> Setting:
    return _store_goods(5.0 + 1.5 * _draw_season(rng, T, GOODS))


def _sell_regimes(rng: "np.random.Generator", T: int) -> Setting:
    return _store_goods(5.0 + 1.5 * _draw_levels(rng, T, GOODS) + 0.7 * _draw_noise(rng, T, GOODS))


def _track(place: str, drift: Callable[["np.random.Generator", int], Array]) -> Callable[..., Setting]:
    """Return a maker of targets to follow, about half of which are outside the set."""

    def make(rng: "np.random.Generator", T: int) -> Setting:
        domain, movement = SET_KINDS[place]()
        targets = 0.5 * drift(rng, T) + 0.3 * _draw_noise(rng, T)
        return _measure(domain, QuadraticCosts(targets), movement)

    return make


def _grow(drift: Callable[["np.random.Generator", int], Array]) -> Callable[..., Setting]:
    """Return a maker of wealth in five assets, whose daily growth has means that change."""

    def make(rng: "np.random.Generator", T: int) -> Setting:
        growth = 0.002 * drift(rng, T) + 0.01 * _draw_noise(rng, T)
        return _measure(Simplex(DIM), LogWealthCosts(np.exp(growth)), TVMovement)

    return make


def _wander(rng: "np.random.Generator", T: int) -> Array:
    return _smooth(_draw_noise(rng, T), 0.995)


CURVED_FAMILIES: dict[str, dict[str, Callable[["np.random.Generator", int], Setting]]] = {
    "demand": {"wandering": _sell_wandering, "seasonal": _sell_seasonal, "regimes": _sell_regimes},
    "targets": {
        "wandering, ball": _track("ball", _wander),
        "wandering, box": _track("box", _wander),
        "regimes, ball": _track("ball", _draw_levels),
        "regimes, box": _track("box", _draw_levels),
    },
    "wealth": {"wandering": _grow(_wander), "regimes": _grow(_draw_levels)},
}


def _read_delays(hours: int, rounds: int) -> Array:
    """Return mean delays of eight carriers, in hours; a missing one is the last known."""
    from klazy.datasets import CARRIERS, flights

    table = flights(hours=hours, carriers=CARRIERS[:8]).drop("time")
    delays = table.fill_null(strategy="forward").fill_null(0.0).to_numpy() / 60.0
    return delays[: rounds or None]


def _fly(domain: ConvexSet, hours: int, rounds: int) -> Setting:
    """Book the carriers with the least delays."""
    return _measure(domain, LinearCosts(_read_delays(hours, rounds)), TVMovement)


def _man_gates(rounds: int) -> Setting:
    """Crews for the departures that four carriers have scheduled in an hour."""
    from klazy.datasets import CARRIERS, flights

    counts = flights("scheduled", carriers=CARRIERS[:4]).drop("time").to_numpy().astype(float)
    return _store_goods(counts[: rounds or None] / 3.0)


def _count_requests(parts: int, rounds: int) -> Array:
    """Count the requests to a cache in each second, by part of its objects."""
    from klazy.datasets import cache_requests

    requests = cache_requests()
    seconds = requests["time"].to_numpy().astype(int)
    counts = np.zeros((int(seconds.max()) + 1, parts))
    np.add.at(counts, (seconds, requests["object"].to_numpy() % parts), 1.0)
    return counts[: rounds or None]


def _hold_objects(rounds: int) -> Setting:
    """Keep two of eight parts of the objects at hand."""
    return _measure(CappedSimplex(8, 2.0, 1.0), LinearCosts(-_count_requests(8, rounds)), TVMovement)


def _count_prompts(column: str, seconds: float, rounds: int) -> Array:
    """Count the requests or tokens of two language-model services in each interval."""
    from klazy.datasets import llm_requests

    columns = [llm_requests(service, seconds)[column].to_numpy() for service in ("conversation", "code")]
    shorter = min(map(len, columns))
    counts = np.column_stack([values[:shorter] for values in columns]).astype(float)
    return counts[: rounds or None]


def _track_tokens(rounds: int) -> Setting:
    """Follow the load in tokens, in 10,000 of an interval of five seconds."""
    tokens = _count_prompts("prompt_tokens", 5.0, rounds) / 10_000.0
    domain = Box(np.zeros(2), np.full(2, CAP))
    return _measure(domain, QuadraticCosts(tokens), L1Movement)


def _read_relatives() -> Array:
    """Return daily price relatives of eight stocks from 2000 on: before, rounded prices look like profit."""
    from klazy.datasets import stock_prices

    table = stock_prices("relative")
    recent = table.filter(table["time"].dt.year() >= 2000).drop("time")
    return recent.to_numpy()[:, :8]


def _hold_stocks(rounds: int) -> Setting:
    return _measure(Simplex(8), LogWealthCosts(_read_relatives()[: rounds or None]), TVMovement)


DATA_FAMILIES: dict[str, dict[str, Callable[[int], Setting]]] = {
    "flights": {
        "hourly": lambda rounds: _fly(Simplex(8), 1, rounds),
        "daily": lambda rounds: _fly(Simplex(8), 24, rounds),
        "hourly, capped": lambda rounds: _fly(CappedSimplex(8, 1.0, 0.25), 1, rounds),
        "gates": _man_gates,
    },
    "cache": {
        "objects": _hold_objects,
        "load": lambda rounds: _store_goods(_count_requests(2, rounds) / 3.0),
    },
    "prompts": {
        "requests": lambda rounds: _store_goods(_count_prompts("requests", 1.0, rounds) / 2.0),
        "tokens": _track_tokens,
    },
    "stocks": {"daily": _hold_stocks},
}
QUICK_DATA = (("flights", "daily"), ("cache", "objects"), ("prompts", "requests"))


def describe_families(entries: list[Entry]) -> Iterator[dict[str, object]]:
    """Yield the number of games of each family, and their sets."""
    for family in dict.fromkeys(entry.family for entry in entries):
        own = [entry for entry in entries if entry.family == family]
        places = "; ".join(dict.fromkeys(entry.place for entry in own))
        yield {"family": family, "kinds": places, "games": len(own)}
