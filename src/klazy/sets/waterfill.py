"""The point of a capped simplex nearest to another one in relative entropy."""

from typing import NamedTuple

import numpy as np

from klazy.base.checks import Array

SMALLEST_REST = 1e-300  # what is left for the coordinates between their bounds, where rounding leaves nothing


class Filled(NamedTuple):
    """The point, its logarithm, and how far the logarithm of what was projected lies beyond it, at its own level."""

    x: Array
    z: Array
    excess: Array


def fill_water(v: Array, total: float, low: Array, high: Array) -> Filled:
    r"""Project :math:`e^v` onto :math:`\{low \le x \le high, \sum_i x_i = total\}` in relative entropy.

    .. math:: \arg\min_x \sum_i x_i (\log x_i - v_i - 1) \quad\text{is}\quad x_i = clip(e^{v_i - \mu}, low_i, high_i)

    with the level :math:`\mu` at which they add up to the total. Coordinates are fixed at a bound in turn: at the level of
    those that are still free, what lies above the caps is compared with what is missing below the floors. Where the caps win,
    the right level is lower, so that all who are above their caps stay there; else all who are below their floors do.

    ``excess`` is :math:`v - \mu - \log x`: positive at a cap, negative at a floor, zero between them.
    """
    with np.errstate(divide="ignore"):
        bottom = np.log(low)
        top = np.log(high)
    free = np.ones(v.size, dtype=bool)
    x = np.zeros(v.size)
    mu = 0.0
    while free.any():
        peak = v[free].max()
        share = np.where(free, np.exp(np.minimum(v - peak, 0.0)), 0.0)
        rest = max(total - x[~free].sum(), SMALLEST_REST)
        mu = peak + np.log(share.sum() / rest)
        trial = share * (rest / share.sum())
        above = np.where(free, np.maximum(trial - high, 0.0), 0.0)
        below = np.where(free, np.maximum(low - trial, 0.0), 0.0)
        if not above.any() and not below.any():
            x = np.where(free, trial, x)
            break
        caps_win = above.sum() >= below.sum()
        fixed = above > 0.0 if caps_win else below > 0.0
        x = np.where(fixed, high if caps_win else low, x)
        free = free & ~fixed
    if not free.any():  # a corner: any level between those at which its coordinates would leave their bounds
        mu = min(
            max(mu, (v - bottom)[x == low].max(initial=-np.inf)), (v - top)[x == high].min(initial=np.inf)
        )
    level = v - mu
    z = np.clip(level, bottom, top)
    return Filled(x, z, level - z)
