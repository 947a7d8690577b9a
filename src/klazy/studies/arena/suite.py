"""The games of the arena: which there are, and how each is made from its name alone.

A suite is fixed: a change to what any game is made of, or to who plays, takes a new version. Games of one sequence differ in
the price of moving alone. Version 2 has the games of version 1, demands of servers by the minute, and four more contenders.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.costs import Costs, LinearCosts, LogWealthCosts, PinballCosts, QuadraticCosts
from klazy.movement import L1Movement, L2Movement, Movement, TVMovement
from klazy.sequences import Scenario, corrupted, stochastic
from klazy.sets import Box, CappedSimplex, ConvexSet, L2Ball, Simplex

if TYPE_CHECKING:
    from numpy.random import Generator

# Draws rows, called with a random stream, their number and, where it may differ, their dimension.
Draw = Callable[..., Array]
SUITES = ("1", "2")
SUITE_VERSION = SUITES[-1]
# In units of what a round's costs differ by across the set.
RELATIVE_PRICES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
FEW_PRICES = (0.3, 3.0, 30.0)
SEEDS = 2
FULL_ROUNDS = 4000
# A week of minutes.
DAY_ROUNDS = 1440
MINUTE_ROUNDS = 7 * DAY_ROUNDS
# Rounds of a quick look.
QUICK_ROUNDS = 1500
# Of data, as many as there are.
ALL_ROUNDS = 0
DIM = 5
# Goods in a game of demands, and the most of each that is in stock.
GOODS = 3
CAP = 10.0
# Rounds from which the unit of prices is found.
UNIT_ROUNDS = 500
# With these signs the paper's sequences mean something on a simplex.
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0])


class Setting(NamedTuple):
    """A set, costs, and the movement at a relative price of 1; ``spread`` is that of a round's costs."""

    domain: ConvexSet
    costs: Costs
    movement: Movement
    spread: float


class Recipe(NamedTuple):
    """How a sequence is made: its rows, drawn by ``rows(rng, T)`` or read by ``rows()``, and what they mean."""

    rows: Callable[..., Array]
    make: Callable[[Array], Setting]


Recipes = dict[str, dict[str, Recipe]]
"""Recipes by family and place."""


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
        movement = setting.movement.replace(weight=self.price * float(setting.movement.weight))
        return Game(self, *setting._replace(movement=movement))


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


def list_games(seed: int = 0, *, quick: bool = False, suite: str = SUITE_VERSION) -> list[Entry]:
    """List the suite: every synthetic sequence with two seeds from this one on, all data, at six prices.

    Parameters
    ----------
    seed : int, optional
        The first seed.
    quick : bool, optional
        A quick look has one seed, half of the prices, each family on one set, and fewer rounds.
    suite : str, optional
        The version of the suite. Default: the newest.

    Returns
    -------
    list of Entry
        Names of games; ``make()`` makes one that can be played.

    Examples
    --------
    >>> from klazy.studies.arena import list_games
    >>> games = list_games()
    >>> len(games), games[0].name
    (474, 'phases, ball, seed 0, price 0.1')
    >>> games[0].make().domain
    L2Ball(dim=5)
    """
    added = {} if suite == "1" else SERVER_FAMILIES
    if quick:
        places = itertools.cycle(SET_KINDS)
        sequences = [(family, next(places), seed, QUICK_ROUNDS) for family in LINEAR_FAMILIES]
        for family, kinds in (CURVED_FAMILIES | added).items():
            sequences.append((family, next(iter(kinds)), seed, QUICK_ROUNDS))
        sequences += [(family, place, None, QUICK_ROUNDS) for family, place in QUICK_DATA]
        prices = FEW_PRICES
    else:
        sequences = []
        for draw in range(seed, seed + SEEDS):
            for recipes, rounds in ((DRAWN_FAMILIES, FULL_ROUNDS), (added, MINUTE_ROUNDS)):
                sequences += [
                    (family, place, draw, rounds) for family, place in _list_places(recipes)
                ]
        sequences += [
            (family, place, None, ALL_ROUNDS) for family, place in _list_places(DATA_FAMILIES)
        ]
        prices = RELATIVE_PRICES
    found = itertools.product(sequences, prices)
    return [
        Entry(family, place, price, draw, rounds)
        for (family, place, draw, rounds), price in found
    ]


def _list_places(recipes: Recipes) -> list[tuple[str, str]]:
    return [(family, place) for family, kinds in recipes.items() for place in kinds]


