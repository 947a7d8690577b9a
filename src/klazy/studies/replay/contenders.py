"""Who is compared: learners and rules of thumb, each with as many candidates as any other to choose from."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.families import Family, Linear
from klazy.game.batch import run_batch
from klazy.game.run import run
from klazy.hindsight import best_fixed
from klazy.hindsight.optimum import GapNotReached
from klazy.kernels.codes import SEASON_LAGS, SEASON_LONGEST, SEASON_NUMBERS, SEASON_PERIOD, SEASON_ROWS
from klazy.kernels.layout import find_missing_part
from klazy.learners import (
    GD,
    DeadBand,
    Decay,
    Fixed,
    FollowTheLeader,
    KLazyGD,
    LastValue,
    LazyGD,
    Leader,
    Learner,
    MemoryGD,
    MinimumHold,
    MovingAverage,
    Periodic,
    Seasonal,
    auto,
    sader_k,
)
from klazy.learners.presets import MOST_SEASONAL
from klazy.live.agent import Agent
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.replay.setup import Setup
from klazy.studies.replay.source import DAY
from klazy.studies.tuning import Contender, Player, choose_lags, choose_sigmas

CANDIDATES = 64  # of each contender that has parameters, or so many as differ: half of them round the best of the others
MANY = CANDIDATES // 2  # values of a single parameter, in each half
SOME = 8  # values of the first of two parameters, in each half
FEW = 4  # values of the second
SAMPLE = 2000  # rows from which that scale is found
NAMES = (
    "fixed", "follow the leader", "last value", "moving average", "dead band", "minimum hold", "periodic",
    "seasonal", "GD", "LazyGD", "k-lazyGD", "Decay", "SAder-k", "auto",
)  # fmt: skip
SEASONS = {"day": DAY, "week": 7 * DAY}  # seconds after which the same may come again
PATTERNS = {"day": "daily", "week": "weekly"}
MOST = 0.9  # of the rows must come a season after another row
ON_TIME = 200  # rows of a season for each row by which it may be late
AHEAD = [1, 2, 4, 8, 16, 32, 64, 128]  # rounds for which a seasonal decision may serve
AVERAGED = [2, 4, 8, 16]  # periods of which a profile may be the mean, where both are chosen
SEARCH = 1000  # iterations for the best fixed point
LARGE = 10**6  # numbers of a trace, beyond which the best fixed point is that for the average row


class Learning:
    """A learner at work."""

    def __init__(self, learner: Learner[Any], setup: Setup) -> None:
        self.learner = learner
        self.setup = setup
        self.state = None

    @property
    def x(self) -> Array:
        state = self.learner.init() if self.state is None else self.state
        return state.x

    def play(self, rows: Array) -> Array:
        trace = run(self.learner, self.setup.costs(rows), movement=self.setup.movement, state=self.state)
        self.state = trace.state
        return trace.x


class Guarded:
    """A learner at work within guards, as an agent that is told the rows."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @property
    def learner(self) -> Learner[Any]:
        return self.agent.learner

    @property
    def state(self) -> Any:
        return self.agent.state

    @property
    def x(self) -> Array:
        return self.agent.x

    def play(self, rows: Array) -> Array:
        points = np.empty_like(rows)
        for at, row in enumerate(rows):
            points[at] = self.agent.x
            self.agent.observe(row)
        return points

    def __copy__(self) -> "Guarded":
        return Guarded(copy(self.agent))


def guard(player: Any, setup: Setup) -> Guarded:
    """The same learner at work, from where it stands, within the guards of the setup."""
    learner = player.learner
    agent = Agent(
        learner, costs=setup.family, movement=setup.movement, state=player.state, guards=setup.guards
    )
    return Guarded(agent)


class Given:
    """Plays decisions that were made before, one per row of the trace; after the last it stays."""

    def __init__(self, read: Callable[[int, int], Array], at: int, last: int) -> None:
        self._read = read
        self._at = at
        self._last = last

    @property
    def x(self) -> Array:
        at = min(self._at, self._last - 1)
        return self._read(at, at + 1)[0]

    def play(self, rows: Array) -> Array:
        points = self._read(self._at, self._at + len(rows))
        self._at += len(rows)
        return points


