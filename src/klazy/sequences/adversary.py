"""Sequences made against laziness, and the two examples that show what it gains."""

import math

import numpy as np

from klazy.base.checks import InvalidInput, integer, positive, size
from klazy.costs import LinearCosts
from klazy.sequences.phases import Scenario, alternate
from klazy.sets import Box, L1Ball, L2Ball


def square_wave(k: int, T: int, active: int | None = None) -> Scenario[LinearCosts]:
    r"""Make the wave that costs k-lazyGD a regret linear in k (Theorem 2): on [-1, 1], k/2 rounds of cost x, then k/2 of -x.

    For odd k the wave is that of k - 1 and a round without cost. The comparator follows it in the active blocks and holds still
    after them; each flip has length 2, so that :math:`P_T = 2 (2A - 1)`. There are :math:`\lfloor T/k \rfloor` blocks, so
    path lengths beyond about 4T/k are out of reach. :func:`square_wave_regret` is the exact regret.

    Parameters
    ----------
    k : int
        The slack of the learner that it is made against; >= 2.
    T : int
        The number of rounds.
    active : int, optional
        A, the blocks in which the comparator moves. Default: all :math:`\lfloor T/k \rfloor`.

    Returns
    -------
    Scenario
        The set, the costs and the comparator.

    Raises
    ------
    ValueError
        If there is not one whole block, or fewer than ``active``.

    Examples
    --------
    >>> square_wave(k=4, T=9).costs.subgradient(3, np.zeros(1)), square_wave(k=4, T=9).comparator[:5, 0].tolist()
    (array([-1.]), [-1.0, -1.0, 1.0, 1.0, -1.0])
    """
    k, T, blocks, active = _check_wave(k, T, active)
    even = k - k % 2
    half = np.ones(even // 2)
    wave = np.concatenate((half, -half, np.zeros(k - even)))
    g = np.concatenate((np.tile(wave, blocks), np.zeros(T - blocks * k)))
    # A round without cost is no reason to move.
    best = np.concatenate((-half, half, np.ones(k - even)))
    u = np.concatenate((np.tile(best, active), np.ones(T - active * k)))
    return Scenario("square wave", Box(-1.0, 1.0), LinearCosts(g[:, None]), u[:, None])


def square_wave_regret(k: int, T: int, sigma: float, active: int | None = None) -> float:
    r"""Compute the exact dynamic regret of k-lazyGD with a constant sigma on :func:`square_wave`.

    It is :math:`A k_e + \lfloor T/k \rfloor \min(1, k_e / (2 \sigma))`, with :math:`k_e` the even part of k.

    Parameters
    ----------
    k : int
        The slack; >= 2.
    T : int
        The number of rounds.
    sigma : float
        The learner's sigma.
    active : int, optional
        The blocks in which the comparator moves, A. Default: all.

    Returns
    -------
    float
        The regret.

    Examples
    --------
    >>> square_wave_regret(k=4, T=40, sigma=3.0)
    46.66...
    """
    k, T, blocks, active = _check_wave(k, T, active)
    even = k - k % 2
    sigma = positive(sigma, "sigma")
    return active * even + blocks * min(1.0, even / (2.0 * sigma))


def _check_wave(k: int, T: int, active: int | None) -> tuple[int, int, int, int]:
    k = size(k, "k", "Greedy GD has no such wave.", least=2)
    T = size(T, "T")
    blocks = T // k
    if blocks == 0:
        raise InvalidInput(f"T must be at least k={k}, got {T}.")
    if active is None:
        active = blocks
    active = integer(active, "active")
    if active > blocks:
        raise InvalidInput(f"active must be at most T//k={blocks}, got {active}.")
    return k, T, blocks, active


def rotating(T: int = 101, settled: int = 12) -> Scenario[LinearCosts]:
    """Make the paper's example (i), on the l1 ball: a lazy learner stays at its vertex.

    The cost is -x_1 for a while, then unit costs rotate. The comparator is the best fixed point.

    Parameters
    ----------
    T : int, optional
        The number of rounds. Default: 101.
    settled : int, optional
        The rounds before the costs rotate. Default: 12.

    Returns
    -------
    Scenario
        The set, the costs and the comparator.

    Examples
    --------
    >>> rotating(T=15).costs.subgradient(14, np.zeros(2)).tolist()
    [0.0, 1.0]
    """
    T = size(T, "T")
    settled = integer(settled, "settled")
    settled = min(settled, T)
    cycle = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    before = np.tile([-1.0, 0.0], (settled, 1))
    g = np.vstack((before, cycle[np.arange(T - settled) % 4]))
    return _compare_with_fixed("rotating", L1Ball(2), g)


def alternating(T: int = 101, settled: int = 11) -> Scenario[LinearCosts]:
    """Make the paper's example (ii), on the l2 ball: a lazy learner hardly moves.

    The cost is -x_1 for a while, then a second, alternating part is added. The comparator is the best fixed point.

    Parameters
    ----------
    T : int, optional
        The number of rounds. Default: 101.
    settled : int, optional
        The rounds before the costs alternate. Default: 11.

    Returns
    -------
    Scenario
        The set, the costs and the comparator.

    Examples
    --------
    >>> alternating().costs.subgradient(12, np.zeros(2)).tolist()
    [-1.0, 1.0]
    """
    T = size(T, "T")
    settled = integer(settled, "settled")
    t = np.arange(1, T + 1)
    second = np.where(t <= settled, 0.0, (-1.0) ** t)
    g = np.column_stack((-np.ones(T), second))
    return _compare_with_fixed("alternating", L2Ball(2), g)


def _compare_with_fixed(
    name: str, domain: L1Ball | L2Ball, g: np.ndarray
) -> Scenario[LinearCosts]:
    u = np.broadcast_to(domain.argmin_linear(g.sum(axis=0)), g.shape)
    return Scenario(name, domain, LinearCosts(g), u)


def phases_of_length(length: int, T: int, dim: int = 1) -> Scenario[LinearCosts]:
    """Make costs whose sign flips every ``length`` rounds, on the l2 ball.

    Gradients have unit norm, along the diagonal. The comparator is the best point of every phase.

    Parameters
    ----------
    length : int
        The rounds of a phase.
    T : int
        The number of rounds.
    dim : int, optional
        The number of coordinates. Default: 1.

    Returns
    -------
    Scenario
        The set, the costs and the comparator.

    Examples
    --------
    >>> phases_of_length(2, T=5).comparator.ravel().tolist()
    [-1.0, -1.0, 1.0, 1.0, -1.0]
    """
    length = size(length, "length")
    T = size(T, "T")
    dim = size(dim, "dim")
    sign = alternate(length, T)
    g = np.repeat(sign / math.sqrt(dim), dim, axis=1)
    return Scenario(f"phases of {length}", L2Ball(dim), LinearCosts(g), -g)
