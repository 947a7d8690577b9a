"""The kernels of the offline optimum: passes of the splitting method, many projections, three dynamic programmes.

The splitting method keeps a point w of (T, d) numbers and projects onto {(w, z) : z_t = c (w_t - w_{t-1})}, which is one
tridiagonal system per coordinate: :func:`_factor` once per choice of penalties, then :func:`_eliminate` forwards and
:func:`_substitute` backwards in every iteration, each of which does on its way all that a round needs.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int32, int64, types, void

from klazy.kernels.binding import FLOAT, Lane, bind, compile_kernel, hold, local, once, pointer
from klazy.kernels.round import link_projection
from klazy.kernels.sequence import input1, input2, output1, output2
from klazy.kernels.slots import D, coordinate, threshold

ADDED_ROUNDS = 64  # rounds of a dynamic programme whose costs are added up one by one; the blocks are added pairwise


def _factor(r, r_z, c, pivots, lower):
    """Compute the factors of r I + c^2 D' r_z D for every coordinate; ``r_z[0]`` ties the first round to a point before it."""
    T, d = pivots.shape
    for t in range(T):
        for i in range(d):
            below = c[i] * c[i] * r_z[t + 1] if t + 1 < T else 0.0
            above = c[i] * c[i] * r_z[t]
            lower[t, i] = above * pivots[t - 1, i] if t > 0 else 0.0
            pivots[t, i] = 1.0 / (r + below + above - (above * lower[t, i] if t > 0 else 0.0))


def _eliminate(x, w, s_x, s_z, x0, others, r_x, r_z, c, relaxation, lower, y):
    """Apply the relaxed update s_x += relaxation (x - w), and do the forward half of the solve, into ``y``.

    ``others`` is what further blocks add to the right-hand side; it may have no rows.
    """
    T = x.shape[0]
    d = D if D > 0 else x.shape[1]
    more = others.shape[0] > 0
    for t in range(T):
        ahead = r_z[t + 1] if t + 1 < T else 0.0
        following = t + 1 if t + 1 < T else t
        for i in range(d):
            s = s_x[t, i] + relaxation * (x[t, i] - w[t, i])
            s_x[t, i] = s
            known = r_x * s + c[i] * (r_z[t] * s_z[t, i] - ahead * s_z[following, i])
            if more:
                known += others[t, i]
            if t > 0:
                known += lower[t, i] * y[t - 1, i]
            else:
                known += c[i] * c[i] * r_z[0] * x0[i]
            y[t, i] = known


