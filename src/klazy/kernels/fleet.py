"""The driver of a fleet: one round of each of many learners, by the very kernel that plays a live agent.

The kernel is called by its address, so that nothing of it is compiled again: every learner of a fleet runs the same machine
code as an agent by itself, and comes out the same to the last bit, for every rule, set and ensemble.
"""

from typing import Any

import numpy as np
from numba import config, float64, int64, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from klazy.base.checks import LARGEST, Array
from klazy.kernels.binding import FLOAT, compile_kernel, once, pointer

_ROW = float64[::1]
_SIGNATURE = types.boolean(
    int64, float64[:, ::1], types.Array(float64, 2, "C", readonly=True), types.Array(int64, 1, "C", readonly=True),
    int64, float64[:, ::1],
)  # fmt: skip


def _view(context: Any, builder: Any, data: Any, size: Any) -> Any:
    """Make an array of ``size`` numbers that is not reference-counted, which would take atomic instructions."""
    view = context.make_array(_ROW)(context, builder)
    item = context.get_constant(types.intp, 8)
    populate_array(view, data=data, shape=[size], strides=[item], itemsize=item, meminfo=None)
    return view._getvalue()


def _call(context: Any, address: Any, row: Any, size: Any, g: Any, d: Any):
    """Define typing and code of :func:`call`: the kernel at an address takes a learner's row and its gradient."""

    def code(context, builder, signature, arguments):
        place, row, size, g, d = arguments
        kind = context.call_conv.get_function_type(int64, [_ROW, _ROW])
        kernel = builder.inttoptr(place, kind.as_pointer())
        views = [_view(context, builder, row, size), _view(context, builder, g, d)]
        _, answer = context.call_conv.call_function(builder, kernel, int64, [_ROW, _ROW], views)
        return answer

    return int64(address, row, size, g, d), code


call = intrinsic(_call)


def play_rows(address, memory, g, which, first, out):
    """Play a round of the learners in the rows ``which`` of ``memory``; ``g[i]`` is the gradient of learner ``which[i]``.

    Its next point, which begins at ``first`` in its row, goes into ``out[i]``. Returns False, and changes nothing, if a
    gradient does not fit.
    """
    fits = True
    for i in range(g.shape[0]):
        for j in range(g.shape[1]):
            fits = fits and abs(g[i, j]) <= LARGEST
    if not fits:
        return False
    size = memory.shape[1]
    d = g.shape[1]
    for i in range(which.size):
        row = pointer(memory, which[i] * size)
        call(address, row, size, pointer(g, i * d), d)
        for j in range(d):
            out[i, j] = row[first + j]
    return True


@once
def _fleet_kernel() -> Any:
    return compile_kernel(play_rows, FLOAT, _SIGNATURE, ())


def play_fleet(kernel: Any, memory: Array, g: Array, which: np.ndarray, x: slice) -> Array | None:
    """Play one round of the learners in the rows ``which`` of ``memory`` with a kernel, and return their next points.

    If a gradient does not fit, return None and change nothing. ``x`` is the place of the point in a row.
    """
    out = np.empty_like(g)
    if config.DISABLE_JIT:
        if not (np.abs(g) <= LARGEST).all():
            return None
        for i, row in enumerate(which):
            kernel(memory[row], g[i])
            out[i] = memory[row, x]
        return out
    (made,) = kernel.overloads.values()
    address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
    return out if _fleet_kernel()(address, memory, g, which, x.start, out) else None
