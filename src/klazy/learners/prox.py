"""Move only if it pays: the prox of what moving costs, on every set and for every movement."""

import math
import warnings
from collections.abc import Callable

import numpy as np

from klazy.base.checks import Array
from klazy.base.programme import solve_linear
from klazy.families import Pinball
from klazy.movement import Movement, SwitchFee
from klazy.sets import Box, CappedSimplex, ConvexSet, L1Ball, L2Ball, Polytope, Product, Simplex
from klazy.sets.compose import NotConverged

ON_BOUNDARY = (
    1e-12  # how far, relative to the radius, a point of a ball may lie inside and count as on its boundary
)
EPS = float(np.finfo(np.float64).eps)
SHORTEST = 1e-10  # of the diameter: a shorter move counts as none where it is searched for
SETTLED = 1e-11  # of the set's size: by how much the last turn of a splitting may still change its point
THINNEST = 1e-200  # standard deviation of a demand without spread, so that infinitely many of them are no NaN
BUDGET = 50_000  # turns of a splitting
FARTHEST = 1e60  # a stock that no set has, for moves that cost nothing
HALVINGS = 300  # of an interval at most, to the last bit of its middle


def move_if_it_pays(domain: ConvexSet, movement: Movement, x: Array, g: Array, price: float) -> Array:
    r"""The point that is best for a forecast g, moving there included.

    .. math:: \arg\min_{u \in X}\; \langle g, u \rangle + \mathrm{price} \cdot m(u - x)

    If no move pays, the answer is x itself, bit for bit. What moving costs is ``price`` times ``movement.distance``: the
    weight of the movement is not looked at.

    ===============================  =======================  ========================  =====================
    set                              l1, TV, asymmetric       l2                        weighted l2
    ===============================  =======================  ========================  =====================
    box                              closed, O(d)             search over one number    search over one number
    simplex                          closed, O(d)             search over one number    splitting
    capped simplex, l1 ball          closed, O(d log d)       search over one number    splitting
    l2 ball                          search over d kinks      search over one angle     splitting
    polytope                         linear programme         search over one number    splitting
    product                          part by part             search over one number    splitting
    intersection, a set of your own  splitting                search over one number    splitting
    ===============================  =======================  ========================  =====================

    A search ends within rounding, a splitting (Douglas and Rachford) within about 1e-8 of the least value. A
    :class:`~klazy.SquaredMovement` is a projection on every set; a :class:`~klazy.MahalanobisMovement` a splitting; an
    :class:`~klazy.ImpactMovement` closed on a box, a search over one number on simplices and balls, part by part on products,
    and a slow splitting elsewhere. A :class:`~klazy.SwitchFee` is not convex: the only moves worth its fee are to where g is
    least.

    Parameters
    ----------
    domain : ConvexSet
        The set X.
    movement : Movement
        What moving costs, m.
    x : array
        The present point, of the set.
    g : array
        The forecast.
    price : float
        What a unit of movement costs, at least 0.

    Returns
    -------
    array
        The next point.

    Examples
    --------
    >>> x = np.array([0.2, 0.5, 0.3])
    >>> move_if_it_pays(Simplex(3), TVMovement(), x, np.array([1.0, 1.5, 3.0]), 1.0)
    array([0.5, 0.5, 0. ])
    """
    if price == 0.0 or isinstance(movement, SwitchFee):
        u = domain.lowest(g)
    elif movement.grouped and movement.degree == 2.0:
        u = domain.nearest(x - g / price)
    elif movement.grouped:
        u = _move_straight(domain, movement, x, g, price)
    elif movement.degree == 1.5:
        u = _move_with_impact(domain, x, g, 0.0, price * movement.prices(domain.dim))
    else:
        u = _move_by_coordinates(domain, movement, x, g, price)
    gain = float(g @ (x - u)) - _charge(movement, u - x, price)
    return u if gain > 0.0 else x


def _charge(movement: Movement, delta: Array, price: float) -> float:
    """What a move costs. A fee is due for every move: one within its tolerance would be free, and nothing but rounding."""
    return price if isinstance(movement, SwitchFee) else price * float(movement.distance(delta))


def _move_by_coordinates(domain: ConvexSet, movement: Movement, x: Array, g: Array, price: float) -> Array:
    """For movements that charge each coordinate by itself."""
    rise, fall = np.split(price * movement.prices(domain.dim), 2)
    return _pay_by_coordinate(domain, x, g, rise, fall)