def _substitute(
    y, s_x, s_z, x0, shrink, shift, r_z, c, prices, limits, grouped, degree, weights, relaxation,
    pivots, lower, w, target, mu, still,
):  # fmt: skip
    """Do the backward half of the solve, into ``w``; on the way ``target`` = shrink (2 w - s_x) + shift, to project, and
    the movement's step: z = prox(2 c Dw - s_z), its multiplier ``mu`` and the relaxed update of s_z. Steps that are priced by
    coordinate rise and fall by at most ``limits``. A round of infinite weight stays where the one before it is.

    ``still[t]`` says whether z_t is zero. A round without weight has no multiplier and no part in the system.
    """
    T = y.shape[0]
    d = D if D > 0 else y.shape[1]
    for i in range(d):
        w[T - 1, i] = y[T - 1, i] * pivots[T - 1, i]
    for t in range(T - 1, -1, -1):
        a = shrink[t if shrink.size > 1 else 0]
        moves = shift.shape[0] > 0
        square = 0.0
        for i in range(d):
            before = x0[i]
            if t > 0:
                before = y[t - 1, i] * pivots[t - 1, i] + lower[t, i] * w[t, i]
                w[t - 1, i] = before
            target[t, i] = a * (2.0 * w[t, i] - s_x[t, i]) + (shift[t, i] if moves else 0.0)
            step = c[i] * (w[t, i] - before)
            point = 2.0 * step - s_z[t, i]
            mu[t, i] = point
            square += point * point
            s_z[t, i] -= relaxation * step
        weight = weights[t]
        if r_z[t] == 0.0:
            still[t] = 0.0
            for i in range(d):
                mu[t, i] = 0.0
                s_z[t, i] = 0.0
        elif weight == np.inf:
            still[t] = 1.0
            for i in range(d):
                mu[t, i] = r_z[t] * mu[t, i]
        elif degree == 2.0:
            kept = r_z[t] / (r_z[t] + weight)
            still[t] = 1.0 if square == 0.0 else 0.0
            for i in range(d):
                s_z[t, i] += relaxation * kept * mu[t, i]
                mu[t, i] = weight * kept * mu[t, i]
        elif degree == 1.5:
            still[t] = 1.0 if square == 0.0 else 0.0
            for i in range(d):
                # the root q of the step solves q^2 + 2 b q = |point|
                b = 0.75 * weight * prices[i] / r_z[t]
                total = b + math.sqrt(b * b + abs(mu[t, i]))
                q = abs(mu[t, i]) / total if total > 0.0 else 0.0
                pull = math.copysign(2.0 * b * r_z[t] * q, mu[t, i])
                s_z[t, i] += relaxation * (mu[t, i] - pull / r_z[t])
                mu[t, i] = pull
        elif grouped:
            size = math.sqrt(square)
            kept = 1.0 - weight / (r_z[t] * size) if r_z[t] * size > weight else 0.0
            still[t] = 1.0 if kept == 0.0 else 0.0
            for i in range(d):
                z = kept * mu[t, i]
                s_z[t, i] += relaxation * z
                mu[t, i] = r_z[t] * (1.0 - kept) * mu[t, i]
        else:
            moved = 0.0
            for i in range(d):
                pull = r_z[t] * mu[t, i]
                pull = min(max(pull, -weight * prices[d + i]), weight * prices[i])
                z = mu[t, i] - pull / r_z[t]
                if z > limits[i] or z < -limits[d + i]:
                    z = min(max(z, -limits[d + i]), limits[i])
                    pull = r_z[t] * (mu[t, i] - z)
                moved += abs(z)
                s_z[t, i] += relaxation * z
                mu[t, i] = pull
            still[t] = 1.0 if moved == 0.0 else 0.0


def _keep_within(points, start, limits, separable, out):
    """Follow points from ``start`` on as far as limits of rising and falling allow: by coordinate, or all in proportion."""
    T, d = points.shape
    for t in range(T):
        share = 1.0
        for i in range(d):
            before = out[t - 1, i] if t > 0 else start[i]
            step = points[t, i] - before
            limit = limits[i] if step > 0.0 else limits[d + i]
            out[t, i] = points[t, i]
            if abs(step) > limit:
                share = min(share, limit / abs(step))
                out[t, i] = before + math.copysign(limit, step)
        if share < 1.0 and not separable:
            for i in range(d):
                before = out[t - 1, i] if t > 0 else start[i]
                out[t, i] = before + share * (points[t, i] - before)


def _project_all(points, p, stride, out):
    """Project every row; the set of the next row has its parameters ``stride`` numbers on, 0 if all rows have one set."""
    d = D if D > 0 else points.shape[1]
    memory = np.empty(d)
    u = pointer(memory, 0)
    guess = -np.inf
    for t in range(points.shape[0]):
        parameters = pointer(p, t * stride)
        y, x = pointer(points, t * d), pointer(out, t * d)
        shift, theta = threshold(y, u, d, parameters, guess)
        guess = shift + theta
        for i in range(d):
            x[i] = coordinate(y[i], u[i], i, d, parameters, shift, theta)
    hold(memory)


