"""The one list of contenders: learners and rules of thumb, each with the values that are tried for its parameters.

Add an entry to :data:`CONTENDERS`, and it plays in replay and arena. So does every learner that another installed package
offers as an entry point of the group ``klazy.learners``.
"""

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from klazy import contrib, learners
from klazy.base.checks import Array, InvalidInput
from klazy.costs import Costs
from klazy.families import Family, Linear, LogWealth, Pinball
from klazy.hindsight import best_fixed
from klazy.hindsight.optimum import GapNotReached
from klazy.kernels.codes import SEASON_LAGS
from klazy.kernels.layout import find_missing_part
from klazy.learners import Learner
from klazy.learners.presets import MOST_SEASONAL, ensemble_auto
from klazy.movement import FiniteMetric, Movement
from klazy.sets import CappedSimplex, ConvexSet, Simplex
from klazy.studies.installed import list_installed, load_installed
from klazy.studies.tuning import choose_lags, choose_sigmas

# Studies in which a contender plays.
REPLAY = "replay"
ARENA = "arena"
# What a contender knows. All know the set and the move cost.
TUNED = "tuned"
TUNES_ITSELF = "self-tuned"
INFORMED = "told T and G"
YOURS = "yours"
OTHER_PACKAGES = "other packages"
SELF_TUNING = (TUNES_ITSELF, YOURS)
# How a contender decides.
SIMPLE = "simple"
GREEDY = "greedy"
LAZY = "lazy"
# It is given forecasts, and plays only where there are some.
FORECASTING = "forecasts"
# It is given somebody's decisions, likewise.
ADVISED = "advice"
TOLD = (FORECASTING, ADVISED)
FIXED = "fixed"
# The benchmarks of portfolios: equal parts, restored every round, and never.
EQUAL = "1/N"
HELD = "buy and hold"
SEASONAL_RULE = "seasonal"
# Rounds from which the size of gradients is found.
GRADIENT_SAMPLE = 2000
# The certified gap of the best fixed decision.
FIXED_GAP = 1e-3
# Rounds for which a seasonal decision may serve, and periods of which a profile may be the mean, where both are chosen.
SEASON_HORIZONS = (1, 2, 4, 8, 16, 32, 64, 128)
PROFILE_PERIODS = (2, 4, 8, 16)
# The least and the largest headroom of a rolling maximum.
HEADROOMS = (0.5, 2.0)
# Quantiles of demand are tried around the one that is best where moving is free, which is at least the first of these.
QUANTILES = (0.05, 0.95)
# How many times a switch must pay, at the least and at the most.
PATIENCE = (0.1, 10.0)
# What another author's learner may ask for by the names of its arguments.
OFFERED = ("domain", "movement", "family", "costs", "move_cost")

Axes = dict[str, list[float]]


class Counts(NamedTuple):
    """The numbers of values to try: for a single parameter, for the first of two, and for the second."""

    single: int
    first: int
    second: int