def _move_with_impact(domain: ConvexSet, x: Array, g: Array, curvature: float, scale: Array) -> Array:
    r"""The least point of <g, u> + curvature/2 |u|^2 + sum scale |u - x|^{3/2}.

    Without the set it is found coordinate by coordinate; a multiplier, found by a search, keeps a sum or a norm.
    """
    if type(domain) is Product:
        ends = np.cumsum([leaf.dim for leaf in domain.leaves])[:-1]
        parts = zip(domain.leaves, *(np.split(v, ends) for v in (x, g, scale)), strict=True)
        return np.concatenate([_move_with_impact(leaf, y, h, curvature, s) for leaf, y, h, s in parts])

    def respond(tilt: Array | float, more: float = 0.0) -> Array:
        """The same without the set, for g + tilt and so much more curvature."""
        bend = curvature + more
        h = g + tilt
        if bend == 0.0:
            return x - np.sign(h) * (h / (1.5 * scale)) ** 2
        return _shrink_powers(-h / bend, x, scale / bend)

    def slope(u: Array | float) -> Array:
        step = u - x
        return g + curvature * u + 1.5 * scale * np.sign(step) * np.sqrt(np.abs(step))

    if type(domain) is Box:
        return domain.nearest(respond(0.0))
    if type(domain) is Simplex or type(domain) is CappedSimplex:
        low: Array | float = 0.0
        high: Array | float = domain.total
        if isinstance(domain, CappedSimplex):
            low = domain.floor
            high = domain.cap
        steep = float(max(np.abs(slope(low)).max(), np.abs(slope(high)).max()))
        v = _bisect(lambda v: domain.total - float(np.clip(respond(v), low, high).sum()), -steep, steep)
        return domain.nearest(np.clip(respond(v), low, high))
    if type(domain) is L1Ball:
        center = np.zeros(len(x)) if domain.center is None else domain.center
        outward = slope(center)

        def shrink(v: float) -> Array:
            return np.where(np.abs(outward) <= v, center, respond(-v * np.sign(outward)))

        most = float(np.abs(outward).max())
        v = _bisect(lambda v: domain.radius - float(np.abs(shrink(v) - center).sum()), 0.0, most)
        return domain.nearest(shrink(v))
    if type(domain) is L2Ball:
        center = np.zeros(len(x)) if domain.center is None else domain.center
        far = domain.radius + np.abs(x - center)
        most = np.linalg.norm(
            np.abs(g) + curvature * (np.abs(center) + domain.radius) + 1.5 * scale * np.sqrt(far)
        )
        v = _bisect(
            lambda v: domain.radius - float(np.linalg.norm(respond(-v * center, v) - center)),
            0.0,
            float(most) / domain.radius,
        )
        return domain.nearest(respond(-v * center, v))
    return _split(
        domain,
        x,
        np.abs(g) + curvature * np.abs(x) + scale,
        lambda y, s: _shrink_powers(
            (y - s * g) / (1.0 + s * curvature), x, scale * s / (1.0 + s * curvature)
        ),
    )


def _shrink_powers(y: Array, x: Array, scale: Array) -> Array:
    """y, nearer to x by what the power 3/2 of each coordinate's move says: its root q solves q^2 + 1.5 scale q = |y - x|."""
    step = y - x
    half = 0.75 * scale
    q = np.abs(step) / (half + np.sqrt(half**2 + np.abs(step)))
    return x + np.sign(step) * q**2


