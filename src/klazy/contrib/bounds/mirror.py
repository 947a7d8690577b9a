"""What mirror descent with a memory costs at most, in relative entropy."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, refusal
from klazy.contrib.learners.mirror import Entropy, MirrorMemory
from klazy.game.trace import Trace, check_trace
from klazy.movement import TVMovement
from klazy.theory.certificates import check_comparator
from klazy.theory.diagnosis import sigmas_of


class MirrorCertificate(NamedTuple):
    """The regret of a run of :class:`~klazy.contrib.MirrorMemory` beside its bounds, by :func:`~klazy.contrib.certify_mirror`.

    Parameters
    ----------
    regret : float
        Dynamic regret, movement included.
    realised : float
        Its bound by what the run paid and met.
    worst_case : float
        Its bound in the worst case; infinite at a floor of 0.
    """

    regret: float
    realised: float
    worst_case: float


def certify_mirror(trace: Trace, u: ArrayLike) -> MirrorCertificate:
    r"""The regret of a run of :class:`~klazy.contrib.MirrorMemory` with :class:`~klazy.contrib.Entropy`, and its bounds.

    Let S be the set's total, :math:`r_t = \max_i g_{t,i} - \min_i g_{t,i}`, :math:`\ell` the logarithm of the largest cap over
    the smallest floor (:math:`\log(d / floor)` on a simplex), :math:`\kappa_t` the range of the normal's coordinates, and
    let movement cost :math:`\lambda` times total variation. For sigmas that never decrease and a comparator above the floor,

    .. math:: R_T \le \sum_t \frac{S (r_t^2 / 8 + \lambda r_t / 4)}{\sigma_t} + \sigma_T S \ell
              + \sum_{t<T} (2 \ell \sigma_t + \kappa_{t+1})\, TV(u_{t+1} - u_t).

    ``realised`` has the movement paid, the divergences and the normals of the run in place of their worst cases. The proof is
    on the page Theory.

    Parameters
    ----------
    trace : Trace
        A run without hints, from its start, which is at or above the floor, with its points.
    u : array_like
        The comparator, of shape (d,) or (T, d), at or above the floor: ``(1 - floor) * u + floor * total / d`` is.

    Returns
    -------
    MirrorCertificate
        ``regret``, movement included, ``realised`` and ``worst_case``; the last is infinite at a floor of 0.

    Raises
    ------
    ValueError
        If the run or the comparator is none of these.

    Examples
    --------
    >>> g = np.repeat([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]], 20, axis=0)
    >>> learner = MirrorMemory(Simplex(3), 2.0, Decay(8), geometry=Entropy(0.03))
    >>> known = certify_mirror(run(learner, g, engine="step"), np.repeat([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98]], 20, axis=0))
    >>> [round(value, 2) for value in known]
    [17.33, 20.13, 39.77]
    """
    owner = "certify_mirror"
    check_trace(trace, owner)
    learner = _check_run(trace, owner)
    domain: Any = learner.domain
    low, high = learner.geometry.bounds(domain)  # pyright: ignore[reportAttributeAccessIssue]
    points = check_comparator(u, trace, domain, owner)
    rounding = 1e-12 * domain.total
    for name, values in (("u", points), ("start", trace.x[:1])):
        if (values < low - rounding).any():
            remedy = "mix it with an even split: (1 - floor) * u + floor * total / d"
            raise refusal(owner, f"{name} at or above the floor", name, "a point below", remedy)
    g = trace.gradients()
    z, normals = _recall(learner, g)
    sigma = _fill_sigmas(learner, g)
    ranges = np.ptp(g, axis=1)
    jumps = np.diff(points, axis=0)
    lengths = 0.5 * np.abs(jumps).sum(axis=1)
    first = float((domain.total * ranges**2 / (8.0 * sigma)).sum())
    regret = float(np.vecdot(g, trace.x - points).sum()) + float(trace.switching.sum())

    now = _diverge(points, z[:-1])  # KL(u_t, x_t)
    before = _diverge(points[:-1], z[1:-1])  # KL(u_t, x_{t+1})
    anchored = sigma[0] * now[0] + (np.diff(sigma) * now[1:]).sum() + (sigma[:-1] * (now[1:] - before)).sum()
    pushed = -np.vecdot(normals[1:-1], jumps).sum()
    realised = first + float(trace.switching.sum()) + float(anchored + pushed)

    if low.min() == 0.0:
        return MirrorCertificate(regret, realised, math.inf)
    width = math.log(high.max() / low.min())
    kappa = np.ptp(normals[1:-1], axis=1)
    worst = first + sigma[-1] * domain.total * width + ((2.0 * width * sigma[:-1] + kappa) * lengths).sum()
    price = float(np.max(trace.movement.weight))
    worst += (price * domain.total * ranges / (4.0 * sigma)).sum()
    return MirrorCertificate(regret, realised, float(worst))


def _check_run(trace: Trace, owner: str) -> MirrorMemory:
    learner: Any = trace.source
    if type(learner) is not MirrorMemory or not isinstance(learner.geometry, Entropy):
        raise refusal(owner, "a run of MirrorMemory with Entropy", "learner", repr(learner), "use certify")
    if not isinstance(trace.movement, TVMovement):
        wanted = "a movement in total variation"
        raise refusal(owner, wanted, "movement", repr(trace.movement), "run it with TVMovement(1.0)")
    if trace.state.t != trace.T + 1:
        raise refusal(owner, "a run from its start", "state.t", trace.state.t, "run the parts as one")
    if np.any(trace.state.hint):
        raise refusal(owner, "a run without hints", "state.hint", trace.state.hint, "run it without")
    return learner


def _recall(learner: MirrorMemory, g: Array) -> tuple[Array, Array]:
    """The logarithms and normals before the rounds 1, ..., T + 1."""
    state = learner.init()
    z = [state.z]
    normals = [state.n]
    for row in g:
        state = learner.step(state, row)
        z.append(state.z)
        normals.append(state.n)
    return np.array(z), np.array(normals)


def _fill_sigmas(learner: MirrorMemory, g: Array) -> Array:
    """The sigmas; before a scale-free one has seen a gradient nothing moves, and its first one will do."""
    sigma = sigmas_of(learner, g)
    known = sigma[np.isfinite(sigma)]
    if np.any(np.diff(known) < 0.0):
        raise refusal(
            "certify_mirror",
            "a sigma that never decreases",
            "sigma",
            repr(learner.sigma),
            "the proof needs it",
        )
    return np.where(np.isfinite(sigma), sigma, known[0] if known.size else 1.0)


def _diverge(u: Array, z: Array) -> Array:
    """The relative entropy of u to the point whose logarithm is z, row by row; both add up to the same."""
    logs = np.log(np.where(u > 0.0, u, 1.0))
    return np.vecdot(u, logs - z)
