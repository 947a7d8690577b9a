"""Games without content: refused before anything is played, with what was probably meant."""

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.base.options import write_option
from klazy.kernels.codes import LINEAR, code_of
from klazy.sets import Box, CappedSimplex, Simplex
from klazy.studies.replay.setup import Setup
from klazy.studies.replay.source import Source

SEEN = 100_000  # rows that are looked at, evenly spaced
OUTSIDE = 0.95  # of the rows beyond one side of the set, from which on it is the set that is wrong


def refuse_nonsense(source: Source, setup: Setup) -> None:
    """Refuse a game in which every sensible player does the same all the time."""
    rows = _sample(source)
    if isinstance(setup.domain, Simplex | CappedSimplex) and source.dim == 1:
        box = write_option("domain", "box")
        limit = write_option("upper", _round_out(float(rows.max())))
        remedy = f"with one column everybody plays the total; write {box} and {limit}"
        raise refusal("replay", "two columns or more to share a total", "columns", source.columns, remedy)
    if isinstance(setup.domain, Box):
        _check_box(source, setup, setup.domain, rows)
    elif isinstance(setup.domain, Simplex) and setup.family.near_rows:
        _check_total(setup.domain, rows)


def list_doubts(source: Source, setup: Setup) -> list[str]:
    """What makes one doubt the game, a sentence each."""
    rows = _sample(source)
    doubts = []
    constant = [
        name for name, still in zip(source.columns, (rows == rows[0]).all(axis=0), strict=True) if still
    ]
    if len(constant) == source.dim:
        doubts.append("All rows are the same: there is nothing to follow.")
    elif constant:
        what = "This column never changes" if len(constant) == 1 else "These columns never change"
        doubts.append(f"{what}: {', '.join(constant)}.")
    if float(np.max(setup.movement.weight)) == 0.0:
        doubts.append("Moving costs nothing here, so laziness has nothing to save.")
    if isinstance(setup.domain, Box) and setup.family.near_rows:
        sides = (rows > setup.domain.upper).mean(axis=0), (rows < setup.domain.lower).mean(axis=0)
        far = np.maximum(*sides) >= OUTSIDE
        if far.any():
            names = ", ".join(name for name, out in zip(source.columns, far, strict=True) if out)
            doubts.append(f"Nearly all rows lie outside the box in: {names}.")
    return doubts


def _sample(source: Source) -> Array:
    if source.T <= SEEN:
        return source.read(0, source.T)
    every = -(-source.T // SEEN)
    return np.vstack([piece[::every] for piece in source.read_pieces(0, source.T)])


def _check_box(source: Source, setup: Setup, box: Box, rows: Array) -> None:
    if code_of(setup.family) == LINEAR:
        low = rows.min(axis=0)
        high = rows.max(axis=0)
        if ((low >= 0.0) | (high <= 0.0)).all():
            sign = "positive" if (low >= 0.0).all() else "of one sign"
            remedy = (
                f"the best decision is then always the same corner; write {write_option('costs', 'pinball')} if rows are "
                f"demands to be met, {write_option('domain', 'simplex')} if they are prices of shares"
            )
            raise refusal("replay", "linear costs on a box that change sign", "costs", f"all {sign}", remedy)
        return
    if not setup.family.near_rows:
        return
    above = (rows > box.upper).mean(axis=0)
    below = (rows < box.lower).mean(axis=0)
    middle = np.median(rows, axis=0)
    if (np.maximum(above, below) >= OUTSIDE).all():
        i = int(np.maximum(above, below).argmax())
        share = max(above[i], below[i])
        side = "above" if above[i] >= below[i] else "below"
        edge = box.upper[i] if side == "above" else box.lower[i]
        option = "upper" if side == "above" else "lower"
        found = f"{share:.0%} {side} {write_option(option, edge)}, half of them beyond {middle[i]:.4g}"
        reach = rows[:, i].max() if side == "above" else rows[:, i].min()
        remedy = f"write {write_option(option, _round_out(float(reach)))}"
        raise refusal("replay", "rows within the box", f"column {source.columns[i]}", found, remedy)


def _check_total(domain: Simplex, rows: Array) -> None:
    sums = rows.sum(axis=1)
    if (sums > 2.0 * domain.total).mean() >= OUTSIDE:
        found = f"rows that add up to {np.median(sums):.4g}"
        total = write_option("total", _round_out(float(sums.max())))
        remedy = f"write {total}, or {write_option('domain', 'box')}"
        raise refusal("replay", f"rows near a total of {domain.total:g}", "trace", found, remedy)


def _round_out(value: float) -> float:
    """A round number a little farther from zero."""
    if value == 0.0:
        return 1.0
    scale = 10.0 ** np.floor(np.log10(abs(value)))
    return float(np.copysign(np.ceil(abs(value) / scale * 2.0) / 2.0 * scale, value))
