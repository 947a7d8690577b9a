"""Learners that see only the cost of a decision, and no gradient."""

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, real_array, vector
from klazy.learners.base import Learner
from klazy.learners.wrapping import Wrapper, move_learner
from klazy.sets import ConvexSet

MOST_SEEDS = 2**64  # The key of a random generator has 64 bits.


class BanditState(NamedTuple):
    """The learner's own state, and ``v``, the direction of this round's trial: a unit vector along the set."""

    t: int
    x: Array
    inner: Any
    v: Array


class FromCosts:
    """What learners share that see what ``points`` decisions of a round cost, and no gradient."""

    learns_from_values: ClassVar[bool] = True
    points: int = 1

    def check_values(self, values: Any) -> Array:
        """Check the costs of a round.

        Parameters
        ----------
        values : array_like
            One cost per point; a plain number will do for ``points=1``.

        Returns
        -------
        array
            The costs, of shape (points,).

        Raises
        ------
        ValueError
            If they are not as many real numbers.
        """
        given = real_array(values, "value")
        return vector(np.atleast_1d(given), "value", self.points).copy()


class Bandit(FromCosts, Wrapper[BanditState]):
    r"""Any learner where only the cost of a decision is known, and no gradient.

    The learner plays :math:`z_t` on the set shrunk by ``delta``, and gets an estimate of its gradient. With n the dimension
    of the set (of a simplex one less than its coordinates) and :math:`v_t` a random unit vector along it,

    ``points=1``
        :math:`x_t = z_t + \delta v_t` is played, and the estimate is :math:`\frac{n}{\delta} f_t(x_t)\, v_t` (Flaxman, Kalai
        and McMahan, 2005). Trying costs moves: about :math:`2 \delta` a round.
    ``points=2``
        :math:`x_t = z_t` is played, :math:`z_t + \delta v_t` is tried as well, and the estimate is
        :math:`\frac{n}{\delta} \bigl(f_t(z_t + \delta v_t) - f_t(z_t)\bigr) v_t` (after Agarwal, Dekel and Xiao, 2010). What
        the trial costs is not counted; it is at most :math:`G \delta` more than what the decision costs.

    Both are gradients, on average, of :math:`f_t` smoothed over a ball of radius delta.
    :func:`~klazy.theory.bandit_bound` has what this is worth: regret of order :math:`T^{3/4}` with one point,
    :math:`T^{1/2}` with two. Directions follow from ``seed`` and the round, so that a run is repeated bit for bit.

    Around :func:`~klazy.contrib.ader` it is PBGD of Zhao, Wang, Zhang and Zhou, *Bandit Convex Optimization in Non-stationary
    Environments* (2021), up to constants of the steps, and needs no sigma. ader's G then bounds the estimates, which are no
    longer than :math:`\frac{n}{\delta} \max |f_t|` with one point, and n times the gradients with two.

    Parameters
    ----------
    learner : Learner
        Who decides; its set is that of the decisions. It must take gradients.
    points : int, optional
        How many costs are known of each round, 1 or 2. Default: 1.
    delta : float
        How far away a trial is; :func:`~klazy.theory.bandit_tuning` has theory's choice.
    seed : int, optional
        Where directions come from. Default: 0.

    Examples
    --------
    >>> learner = Bandit(GD(L2Ball(2), sigma=5.0), points=2, delta=0.01)
    >>> trace = run(learner, QuadraticCosts(np.tile([0.5, -0.5], (400, 1))))
    >>> trace.x[-1].round(1)
    array([ 0.5, -0.5])

    Not told a sigma, around an ensemble:

    >>> learner = Bandit(ader(L2Ball(2), T=400, G=4.0), points=2, delta=0.01)
    >>> run(learner, QuadraticCosts(np.tile([0.5, -0.5], (400, 1)))).x[-1].round(1)
    array([ 0.5, -0.5])
    """

    points: int
    delta: float
    seed: int
    inside: ConvexSet  # where the learner's own point is

    def __init__(
        self, learner: Learner[Any], points: int = 1, *, delta: float, seed: int = 0
    ) -> None:
        self._wrap(learner, by_gradients=True)
        if points not in (1, 2):
            raise InvalidInput(f"points must be 1 or 2, got {points!r}.")
        inside = self.domain.shrunk(delta)
        self._keep(points=int(points), delta=float(delta), seed=check_seed(seed), inside=inside)

    @cached_property
    def mover(self) -> Learner[Any]:
        """The learner on the shrunk set."""
        return move_learner(self.learner, self.inside)

    def describe_memory(self, state: BanditState) -> str:
        return f"It was made from the costs of rounds 1 to {state.t - 1}, by estimates of their gradients."

    def init(self, x: Array | None = None) -> BanditState:
        near = None if x is None else self.inside.nearest(x)
        return self._play(1, self.mover.init(near))

    def step(self, state: BanditState, g: Array) -> BanditState:
        """Learn from a linear cost with gradient ``g``, of which it uses only the costs at the points that it tries.

        Parameters
        ----------
        state : BanditState
            The state in the round.
        g : array
            The gradient of the round's cost.

        Returns
        -------
        BanditState
            The state in the next round.
        """
        return self.learn(state, np.array([g @ point for point in self.probes(state)]))

    def learn(self, state: BanditState, values: Array) -> BanditState:
        """End the round with its costs.

        Parameters
        ----------
        state : BanditState
            The state in the round.
        values : ndarray
            The costs of the points :meth:`probes`, of shape (points,).

        Returns
        -------
        BanditState
            The state in the next round.
        """
        inner = self.mover.step(state.inner, self.estimate(state, values))
        return self._play(state.t + 1, inner)

    def skip(self, state: BanditState) -> BanditState:
        """End a round whose cost is not known, or known for another point only.

        Parameters
        ----------
        state : BanditState
            The state in the round.

        Returns
        -------
        BanditState
            The state in the next round; the learner inside has learned nothing.
        """
        return self._play(state.t + 1, state.inner)

    def probes(self, state: BanditState) -> Array:
        """List the points whose costs are wanted.

        Parameters
        ----------
        state : BanditState
            The state in the round.

        Returns
        -------
        array
            The points, of shape (points, d); the one to play comes first.
        """
        if self.points == 1:
            return state.x[None]
        return np.array([state.x, state.inner.x + self.delta * state.v])

    def estimate(self, state: BanditState, values: Array) -> Array:
        """Estimate the gradient from the costs of a round.

        Parameters
        ----------
        state : BanditState
            The state in the round.
        values : array
            The costs of the points :meth:`probes`, of shape (points,).

        Returns
        -------
        array
            The estimate, of shape (d,).
        """
        rise = values[0] if self.points == 1 else values[1] - values[0]
        return (self.domain.rank / self.delta * rise) * state.v

    def _play(self, t: int, inner: Any) -> BanditState:
        v = draw_direction(self.domain, self.seed, t)
        x = inner.x
        if self.points == 1:
            x = x + self.delta * v
        return BanditState(t, x, inner, v)

    def check_state(self, state: Any) -> BanditState:
        t = self._check_kind(state, BanditState)
        inner = self.mover.check_state(state.inner)
        expected = self._play(t, inner)
        for name in ("x", "v"):
            given = vector(getattr(state, name), f"state.{name}", self.domain.dim)
            if not np.allclose(
                given, getattr(expected, name), rtol=0.0, atol=1e-9 * self.domain.scale
            ):
                message = f"state.{name} does not follow from the other parts of the state, got {given.tolist()}."
                raise InvalidInput(message)
        return BanditState(t, np.asarray(state.x), inner, np.asarray(state.v))


def check_seed(seed: Any) -> int:
    """Check the seed of a learner, which is the key of a random generator."""
    if (
        isinstance(seed, bool)
        or not isinstance(seed, int | np.integer)
        or not 0 <= seed < MOST_SEEDS
    ):
        raise InvalidInput(f"seed must be an integer from 0 to 2^64 - 1, got {seed!r}.")
    return int(seed)


def make_generator(seed: int, t: int) -> np.random.RandomState:
    """Return the generator of a round; NumPy promises that its numbers never change.

    A Philox counts up its lowest word as it draws. The round is the highest one, so that no two rounds share numbers.
    """
    return np.random.RandomState(np.random.Philox(key=seed, counter=[0, 0, 0, t]))


def draw_direction(domain: ConvexSet, seed: int, t: int) -> Array:
    """Draw a unit vector along the set, uniformly, from the seed and the round; zero if the set is a single point."""
    if domain.rank == 0:
        return np.zeros(domain.dim)
    random = make_generator(seed, t)
    while True:
        v = domain.along(random.standard_normal(domain.dim))
        length = float(np.sqrt((v * v).sum()))
        if length > 0.0:
            return v / length