@dataclass(frozen=True, eq=False)
class Facts:
    """What contenders may know of a game before they are scored.

    ``gradients`` are those of some of the ``rounds`` to tune on, at the set's start. ``T`` counts all rounds. ``profiles`` are
    the numbers of rows of a day and a week, ``point`` is the best fixed decision. ``has_forecasts`` says whether rows come with
    forecasts. Where they come with decisions that somebody advises, ``delta`` is how much more than these may be paid.
    """

    domain: ConvexSet
    movement: Movement
    family: Family | None
    gradients: Array
    rounds: int
    T: int
    counts: Counts
    start: Array | None = None
    point: Array | None = None
    profiles: Sequence[int] = ()
    has_forecasts: bool = False
    delta: float | None = None

    @cached_property
    def sizes(self) -> Array:
        """The sizes of the gradients."""
        return np.linalg.norm(remove_shared(self.gradients, self.domain), axis=1)

    @cached_property
    def largest(self) -> float:
        """The largest size of a gradient."""
        return float(self.sizes.max()) or 1.0

    def choose_sigmas(self, count: int) -> list[float]:
        """Choose values of sigma to try."""
        size = float(np.sqrt((self.sizes**2).mean())) or 1.0
        return choose_sigmas(size, self.rounds, self.domain, count)

    @cached_property
    def has_seasons(self) -> bool:
        """Whether a seasonal learner is compiled for this game: without a kernel it takes longer than all others."""
        weight = self.movement.weight
        if self.movement.grouped is None or not isinstance(weight, float):
            return False
        if self.domain.dim > MOST_SEASONAL or self.family is None or not self.family.has_forecast:
            return False
        learner = make_seasonal(
            self.domain, self.movement, self.curved_family, periods=2, horizon=1
        )
        return find_missing_part(learner) is None

    @cached_property
    def curved_family(self) -> Family | None:
        """The family, None if it is linear: then gradients are rows."""
        return None if self.family == Linear() else self.family

    @cached_property
    def offered(self) -> dict[str, Any]:
        """What builders are called with, as far as their arguments have these names."""
        found = {
            "domain": self.domain,
            "movement": self.movement,
            "family": self.family,
            "costs": self.family,
            "curved_family": self.curved_family,
            "move_cost": float(np.max(self.movement.weight)),
            "point": self.point,
            # auto finds shorter seasons by itself.
            "long_periods": [
                rows for rows in self.profiles if self.has_seasons and rows > SEASON_LAGS
            ],
        }
        if self.delta is not None:
            found["delta"] = self.delta
        return found if self.start is None else found | {"start": self.start}


def is_simplex(domain: ConvexSet) -> bool:
    """Return True for a set of shares of a total."""
    return isinstance(domain, Simplex | CappedSimplex)


def remove_shared(gradients: Array, domain: ConvexSet) -> Array:
    """Remove from each gradient what all coordinates share, on a simplex: it decides nothing there."""
    if is_simplex(domain):
        return gradients - gradients.mean(axis=1, keepdims=True)
    return gradients


def choose_axes(kinds: dict[str, str], facts: Facts) -> Axes:
    """Choose the values to try for one or two parameters, each of a kind: ``"sigma"`` or ``"lag"``."""
    counts = facts.counts[:1] if len(kinds) < 2 else facts.counts[1:]
    axes = {}
    for (name, kind), count in zip(kinds.items(), counts, strict=False):
        axes[name] = (
            facts.choose_sigmas(count) if kind == "sigma" else choose_lags(facts.rounds, count)
        )
    return axes


