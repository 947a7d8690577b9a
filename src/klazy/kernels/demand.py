"""A normal demand over a lane: its distribution function, what a stock is expected to cost, and the best stock for it."""

import numpy as np

from klazy.kernels.lane import *

VARIANCE = 1e-10  # as LEAST_VARIANCE in klazy.families
THINNEST = 1e-200  # as in klazy.learners.prox
TURNS = 100
EPS = float(np.finfo(np.float64).eps)
CLOSE = (
    1e-5  # after so small a step of Halley's, in standard deviations, the next would be rounding
)
ROOT_HALF = 0.5**0.5
ROOT_2_PI = float(np.sqrt(2.0 * np.pi))

# Rational approximations of the error function by W. J. Cody (Mathematics of Computation 23, 1969): P / Q for three ranges.
NEAR = 0.46875
FAR_TAIL = 4.0
NOTHING_BEYOND = 40.0  # exp(-y^2) is zero


@exact
def erf_near(y):
    """Return P and Q of the error function for 0 <= y <= NEAR."""
    w = y * y
    p = (w * 1.85777706184603153e-1 + 3.16112374387056560e0) * w + 1.13864154151050156e2
    p = (p * w + 3.77485237685302021e2) * w + 3.20937758913846947e3
    q = (w + 2.36012909523441209e1) * w + 2.44024637934444173e2
    q = (q * w + 1.28261652607737228e3) * w + 2.84423683343917062e3
    return y * p, q


@exact
def erfc_middle(y):
    """Return P and Q of the factor of exp(-y^2) in the complementary error function, for NEAR <= y <= FAR_TAIL."""
    p = (y * 2.15311535474403846e-8 + 5.64188496988670089e-1) * y + 8.88314979438837594e0
    p = (p * y + 6.61191906371416295e1) * y + 2.98635138197400131e2
    p = (p * y + 8.81952221241769090e2) * y + 1.71204761263407058e3
    p = (p * y + 2.05107837782607147e3) * y + 1.23033935479799725e3
    q = (y + 1.57449261107098347e1) * y + 1.17693950891312499e2
    q = (q * y + 5.37181101862009858e2) * y + 1.62138957456669019e3
    q = (q * y + 3.29079923573345963e3) * y + 4.36261909014324716e3
    q = (q * y + 3.43936767414372164e3) * y + 1.23033935480374942e3
    return p, q


@exact
def erfc_beyond(y):
    """Return the factor P / Q of exp(-y^2) for y >= FAR_TAIL."""
    w = 1.0 / (y * y)
    p = (w * 1.63153871373020978e-2 + 3.05326634961232344e-1) * w + 3.60344899949804439e-1
    p = (p * w + 1.25781726111229246e-1) * w + 1.60837851487422766e-2
    p = p * w + 6.58749161529837803e-4
    q = (w + 2.56852019228982242e0) * w + 1.87295284992346725e0
    q = (q * w + 5.27905102951428412e-1) * w + 6.05183413124413191e-2
    q = q * w + 2.33520497626869185e-3
    return (5.64189583547756287e-1 - w * (p / q)) / y


@exact
def tail_of(z):
    """Return the probability that a standard normal number exceeds z, and its density there."""
    y = smaller(size(z) * ROOT_HALF, spread(NOTHING_BEYOND))
    bell = exp(0.0 - y * y)
    near = y <= NEAR
    p, q = erfc_middle(smaller(y, spread(FAR_TAIL)))
    near_p, near_q = erf_near(smaller(y, spread(NEAR)))
    share = where(near, near_p, p) / where(near, near_q, q)
    if anywhere(y > FAR_TAIL):
        share = where(y > FAR_TAIL, erfc_beyond(larger(y, spread(FAR_TAIL))), share)
    upper = 0.5 * where(near, 1.0 - share, bell * share)
    return where(z > 0.0, upper, 1.0 - upper), bell * (1.0 / ROOT_2_PI)


def measure_spread(mean, square):
    """Return the standard deviation; a variance that is only the rounding of sums counts as none."""
    variance = square - mean * mean
    wide = variance > VARIANCE * square
    return root(where(wide, variance, spread(0.0)))


@exact
def expect(stock, mean, deviation, short, excess):
    """Return what a stock costs on average."""
    varies = deviation > THINNEST
    z = (stock - mean) / where(varies, deviation, spread(1.0))
    tail, density = tail_of(z)
    missed = where(varies, deviation * (density - z * tail), larger(mean - stock, spread(0.0)))
    return excess * (stock - mean) + (short + excess) * missed


@called
@exact
def find_stock(x, mean, deviation, short, excess, price, best, pull):
    """Find the stock that is best with ``price / 2`` times the squared move from x added, by Halley's steps in a bracket.

    Without the move it would be ``best`` standard deviations above the mean; ``pull`` is how fast the slope changes there.
    """
    low = x - excess / price
    high = x + short / price
    both = short + excess
    found = deviation <= THINNEST  # where demand is certain
    deviation = where(found, spread(1.0), deviation)
    inverse = 1.0 / deviation
    u = (pull * (mean + best * deviation) + price * deviation * x) / (pull + price * deviation)
    u = smaller(larger(where(found, mean, u), low), high)
    turn = 0
    searching = True
    while searching:
        z = (u - mean) * inverse
        tail, density = tail_of(z)
        value = excess - both * tail + price * (u - x)
        bend = both * density * inverse
        slope = price + bend
        low = where(value > 0.0, low, u)
        high = where(value > 0.0, u, high)
        change = 2.0 * value * slope / (2.0 * slope * slope + value * (bend * z * inverse))
        inside = (u - change >= low) & (u - change <= high)
        following = where(inside, u - change, 0.5 * (low + high))
        step = size(following - u)
        near = (inside & (step <= CLOSE * deviation)) | (step <= 2.0 * EPS * size(u))
        u = where(found, u, following)
        found = found | near
        turn += 1
        searching = turn < TURNS and not everywhere(found)
    return u