def play_box(g, weights, up, down, lower, upper, outside, start, u, sums):
    """Solve linear costs with prices of movement on a box: every coordinate is at its lower end, at its upper end, or stays.

    The slope of the cost to go, as a function of the point left behind, is the next rounds' slope clipped to the prices; ``u``
    holds the unclipped ones before it becomes the optimum. The first multiplier is given where one comes from ``outside``
    (else NaN). ``sums`` gets operating cost, switching cost and the dual value, by blocks of rounds.
    """
    T = g.shape[0]
    d = D if D > 0 else g.shape[1]
    memory = np.empty(d)
    mu = pointer(memory, 0)
    if D > 0:
        mu = local(D)
    for i in range(d):
        mu[i] = 0.0
    for t in range(T - 1, -1, -1):
        bound = 0.0
        for i in range(d):
            slope = g[t, i] - mu[i]
            u[t, i] = slope
            mu[i] = -min(max(slope, -weights[t] * up[i]), weights[t] * down[i])
            if t == 0 and outside[i] == outside[i]:
                mu[i] = outside[i]
            p = slope + mu[i]
            bound += p * (lower[i] if p > 0.0 else upper[i])
            if t == 0:
                bound -= mu[i] * start[i]
        sums[2, t // ADDED_ROUNDS] += bound
    hold(memory)
    for t in range(T):
        hit = moved = 0.0
        for i in range(d):
            slope = u[t, i]
            before = u[t - 1, i] if t > 0 else start[i]
            x = before if before > lower[i] else lower[i]
            x = x if x < upper[i] else upper[i]
            x = lower[i] if slope > weights[t] * down[i] else x
            x = upper[i] if slope < -weights[t] * up[i] else x
            u[t, i] = x
            hit += g[t, i] * x
            moved += weights[t] * (up[i] * (x - before) if x > before else down[i] * (before - x))
        sums[0, t // ADDED_ROUNDS] += hit
        sums[1, t // ADDED_ROUNDS] += moved


def play_simplex(g, weights, up, down, total, start, u, targets, sums):
    """Solve linear costs with prices of movement on a simplex: all mass of a vertex stays or goes to the round's best vertex.

    The cost to go from vertex j, relative to that of entering the best, is at most the price of leaving j; ``u`` holds
    what staying would cost on that scale before it becomes the optimum, ``targets`` the best vertices; ``sums`` as above.
    """
    T = g.shape[0]
    d = D if D > 0 else g.shape[1]
    memory = np.empty(d)
    mu = pointer(memory, 0)
    if D > 0:
        mu = local(D)
    for i in range(d):
        mu[i] = 0.0
    for t in range(T - 1, -1, -1):
        cheapest, lowest, best = np.inf, np.inf, 0
        for i in range(d):
            height = g[t, i] - mu[i]
            u[t, i] = height
            entered = height + weights[t] * up[i]
            best = i if entered < cheapest else best
            cheapest = entered if entered < cheapest else cheapest
        bound = 0.0
        for i in range(d):
            height = u[t, i] - cheapest
            mu[i] = -min(max(height, -weights[t] * up[i]), weights[t] * down[i])
            lowest = min(lowest, u[t, i] + mu[i])
            u[t, i] = height
            if t == 0:
                bound -= mu[i] * start[i]
        targets[t] = best
        sums[2, t // ADDED_ROUNDS] += bound + total * lowest
    hold(memory)
    for t in range(T):
        best = targets[t]
        leaving = hit = moved = 0.0
        for i in range(d):
            x = u[t - 1, i] if t > 0 else start[i]
            if u[t, i] > weights[t] * down[i] and i != best:
                leaving += x
                moved += weights[t] * (down[i] + up[best]) * x
                x = 0.0
            u[t, i] = x
            hit += g[t, i] * x
        u[t, best] += leaving
        sums[0, t // ADDED_ROUNDS] += hit + g[t, best] * leaving
        sums[1, t // ADDED_ROUNDS] += moved


def play_states(g, weights, prices, start, u, sums):
    """Solve linear costs with a table of switching costs on a simplex: each part of ``start`` is in one state at a time.

    The least cost to come from every state is found backwards, counted from that of the best state, so that numbers stay
    small; ``u`` holds the next state from each before it becomes the optimum; ``sums`` as above.
    """
    T = g.shape[0]
    d = D if D > 0 else g.shape[1]
    memory = np.empty(2 * d)
    here = pointer(memory, 0)
    ahead = pointer(memory, d)
    for i in range(d):
        ahead[i] = 0.0
    for t in range(T - 1, -1, -1):
        for i in range(d):
            here[i] = g[t, i] + ahead[i]
        least = np.inf
        for i in range(d):
            best = i
            cheapest = here[i]
            for j in range(d):
                way = weights[t] * prices[i, j] + here[j]
                best = j if way < cheapest else best
                cheapest = way if way < cheapest else cheapest
            u[t, i] = best
            ahead[i] = cheapest
            least = min(least, cheapest)
        total = 0.0
        for i in range(d):
            ahead[i] -= least
            total += start[i]
            if t == 0:
                sums[2, 0] += ahead[i] * start[i]
        sums[2, t // ADDED_ROUNDS] += total * least
    # Now the state in which each part is.
    for i in range(d):
        here[i] = i
    for t in range(T):
        hit = moved = 0.0
        for i in range(d):
            ahead[i] = 0.0
        for i in range(d):
            if start[i] != 0.0:
                before = int(here[i])
                after = int(u[t, before])
                here[i] = after
                ahead[after] += start[i]
                hit += g[t, after] * start[i]
                moved += weights[t] * prices[before, after] * start[i]
        for i in range(d):
            u[t, i] = ahead[i]
        sums[0, t // ADDED_ROUNDS] += hit
        sums[1, t // ADDED_ROUNDS] += moved
    hold(memory)


@once
def box_programme(d: int) -> Any:
    """Make the kernel of the dynamic programme on a box."""
    return compile_kernel(
        play_box, FLOAT, void(*[input2] + [input1] * 7, output2, output2), (d,), D=d
    )


@once
def simplex_programme(d: int) -> Any:
    """Make the kernel of the dynamic programme on a simplex."""
    signature = void(
        input2, input1, input1, input1, float64, input1, output2, int32[::1], output2
    )
    return compile_kernel(play_simplex, FLOAT, signature, (d,), D=d)


@once
def states_programme(d: int) -> Any:
    """Make the kernel of the dynamic programme over states."""
    signature = void(input2, input1, input2, input1, output2, output2)
    return compile_kernel(play_states, FLOAT, signature, (d,), D=d)


# A dynamic programme of so many numbers takes as long in plain Python as its kernel takes to compile.
PLAIN_NUMBERS = 20_000
_PLAIN_WORDS = {"pointer": lambda array, at: memoryview(array)[at:], "hold": lambda array: None}
_PLAIN = Lane(1, _PLAIN_WORDS, lambda part, flags, inline: part)


def play_plainly(programme: Any, *given: Any) -> None:
    """Play a dynamic programme without a kernel."""
    views = [memoryview(each) if isinstance(each, np.ndarray) else each for each in given]
    bind(programme, _PLAIN, {})(*views)


@once
def _factor_kernel() -> Any:
    return compile_kernel(_factor, FLOAT, void(float64, input1, input1, output2, output2), ())


@once
def keeping_kernel() -> Any:
    """Make the kernel that keeps a sequence within limits of rising and falling."""
    return compile_kernel(
        _keep_within, FLOAT, void(input2, input1, input1, types.boolean, output2), ()
    )


@once
def splitting_kernels(d: int) -> tuple[Any, Any, Any]:
    """Make the kernels of :func:`_factor`, :func:`_eliminate` and :func:`_substitute`."""
    eliminate = void(
        input2, input2, output2, output2, input1, input2, float64, input1, input1, float64, input2, output2
    )  # fmt: skip
    substitute = void(
        input2, input2, output2, input1, input1, input2, input1, input1, input1, input1, types.boolean, float64,
        input1, float64, input2, input2, output2, output2, output2, output1,
    )  # fmt: skip
    return (
        _factor_kernel(),
        compile_kernel(_eliminate, FLOAT, eliminate, (d,), D=d),
        compile_kernel(_substitute, FLOAT, substitute, (d,), D=d),
    )


@once
def projecting_kernel(set_code: int, d: int) -> Any:
    """Make the kernel that projects many points onto a set: points, the set's parameters, where to write."""
    stages = link_projection(FLOAT, set_code, d)
    return compile_kernel(
        _project_all, FLOAT, void(input2, input1, int64, output2), (set_code, d), **stages
    )
