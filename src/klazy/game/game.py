"""The game that a learner or a baseline plays: the one place that checks costs, movement and start."""

import math
import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from klazy.base.checks import Array, InvalidInput, instance, integer, real_array, vector
from klazy.costs import Costs, as_costs
from klazy.game.trace import Trace
from klazy.learners import Learner
from klazy.movement import Movement, as_movement, suit_movement
from klazy.sets import ConvexSet


@dataclass(frozen=True, eq=False)
class Game:
    """Costs, movement and the position before the first round, checked to fit together.

    Parameters
    ----------
    costs : Costs
        What rounds cost.
    movement : Movement
        What moving costs.
    weights : array
        The movement's weights: one for all rounds, or one per round.
    x0 : array or None
        The position before the first round; None lets the first round move for free.

    Examples
    --------
    >>> game = Game.check(Simplex(2), [[1.0, 0.0], [0.0, 1.0]], "tv")
    >>> game.costs.T, game.movement, game.weights.tolist()
    (2, TVMovement(), [1.0])
    """

    costs: Costs
    movement: Movement
    weights: Array
    x0: Array | None

    @classmethod
    def check(
        cls,
        domain: ConvexSet,
        costs: Any,
        movement: Any = None,
        x0: Any = None,
        learner: Any = None,
    ) -> Self:
        """Check the parts of a game on a set; NaN and inf in the data are found later, in the costs.

        Parameters
        ----------
        domain : ConvexSet
            Where decisions live.
        costs : Costs or array_like
            What rounds cost.
        movement : Movement or str, optional
            What moving costs, or its short name. Default: what it costs this learner, or what suits the set.
        x0 : array_like, optional
            The position before the first round.
        learner : Learner, optional
            Who will play.

        Returns
        -------
        Game
            The game.

        Raises
        ------
        ValueError
            If parts do not fit together.
        """
        known = as_costs(costs)
        if known.dim != domain.dim:
            raise InvalidInput(
                f"costs must have dimension {domain.dim}, as the set does, got {known.dim}."
            )
        if movement is None:
            movement = suit_movement(domain) if learner is None else learner.own_movement
        movement = as_movement(movement, drifting=True)
        movement.check(known.dim)
        start = None
        if x0 is not None:
            start = vector(x0, "x0", known.dim)
        return cls(known, movement, movement.weights(known.T), start)

    def measure_first_move(self, x: Array) -> float:
        """Measure the move from x0 to the first point, before the weight.

        Parameters
        ----------
        x : array
            The first point.

        Returns
        -------
        float
            The distance; 0 without x0.
        """
        if self.x0 is None:
            return 0.0
        return float(self.movement.distance(x - self.x0))

    def make_trace(self, **facts: Any) -> Trace[Any]:
        """Make the trace of a player of this game.

        Parameters
        ----------
        **facts
            The fields of :class:`~klazy.types.Trace` that the game does not know.

        Returns
        -------
        Trace
            The trace.
        """
        costs = self.costs
        return Trace[Any](
            T=costs.T,
            dim=costs.dim,
            movement=self.movement,
            x0=self.x0,
            costs=costs,
            columns=costs.columns,
            **facts,
        )


def check_family(learner: Learner[Any], costs: Costs) -> None:
    """Reject costs whose rows this learner does not understand."""
    # A learner without a family takes gradients, and all costs have them.
    if learner.family is not None and not learner.understands(costs.family):
        raise InvalidInput(
            f"costs must be of the learner's family, {learner.family}, got {costs}."
        )


def find_rows(learner: Learner[Any], costs: Any) -> Array:
    """Return the rows of a learner's family, or the gradients of linear costs."""
    return costs.data if learner.family == costs.family else costs.arrays()[0]


def find_factors(learner: Learner[Any], movement: Movement, T: int) -> Array | None:
    """Return what the move after each of T rounds costs, as a multiple of the learner's usual price.

    None where one price holds for all rounds, or prices mean nothing to the learner.
    """
    if movement.is_steady or learner.usual_price is None:
        return None
    return np.array([learner.find_factor(movement.weight_at(t)) for t in range(2, T + 2)])


def check_delays(delays: Any, T: int | None = None) -> Array:
    """Return the delay of each round, of shape (T,); one number is the delay of all T rounds."""
    given = real_array(delays, "delays", limit=math.inf)
    if given.ndim == 0 and T is not None:
        given = np.full(T, float(given))
    if given.ndim != 1 or (T is not None and len(given) != T):
        raise InvalidInput(
            f"delays must have shape ({T or 'T'},), one per round, got {given.shape}."
        )
    fits = (given >= 0.0) & ((given == np.trunc(given)) | (given == np.inf))
    if not fits.all():
        i = int(fits.argmin())
        raise InvalidInput(
            f"delays[{i}] must be an integer of at least 0, got {given[i]}. Use inf for feedback that never comes."
        )
    return given


def check_player(learner: Any, name: str) -> Learner[Any]:
    """Check that this is a learner."""
    return instance(learner, name, Learner, "a Learner such as GD(L2Ball(5), 1.0)")


def count_workers(jobs: Any) -> int:
    """Return how many runs to play at once: ``jobs``, or the number of cores."""
    if jobs is None:
        return os.cpu_count() or 1
    return integer(jobs, "jobs", "Leave it out for all cores.")


def count_axes(values: Any) -> int | None:
    """Count the axes of an array or of nested lists; None if rows differ in length."""
    try:
        return np.ndim(values)
    except ValueError:
        return None
