"""Which share of the normal a memory keeps."""

from klazy.kernels.codes import CLIP, CLOCK, DECAY, EVENT, FORGET, FULL, UNKNOWN
from klazy.kernels.lane import larger, root, spread, where


def share_kept(memory, kappa, square, ends):
    """theta for a normal of this squared size; ``ends`` says whether a phase does."""
    theta = spread(UNKNOWN)
    if memory == FORGET:
        theta = spread(0.0)
    elif memory == FULL:
        theta = spread(1.0)
    elif memory == CLOCK:
        theta = where(ends, spread(0.0), spread(1.0))
    elif memory == DECAY:
        theta = 1.0 - 1.0 / kappa
    elif memory == CLIP:
        limit = kappa * kappa  # which may overflow: then nothing is clipped
        theta = where(square > limit, kappa / root(larger(square, limit)), spread(1.0))
    elif memory == EVENT:
        theta = where(root(square) > kappa, spread(0.0), spread(1.0))
    return theta