def find_missing_data(entries: list[Entry]) -> dict[str, str]:
    """Return the families of games whose data are not installed, and the reason."""
    missing = {}
    if any(entry.family == "stocks" for entry in entries):
        try:
            _read_relatives()
        except ImportError as failed:
            missing["stocks"] = str(failed)
    return missing


# Games of one sequence are played one after the other.
@lru_cache(maxsize=4)
def _make_setting(family: str, place: str, seed: int | None, rounds: int) -> Setting:
    recipes = DRAWN_FAMILIES | SERVER_FAMILIES | DATA_FAMILIES
    if family not in recipes:
        raise InvalidInput(f"family must be one of {', '.join(recipes)}, got {family!r}.")
    recipe = recipes[family][place]
    if family in DATA_FAMILIES:
        return recipe.make(recipe.rows()[: rounds or None])
    return recipe.make(recipe.rows(open_stream(family, place, seed or 0), rounds))


def open_stream(family: str, place: str, seed: int) -> "Generator":
    """Open the random stream of a sequence, which does not depend on other sequences."""
    name = [ord(letter) for letter in f"{family}/{place}"]
    return np.random.default_rng([seed, *name])


def _measure(
    domain: ConvexSet, movement: type[Movement], make_costs: Callable[[Array], Costs], rows: Array
) -> Setting:
    """Find the price at which to cross the set costs as much as a round's cost differs across it, by its slope at the start."""
    costs = make_costs(rows)
    x = domain.start
    if isinstance(costs, PinballCosts):
        x = np.full(domain.dim, CAP / 2.0)
    rounds = np.unique(np.linspace(1, costs.T // 2, UNIT_ROUNDS).astype(int)).tolist()
    g = np.array([costs.subgradient(t, x) for t in rounds])
    across = domain.argmin_linear(-g) - domain.argmin_linear(g)
    spread = float(np.vecdot(g, across).mean())
    far = float(movement().distance(across).max())
    return Setting(domain, costs, movement(spread / far), spread)


# The sets on which linear costs are played, with what moving costs there.
SET_KINDS: dict[str, tuple[ConvexSet, type[Movement]]] = {
    "ball": (L2Ball(DIM), L2Movement),
    "box": (Box(-np.ones(DIM), np.ones(DIM)), L1Movement),
    "simplex": (Simplex(DIM), TVMovement),
}


def _draw_phases(make: Callable[..., Scenario], phases: int, rng: "Generator", T: int) -> Array:
    """Draw a sequence of the paper with random phases."""
    made = make(rng, phases=phases, length=-(-T // phases), dim=DIM, random_phases=True)
    return SIGNS * made.costs.data[:T]


def _draw_noise(rng: "Generator", T: int, d: int = DIM) -> Array:
    return rng.normal(size=(T, d))


def _draw_walk(rng: "Generator", T: int) -> Array:
    """Draw a random walk under noise."""
    return 0.05 * _draw_noise(rng, T).cumsum(axis=0) + 0.5 * _draw_noise(rng, T)


def _smooth(noise: Array, keep: float) -> Array:
    """Return x_t = keep x_{t-1} + noise_t, of variance one in the long run."""
    smooth = np.sqrt(1.0 - keep**2) * noise
    for t in range(1, len(smooth)):
        smooth[t] += keep * smooth[t - 1]
    return smooth


def _draw_wander(rng: "Generator", T: int, d: int = DIM) -> Array:
    return _smooth(_draw_noise(rng, T, d), 0.995)


def draw_memory(rng: "Generator") -> float:
    """Draw for how many rounds means remember where they were, 20 to 500."""
    return 20.0 * 25.0 ** rng.random()


def _draw_ar(rng: "Generator", T: int) -> Array:
    """Draw means that return, under noise."""
    memory = draw_memory(rng)
    return _smooth(_draw_noise(rng, T), 1.0 - 1.0 / memory) + 0.5 * _draw_noise(rng, T)


def _draw_rotating(rng: "Generator", T: int) -> Array:
    """Draw a direction that turns in a plane, once in 30 to 600 rounds, under noise."""
    period = 30.0 * 20.0 ** rng.random()
    plane, _ = np.linalg.qr(rng.normal(size=(DIM, 2)))
    angle = 2.0 * np.pi * (np.arange(T) / period + rng.random())
    return np.column_stack((np.cos(angle), np.sin(angle))) @ plane.T + 0.3 * _draw_noise(rng, T)


def _draw_season(rng: "Generator", T: int, d: int = DIM) -> Array:
    """Draw means that repeat after 24, 48 or 168 rounds, of two waves each, under noise."""
    period = rng.choice([24, 48, 168])
    t = np.arange(T)[:, None] / period
    wave = np.sin(2.0 * np.pi * (t + rng.random(d))) + 0.5 * np.sin(
        4.0 * np.pi * (t + rng.random(d))
    )
    return wave + 0.5 * _draw_noise(rng, T, d)


def _draw_iid(rng: "Generator", T: int) -> Array:
    """Draw independent rounds around one mean per coordinate."""
    return 0.1 * rng.normal(size=DIM) + _draw_noise(rng, T)


def _draw_levels(rng: "Generator", T: int, d: int = DIM) -> Array:
    """Draw means that change after 50 to 1000 rounds."""
    lasting = 50.0 * 20.0 ** rng.random()
    regime = (rng.random(T) < 1.0 / lasting).cumsum()
    return rng.normal(size=(regime[-1] + 1, d))[regime]


def _draw_around(
    mean: float, size: float, drift: Draw, noise: float, rng: "Generator", T: int, d: int = DIM
) -> Array:
    """Draw means that drift, under noise."""
    return mean + size * drift(rng, T, d) + noise * _draw_noise(rng, T, d)


LINEAR_FAMILIES: dict[str, Draw] = {
    "phases": partial(_draw_phases, stochastic, 12),
    "bursts": partial(_draw_phases, corrupted, 8),
    "random walk": _draw_walk,
    "AR(1)": _draw_ar,
    "rotating": _draw_rotating,
    "seasonal": _draw_season,
    "i.i.d.": _draw_iid,
    "regimes": partial(_draw_around, 0.0, 1.0, _draw_levels, 1.0),
}


def _store_goods(demands: Array) -> Setting:
    """Keep goods in stock: a unit that is missing costs four, one too many costs one."""
    d = demands.shape[1]
    domain = Box(np.zeros(d), np.full(d, CAP))
    return _measure(
        domain, L1Movement, partial(PinballCosts, short=4.0, excess=1.0), demands.clip(0.0, CAP)
    )


def _sell(drift: Draw, noise: float) -> Recipe:
    """Return the recipe of a shop's demands."""
    draw = partial(_draw_around, 5.0, 1.5, drift, noise, d=GOODS)
    return Recipe(draw, _store_goods)


def _track(place: str, drift: Draw) -> Recipe:
    """Return the recipe of targets to follow, about half of which are outside the set."""
    draw = partial(_draw_around, 0.0, 0.5, drift, 0.3)
    return Recipe(draw, partial(_measure, *SET_KINDS[place], QuadraticCosts))


def _grow(drift: Draw) -> Recipe:
    """Return the recipe of wealth in five assets, whose daily growth has means that change."""
    draw = partial(_draw_around, 0.0, 0.002, drift, 0.01)
    return Recipe(draw, lambda growth: _invest(np.exp(growth)))


def _invest(relatives: Array) -> Setting:
    return _measure(Simplex(relatives.shape[1]), TVMovement, LogWealthCosts, relatives)


CURVED_FAMILIES: Recipes = {
    "demand": {
        "wandering": _sell(_draw_wander, 0.7),
        "seasonal": _sell(_draw_season, 0.0),
        "regimes": _sell(_draw_levels, 0.7),
    },
    "targets": {
        "wandering, ball": _track("ball", _draw_wander),
        "wandering, box": _track("box", _draw_wander),
        "regimes, ball": _track("ball", _draw_levels),
        "regimes, box": _track("box", _draw_levels),
    },
    "wealth": {"wandering": _grow(_draw_wander), "regimes": _grow(_draw_levels)},
}


def _draw_day(rng: "Generator", T: int, d: int = DIM) -> Array:
    """Draw means that repeat after a day of minutes, of two waves, with minutes that are alike."""
    t = np.arange(T)[:, None] / DAY_ROUNDS
    wave = np.sin(2.0 * np.pi * (t + rng.random(d))) + 0.3 * np.sin(
        4.0 * np.pi * (t + rng.random(d))
    )
    return wave + 0.3 * _smooth(_draw_noise(rng, T, d), 0.98)


def _draw_crowds(rng: "Generator", T: int, d: int = DIM) -> Array:
    """Draw the same with two crowds a day, each of which comes at once and leaves within an hour or so."""
    level = (rng.random((T, d)) < 2.0 / DAY_ROUNDS) * rng.exponential(2.0, (T, d))
    for t in range(1, T):
        level[t] += 0.96 * level[t - 1]
    return _draw_day(rng, T, d) + level


def _load_server(drift: Draw) -> Recipe:
    """Return the recipe of a server's load by the minute."""
    return Recipe(partial(_draw_around, 4.0, 1.5, drift, 0.3, d=1), _store_goods)


DRAWN_FAMILIES: Recipes = {
    family: {
        place: Recipe(draw, partial(_measure, *kind, LinearCosts))
        for place, kind in SET_KINDS.items()
    }
    for family, draw in LINEAR_FAMILIES.items()
} | CURVED_FAMILIES
SERVER_FAMILIES: Recipes = {
    "servers": {"days": _load_server(_draw_day), "crowds": _load_server(_draw_crowds)}
}


def _read_delays(hours: int) -> Array:
    """Return mean delays of eight carriers, in hours; a missing one is the last known."""
    from klazy.datasets import CARRIERS, flights

    table = flights(hours=hours, carriers=CARRIERS[:8]).drop("time")
    return table.fill_null(strategy="forward").fill_null(0.0).to_numpy() / 60.0


def _count_departures() -> Array:
    """Count the departures that four carriers have scheduled in an hour, for each of which there must be a crew."""
    from klazy.datasets import CARRIERS, flights

    return flights("scheduled", carriers=CARRIERS[:4]).drop("time").to_numpy().astype(float) / 3.0


def _count_requests(parts: int) -> Array:
    """Count the requests to a cache in each second, by part of its objects."""
    from klazy.datasets import cache_requests

    requests = cache_requests()
    seconds = requests["time"].to_numpy().astype(int)
    counts = np.zeros((int(seconds.max()) + 1, parts))
    np.add.at(counts, (seconds, requests["object"].to_numpy() % parts), 1.0)
    return counts


def _count_prompts(column: str, seconds: float) -> Array:
    """Count the requests or tokens of two language-model services in each interval."""
    from klazy.datasets import llm_requests

    columns = [
        llm_requests(service, seconds)[column].to_numpy() for service in ("conversation", "code")
    ]
    shorter = min(map(len, columns))
    return np.column_stack([values[:shorter] for values in columns]).astype(float)


def _read_relatives() -> Array:
    """Return daily price relatives of eight stocks from 2000 on: before, rounded prices look like profit."""
    from klazy.datasets import stock_prices

    table = stock_prices("relative")
    recent = table.filter(table["time"].dt.year() >= 2000).drop("time")
    return recent.to_numpy()[:, :8]


# Book the carriers with the least delays.
_book = partial(_measure, Simplex(8), TVMovement, LinearCosts)
_book_several = partial(_measure, CappedSimplex(8, 1.0, 0.25), TVMovement, LinearCosts)
# Keep two of eight parts of the objects at hand.
_hold_objects = partial(_measure, CappedSimplex(8, 2.0, 1.0), TVMovement, LinearCosts)
# Follow the load in tokens, in 10,000 of an interval of five seconds.
_track_tokens = partial(_measure, Box(np.zeros(2), np.full(2, CAP)), L1Movement, QuadraticCosts)
DATA_FAMILIES: Recipes = {
    "flights": {
        "hourly": Recipe(lambda: _read_delays(1), _book),
        "daily": Recipe(lambda: _read_delays(24), _book),
        "hourly, capped": Recipe(lambda: _read_delays(1), _book_several),
        "gates": Recipe(_count_departures, _store_goods),
    },
    "cache": {
        "objects": Recipe(lambda: -_count_requests(8), _hold_objects),
        "load": Recipe(lambda: _count_requests(2) / 3.0, _store_goods),
    },
    "prompts": {
        "requests": Recipe(lambda: _count_prompts("requests", 1.0) / 2.0, _store_goods),
        "tokens": Recipe(lambda: _count_prompts("prompt_tokens", 5.0) / 10_000.0, _track_tokens),
    },
    "stocks": {"daily": Recipe(_read_relatives, _invest)},
}
QUICK_DATA = (("flights", "daily"), ("cache", "objects"), ("prompts", "requests"))


def describe_families(entries: list[Entry]) -> Iterator[dict[str, object]]:
    """Yield the number of games of each family, and their sets."""
    for family in dict.fromkeys(entry.family for entry in entries):
        own = [entry for entry in entries if entry.family == family]
        places = "; ".join(dict.fromkeys(entry.place for entry in own))
        yield {"family": family, "kinds": places, "games": len(own)}