def _pay_by_coordinate(domain: ConvexSet, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    kind = type(domain)
    if kind in BY_COORDINATE:
        return BY_COORDINATE[kind](domain, x, g, rise, fall)

    return _split(
        domain, x, np.abs(g) + rise + fall, lambda y, s: _shrink_each(y - s * g, x, s * rise, s * fall)
    )


def _shrink_each(y: Array, x: Array, rise: Array, fall: Array) -> Array:
    """y, nearer to x by what each coordinate pays for its move."""
    return np.where(y - x > rise, y - rise, np.where(x - y > fall, y + fall, x))


def _pay_by_part(domain: Product, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    ends = np.cumsum([leaf.dim for leaf in domain.leaves])[:-1]
    parts = zip(domain.leaves, *(np.split(v, ends) for v in (x, g, rise, fall)), strict=True)
    return np.concatenate([_pay_by_coordinate(*part) for part in parts])


def _pay_on_box(domain: Box, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    """To a bound where that pays."""
    u = np.where(g + rise < 0.0, domain.upper, x)
    return np.where(g - fall > 0.0, domain.lower, u)


def _pay_on_simplex(domain: Simplex, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    """Whoever gains by it gives all to the one that is cheapest to give to."""
    taken = g + rise
    target = int(taken.argmin())
    gives = g - fall > taken[target]
    u = np.where(gives, 0.0, x)
    u[target] += x[gives].sum()
    return u


def _pay_on_capped(domain: CappedSimplex, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    """From the dearest to the cheapest, as long as that pays and there is room."""
    low = np.full(domain.dim, domain.floor)
    high = np.full(domain.dim, domain.cap)
    u = x.copy()
    givers = iter(np.argsort(-(g - fall), kind="stable"))
    takers = iter(np.argsort(g + rise, kind="stable"))
    giver = next(givers)
    taker = next(takers)
    while g[giver] - fall[giver] > g[taker] + rise[taker]:
        amount = min(u[giver] - low[giver], high[taker] - u[taker])
        is_full = high[taker] - u[taker] <= amount
        u[giver] -= amount
        u[taker] += amount
        if is_full:
            u[taker] = high[taker]
            taker = next(takers)
        else:
            u[giver] = low[giver]
            giver = next(givers)
    return u


def _pay_on_l1_ball(domain: L1Ball, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    """A knapsack: from the centre outwards the cost of a coordinate falls along at most two pieces, to x_i and beyond it."""
    z = x if domain.center is None else x - domain.center
    center = x - z
    pieces = []
    for i in range(domain.dim):
        side = np.sign(z[i]) or -np.sign(g[i])
        outward = side * g[i] + (rise[i] if side > 0.0 else fall[i])
        inward = side * g[i] - (fall[i] if side > 0.0 else rise[i])
        if z[i] != 0.0 and inward < 0.0:
            pieces.append((inward, i, side, abs(z[i])))
        elif z[i] != 0.0:  # it pays to come back to the centre, and perhaps to go on to the other side
            side = -side
            outward = -inward
        if outward < 0.0:
            pieces.append((outward, i, side, math.inf))
    left = domain.radius
    v = np.zeros(domain.dim)
    for _, i, side, room in sorted(pieces):
        amount = min(room, left)
        v[i] += side * amount
        left -= amount
    rounding = domain.dim * EPS * domain.radius
    return np.where(np.abs(v - z) <= rounding, x, center + v)


def _pay_on_l2_ball(domain: L2Ball, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    """From the centre, clip(z, s a, s b) with s such that its norm is the radius: it grows with s, piece by piece."""
    z = x if domain.center is None else x - domain.center
    a = -(g + rise)
    b = -(g - fall)
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = np.concatenate((z / a, z / b))
    kinks = np.sort(kinks[(kinks > 0.0) & np.isfinite(kinks)])
    paths = np.clip(z, kinks[:, None] * a, kinks[:, None] * b)
    if np.linalg.norm(z) >= (1.0 - ON_BOUNDARY) * domain.radius and (paths == z).all(axis=1).any():
        return x
    outside = np.linalg.norm(paths, axis=1) >= domain.radius
    last = int(np.argmax(outside)) if outside.any() else len(kinks)
    before = kinks[last - 1] if last > 0 else 0.0
    after = kinks[last] if last < len(kinks) else 2.0 * before + 1.0
    middle = 0.5 * (before + after)
    rate = np.where(z < middle * a, a, np.where(z > middle * b, b, 0.0))
    still = np.where(rate == 0.0, z, 0.0)
    slope = float(np.linalg.norm(rate))
    if slope == 0.0:
        return x
    s = math.sqrt(max(0.0, domain.radius**2 - float(still @ still))) / slope
    v = np.where(rate == 0.0, z, s * rate)
    return np.where(rate == 0.0, x, (x - z) + v)


def _pay_on_polytope(domain: Polytope, x: Array, g: Array, rise: Array, fall: Array) -> Array:
    """A linear programme in what rises and what falls."""
    A, b = domain._unit_rows
    scale = float((np.abs(g) + rise + fall).max())
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    prices = np.concatenate((g + rise, fall - g)) / scale
    found = solve_linear(prices, A_ub=np.hstack((A, -A)), b_ub=b - A @ x, bounds=(0.0, None), options=tight)
    if not found.success:
        return x
    up, down = np.split(found.x, 2)
    return x + (up - down)


BY_COORDINATE: dict[type, Callable[..., Array]] = {
    Box: _pay_on_box,
    Simplex: _pay_on_simplex,
    CappedSimplex: _pay_on_capped,
    L1Ball: _pay_on_l1_ball,
    L2Ball: _pay_on_l2_ball,
    Polytope: _pay_on_polytope,
    Product: _pay_by_part,
}


def _move_straight(domain: ConvexSet, movement: Movement, x: Array, g: Array, price: float) -> Array:
    """For movements that charge the norm of all that changes."""
    stretch = movement.stretch(domain.dim)
    axes = movement.axes()
    is_even = bool((stretch == stretch[0]).all()) and stretch[0] > 0.0
    if is_even:
        price = price * float(stretch[0])
        if type(domain) is L2Ball:
            return turn_if_it_pays(domain, x, g, price)
        return _search_stride(lambda s: domain.nearest(x - s * g), lambda u: u - x, domain, x, price)
    if type(domain) is Box and axes is None and (stretch > 0.0).all():
        return _search_stride(
            lambda s: domain.nearest(x - s * g / stretch**2), lambda u: stretch * (u - x), domain, x, price
        )
    size = float(stretch.max())
    if size == 0.0:
        return domain.lowest(g)
    return _split(
        domain, x, np.abs(g) + price * size, lambda y, s: _shrink_all(y - s * g, x, s * price, stretch, axes)
    )


def turn_if_it_pays(domain: L2Ball, x: Array, g: Array, price: float) -> Array:
    r"""The prox of the Euclidean distance on a Euclidean ball.

    A move ends on the boundary, in the plane of x and g: with the angles :math:`\theta` of the new point and :math:`\theta_z`
    of the old one to -g, and the old one's distance :math:`\rho` to the centre,

    .. math:: \|g\| \sin\theta \cdot D(\theta) = \mathrm{price}\, \rho \sin(\theta_z - \theta), \qquad
              D^2 = (r - \rho)^2 + 4 r \rho \sin^2\tfrac{\theta_z - \theta}{2},

    on the boundary :math:`\|g\| \sin\theta = \mathrm{price} \cos\frac{\theta_z - \theta}{2}`. One sign change in
    :math:`[0, \min(\theta_z, \pi/2)]`.
    """
    r = domain.radius
    z = x if domain.center is None else x - domain.center
    n = float(np.linalg.norm(g))
    if n <= price:
        return x
    towards = -g / n
    along = float(z @ towards)
    across = z - along * towards
    height = float(np.linalg.norm(across))
    rho = math.hypot(along, height)
    gap = r - rho
    is_outside = gap <= ON_BOUNDARY * r
    if is_outside and along >= 0.0 and n * height <= price * rho:
        return x
    angle = math.atan2(height, along)

    def excess(theta: float) -> float:
        half = 0.5 * (angle - theta)
        if is_outside:
            return n * math.sin(theta) - price * math.cos(half)
        far = math.hypot(gap, 2.0 * math.sqrt(r * rho) * math.sin(half))
        return n * math.sin(theta) * far - price * rho * math.sin(2.0 * half)

    theta = _bisect(excess, 0.0, min(angle, 0.5 * math.pi))
    sideways = across / height if height > 0.0 else across
    v = r * (math.cos(theta) * towards + math.sin(theta) * sideways)
    return (x - z) + v


def _bisect(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function changes its sign, to the last bit."""
    from scipy.optimize import brentq

    if excess(low) >= 0.0:
        return low
    if excess(high) <= 0.0:
        return high
    return float(brentq(excess, low, high, xtol=1e-300, rtol=4.0 * EPS))  # pyright: ignore[reportArgumentType]


def _search_stride(
    follow: Callable[[float], Array],
    measure: Callable[[Array], Array],
    domain: ConvexSet,
    x: Array,
    price: float,
) -> Array:
    """u(s) = P(x - s g) with s such that the move is as long as ``price`` s; longer for smaller s, shorter for larger."""
    longest = float(np.linalg.norm(measure(x + domain.scale)))  # no move is longer in any coordinate

    def excess(s: float) -> float:
        return price * s - float(np.linalg.norm(measure(follow(s))))

    shortest = SHORTEST * longest / price
    if excess(shortest) >= 0.0:
        return x
    return follow(_bisect(excess, shortest, 2.0 * longest / price))


def _shrink_all(y: Array, x: Array, price: float, stretch: Array, axes: Array | None) -> Array:
    """y, nearer to x by what the norm n of the stretched move says, so that n is what is left of it."""
    step = y - x if axes is None else (y - x) @ axes
    priced = stretch > 0.0
    pull = stretch[priced] * step[priced]
    force = price * stretch[priced] ** 2

    def excess(n: float) -> float:
        return 1.0 - float(np.linalg.norm(pull / (n + force)))

    n = _bisect(excess, 0.0, float(np.linalg.norm(pull)))
    step[priced] *= n / (n + force)
    return x + (step if axes is None else axes @ step)


def approach_if_it_pays(
    domain: ConvexSet, movement: Movement, x: Array, target: Array, price: float
) -> Array:
    r"""The point that is best for a forecast target, moving there included.

    .. math:: \arg\min_{u \in X}\; \tfrac12 \|u - c\|^2 + \mathrm{price} \cdot m(u - x)

    It is closed on a box for movements that charge each coordinate by itself, a search over one number for the Euclidean
    distance (over one angle on an l2 ball), a projection for its square, and a splitting elsewhere. If no move pays, the answer
    is x itself.

    Parameters
    ----------
    domain, movement, x, price
        As for :func:`move_if_it_pays`.
    target : array
        The forecast c, perhaps outside the set.

    Returns
    -------
    array
        The next point.

    Examples
    --------
    >>> approach_if_it_pays(Box([0, 0], [1, 1]), L1Movement(), np.zeros(2), np.array([0.9, 0.1]), 0.25)
    array([0.65, 0.  ])
    """
    stretch = movement.stretch(domain.dim)
    axes = movement.axes()
    if price == 0.0 or isinstance(movement, SwitchFee):
        u = domain.nearest(target)
    elif movement.grouped and movement.degree == 2.0:
        u = domain.nearest((target + price * x) / (1.0 + price))
    elif movement.degree == 1.5:
        u = _move_with_impact(domain, x, -target, 1.0, price * movement.prices(domain.dim))
    elif not movement.grouped:
        rise, fall = np.split(price * movement.prices(domain.dim), 2)
        u = _approach_by_coordinates(domain, x, target, rise, fall)
    elif (stretch == 1.0).all():
        u = _approach_straight(domain, x, target, price)
    else:
        u = _split(
            domain,
            x,
            np.abs(x - target) + price * stretch,
            lambda y, s: _shrink_all(
                y + (target - y) * s / (1.0 + s), x, price * s / (1.0 + s), stretch, axes
            ),
        )
    gain = 0.5 * float((x - u) @ (x + u - 2.0 * target)) - _charge(movement, u - x, price)
    return u if gain > 0.0 else x


def _approach_by_coordinates(domain: ConvexSet, x: Array, target: Array, rise: Array, fall: Array) -> Array:
    if type(domain) is Box:
        return domain.nearest(_shrink_each(target, x, rise, fall))
    return _split(
        domain,
        x,
        np.abs(x - target) + rise + fall,
        lambda y, s: _shrink_each(
            y + (target - y) * s / (1.0 + s), x, rise * s / (1.0 + s), fall * s / (1.0 + s)
        ),
    )


def _approach_straight(domain: ConvexSet, x: Array, target: Array, price: float) -> Array:
    """u(s) = P(x + s (c - x)) with s <= 1 such that the move is ``price`` s / (1 - s) long."""
    if type(domain) is L2Ball:
        return _approach_in_ball(domain, x, target, price)

    def follow(s: float) -> Array:
        return domain.nearest(x + s * (target - x))

    def excess(s: float) -> float:
        return price * s - (1.0 - s) * float(np.linalg.norm(follow(s) - x))

    if excess(SHORTEST) >= 0.0:
        return x
    return follow(_bisect(excess, SHORTEST, 1.0))


def _approach_in_ball(domain: L2Ball, x: Array, target: Array, price: float) -> Array:
    """Straight on until ``price`` is left; if that is outside, the best point of the boundary, where the target is a slope."""
    away = target - x
    far = float(np.linalg.norm(away))
    if far <= price:
        return x
    u = x + (1.0 - price / far) * away
    center = np.zeros(domain.dim) if domain.center is None else domain.center
    if float(np.linalg.norm(u - center)) <= domain.radius:
        return u
    return turn_if_it_pays(domain, x, center - target, price)


def stock_if_it_pays(
    domain: ConvexSet, movement: Movement, family: Pinball, x: Array, means: Array, price: float
) -> Array:
    r"""The point that is best for a normal forecast of demand, moving there included.

    Coordinate by coordinate, x is clipped to the band between two quantiles of the forecast, those at

    .. math:: \frac{s - \mathrm{price}}{s + e} \quad\text{and}\quad \frac{s + \mathrm{price}}{s + e}.

    On a box that is the minimiser of the expected cost and the cost of moving, if moving is charged by coordinates. Elsewhere
    it is a rule: on other sets the point is projected, and a norm of all that changes is taken for a price of each
    coordinate. Where the price grows faster than the step (:class:`~klazy.SquaredMovement`, :class:`~klazy.ImpactMovement`)
    there is no band, and the minimiser of each coordinate is searched for. If no move pays, the answer is x itself.

    Parameters
    ----------
    domain, movement, x, price
        As for :func:`move_if_it_pays`.
    family : Pinball
        What a unit too little and a unit too much cost.
    means : array
        The means of the demand and of its square.

    Returns
    -------
    array
        The next point.

    Examples
    --------
    >>> means = np.array([5.0, 29.0])  # a demand of 5 +- 2
    >>> stock_if_it_pays(Box(0, 10), L1Movement(), Pinball(3.0, 1.0), np.array([2.0]), means, 1.0)
    array([5.])
    """
    if price == 0.0 or isinstance(movement, SwitchFee):
        u = family.lowest(domain, means)
    elif movement.degree > 1.0:
        u = domain.nearest(_stock_by_slope(movement, family, x, means, price))
    else:
        low, high = find_band(domain, movement, family, price)
        mean, spread = family.fit_normal(means)
        spread = np.maximum(spread, THINNEST)
        u = domain.nearest(np.clip(x, mean + low * spread, mean + high * spread))
        if type(domain) is Box and not movement.grouped:
            return u
    if (u == x).all():
        return x
    gain = float(family.expected(means, x) - family.expected(means, u))
    return u if gain > _charge(movement, u - x, price) else x


def _stock_by_slope(movement: Movement, family: Pinball, x: Array, means: Array, price: float) -> Array:
    """Where the expected cost of each coordinate falls as fast as the price of its move rises, to the last bits."""
    from scipy.special import ndtr

    mean, spread = family.fit_normal(means)
    spread = np.maximum(spread, THINNEST)
    scale = price * movement.degree * movement.distance(np.eye(len(x)))

    def slope(u: Array) -> Array:
        dearer = (family.short + family.excess) * ndtr((u - mean) / spread) - family.short
        return dearer + scale * np.sign(u - x) * np.abs(u - x) ** (movement.degree - 1.0)

    # no further than where shortage alone would lead it
    steep = np.maximum(family.short, family.excess)
    with np.errstate(divide="ignore", over="ignore"):
        far = np.minimum((steep / scale) ** (1.0 / (movement.degree - 1.0)), FARTHEST)
    low = x - far
    high = x + far
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if ((middle == low) | (middle == high)).all():
            break
        rises = slope(middle) > 0.0
        low = np.where(rises, low, middle)
        high = np.where(rises, middle, high)
    return 0.5 * (low + high)


def find_band(domain: ConvexSet, movement: Movement, family: Pinball, price: float) -> tuple[Array, Array]:
    """Between how many standard deviations from the mean a stock is left as it is."""
    from scipy.special import ndtri

    if movement.grouped:
        rise = fall = price * movement.distance(np.eye(domain.dim))
    else:
        rise, fall = np.split(price * movement.prices(domain.dim), 2)
    both = family.short + family.excess
    low = ndtri(np.maximum((family.short - rise) / both, 0.0))
    high = ndtri(np.minimum((family.short + fall) / both, 1.0))
    return low, high


def _split(domain: ConvexSet, x: Array, slopes: Array, shrink: Callable[[Array, float], Array]) -> Array:
    """Douglas and Rachford's splitting: ``shrink`` is the prox of the objective, the projection that of the set."""
    stride = domain.scale / (float(np.linalg.norm(slopes)) or 1.0)
    size = max(domain.scale, float(np.abs(x).max()))
    y = x
    change = math.inf
    u = x
    for _ in range(BUDGET):
        u = domain.nearest(y)
        gap = shrink(2.0 * u - y, stride) - u
        y = y + gap
        change = float(np.abs(gap).max())
        if change <= SETTLED * size:
            return x if float(np.abs(u - x).max()) <= SHORTEST * domain.scale else u
    warnings.warn(
        f"the search for a move that pays stopped after {BUDGET} turns, still changing by {change:.1e}.",
        NotConverged,
        stacklevel=3,
    )
    return u
