"""Tune every contender on the rows before a split, and score it on the rows after it.

:func:`score_split` does that, :func:`find_hindsight_optimum` finds the best possible total of the same rows.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.base.options import write_option
from klazy.contrib import FiniteMetric, PodAutoscaler
from klazy.families import Family, LogWealth
from klazy.game.batch import run_batch
from klazy.game.run import COMPILED, knows_rows, run
from klazy.hindsight.offline import find_best, find_obstacle
from klazy.hindsight.problem import check_limits, keep_within, needs_cuts
from klazy.kernels.codes import (
    SEASON_LAGS,
    SEASON_LONGEST,
    SEASON_NUMBERS,
    SEASON_PERIOD,
    SEASON_ROWS,
)
from klazy.kernels.layout import find_missing_part
from klazy.learners import GD, Learner
from klazy.live.agent import Agent
from klazy.live.rows import NEXT_ROW, THIS_ROW
from klazy.sets.limits import LimitedSet
from klazy.studies.contenders import (
    GRADIENT_SAMPLE,
    REPLAY,
    SEASONAL_RULE,
    TOLD,
    YOURS,
    Counts,
    Facts,
    find_fixed_point,
    list_contenders,
    remove_shared,
)
from klazy.studies.replay.setup import Setup
from klazy.studies.replay.source import DAY_SECONDS, WEEK_SECONDS, Forecasts, Read, Source
from klazy.studies.tuning import Score, Tunable, Tuned, score, tune
from klazy.theory.diagnosis import diagnose

# The candidates of a contender with parameters; half of them lie around the best of the others.
CANDIDATES = 64
REPLAY_COUNTS = Counts(single=32, first=8, second=4)
# Rows to tune on at most, the last ones before the split.
TUNED_ROWS = 100_000
# Iterations for the best fixed point, and numbers of a trace up to which it is searched; beyond, the average row decides.
FIXED_ITERATIONS = 1000
FIXED_NUMBERS = 10**6
# Rounds of all candidates that take less time one by one, by the kernel that plays the best of them, than another kernel
# takes to compile.
ONE_BY_ONE = 10**7
# Numbers of which the optimum is found at once, and the same by cutting planes, which take longer.
OPTIMUM_NUMBERS = 500_000
CUT_NUMBERS = 2500
# Rows from which a replay without compiled kernels gives a warning, and one with forecasts.
LONG_ROWS = 200
HINTED_ROWS = 10_000
# Stretches of the scored rows, whose differences make the interval.
STRETCHES = 20
# Numbers of a contender's decisions that are recorded, or rounds of them, whichever is more.
RECORDED_NUMBERS = 200_000
RECORDED_ROUNDS = 1000
BASELINE = "baseline"
OPTIMUM = "optimum in hindsight"
# Seconds after which costs may repeat, and the word for such a pattern.
SEASONS = {"day": (DAY_SECONDS, "daily"), "week": (WEEK_SECONDS, "weekly")}
# The share of rows that must come one season after another row, and the rows of a season for each row it may be late.
ON_TIME_SHARE = 0.9
ROWS_PER_DELAY = 200
# Forecasts are compared with so many rows before their own and after the one that the next decision meets. They are misplaced
# if they fit another one better in this share of the stretches, with at most this share of the error.
SHIFTS = 3
BETTER_STRETCHES = 0.75
BETTER_ERROR = 0.9
Progress = Callable[[float], object]


class Hints:
    """The forecasts of a trace, which a player reads one at a time, each after its row."""

    def __init__(self, source: Source, at: int, ahead: int) -> None:
        self.source = source
        self.at = at
        self.ahead = ahead

    def read_on(self, rows: int) -> Array:
        """Read those that are used after the next rows."""
        told = self.source.read_hints(self.at, self.at + rows, self.ahead)
        self.at += rows
        return told


class LearnerPlayer:
    """A player that is a learner, built from parameters; ``hints`` are the forecasts that it is given, if it is."""

    def __init__(
        self,
        make: Callable[..., Learner[Any]],
        setup: Setup,
        hints: Hints | None = None,
        **parameters: float,
    ) -> None:
        self.learner = make(**parameters)
        self.setup = setup
        self.hints = copy(hints)
        self.state = None
        self._limits: LimitedSet | None = None
        self._at = 0
        self.settle()

    def settle(self) -> None:
        """Stand at its own point, as if all decisions that do not act yet were for it."""
        self._queue = np.tile(self.own, (self.setup.lag, 1))

    def limit(self, limits: LimitedSet, at: int) -> None:
        """Keep its decisions within limits from now on; the next row has the limits with index ``at``."""
        self._limits = limits
        self._at = at

    @property
    def own(self) -> Array:
        """The point that it decides for, within its limits."""
        state = self.learner.init() if self.state is None else self.state
        if self._limits is None or self._at >= len(self._limits):
            return state.x
        return self._limits.at(self._at).keep(state.x[None])[0]

    @property
    def x(self) -> Array:
        """The point that acts in the next round."""
        return self._queue[0] if len(self._queue) else self.own

    def play(self, rows: Array) -> Array:
        played = self._play_hinted(rows) if self.hints else self._play_part(rows)
        if not len(self._queue):
            return played
        points = np.vstack((self._queue, played))
        self._queue = points[len(rows) :]
        return points[: len(rows)]

    def _play_part(self, rows: Array, next_hints: Array | None = None) -> Array:
        costs = self.setup.family.costs(rows)
        options: Any = {"state": self.state, "next_hints": next_hints}
        if self._limits is not None:
            options["limits"] = self._limits.select(slice(self._at, self._at + len(rows)))
            self._at += len(rows)
        trace = run(self.learner, costs, movement=self.setup.movement, **options)
        self.state = trace.state
        return trace.x

    def _play_hinted(self, rows: Array) -> Array:
        """Play rows with the forecasts that they have; where some are missing, rows without hints."""
        assert self.hints is not None
        told = self.hints.read_on(len(rows))
        is_told: Any = ~np.isnan(told).any(axis=1)
        if self.learner.takes_gradients and not self.learner.takes_advice:
            told = self.setup.family.gradient(told, np.zeros_like(told))
        edges = [0, *(np.flatnonzero(np.diff(is_told)) + 1).tolist(), len(rows)]
        return np.vstack(
            [
                self._play_part(rows[first:last], told[first:last] if is_told[first] else None)
                for first, last in pairwise(edges)
            ]
        )

    def __copy__(self) -> "LearnerPlayer":
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), hints=copy(self.hints))
        return copied


class AgentPlayer:
    """A player that is an agent, whose guards limit its decisions; the next row has the limits with index ``at``."""

    def __init__(
        self,
        agent: Agent,
        hints: Hints | None = None,
        limits: LimitedSet | None = None,
        at: int = 0,
    ) -> None:
        self.agent = agent
        self.hints = hints
        self.learner = agent.learner
        self._limits = limits
        self._at = at

    @property
    def state(self) -> Any:
        return self.agent.state

    @property
    def x(self) -> Array:
        return np.asarray(self.agent.in_force)

    def play(self, rows: Array) -> Array:
        points = np.empty_like(rows)
        told = np.full_like(rows, np.nan) if self.hints is None else self.hints.read_on(len(rows))
        for at, row in enumerate(rows):
            points[at] = self.agent.in_force
            forecast = None if np.isnan(told[at]).any() else told[at]
            self._at += 1
            limits = list_sides(self._limits, self._at)
            self.agent.observe(row, next_forecast=forecast, next_limits=limits)
        return points

    def __copy__(self) -> "AgentPlayer":
        return AgentPlayer(copy(self.agent), copy(self.hints), self._limits, self._at)


def list_sides(limits: LimitedSet | None, at: int) -> tuple[Array, Array] | None:
    """Return both sides of the limits with this index; None if there are none."""
    if limits is None or at >= len(limits):
        return None
    return limits.lower[at], limits.upper[at]


class RecordedPlayer:
    """A player that repeats decisions made before, one per row of the trace; after the last it stays."""

    def __init__(self, read: Read, at: int, last: int) -> None:
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


class Best(NamedTuple):
    """The optimum in hindsight: what the best sequence found pays, and a bound that none can be below.

    It has a row in the table of scores, without parameters.

    Parameters
    ----------
    hitting : float
        What the rounds charge it.
    switching : float
        What moving charges it.
    lower_bound : float
        No sequence pays less.
    pieces : int
        Of many rows it is found piece by piece; each is certified, and so is their sum.

    Examples
    --------
    >>> Best(hitting=10.0, switching=2.0, lower_bound=11.9, pieces=1).cost
    12.0
    """

    hitting: float
    switching: float
    lower_bound: float
    pieces: int

    name = OPTIMUM
    parameters = {}  # noqa: RUF012
    moves = None
    candidates = None
    at_limit = ()

    @property
    def cost(self) -> float:
        """What the best sequence found pays: hitting + switching."""
        return self.hitting + self.switching


class Fold(NamedTuple):
    """One fold of a replay: its rows, and what each contender paid there.

    Parameters
    ----------
    first : int
        The first row, counted from 0.
    last : int
        The one after the last.
    scores : list of Score
        What each contender paid, the best first.
    """

    first: int
    last: int
    scores: list[Score]

    @property
    def best(self) -> Score:
        """The contender that paid least; the baseline does not count."""
        return next(score for score in self.scores if score.kind != BASELINE)

    def find(self, name: str) -> Score:
        """Find the score of one contender.

        Parameters
        ----------
        name : str
            Its name, as in the table.

        Returns
        -------
        Score
            What it paid.
        """
        return next(score for score in self.scores if score.name == name)


def count_first(source: Source, train: float) -> int:
    """Count the rows to tune on."""
    first = round(train * source.T) if 0.0 < train < 1.0 else 0
    if first < STRETCHES or source.T - first < STRETCHES:
        wanted = f"must leave at least {STRETCHES} rows on both sides"
        raise InvalidInput(f"{write_option('train')} {wanted}, got {train} of {source.T} rows.")
    return first


def warn_of_numpy(source: Source, setup: Setup) -> None:
    """Warn of a replay that takes long because a part of its game has no compiled kernel."""
    descent = GD(setup.domain, 1.0)
    missing = find_missing_part(descent, setup.family.costs(source.read(0, 1)), setup.movement)
    if missing is None and source.forecasts is not None and source.T > HINTED_ROWS:
        missing = f"a learner with {source.forecasts.role}"
    if missing is None or source.T < LONG_ROWS:
        return
    warnings.warn(
        f"This replay may take minutes: its {source.T} rows go through NumPy, because {missing} has no compiled kernel. "
        f"Compiled are {COMPILED}.",
        UserWarning,
        stacklevel=3,
    )


def list_tunables(
    setup: Setup,
    tuned: Array,
    before: Iterator[Array],
    T: int,
    seconds: Array | None = None,
    hints: Hints | None = None,
    delta: float | None = None,
) -> list[Tunable]:
    """List the contenders of a game with the values to try.

    ``tuned`` are the rows they are tuned on, ``before`` all rows before the split in pieces, T the number of all rows.
    ``seconds`` are the times of the rows in ``tuned``, where they have dates, ``hints`` the forecasts that come with them,
    or the decisions if ``delta`` says how much more than these may be paid.
    """
    n = len(tuned)
    sample = tuned[:: max(1, n // GRADIENT_SAMPLE)]
    facts = Facts(
        setup.domain,
        setup.movement,
        setup.rule_family,
        setup.family.gradient(sample, np.broadcast_to(setup.domain.start, sample.shape)),
        rounds=n,
        T=T,
        counts=REPLAY_COUNTS,
        start=setup.start,
        point=_find_fixed(setup, before),
        profiles=find_profiles(seconds, setup.rule_family.width(setup.domain.dim)),
        has_forecasts=hints is not None and delta is None,
        delta=delta,
    )
    found = []
    has_states = isinstance(setup.movement, FiniteMetric)
    for contender in list_contenders(REPLAY):
        axes = contender.axes(facts)
        # A distribution over states is no decision.
        if axes is not None and (contender.is_pure or not has_states):
            told = hints if contender.style in TOLD else None
            make = partial(LearnerPlayer, contender.bind(facts), setup, told)
            found.append(Tunable(contender.name, contender.style, make, axes))
    return found


def _find_fixed(setup: Setup, before: Iterator[Array]) -> Array:
    """Find the best fixed point, as near as a short search comes; for many rows that of their average."""
    total = 0.0
    count = 0
    pieces: list[Array] = []
    for rows in before:
        total = total + setup.family.moments(rows).sum(axis=0)
        count += len(rows)
        if count * rows.shape[1] <= FIXED_NUMBERS:
            pieces.append(rows)
    if sum(map(len, pieces)) < count:
        return setup.family.lowest(setup.domain, np.asarray(total) / count)
    return find_fixed_point(setup.family.costs(np.vstack(pieces)), setup.domain, FIXED_ITERATIONS)


def find_profiles(seconds: Array | None, width: int) -> list[int]:
    """Find how many rows a day and a week have, where their patterns can be looked for.

    ``seconds`` are the times of the rows, ``width`` is how many numbers of each row a season stores.
    """
    if seconds is None:
        return []
    seasons = _list_seasons(seconds, width)
    return [rows for _, rows, limit, share in seasons if not limit and share >= ON_TIME_SHARE]


def list_missed_seasons(seconds: Array | None, width: int, T: int, has_found: bool) -> list[str]:
    """List the seasons that T rows may have and that were not looked for, each with the reason.

    ``seconds`` are the times of the rows to tune on, ``has_found`` is True if another season was found.
    """
    if seconds is None:
        if has_found or T // 4 <= SEASON_LAGS:
            return []
        limit = f"after more than {SEASON_LAGS} rows"
        return [f"The rows have no dates, so patterns that repeat {limit} were not looked for."]
    notes = []
    for season, rows, reason, share in _list_seasons(seconds, width):
        # A shorter season may be found without dates.
        if not reason and rows > SEASON_LAGS and share < ON_TIME_SHARE:
            reason = f"but only {share:.0%} of the rows come a {season} after the row {rows} rows before, so"
        if reason and rows <= T:
            _, pattern = SEASONS[season]
            notes.append(
                f"A {season} is {rows} rows; {reason} no {pattern} pattern was looked for."
            )
    return notes


def _list_seasons(seconds: Array, width: int) -> Iterator[tuple[str, int, str, float]]:
    """Yield each season, its number of rows, why it cannot be searched for ("" if it can), and the share of punctual rows."""
    for season, (length, _) in SEASONS.items():
        rows = round((len(seconds) - 1) * length / (seconds[-1] - seconds[0]))
        if rows < 2:
            continue
        limit = _explain_limit(rows, len(seconds), width)
        share = 0.0
        if not limit:
            tolerance = 1.0 + rows // ROWS_PER_DELAY * float(np.median(np.diff(seconds)))
            late = seconds[rows:] - seconds[:-rows] - length
            share = float((np.abs(late) < tolerance).mean())
        yield season, rows, limit, share


def _explain_limit(rows: int, n: int, width: int) -> str:
    """Explain why a season of this many rows cannot be searched for in n rows; return "" if it can."""
    if rows > SEASON_LONGEST:
        return f"a season may have {SEASON_LONGEST}, so"
    if rows >= SEASON_ROWS and rows * width > SEASON_NUMBERS:
        return (
            f"at {width} numbers a row that is more than the {SEASON_NUMBERS} that are stored, so"
        )
    if rows > n // 2:
        return f"with {n} rows to tune on"
    return ""


def _waits_for_a_season(found: Tuned) -> bool:
    """Return True for a seasonal learner that has found no period yet: it would stay at its start."""
    if found.name != SEASONAL_RULE:
        return False
    # A leader stores it for its expert.
    known = found.player.state.season
    return len(known) > 0 and known[SEASON_PERIOD] == 0.0


def measure_learners(players: Sequence[Any], setup: Setup, rows: Array) -> Array:
    """Compute what each of these would pay on these rows, from its start."""
    learners = [player.learner for player in players]
    costs = setup.family.costs(rows)
    has_kernel = find_missing_part(learners[0], costs, setup.movement) is None
    if (
        has_kernel
        and not knows_rows(learners[0], costs)
        and len(learners) * costs.T <= ONE_BY_ONE
    ):
        traces = [run(each, costs, movement=setup.movement, record="totals") for each in learners]
        return np.array([trace.totals.cost for trace in traces])
    return run_batch(learners, costs, movement=setup.movement).cost


def score_split(
    source: Source, setup: Setup, first: int, last: int, report_progress: Progress
) -> list[Score]:
    """Tune all contenders on the rows before ``first``, and score them on those up to ``last``."""
    rows, seconds = read_tuned(source, first)
    hints = None if source.forecasts is None else Hints(source, first - len(rows), 1 + setup.lag)
    pieces = source.read_pieces(0, first)
    delta = None if source.forecasts is None else source.forecasts.delta
    tunables = list_tunables(setup, rows, pieces, source.T, seconds, hints, delta)
    tuned: list[Tuned] = []
    for done, tunable in enumerate(tunables, start=1):
        try:
            # Runs side by side know neither a lag nor hints.
            is_plain = not setup.lag and tunable.kind not in TOLD
            measure = partial(measure_learners, setup=setup, rows=rows) if is_plain else None
            found = tune(tunable, rows, setup.charge, measure)
        # A learner of another package may raise anything.
        except Exception as failed:
            if tunable.kind != YOURS:
                raise
            warnings.warn(
                f"replay leaves out {tunable.name}, which failed: {failed}", stacklevel=2
            )
            continue
        if not _waits_for_a_season(found):
            tuned.append(found)
        report_progress(0.5 * done / len(tunables))
    if setup.rule is not None:
        tuned.append(play_rule(setup.rule, setup, rows))
    for each in tuned:
        if setup.guards is not None:
            each.player = _guard(each.player, setup, first)
            continue
        if setup.limits is not None:
            each.player.limit(setup.limits, first)
        each.player.settle()
    if source.read_baseline is not None:
        player = RecordedPlayer(source.read_baseline, first, source.T)
        tuned.append(Tuned(BASELINE, BASELINE, player, {}, 1, []))
    rounds = last - first
    edges = np.linspace(0, rounds, STRETCHES + 1).astype(int).tolist()
    every = choose_every(rounds, source.dim)
    pieces = source.read_pieces(first, last)
    return score(
        tuned, pieces, edges, setup.charge, every, lambda part: report_progress(0.5 + 0.5 * part)
    )


def play_rule(rule: PodAutoscaler, setup: Setup, rows: Array) -> Tuned:
    """Play the rule that decided until now on the rows to tune on."""
    player = LearnerPlayer(lambda: rule, setup)
    player.play(rows)
    settings = {"target": rule.target, "window": rule.window}
    return Tuned(BASELINE, BASELINE, player, settings, 1, [])


def _guard(player: Any, setup: Setup, first: int) -> AgentPlayer:
    """Continue a learner as an agent within the guards and limits of the setup, from the row ``first`` on."""
    options = {"costs": setup.family, "movement": setup.movement, "guards": setup.guards}
    options |= {
        "lead": setup.lead,
        "delay": setup.delay,
        "limits": list_sides(setup.limits, first),
    }
    agent = Agent(player.learner, state=player.state, **options)
    return AgentPlayer(agent, player.hints, setup.limits, first)


def score_folds(
    source: Source, setup: Setup, first: int, count: int, report_progress: Progress
) -> list[Fold]:
    """Score ``count`` parts of the rows from ``first`` on, each by contenders tuned on all rows before it."""
    edges = np.linspace(first, source.T, count + 1).astype(int).tolist()
    if count < 2 or min(np.diff(edges)) < STRETCHES:
        wanted = f"must be 2 or more, with {STRETCHES} rows each"
        raise InvalidInput(
            f"{write_option('folds')} {wanted}, got {count} for {source.T - first} rows."
        )
    folds = []
    for at, (start, stop) in enumerate(pairwise(edges)):
        report_part = scale_progress(report_progress, at, count)
        folds.append(Fold(start, stop, score_split(source, setup, start, stop, report_part)))
    return folds


def scale_progress(report_progress: Progress, at: int, parts: int) -> Progress:
    """Return the progress of one of several parts."""
    return lambda fraction: report_progress((at + fraction) / parts)


def read_tuned(source: Source, first: int) -> tuple[Array, Array | None]:
    """Read the rows to tune on, and their times in seconds; None if they are no dates."""
    least = max(0, first - TUNED_ROWS)
    seconds = source.times[least:first] if source.has_dates else None
    return source.read(least, first), seconds


def choose_every(rounds: int, dim: int) -> int:
    """Choose one in how many decisions is recorded of this many rounds."""
    return -(-rounds // max(RECORDED_ROUNDS, RECORDED_NUMBERS // dim))


def find_hindsight_optimum(source: Source, setup: Setup, first: int, last: int) -> Best | None:
    """Find the optimum of these rows, piece by piece where they are many; None where it is not known.

    A piece may begin anywhere, so that no sequence pays less than the sum of the pieces' bounds. The sequences found are
    joined, and pay for the moves from piece to piece. Where rows carry points away, they pay for that too; the bound includes
    it where a move costs the same for all shares, and elsewhere it is what the decisions alone must cost.

    Limits of rising and falling hold, also from piece to piece. With a lead time the first rounds are played at one point, as
    all contenders play them: for them nothing is on its way when they are scored. The optimum is not known where that is not
    possible.
    """
    drifts = type(setup.family).drift is not Family.drift
    is_priced = setup.movement.grouped is not None or setup.movement.subgradient is not None
    if not is_priced or (drifts and not isinstance(setup.family, LogWealth)):
        return None
    has_cuts = needs_cuts(setup.family.costs(source.read(first, first + 1)), setup.movement)
    size = CUT_NUMBERS if has_cuts else OPTIMUM_NUMBERS
    length = max(1, size // source.dim)
    hitting = 0.0
    switching = 0.0
    bound = 0.0
    before = None
    limits = check_limits(setup.ramp, source.dim)
    for limit, has_limit in (("ramp", limits is not None), ("lead", setup.lead > 0)):
        sample = setup.family.costs(source.read(first, min(first + length, last)))
        if has_limit and (
            drifts or find_obstacle(sample, setup.domain, setup.movement, limit, setup.integers)
        ):
            return None
    if limits is not None and setup.integers:
        limits = np.floor(limits)
    for at in range(first, last, length):
        rows = source.read(at, min(at + length, last))
        costs = setup.family.costs(rows)
        lead = setup.lead if at == first else 0
        options: Any = {"integers": setup.integers, "ramp": setup.ramp, "lead": lead}
        if setup.limits is not None:
            options["limits"] = setup.limits.select(slice(at, at + len(rows)))
        found = find_best(costs, setup.domain, setup.movement, gap=1e-3, **options)
        u = found.u
        if before is not None and limits is not None:
            u = keep_within(u, before, limits, setup.domain)
        hit, paid = setup.charge(rows, np.vstack((u, u[-1:])))
        hitting += float(hit.sum())
        switching += float(paid.sum())
        bound += found.lower_bound
        if before is not None:
            switching += float(setup.movement.weight * setup.movement.distance(u[0] - before))
        before = u[-1]
    return Best(hitting, switching, bound, -(-(last - first) // length))


def list_misplaced(source: Source, setup: Setup) -> list[str]:
    """Say so if forecasts or decisions fit other rows clearly better than those that they are used for."""
    forecasts = source.forecasts
    assert forecasts is not None
    met = 1 + setup.lag
    own = met if forecasts.is_early else 0
    places = list(range(-SHIFTS, met + SHIFTS + 1))
    last = source.T - max(places)
    first = max(SHIFTS, last - TUNED_ROWS)
    told = forecasts.values[first:last]
    is_known: Any = ~np.isnan(told).any(axis=1)
    if is_known.sum() < STRETCHES:
        return []
    measure = _measure_errors if forecasts.delta is None else _measure_excess
    misses = measure(source, setup, told, [first + k for k in places])
    parts = np.array_split(misses[:, is_known], STRETCHES, axis=1)
    errors = np.column_stack([part.mean(axis=1) for part in parts])
    total = errors.sum(axis=1)
    best = int(total.argmin())
    at = places.index(own)
    is_clear = (errors[best] < errors[at]).mean() >= BETTER_STRETCHES
    if not is_clear or total[best] >= BETTER_ERROR * total[at]:
        return []
    share = float(total[best] / total[at])
    return [describe_misplaced(places[best], own, met, share, forecasts)]


def _measure_errors(source: Source, setup: Setup, told: Array, starts: list[int]) -> Array:
    """Measure by how much forecasts miss rows, for each row at which they may start, of shape (places, rows)."""
    first = max(starts)
    # Columns count alike, whatever their units; one that never changes cannot tell rows apart.
    changes = np.diff(source.read_as_given(first, first + len(told)), axis=0)
    scale = np.abs(changes).mean(axis=0)
    weight = np.divide(1.0, scale, where=scale > 0.0, out=np.zeros_like(scale))
    return np.array(
        [np.abs(told - source.read_as_given(at, at + len(told))) @ weight for at in starts]
    )


def _measure_excess(source: Source, setup: Setup, told: Array, starts: list[int]) -> Array:
    """Measure what decisions cost in rows beyond the best decision of each row, likewise."""
    found = []
    for at in starts:
        rows = source.read(at, at + len(told))
        least = setup.family.lowest(setup.domain, setup.family.moments(rows))
        found.append(setup.family.value(rows, told) - setup.family.value(rows, least))
    return np.array(found)


def describe_misplaced(place: int, own: int, met: int, share: float, forecasts: Forecasts) -> str:
    """Write which row forecasts or decisions fit better than the one they are used for, and what to do.

    The decision after a row meets the one that is ``met`` rows later.
    """
    is_early = forecasts.is_early
    flag = write_option("forecast_for", THIS_ROW if is_early else NEXT_ROW)
    rows = abs(place - own)
    way = "down" if place > own else "up"
    remedy = f"Move them {way} by {rows} row{'' if rows == 1 else 's'}"
    if not is_early and place == met:
        remedy = f"Write {flag}"
    elif is_early and place == 0:
        remedy = f"If each is in its own row, write {flag}"
    elif place < own:
        remedy += ", unless they only repeat what was"
    noun = "forecasts" if forecasts.delta is None else "advised decisions"
    gain = "their error is" if forecasts.delta is None else "beyond the best they cost"
    fits = f"The {noun} in a row fit {_name_row(place)} better than {_name_row(own)}"
    return f"{fits}, for which they are used: {gain} {1.0 - share:.0%} less there. {remedy}."


def _name_row(place: int) -> str:
    """Name a row, counted from the one that has the forecast."""
    if place in (-1, 0, 1):
        return ("the row before", "their own row", "the next row")[place + 1]
    return f"the row {abs(place)} rows {'later' if place > 0 else 'before'}"


def measure_binding(scores: list[Score], setup: Setup, rows: Array) -> float:
    """Measure the share of these rounds in which the projection of k-lazyGD, as it was tuned, has an effect; 1 without it.

    On a simplex a cost that all coordinates share is removed from the gradients: to project it away changes nothing.
    """
    learner = next((each.player.learner for each in scores if each.name == "k-lazyGD"), None)
    if learner is None:
        return 1.0
    trace = run(learner, setup.family.costs(rows), movement=setup.movement)
    g = remove_shared(setup.family.gradient(rows, trace.x), setup.domain)
    points = np.vstack((trace.x, trace.state.x))
    return float(diagnose(learner, points, g).binds.mean())


def measure_repeats(rows: Array) -> float:
    """Measure how much a row is like the one before it: the correlation of the differences from the columns' means."""
    gaps = rows - rows.mean(axis=0)
    size = float((gaps**2).sum())
    if size == 0.0:
        return 0.0
    return float((gaps[1:] * gaps[:-1]).sum()) / size
