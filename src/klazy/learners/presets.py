"""Ensembles with their parameters from theory: SAder, SAder-k, their relatives, and the one that tunes itself."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    Array,
    InvalidInput,
    check_flag,
    instance,
    non_negative,
    one_of,
    positive,
    size,
)
from klazy.families import Family
from klazy.kernels import codes
from klazy.learners.autoregressive import HORIZONS, Autoregressive
from klazy.learners.base import Descent, Learner, check_domain
from klazy.learners.following import FollowForecast
from klazy.learners.gd import GD, LazyGD
from klazy.learners.klazy import KLazyGD
from klazy.learners.leader import Leader
from klazy.learners.memory import Decay, Forget, Full, Memory, MemoryGD
from klazy.learners.planning import Planning, suits_plan
from klazy.learners.prox import is_carried
from klazy.learners.reluctant import Reluctant
from klazy.learners.sader import SELF_TUNED, SAder, harmonic_prior
from klazy.learners.seasonal import Seasonal, count_ring_rows
from klazy.movement import L2Movement, Movement, as_movement, suit_movement
from klazy.schedules import ScaleFree, Schedule
from klazy.sets import Box, ConvexSet
from klazy.sets.base import check_bounded

# The grid of auto: how far back experts look, for how many of these rounds a new point should serve, and the sums.
WINDOWS = tuple(2.0**i for i in range(11))
RATIOS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.3, 16.0, 22.6)
SUMS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Its seasonal experts: for how many rounds a new point should serve, None for a plan, and over how many periods they average.
SEASONAL_HORIZONS = (1, 2, 4, 8, 16)
AVERAGED_PERIODS = (4, 16)
# Its experts that plan for demand: how many rounds ahead, and by how much they multiply what moving costs.
PLANNED_ROUNDS = (16, 256)
FACTORS = (0.5, 1.0)
# Its experts that use hints. Some follow them, corrected by their errors: for how many rounds a new point should serve, and
# over how many rounds errors are averaged. Others use them for the first round of forecasts of their own: how far back they
# look, and for how many rounds a new point should serve. Of one that serves a single round the window does not matter.
FOLLOWED_HORIZONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
FOLLOWED_WINDOW = 64.0
HINTED_GRID = (
    (1.0, 1.0),
    (4.0, 4.0),
    (16.0, 4.0),
    (16.0, 16.0),
    (64.0, 16.0),
    (64.0, 64.0),
    (256.0, 64.0),
)
# A set that reaches this many times as far as a unit and as its start is probably too large. Linear costs have no length of
# their own that a set could be compared with, so any such number is a convention.
LARGE = 1e5
# Take every second value of the grid, in each direction, where an expert has no kernel.
COARSE = 2
# In more dimensions a season or a plan would take more memory than everything else together.
MOST_SEASONAL = 64
MOST_PLANNED = 16

# The scales of ensemble_auto: sigma is 2^-i times the one for a comparator that stays.
SCALES = (0, 1, 2, 3, 4, 6, 8, 10)
META_RATES = ("lemma", "tight", "authors")
MEMORIES = (Forget(), Decay(16.0), Decay(128.0), Decay(1024.0), Full())


def sigma_grid(T: int, G: float, R: float, move_cost: float = 1.0) -> Array:
    r"""List theory's sigmas: :math:`\sqrt{(G^2 + 2 \lambda G) T} / R` and its halves, one near the best for every path length.

    There are :math:`N = \lceil \log_2(8T - 7) / 2 \rceil + 1`.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.

    Returns
    -------
    array
        The sigmas, largest first.

    Examples
    --------
    >>> sigma_grid(T=100, G=1.0, R=1.0).round(2).tolist()
    [17.32, 8.66, 4.33, 2.17, 1.08, 0.54]
    """
    T, G, R, weight = _check_known(T, G, R, move_cost)
    N = math.ceil(math.log2(8 * T - 7) / 2) + 1
    return np.ldexp(math.sqrt((G * G + 2.0 * weight * G) * T) / R, -np.arange(N))


def meta_rate(rule: str, T: int, G: float, R: float, move_cost: float = 1.0) -> float:
    r"""Compute a rate beta for an ensemble on a set of radius R.

    Parameters
    ----------
    rule : str
        ``"lemma"``: :math:`\frac{2}{(2G + \lambda) D} \sqrt{2 / (5T)}`, the paper's, with D = 2R; ``"tight"``:
        :math:`\frac{1}{D} \sqrt{8 / ((2G + \lambda)(2G + 3\lambda) T)}`, from the same bound, and larger; ``"authors"``: ten
        times ``"lemma"`` at G = lambda = R = 1, for any of them; the published figures rest on it.
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.

    Returns
    -------
    float
        The rate.

    Examples
    --------
    >>> [round(meta_rate(rule, T=1000, G=1.0, R=1.0), 4) for rule in ("lemma", "tight", "authors")]
    [0.0067, 0.0115, 0.0667]
    """
    T, G, R, weight = _check_known(T, G, R, move_cost)
    one_of(rule, "rule", META_RATES)
    if rule == "tight":
        return math.sqrt(8.0 / ((2.0 * G + weight) * (2.0 * G + 3.0 * weight) * T)) / (2.0 * R)
    if rule == "authors":
        return 10.0 * meta_rate("lemma", T, 1.0, 1.0, 1.0)
    return 2.0 / ((2.0 * G + weight) * 2.0 * R) * math.sqrt(2.0 / (5.0 * T))


def sader(
    domain: ConvexSet,
    T: int,
    G: float,
    move_cost: float = 1.0,
    *,
    beta: float | str = "lemma",
    prior: str | ArrayLike = "harmonic",
    lazy: bool = False,
    start: ArrayLike | None = None,
) -> SAder:
    """Build SAder of Zhang, Jiang, Lu and Yang (2021): greedy experts on :func:`sigma_grid`.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    move_cost : float, optional
        The price of a unit of Euclidean distance. Default: 1.
    beta : float or str, optional
        The rate: a number, a rule of :func:`meta_rate`, or one of :class:`SAder`'s own. Default: ``"lemma"``.
    prior : str or array_like, optional
        The weights at the start, as in :class:`SAder`. Default: ``"harmonic"``.
    lazy : bool, optional
        Add a fully lazy expert. Default: False.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    SAder
        The ensemble.

    Raises
    ------
    ValueError
        If T, G or the move cost are invalid.

    Examples
    --------
    >>> len(sader(L2Ball(5), T=100, G=1.0).experts)
    6
    """

    def experts(sigma: float, k: int) -> list[Descent[Any]]:
        return [GD(domain, sigma, start=start)]

    return _on_grid(experts, domain, T, G, move_cost, beta, prior, lazy, start)


def sader_k(
    domain: ConvexSet,
    T: int,
    G: float,
    move_cost: float = 1.0,
    *,
    memory: str = "clock",
    beta: float | str = "lemma",
    prior: str | ArrayLike = "harmonic",
    greedy: bool = False,
    lazy: bool = False,
    start: ArrayLike | None = None,
) -> SAder:
    r"""Build SAder-k of the paper: k-lazy experts on :func:`sigma_grid`.

    They have :math:`k_i = \max(1, \lfloor 2 R \sigma_i / G \rfloor)`. As in Algorithm 3 they are in the order of their
    sigmas, largest first, and place i has the prior :math:`C / (i (i + 1))`. With ``greedy=True`` the lazy and the greedy
    expert of one sigma are next to each other, and each has half the prior of their place.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    move_cost : float, optional
        The price of a unit of Euclidean distance. Default: 1.
    memory : str, optional
        ``"clock"``, the default, forgets every k-th round; ``"decay"`` forgets over about k rounds instead, so that no expert
        can fall into step with the costs.
    beta : float or str, optional
        The rate: a number, a rule of :func:`meta_rate`, or one of :class:`SAder`'s own. Default: ``"lemma"``.
    prior : str or array_like, optional
        The weights at the start, as in :class:`SAder`. Default: ``"harmonic"``.
    greedy : bool, optional
        Add an expert with k = 1 for every sigma. Default: False.
    lazy : bool, optional
        Add a fully lazy expert, in the last place. Default: False.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    SAder
        The ensemble.

    Raises
    ------
    ValueError
        If T, G or the move cost are invalid.

    Examples
    --------
    >>> [expert.k for expert in sader_k(L2Ball(5), T=100, G=1.0).experts]
    [34, 17, 8, 4, 2, 1]
    >>> both = sader_k(L2Ball(5), T=100, G=1.0, greedy=True)
    >>> np.exp(both.log_prior[:4]).round(3).tolist()
    [0.292, 0.292, 0.097, 0.097]
    """
    decays = one_of(memory, "memory", ("clock", "decay")) == "decay"

    def experts(sigma: float, k: int) -> list[Descent[Any]]:
        lazily = (
            MemoryGD(domain, sigma, memory=Decay(k), start=start)
            if decays
            else KLazyGD(domain, sigma, k=k, start=start)
        )
        return [lazily, GD(domain, sigma, start=start)] if greedy else [lazily]

    return _on_grid(experts, domain, T, G, move_cost, beta, prior, lazy, start)


def ader(domain: ConvexSet, T: int, G: float, *, start: ArrayLike | None = None) -> SAder:
    r"""Build Ader of Zhang, Lu and Zhou (2018), which ignores movement costs: it is for dynamic regret alone.

    Greedy experts with steps :math:`2^{i-1} \frac{D}{G} \sqrt{7 / (2T)}`, :math:`N = \lceil \log_2(1 + 4T/7)/2 \rceil + 1` of
    them, the harmonic prior, and :math:`\beta = \sqrt{2 / T} / (G D)`; losses are linearised (the improved version).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    SAder
        The ensemble.

    Raises
    ------
    ValueError
        If T or G is invalid.

    Examples
    --------
    >>> len(ader(L2Ball(5), T=100, G=1.0).experts)
    4
    """
    check_bounded(check_domain(domain))
    T, G, _, _ = _check_known(T, G, 1.0, 0.0)
    D = domain.scale
    N = math.ceil(math.log2(1.0 + 4.0 * T / 7.0) / 2.0) + 1
    sigmas = G / D * math.sqrt(2.0 * T / 7.0) / 2.0 ** np.arange(N)
    experts = [GD(domain, sigma, start=start) for sigma in sigmas.tolist()]
    return SAder(experts, math.sqrt(2.0 / T) / (G * D), movement=L2Movement(0.0))


def scream(
    domain: ConvexSet, T: int, G: float, move_cost: float = 1.0, *, start: ArrayLike | None = None
) -> SAder:
    r"""Build Scream of Zhao, Wang and Zhou (2022), made for online learning with memory; movement costs are a case of it.

    Greedy experts with steps :math:`2^{i-1} D / \sqrt{G (G + \lambda) T}` up to :math:`\sqrt{1 + 2T}` times the first, the
    harmonic prior, and :math:`\beta = \sqrt{2 / ((2\lambda + G)(\lambda + G) T)} / D`.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    move_cost : float, optional
        The price of a unit of Euclidean distance. Default: 1.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    SAder
        The ensemble.

    Raises
    ------
    ValueError
        If T, G or the move cost are invalid.

    Examples
    --------
    >>> len(scream(L2Ball(5), T=100, G=1.0).experts)
    5
    """
    check_bounded(check_domain(domain))
    T, G, _, weight = _check_known(T, G, 1.0, move_cost)
    D = domain.scale
    N = math.ceil(math.log2(1.0 + 2.0 * T) / 2.0) + 1
    sigmas = math.sqrt(G * (G + weight) * T) / D / 2.0 ** np.arange(N)
    beta = math.sqrt(2.0 / ((2.0 * weight + G) * (weight + G) * T)) / D
    return SAder(
        [GD(domain, sigma, start=start) for sigma in sigmas.tolist()],
        beta,
        movement=L2Movement(weight),
    )


def product_grid(
    domain: ConvexSet,
    sigmas: Sequence[Schedule | float],
    memories: Sequence[Memory],
    *,
    start: ArrayLike | None = None,
) -> list[Learner[Any]]:
    """List an expert for every sigma with every memory, for :class:`SAder`.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigmas : list of Schedule or float
        The sigmas.
    memories : list of Memory
        The memories.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    list of Learner
        A :class:`MemoryGD` for each pair.

    Examples
    --------
    >>> len(product_grid(L2Ball(5), [1.0, 2.0, 4.0], [Forget(), Decay(32), Clock(65)]))
    9
    """
    for name, values in (("sigmas", sigmas), ("memories", memories)):
        if not isinstance(values, list | tuple):
            raise InvalidInput(f"{name} must be a list, got {values!r}.")
    return [
        MemoryGD(domain, sigma, memory=memory, start=start)
        for memory in memories
        for sigma in sigmas
    ]


def auto(
    domain: ConvexSet,
    movement: Movement | str | None = None,
    costs: Any = None,
    *,
    period: int | Sequence[int] | None = None,
    start: ArrayLike | None = None,
    hints: bool = False,
) -> Leader:
    r"""Build a learner that tunes itself.

    It follows one of 155 experts and changes over reluctantly (:class:`Leader`):

    - 130 :class:`Reluctant` that look back over 1, 2, 4, ..., 512 rounds, and expect a new point to serve between a third of
      that time and 23 times as long, and five that look back over all rounds;
    - eight :class:`~klazy.contrib.Autoregressive` that learn to forecast the next 2, 4, ..., 256 rounds;
    - twelve :class:`~klazy.contrib.Seasonal` that look for a period, on sets of up to 64 dimensions (for targets, ten).

    For pinball costs thirteen that look back over 1024 rounds take the place of those that look back over all rounds, or learn.
    On a box of up to 16 dimensions, with a movement such as l1, four :class:`~klazy.contrib.Planning` join them. On a set
    without a kernel every second of each grid is left out. Neither horizon, nor size of the costs, nor how fast they change
    need be known.

    *Proved:* what it costs more than any of its experts, on the page Ensembles. *Measured:* how near it comes to rules that
    were tuned, in the arena, with the games in which it does not. A :class:`SwitchFee`, a
    :class:`SquaredMovement` or an :class:`ImpactMovement` has no such proof: the guard is off.

    It plays to scale: with gradients, on a ball c times as large it plays c times the same points, and its experts go to the
    far end of the set. So the set is to be about as large as what you would ever play; it warns if the set reaches 100 000
    times as far as a unit and as its start. Where you do not know how large that is, bet: :class:`CoinBetting`. With demands or
    targets (``costs=``), it goes where these are, on a set of any size.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str, optional
        What moving costs, or its short name. Default: the movement that suits the set, at a price of 1 (total variation on
        simplices, the sum of changes on boxes, else Euclidean distance). Its weight is the usual price; prices that change
        by round come with the rounds, as ``run(..., movement=TVMovement(prices))``. With a movement of your own, experts plan
        with Euclidean distance at the price that its ``lipschitz`` gives; what each pays is compared by the movement itself.
    costs : Costs or Family, optional
        What rounds cost, where that is not linear: :class:`Pinball`, :class:`Quadratic` or :class:`LogWealth`. It then gets
        rows of data in place of gradients. Of any other family, such as your own, each expert gets the gradient at its own
        point, and what the experts cost is compared by the rows; that is not compiled. Eight more experts then descend, each
        with steps of another size.
    period : int or sequence of int, optional
        Periods that you know, each from 2 to 10080 rounds: for a day and a week of minutes ``(1440, 10080)``. Each adds up to
        twelve seasonal experts. Default: it looks for one of up to 512 rounds, as it does anyway.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.
    hints : bool, optional
        Whether it takes hints: your forecasts of the next gradient, or row. Thirteen more experts use them, all others are
        twins that do not, so that wrong hints cost little. It then plays in NumPy, some milliseconds a round. Default:
        no hints.

    Returns
    -------
    Leader
        A learner for :func:`run` and :class:`Agent`.

    Examples
    --------
    >>> learner = auto(Simplex(5), TVMovement(5.0))
    >>> trace = run(learner, np.tile([0.5, 0.4, 0.3, 0.2, 0.1], (300, 1)))
    >>> trace.x[-1].round(3).tolist()
    [0.0, 0.0, 0.0, 0.0, 1.0]
    """
    check_bounded(check_domain(domain))
    movement = _check_movement(domain, movement)
    # `costs` is a family, or costs that have one.
    family = getattr(costs, "family", costs)
    if costs is not None:
        instance(family, "costs", Family, "a Family such as Pinball(), or costs of one")
    # Experts plan with Euclidean distance if only the distance of a movement is known; the leader charges what it costs.
    planned = movement
    has_states = is_carried(domain, movement) and (
        family is None or codes.code_of(family) == codes.LINEAR
    )
    if movement.grouped is None and not movement.is_fee and not has_states:
        price = movement.lipschitz(domain.dim)
        planned = L2Movement(np.asarray(movement.weight) * price)
    if family is not None and codes.code_of(family) == codes.LINEAR:
        family = None  # gradients say as much as rows
    # Experts forecast rows where that means something; else each gets the gradient at its own point.
    known = family if family is None or family.has_forecast else None
    # On a set without a kernel each expert takes milliseconds.
    every = 1 if codes.code_of(domain) is not None else COARSE
    windows = WINDOWS
    sums: list[tuple[None, float]] = []
    horizons: Sequence[int] = []
    # Sums of demands have no kernel, because the band of a stock would change every round. Regressions forecast no deviations.
    has_demands = known is not None and known.rows_are == "demands"
    if not has_demands:
        sums = [(None, horizon) for horizon in SUMS[::every]]
        # Regressions see as far as the longest window, which is left out.
        windows = WINDOWS[:-1]
        # Without a family that can be averaged, each expert would have a regression of its own.
        horizons = HORIZONS.tolist()[::every] if known is family else []
    grid = [(w, ratio * w) for w in windows[::every] for ratio in RATIOS[every - 1 :: every]]
    smoothed = [
        Reluctant(domain, planned, window, horizon, family=known, start=start)
        for window, horizon in (*sums, *grid)
    ]
    learned = [
        Autoregressive(domain, planned, horizon, family=known, start=start)
        for horizon in horizons
    ]
    is_norm = movement.degree == 1.0
    # A plan over a whole season needs prices by coordinate, or a Euclidean distance.
    is_planned = is_norm and not smoothed[0].is_curved and not has_states
    plans = (None, *SEASONAL_HORIZONS) if is_planned else SEASONAL_HORIZONS
    seasons = [] if period is None else np.atleast_1d(period).tolist()
    if not movement.is_fee and domain.dim <= MOST_SEASONAL:
        seasons = [None, *seasons]
    width = domain.dim if known is None else known.width(domain.dim)
    seasonal = [
        Seasonal(domain, planned, horizon, periods, period=season, family=known, start=start)
        for season in seasons
        for horizon in plans[::every]
        for periods in _choose_averages(season, width)
    ]
    if (
        has_demands
        and isinstance(domain, Box)
        and suits_plan(planned)
        and domain.dim <= MOST_PLANNED
    ):
        # Of the shortest season most periods have passed.
        shortest = min((season for season in seasons if season is not None), default=None)
        learned = [
            Planning(domain, planned, rounds, factor, family=known, period=shortest, start=start)
            for rounds in PLANNED_ROUNDS
            for factor in FACTORS
        ]
    hinted: list[Learner[Any]] = []
    if check_flag(hints, "hints"):
        hinted = [
            FollowForecast(domain, planned, FOLLOWED_WINDOW, horizon, family=known, start=start)
            for horizon in FOLLOWED_HORIZONS
        ]
        hinted += [
            Reluctant(domain, planned, window, horizon, family=known, start=start, hints=True)
            for window, horizon in HINTED_GRID
        ]
    descents = []
    if known is not family:
        # The best points of bent costs lie inside the set. Forecasts of gradients pass them, descents stop there.
        descents = product_grid(domain, _spread_sigmas(domain, movement), [Forget()], start=start)
    experts = [*smoothed, *seasonal, *learned, *hinted, *descents]
    if not smoothed[0].is_curved:
        _warn_of_size(domain, smoothed[0].init().x)
    return Leader(experts, movement, guard=is_norm, family=family, hints=bool(hinted))


def _warn_of_size(domain: ConvexSet, x: Array) -> None:
    """Warn if a set is so large, compared with its start, that it is probably a mistake."""
    reach = domain.reach(x)
    if reach > LARGE * max(1.0, float(np.linalg.norm(x))):
        warnings.warn(
            f"auto follows gradients to the far end of its set, and {domain!r} reaches {reach:.3g} from its start. If good "
            "points are much nearer, give auto a smaller set, tell it rows (costs=Quadratic()), or use "
            "contrib.CoinBetting(domain, G, movement=...).",
            UserWarning,
            stacklevel=3,
        )


def _choose_averages(period: Any, width: int) -> list[int]:
    """Return over how many periods seasonal experts average, as far as the ring of a given period reaches."""
    if not isinstance(period, int) or not 2 <= period <= codes.SEASON_LONGEST:
        return list(AVERAGED_PERIODS)  # The period is yet to be found, or will be rejected.
    reach = (count_ring_rows(width, period, max(AVERAGED_PERIODS)) - 1) // period
    return sorted({min(periods, reach) for periods in AVERAGED_PERIODS})


def _check_movement(domain: ConvexSet, movement: Movement | str | None) -> Movement:
    """Check the movement; None means the one that suits the set."""
    if movement is None:
        movement = suit_movement(domain)
    found = as_movement(movement)
    found.check(domain.dim)
    return found


def ensemble_auto(
    domain: ConvexSet, movement: Movement | str | None = None, *, start: ArrayLike | None = None
) -> SAder:
    """Build the self-tuned ensemble of lazy and greedy descents: what ``auto`` was at first.

    It has forty experts: :class:`ScaleFree` sigmas in eight scales, each with a memory of no, about 16, 128, 1024, and all
    rounds. The weights tune themselves (``"self-tuned"``).

    *Proved:* a bound on what it costs more than any of its experts, on the page Ensembles; and of the experts with a finite
    memory the regret of :class:`MemoryGD` with a scale-free sigma. *Measured:* how near it comes to learners tuned in
    hindsight, on the same page, with the cases where it does not.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str, optional
        What moving costs, or its short name. Default: what suits the set, at a price of 1.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    SAder
        The ensemble.

    Examples
    --------
    >>> learner = ensemble_auto(Simplex(5), L2Movement(5.0))
    >>> trace = run(learner, np.tile([0.5, 0.4, 0.3, 0.2, 0.1], (100, 1)))
    >>> trace.x[-1].round(3).tolist()
    [0.0, 0.0, 0.0, 0.0, 1.0]
    """
    check_bounded(check_domain(domain))
    movement = _check_movement(domain, movement)
    experts = product_grid(domain, _spread_sigmas(domain, movement), MEMORIES, start=start)
    return SAder(experts, SELF_TUNED, "uniform", movement=movement)


def _spread_sigmas(domain: ConvexSet, movement: Movement) -> list[ScaleFree]:
    """Return scale-free sigmas, the first for a comparator that never moves, the last for one that always does."""
    D = domain.scale
    weight = np.max(movement.weight) * movement.lipschitz(domain.dim)
    # SAder rejects movements without a finite weight.
    weight = float(weight) if np.isfinite(weight) else 0.0
    paths = [D * (4.0**scale - 1.0) / 2.0 for scale in SCALES]
    return [ScaleFree(D, path, weight) for path in paths]


def _on_grid(
    make: Callable[[float, int], list[Descent[Any]]],
    domain: ConvexSet,
    T: int,
    G: float,
    move_cost: float,
    beta: float | str,
    prior: str | ArrayLike,
    lazy: bool,
    start: ArrayLike | None,
) -> SAder:
    """Build an ensemble of the experts that ``make`` returns for each sigma of theory's grid and its slack."""
    check_bounded(check_domain(domain))
    R = domain.reach(start) or 1.0
    _check_known(T, G, R, move_cost)
    sigmas = sigma_grid(T, G, R, move_cost).tolist()
    places = [make(sigma, max(1, math.floor(2.0 * R * sigma / G))) for sigma in sigmas]
    if lazy:
        places.append([LazyGD(domain, sigmas[0], start=start)])
    experts = [expert for place in places for expert in place]
    if len(experts) > len(places) and np.array_equal(prior, "harmonic"):
        # The prior belongs to the sigma. Two experts that share it are each at most ln(2) / beta worse off than alone.
        sizes = [len(place) for place in places]
        prior = np.repeat(harmonic_prior(len(places)) / sizes, sizes)
    if isinstance(beta, str) and beta != SELF_TUNED:
        one_of(beta, "beta", (*META_RATES, SELF_TUNED))
        beta = meta_rate(beta, T, G, R, move_cost)
    return SAder(experts, beta, prior, movement=L2Movement(move_cost))


def _check_known(T: Any, G: Any, R: Any, weight: Any) -> tuple[int, float, float, float]:
    """Check the quantities that theory takes as known."""
    horizon = size(T, "T", "Give the number of rounds, or use auto, which does not need it.")
    bound = positive(
        G, "G", "Give a bound on the gradients' norms, or use auto, which needs none."
    )
    return horizon, bound, positive(R, "R"), non_negative(weight, "move_cost")
