"""The lanes of a GPU, and how kernels are made for it from the same parts.

``THREAD`` is a lane of one float64: each thread plays a run of its own. ``WARP`` is a lane as wide as a warp: each thread holds
one of the numbers in its own memory, so that a vector of the lane is a plain array of every thread, and what folds a lane into
one number goes from thread to thread. In Numba's simulator, where there are no warps, blocks are small and threads exchange
numbers through Python.
"""

import math
import threading
from types import FunctionType
from typing import Any

import numpy as np
from numba import config, cuda, float64, types

from klazy.kernels.binding import FLOAT, Lane, bind

SIMULATED = bool(config.ENABLE_CUDASIM)
REORDERED = {"reassoc", "contract", "nsz"}


def find_gpu() -> bool:
    """Whether there is a GPU that CUDA can use; the simulator counts as one."""
    return bool(cuda.is_available())


def name_gpu() -> str:
    """What the GPU in use is called."""
    if SIMULATED:
        return "Numba's CUDA simulator"
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


def free_memory() -> int:
    """Bytes that are free on the GPU."""
    if SIMULATED:
        return 1 << 30
    return int(cuda.current_context().get_memory_info().free)


def name_failures() -> tuple[type[Exception], ...]:
    """What Numba raises if the GPU fails: out of memory, lost, or a kernel that was ended."""
    from numba.cuda.cudadrv import driver

    if SIMULATED:
        return (MemoryError,)
    return (MemoryError, driver.CudaAPIError, driver.LinkerError)


if SIMULATED:
    WARP_WIDTH = 4

    def pointer(array, at):
        return array[at:]

    def local(size):
        return np.zeros(size)

    def paste(part: FunctionType, flags: Any, inline: bool) -> Any:
        return part

    def _exchange(x):
        """The numbers of all threads of a block."""
        thread: Any = threading.current_thread()
        box = thread._manager.__dict__.setdefault("box", {})
        box[thread.threadIdx.x] = x
        thread.syncthreads()
        numbers = [box[i] for i in range(len(box))]
        thread.syncthreads()
        return numbers

    def total(x):
        return math.fsum(_exchange(x))

    def largest(x):
        return max(_exchange(x))

    def smallest(x):
        return min(_exchange(x))

    def anywhere(mask):
        return any(_exchange(mask))

    def everywhere(mask):
        return all(_exchange(mask))

    def shuffle(x, lane):
        return _exchange(x)[lane]

else:
    from numba.core import cgutils
    from numba.cuda.extending import intrinsic

    try:
        from numba.cuda.core import errors
    except ImportError:
        from numba.core import errors

    WARP_WIDTH = 32
    _ALL = 0xFFFFFFFF

    @intrinsic
    def pointer(context, array, at):
        """As in :mod:`klazy.kernels.binding`."""

        def code(context, builder, signature, arguments):
            base, first = arguments
            if isinstance(array, types.Array):
                base = context.make_array(array)(context, builder, base).data
            return builder.gep(base, [first])

        return types.CPointer(float64)(array, types.intp), code

    @intrinsic
    def local(context, size):
        """A few numbers of this thread alone, which become registers where all their places are constants."""

        def code(context, builder, signature, arguments):
            return cgutils.alloca_once(builder, context.get_value_type(float64), size=size.literal_value)

        if not isinstance(size, types.IntegerLiteral):
            raise errors.RequireLiteralValue("local needs a constant size")
        return types.CPointer(float64)(size), code

    def paste(part: FunctionType, flags: Any, inline: bool) -> Any:
        """A part for kernels of the GPU. All are pasted: a pointer that is passed on keeps its numbers out of registers."""
        return cuda.jit(device=True, forceinline=True, fastmath=flags)(part)

    def _device(part):
        return paste(part, False, True)

    @_device
    def total(x):
        x = x + cuda.shfl_xor_sync(_ALL, x, 16)
        x = x + cuda.shfl_xor_sync(_ALL, x, 8)
        x = x + cuda.shfl_xor_sync(_ALL, x, 4)
        x = x + cuda.shfl_xor_sync(_ALL, x, 2)
        return x + cuda.shfl_xor_sync(_ALL, x, 1)

    @_device
    def largest(x):
        x = max(x, cuda.shfl_xor_sync(_ALL, x, 16))
        x = max(x, cuda.shfl_xor_sync(_ALL, x, 8))
        x = max(x, cuda.shfl_xor_sync(_ALL, x, 4))
        x = max(x, cuda.shfl_xor_sync(_ALL, x, 2))
        return max(x, cuda.shfl_xor_sync(_ALL, x, 1))

    @_device
    def smallest(x):
        x = min(x, cuda.shfl_xor_sync(_ALL, x, 16))
        x = min(x, cuda.shfl_xor_sync(_ALL, x, 8))
        x = min(x, cuda.shfl_xor_sync(_ALL, x, 4))
        x = min(x, cuda.shfl_xor_sync(_ALL, x, 2))
        return min(x, cuda.shfl_xor_sync(_ALL, x, 1))

    @_device
    def anywhere(mask):
        return cuda.any_sync(_ALL, mask)

    @_device
    def everywhere(mask):
        return cuda.all_sync(_ALL, mask)

    @_device
    def shuffle(x, lane):
        return cuda.shfl_sync(_ALL, x, lane)


_WORDS = FLOAT.words | {"skip": pointer, "beyond": pointer, "pointer": pointer, "local": local}
_FOLDED = {
    "total": total,
    "largest": largest,
    "smallest": smallest,
    "anywhere": anywhere,
    "everywhere": everywhere,
    "shuffle": shuffle,
}
THREAD = Lane(1, _WORDS, paste)
WARP = Lane(WARP_WIDTH, _WORDS | _FOLDED, paste)


def compile_cuda(template: FunctionType, lane: Lane, *, registers: int | None = None, **choices: Any) -> Any:
    """``template`` linked for the GPU; Numba compiles it when it is first launched."""
    function = bind(template, lane, choices)
    if SIMULATED:
        return cuda.jit(function)
    return cuda.jit(fastmath=REORDERED, max_registers=registers)(function)


class Memory:
    """What is on the GPU, and two streams: while one has work, arrays travel on the other."""

    def __init__(self) -> None:
        self._streams = (cuda.stream(), cuda.stream())
        self._kept: dict[str, tuple[Any, Any]] = {}

    def stream(self, turn: int) -> Any:
        """The streams in turn."""
        return self._streams[turn % 2]

    def keep(self, name: str, array: Any) -> Any:
        """An array that several launches read, copied once."""
        if name not in self._kept or self._kept[name][0] is not array:
            self._kept[name] = array, cuda.to_device(np.ascontiguousarray(array).reshape(-1))
        return self._kept[name][1]

    def send(self, array: Any, stream: Any) -> Any:
        """An array for one launch."""
        return cuda.to_device(np.ascontiguousarray(array).reshape(-1), stream=stream)

    def allocate(self, n: int, stream: Any) -> Any:
        """Room for what a launch writes."""
        return cuda.device_array(n, stream=stream)