def list_contenders(
    setup: Setup,
    tuned: Array,
    before: Callable[[], Iterator[Array]],
    T: int,
    seconds: Array | None = None,
) -> list[Contender]:
    """All of them. ``tuned`` are the rows they are tuned on, ``before()`` all rows of the first part, T the whole length.

    ``seconds`` are the times of the rows in ``tuned``, where they have dates.
    """
    n = len(tuned)
    domain = setup.domain
    family = setup.told
    sample = tuned[:: max(1, n // SAMPLE)]
    g = setup.gradients(sample, domain.start)
    if isinstance(domain, Simplex | CappedSimplex):
        g = g - g.mean(axis=1, keepdims=True)  # what all coordinates have in common decides nothing there
    sizes = np.linalg.norm(g, axis=1)
    size = float(np.sqrt((sizes**2).mean())) or 1.0
    largest = float(sizes.max()) or 1.0
    sigmas = choose_sigmas(size, n, domain, MANY)
    few_sigmas = choose_sigmas(size, n, domain, SOME)
    lags = choose_lags(n, MANY)
    many_lags = choose_lags(n, SOME)
    few_lags = choose_lags(n, FEW)

    def make_player(make: Callable[..., Learner[Any]], **fixed: Any) -> Callable[..., Player]:
        return lambda **point: Learning(make(domain, start=setup.start, **fixed, **point), setup)

    def make_decay(domain: Any, sigma: float, m: float, start: Any) -> Learner[Any]:
        return MemoryGD(domain, sigma, Decay(m), start=start)

    def make_theory(domain: Any, start: Any) -> Learner[Any]:
        return sader_k(
            domain, T=T, G=largest, movement_weight=float(np.max(setup.movement.weight)), start=start
        )

    def make_rule(kind: Callable[..., Learner[Any]], **fixed: Any) -> Callable[..., Player]:
        return make_player(kind, family=family, **fixed)

    def make_auto(domain: Any, start: Any, period: list[int]) -> Learner[Any]:
        """Told the rows where it is compiled for them, else gradients."""
        knowing = auto(domain, setup.movement, costs=family, period=period, start=start)
        if find_missing_part(knowing) is None:
            return knowing
        return auto(domain, setup.movement, period=period, start=start)

    def make_seasonal(
        domain: Any, start: Any, periods: int, horizon: int | None = None, period: int | None = None
    ) -> Learner[Any]:
        """Alone with a leader, which is compiled for it."""
        known = None if family == Linear() else family
        expert = Seasonal(domain, setup.movement, horizon, periods, period=period, family=known, start=start)
        return Leader([expert], setup.movement, guard=False, family=known)

    still = Fixed(domain, start=_find_fixed(setup, before))
    band = make_rule(DeadBand, movement=setup.movement)
    profiles = find_profiles(seconds, family.width(domain.dim))
    seasonal = []
    too_long = []  # for auto to find by itself
    if _has_seasons(setup, make_seasonal):
        axes = choose_seasons(family, profiles)
        seasonal = [Contender("seasonal", "simple", make_player(make_seasonal), axes)]
        too_long = [rows for rows in profiles if rows > SEASON_LAGS]
    return [
        Contender("fixed", "simple", lambda: Learning(still, setup), {}),
        Contender("follow the leader", "simple", make_rule(FollowTheLeader), {}),
        Contender("last value", "simple", make_rule(LastValue), {}),
        Contender("moving average", "simple", make_rule(MovingAverage), {"window": lags}),
        Contender("dead band", "simple", band, {"window": many_lags, "horizon": few_lags}),
        Contender("minimum hold", "simple", make_rule(MinimumHold), {"window": many_lags, "hold": few_lags}),
        Contender("periodic", "simple", make_rule(Periodic), {"window": many_lags, "every": few_lags}),
        *seasonal,
        Contender("GD", "greedy", make_player(GD), {"sigma": sigmas}),
        Contender("LazyGD", "lazy", make_player(LazyGD), {"sigma": sigmas}),
        Contender("k-lazyGD", "lazy", make_player(KLazyGD), {"sigma": few_sigmas, "k": few_lags}),
        Contender("Decay", "lazy", make_player(make_decay), {"sigma": few_sigmas, "m": few_lags}),
        Contender("SAder-k", "lazy", make_player(make_theory), {}),
        Contender("auto", "lazy", make_player(make_auto, period=too_long), {}),
    ]


def choose_seasons(family: Family, profiles: list[int]) -> dict[str, list[float]]:
    """What a seasonal learner chooses from: these periods, if any, else it finds one; linear costs it plans a period ahead."""
    share = max(1, len(profiles))
    axes: dict[str, list[float]] = {"periods": list(range(1, MANY // share + 1))}
    if family != Linear():
        axes = {"periods": list(AVERAGED[:FEW]), "horizon": list(AHEAD[: SOME // share])}
    if profiles:
        axes["period"] = list(profiles)
    return axes


def find_profiles(seconds: Array | None, width: int) -> list[int]:
    """Find how many rows a day and a week have, where they have patterns that can be looked for.

    ``seconds`` are the times of the rows, ``width`` is how many numbers of each a season keeps.
    """
    if seconds is None:
        return []
    found = []
    for season in SEASONS:
        rows = count_season(season, seconds)
        if rows < 2 or find_limit(rows, len(seconds), width):
            continue
        if measure_on_time(season, rows, seconds) >= MOST:
            found.append(rows)
    return found


def list_missed_seasons(seconds: Array | None, width: int, T: int, has_found: bool) -> list[str]:
    """Say which seasons T rows may have that were not looked for, and why.

    ``seconds`` are the times of the rows that tune, ``has_found`` says whether another season was found.
    """
    if seconds is None:
        if has_found or T // 4 <= SEASON_LAGS:
            return []
        return [
            f"The rows have no dates, so patterns that repeat after more than {SEASON_LAGS} rows were not looked for."
        ]
    notes = []
    for season in SEASONS:
        rows = count_season(season, seconds)
        if not 2 <= rows <= T:
            continue
        reason = find_limit(rows, len(seconds), width)
        if not reason and rows > SEASON_LAGS:  # a shorter one may be found without dates
            share = measure_on_time(season, rows, seconds)
            if share < MOST:
                reason = (
                    f"but only {share:.0%} of the rows come a {season} after the row so many rows before, so"
                )
        if reason:
            notes.append(f"A {season} is {rows} rows; {reason} no {PATTERNS[season]} pattern was looked for.")
    return notes


def count_season(season: str, seconds: Array) -> int:
    """Count the rows of a season, on average."""
    return round((len(seconds) - 1) * SEASONS[season] / (seconds[-1] - seconds[0]))


def find_limit(rows: int, n: int, width: int) -> str:
    """Say why a season of so many rows cannot be looked for in n rows; "" if it can."""
    if rows > SEASON_LONGEST:
        return f"a season may have {SEASON_LONGEST}, so"
    if rows >= SEASON_ROWS and rows * width > SEASON_NUMBERS:
        return f"at {width} numbers a row that is more than the {SEASON_NUMBERS} that are kept, so"
    if rows > n // 2:
        return f"with {n} rows to tune on"
    return ""


def measure_on_time(season: str, rows: int, seconds: Array) -> float:
    """Measure the share of the rows that come a season after the row so many rows before."""
    tolerance = 1.0 + rows // ON_TIME * float(np.median(np.diff(seconds)))
    late = seconds[rows:] - seconds[:-rows] - SEASONS[season]
    return float((np.abs(late) < tolerance).mean())


def _has_seasons(setup: Setup, make: Callable[..., Learner[Any]]) -> bool:
    """Whether a seasonal learner is compiled for this game: without a kernel it takes longer than all others."""
    movement = setup.movement
    if movement.grouped is None or not isinstance(movement.weight, float) or setup.domain.dim > MOST_SEASONAL:
        return False
    if not setup.family.has_forecast:
        return False
    learner = make(setup.domain, setup.start, periods=2, horizon=1)
    return find_missing_part(learner) is None


def waits_for_a_season(player: Any) -> bool:
    """Whether this is a seasonal learner that has found no period yet: it would stay at its start, whatever that costs."""
    learner = player.learner
    experts: Any = learner.experts if isinstance(learner, Leader) else ()
    if len(experts) != 1 or not isinstance(experts[0], Seasonal):
        return False
    known = player.state.season  # the leader keeps it for its expert
    return len(known) > 0 and known[SEASON_PERIOD] == 0.0


def _find_fixed(setup: Setup, before: Callable[[], Iterator[Array]]) -> Array:
    """The best fixed point of the first part, as near as a short search comes; of its average row, where that is long."""
    family = setup.family
    total = 0.0
    count = 0
    first: list[Array] = []
    for rows in before():
        total = total + family.moments(rows).sum(axis=0)
        count = count + len(rows)
        if count * rows.shape[1] <= LARGE:
            first.append(rows)
    if sum(map(len, first)) == count:
        try:
            return best_fixed(setup.costs(np.vstack(first)), setup.domain, gap=1e-3, iterations=SEARCH).x
        except GapNotReached as short:
            return short.best.x
    return family.lowest(setup.domain, np.asarray(total) / count)


def measure_learners(players: Sequence[Any], setup: Setup, rows: Array) -> Array:
    """What each of these would pay on these rows, from its start."""
    learners = [player.learner for player in players]
    return run_batch(learners, setup.costs(rows), movement=setup.movement).cost
