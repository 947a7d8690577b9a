"""Competitive ratios of baselines that look ahead: how many times the optimum they pay at most, and for which costs.

Both come from the same start, costs are never negative, and the paths may differ in length, which regret does not allow.
"""

import math

from klazy.base.checks import InvalidInput, integer, non_negative
from klazy.theory.bounds import check_range


def greedy_ratio(growth: float, move_cost: float = 1.0, *, squared: bool = False) -> float:
    r"""Bound what playing every minimiser v_t pays, in multiples of the optimum.

    .. math:: \max(1, 2\lambda/\alpha) \quad\text{if}\quad f_t(y) \ge f_t(v_t) + \alpha\, m(y - v_t)
              \text{ and moves cost } \lambda\, m, \qquad
              1 + 4\lambda/\alpha \quad\text{if}\quad f_t(y) \ge f_t(v_t) + \tfrac\alpha2 \|y - v_t\|^2
              \text{ and moves cost } \tfrac\lambda2 \|\delta\|^2.

    These are the ratios of Zhang, Jiang, Lu and Yang, *Revisiting Smoothed Online Learning* (2021). ``GOBD(domain, greed=1.0)``
    plays every minimiser.

    Parameters
    ----------
    growth : float
        :math:`\alpha > 0`: how fast costs grow away from their minimiser.
    move_cost : float, optional
        :math:`\lambda`. Default: 1.
    squared : bool, optional
        Whether moves cost the square of their length, as with :class:`SquaredMovement`, and costs grow as squares do, too.
        Default: False, a norm for both.

    Returns
    -------
    float
        The ratio.

    Examples
    --------
    >>> greedy_ratio(growth=0.5), greedy_ratio(growth=0.5, squared=True)
    (4.0, 9.0)
    """
    share = check_range(move_cost, "move_cost") / check_range(growth, "growth")
    return 1.0 + 4.0 * share if squared else max(1.0, 2.0 * share)


def robd_ratio(
    growth: float, move_cost: float = 1.0, stay: float | None = None, follow: float = 0.0
) -> float:
    r"""Bound what :class:`ROBD` pays for strongly convex costs and squared movement, in multiples of the optimum.

    .. math:: \max\Bigl(\frac{\lambda (\alpha + b)}{a \alpha},\; 1 + \frac{a}{\alpha + b}\Bigr)
              \quad\text{for}\quad a \le \lambda

    Costs are :math:`\alpha`-strongly convex, moves cost :math:`\tfrac\lambda2 \|\delta\|^2`, a is ``stay`` and b ``follow``.
    The ratio is that of Goel, Lin, Sun and Wierman, *Beyond Online Balanced Descent* (2019).

    Parameters
    ----------
    growth : float
        :math:`\alpha > 0`: costs minus :math:`\tfrac\alpha2 \|x\|^2` are convex.
    move_cost : float, optional
        :math:`\lambda`. Default: 1.
    stay, follow : float, optional
        The pulls of :class:`ROBD`. Default: ``stay`` is the move cost, ``follow`` 0.

    Returns
    -------
    float
        The ratio.

    Raises
    ------
    ValueError
        If ``stay`` is above the move cost.

    Examples
    --------
    >>> robd_ratio(growth=0.25), round(robd_ratio(0.25, 1.0, *robd_pulls(0.25)), 3)
    (5.0, 2.562)
    """
    growth = check_range(growth, "growth")
    move_cost = check_range(move_cost, "move_cost")
    stay = move_cost if stay is None else check_range(stay, "stay")
    if stay > move_cost:
        raise InvalidInput(f"stay must be at most the move cost, {move_cost}, got {stay}.")
    total = growth + non_negative(follow, "follow")
    return max(total * move_cost / (growth * stay), 1.0 + stay / total)


def robd_pulls(growth: float, move_cost: float = 1.0) -> tuple[float, float]:
    r"""Return ``stay`` and ``follow`` of the smallest :func:`robd_ratio`, :math:`\tfrac12 (1 + \sqrt{1 + 4\lambda/\alpha})`.

    No rule that sees only f_1 to f_t has a smaller ratio for all such costs.

    Parameters
    ----------
    growth, move_cost
        As in :func:`robd_ratio`.

    Returns
    -------
    tuple of float
        ``stay`` and ``follow``.

    Examples
    --------
    >>> stay, follow = robd_pulls(growth=0.25)
    >>> stay, round(follow, 3)
    (1.0, 0.39)
    """
    growth = check_range(growth, "growth")
    move_cost = check_range(move_cost, "move_cost")
    return move_cost, (math.sqrt(growth * (growth + 4.0 * move_cost)) - growth) / 2.0


def budgeting_ratio(kinds: int) -> float:
    r"""Bound what :class:`LazyBudgeting` pays for several kinds of servers, in multiples of the optimum: 2d + 1.

    No rule that sees only f_1 to f_t and draws nothing has a ratio below 2d (Albers and Quedenfeld, *Algorithms for Energy
    Conservation in Heterogeneous Data Centers*, 2021).

    Parameters
    ----------
    kinds : int
        d, how many kinds there are.

    Returns
    -------
    float
        The ratio.

    Examples
    --------
    >>> budgeting_ratio(kinds=2)
    5.0
    """
    return 2.0 * integer(kinds, "kinds") + 1.0