def choose_seasons(facts: Facts) -> Axes | None:
    """Choose what a seasonal learner tries: the known periods, or else it finds one; linear costs it plans a period ahead."""
    if not facts.has_seasons:
        return None
    share = max(1, len(facts.profiles))
    axes: Axes = {"periods": list(range(1, facts.counts.single // share + 1))}
    if facts.curved_family is not None:
        axes["periods"] = list(PROFILE_PERIODS[: facts.counts.second])
        axes["horizon"] = list(SEASON_HORIZONS[: facts.counts.first // share])
    if facts.profiles:
        axes["period"] = list(facts.profiles)
    return axes


def choose_headrooms(facts: Facts) -> Axes | None:
    """Choose what a rolling maximum tries, for rows of demands or targets."""
    if facts.family is None or not facts.family.near_rows:
        return None
    headrooms = np.geomspace(*HEADROOMS, facts.counts.second).tolist()
    return {"window": choose_lags(facts.rounds, facts.counts.first), "headroom": headrooms}


def choose_quantiles(facts: Facts) -> Axes | None:
    """Choose what a rolling quantile tries, for rows of demands or targets: powers of the best one where moving is free."""
    if facts.family is None or not facts.family.near_rows:
        return None
    best = 0.5
    if isinstance(facts.family, Pinball):
        prices = facts.family.short + facts.family.excess
        best = float(np.mean(facts.family.short / np.where(prices > 0.0, prices, 1.0)))
    best = min(max(best, QUANTILES[0]), QUANTILES[1])
    powers = np.geomspace(4.0, 0.25, facts.counts.second)
    return {"window": choose_lags(facts.rounds, facts.counts.first), "q": (best**powers).tolist()}


def choose_follower(facts: Facts) -> Axes | None:
    """Choose what a follower of forecasts tries, where there are forecasts."""
    if not facts.has_forecasts or not getattr(facts.family, "has_forecast", True):
        return None
    counts = facts.counts
    return {
        "window": choose_lags(facts.rounds, counts.second),
        "horizon": list(SEASON_HORIZONS[: counts.first]),
    }


def choose_hinted(facts: Facts) -> Axes | None:
    """Let a learner without parameters play where there are forecasts."""
    return {} if facts.has_forecasts else None


def choose_advice(facts: Facts) -> Axes | None:
    """Let a learner without parameters play where somebody advises decisions."""
    return None if facts.delta is None else {}


def choose_mixture(facts: Facts) -> Axes | None:
    """Let points between decisions and a learner play, too, where moves are charged by a norm."""
    is_norm = facts.movement.degree == 1.0 and facts.movement.is_steady
    return choose_advice(facts) if is_norm else None


def choose_states(facts: Facts) -> Axes | None:
    """Let a rule without parameters play among states, whose switching costs are a table."""
    return {} if isinstance(facts.movement, FiniteMetric) else None


def choose_patience(facts: Facts) -> Axes | None:
    """Choose how patient a rule among states may be."""
    if choose_states(facts) is None:
        return None
    return {"times": np.geomspace(*PATIENCE, facts.counts.single).tolist()}


def choose_wealth(facts: Facts) -> Axes | None:
    """Let a rule without parameters play where rows are price relatives."""
    return {} if isinstance(facts.family, LogWealth) else None


def tune_by(**kinds: str) -> Callable[[Facts], Axes | None]:
    """Name the parameters of a contender, at most two, and the kind of their values: ``"sigma"`` or ``"lag"``."""
    return partial(choose_axes, kinds)


_UNTUNED = tune_by()


@dataclass(frozen=True)
class Contender:
    """A learner with the values to try for its parameters.

    ``kind`` says what it knows, ``style`` how it decides. ``make`` builds the learner from those facts that its arguments name,
    and from its parameters. ``axes`` chooses the values to try, None where the contender does not play; in the arena it then
    never moves. ``study`` names the only study it plays in, if it does not play in all, and ``since`` the first version of the
    arena's suite with it. One that ``is_pure`` plays corners of a simplex from a corner on. If it is no learner, ``make`` gives
    the points of all rounds of a game, which it is called with, and with the largest size of a gradient.
    """

    name: str
    kind: str
    make: Callable[..., Any]
    axes: Callable[[Facts], Axes | None] = _UNTUNED
    style: str = YOURS
    study: str = ""
    since: str = "1"
    is_learner: bool = True
    is_pure: bool = False

    def bind(self, facts: Facts) -> Callable[..., Learner[Any]]:
        """Return the builder for a game, which takes the parameters alone."""
        offered = facts.offered
        if self.kind == INFORMED:
            offered = offered | {"T": facts.T, "G": facts.largest}
        arguments = inspect.signature(self.make).parameters
        return partial(
            self.make, **{name: offered[name] for name in arguments if name in offered}
        )

    def make_learner(self, facts: Facts, **parameters: float) -> Learner[Any]:
        """Build the learner for a game."""
        made = self.bind(facts)(**parameters)
        if not isinstance(made, Learner):
            raise InvalidInput(
                f"{self.name} must return a klazy.types.Learner, got {type(made).__name__}."
            )
        return made


def find_fixed_point(costs: Costs, domain: ConvexSet, iterations: int = 20_000) -> Array:
    """Find the best fixed decision, as near as these iterations come."""
    try:
        return best_fixed(costs, domain, gap=FIXED_GAP, iterations=iterations).x
    except GapNotReached as short:
        return short.best.x


def make_fixed(domain: ConvexSet, point: Array) -> Learner[Any]:
    """Build the learner that stays at the best fixed decision."""
    return learners.Fixed(domain, start=point)


def make_decay(
    domain: ConvexSet, sigma: float, m: float, start: Array | None = None
) -> Learner[Any]:
    """Build descent that forgets over about m rounds."""
    return learners.MemoryGD(domain, sigma, memory=learners.Decay(m), start=start)


def make_auto(
    domain: ConvexSet,
    movement: Movement,
    family: Family,
    long_periods: list[int],
    start: Array | None = None,
) -> Learner[Any]:
    """Build ``auto``, which is given rows: by gradients it overshoots demands and targets.

    Among states it has no guard, whose points are distributions.
    """
    made = learners.auto(domain, movement, costs=family, period=long_periods, start=start)
    return made.replace(guard=False) if isinstance(movement, FiniteMetric) else made


def make_equal(domain: ConvexSet) -> Learner[Any]:
    """Build what restores equal parts every round, wherever somebody starts."""
    return learners.Fixed(domain)


def make_follower(
    domain: ConvexSet,
    movement: Movement,
    curved_family: Family | None,
    window: float,
    horizon: float,
    start: Array | None = None,
) -> Learner[Any]:
    """Build the follower of forecasts."""
    return learners.FollowForecast(
        domain, movement, window, horizon, family=curved_family, start=start
    )


def make_hinted(
    domain: ConvexSet,
    movement: Movement,
    family: Family,
    long_periods: list[int],
    start: Array | None = None,
) -> Learner[Any]:
    """Build ``auto`` with forecasts."""
    return learners.auto(
        domain, movement, costs=family, period=long_periods, start=start, hints=True
    )


def make_advised(
    domain: ConvexSet,
    movement: Movement,
    family: Family,
    curved_family: Family | None,
    long_periods: list[int],
    delta: float,
    start: Array | None = None,
) -> Learner[Any]:
    """Build points between advice and ``auto``."""
    robust = make_auto(domain, movement, family, long_periods, start)
    advice = contrib.Advice(domain, start=start)
    return contrib.Interpolation(advice, robust, movement, delta, family=curved_family)


def make_seasonal(
    domain: ConvexSet,
    movement: Movement,
    curved_family: Family | None,
    periods: int,
    horizon: int | None = None,
    period: int | None = None,
    start: Array | None = None,
) -> Learner[Any]:
    """Build a seasonal learner, alone with a leader, which is compiled for it."""
    options: Any = {"period": period, "family": curved_family, "start": start}
    expert = learners.Seasonal(domain, movement, horizon, periods, **options)
    return learners.Leader([expert], movement, guard=False, family=curved_family)


CONTENDERS = (
    Contender(FIXED, TUNED, make_fixed, style=SIMPLE, is_pure=True),
    Contender("follow the leader", TUNED, learners.FollowTheLeader, style=SIMPLE, is_pure=True),
    Contender("last value", TUNED, learners.LastValue, style=SIMPLE, is_pure=True),
    Contender(
        "moving average",
        TUNED,
        learners.MovingAverage,
        tune_by(window="lag"),
        SIMPLE,
        is_pure=True,
    ),
    Contender(
        "dead band",
        TUNED,
        learners.DeadBand,
        tune_by(window="lag", horizon="lag"),
        SIMPLE,
        is_pure=True,
    ),
    Contender(
        "minimum hold",
        TUNED,
        learners.MinimumHold,
        tune_by(window="lag", hold="lag"),
        SIMPLE,
        is_pure=True,
    ),
    Contender(
        "periodic",
        TUNED,
        learners.Periodic,
        tune_by(window="lag", every="lag"),
        SIMPLE,
        is_pure=True,
    ),
    Contender("rolling maximum", TUNED, learners.RollingMax, choose_headrooms, SIMPLE, since="2"),
    Contender(
        "rolling quantile", TUNED, learners.RollingQuantile, choose_quantiles, SIMPLE, since="2"
    ),
    Contender(EQUAL, TUNED, make_equal, choose_wealth, SIMPLE, since="2"),
    Contender(HELD, TUNED, contrib.BuyAndHold, choose_wealth, SIMPLE, since="2"),
    Contender("stay", TUNED, contrib.Stay, choose_patience, SIMPLE, REPLAY, is_pure=True),
    Contender(
        "work function", TUNED, contrib.WorkFunction, choose_states, SIMPLE, REPLAY, is_pure=True
    ),
    Contender(SEASONAL_RULE, TUNED, make_seasonal, choose_seasons, SIMPLE, REPLAY),
    Contender("GD", TUNED, learners.GD, tune_by(sigma="sigma"), GREEDY),
    Contender("LazyGD", TUNED, learners.LazyGD, tune_by(sigma="sigma"), LAZY),
    Contender("k-lazyGD", TUNED, learners.KLazyGD, tune_by(sigma="sigma", k="lag"), LAZY),
    Contender("Decay", TUNED, make_decay, tune_by(sigma="sigma", m="lag"), LAZY),
    Contender("SAder", INFORMED, learners.sader, style=LAZY, study=ARENA),
    Contender("SAder-k", INFORMED, learners.sader_k, style=LAZY),
    Contender("ensemble_auto", TUNES_ITSELF, ensemble_auto, style=LAZY, study=ARENA),
    Contender("auto", TUNES_ITSELF, make_auto, style=LAZY, is_pure=True),
    Contender("forecast", TUNED, make_follower, choose_follower, FORECASTING, REPLAY),
    Contender(
        "auto with forecast", TUNES_ITSELF, make_hinted, choose_hinted, FORECASTING, REPLAY
    ),
    Contender("advice", TUNED, contrib.Advice, choose_advice, ADVISED, REPLAY),
    Contender("auto with advice", TUNES_ITSELF, make_advised, choose_mixture, ADVISED, REPLAY),
)


def list_contenders(study: str) -> list[Contender]:
    """List those of klazy that play in a study, and after them those of installed packages.

    A learner of another package that cannot be used is left out with a warning.
    """
    found = [each for each in CONTENDERS if each.study in ("", study)]
    for name in list_installed():
        try:
            found += import_own([name], trust=False)
        except InvalidInput as failed:
            warnings.warn(f"{study} leaves out an installed learner: {failed}", stacklevel=2)
    return found


def make_own(made: Any, name: str | None = None) -> Contender:
    """Make a contender of a function of domain, movement and family, or of those of them that it names."""
    if not callable(made):
        raise InvalidInput(f"learner must be a function that makes a learner, got {made!r}.")
    label = name or getattr(made, "__name__", type(made).__name__)
    try:
        arguments = inspect.signature(made).parameters.values()
    except (TypeError, ValueError) as failed:
        raise InvalidInput(f"The arguments of {label} cannot be found: {failed}.") from failed
    for argument in arguments:
        is_optional = argument.default is not argument.empty or argument.kind in (2, 4)
        if not is_optional and argument.name not in OFFERED:
            problem = f"{label} needs a value for its argument {argument.name}"
            raise InvalidInput(
                f"{problem}. Give it a default; only {', '.join(OFFERED)} are passed."
            )
    if label in [each.name for each in CONTENDERS]:
        label = f"{label} (yours)"
    return Contender(label, YOURS, made)


def import_own(names: Sequence[str], trust: bool) -> list[Contender]:
    """Import learners that are named as ``module:Class`` or ``module:function``, or that an installed package offers."""
    found = []
    installed = list_installed()
    for name in names:
        module, colon, attribute = name.partition(":")
        if not colon and name not in installed:
            remedy = "`klazy list` lists them; name a learner of your own as module:function."
            raise InvalidInput(f"No installed learner is named {name!r}. {remedy}")
        if colon and not trust:
            raise InvalidInput(
                f"{name} would be imported and run. Add --trust if you know its code."
            )
        try:
            made = getattr(import_module(module), attribute) if colon else load_installed(name)
        except InvalidInput:
            raise
        # The module of another author may raise anything.
        except Exception as failed:
            raise InvalidInput(
                f"{name} cannot be imported: {type(failed).__name__}: {failed}"
            ) from failed
        found.append(make_own(made, attribute or name))
    return found
