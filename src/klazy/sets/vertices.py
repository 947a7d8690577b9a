"""The vertices of a small polytope, found once."""

from math import comb

import numpy as np

from klazy.base.checks import Array
from klazy.base.linprog import solve_linear

MANY = 100_000  # bases, beyond which vertices are not listed
CLOSE = 1e-9  # relative to the set, within which two vertices are one


def list_vertices(A: Array, b: Array) -> Array | None:
    """The vertices of {x : A x <= b}, a bounded set; None where it is flat or may have too many of them."""
    from scipy.spatial import HalfspaceIntersection, QhullError

    d = A.shape[1]
    if d < 2 or comb(len(b), d) > MANY:
        return None
    # the centre of the largest ball inside, which must have a radius
    radius = np.column_stack((A, np.linalg.norm(A, axis=1)))
    inside = solve_linear(
        np.append(np.zeros(d), -1.0), A_ub=radius, b_ub=b, bounds=[(None, None)] * d + [(0.0, None)]
    )
    if not inside.success or inside.x[-1] <= CLOSE * max(1.0, float(np.abs(b).max())):
        return None
    try:
        found = HalfspaceIntersection(np.column_stack((A, -b)), inside.x[:-1]).intersections
    except QhullError:
        return None
    found = found[np.isfinite(found).all(axis=1)]
    size = float(np.ptp(found, axis=0).max())
    _, first = np.unique(np.round((found - found.min(axis=0)) / (CLOSE * size)), axis=0, return_index=True)
    return found[np.sort(first)]
