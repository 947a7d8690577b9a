"""The lanes of a GPU, and how kernels are made for it from the same parts.

``THREAD`` is a lane of one float64: each thread plays a run of its own. ``BLOCK`` is a lane as wide as a block of threads: each
thread has one of the lane's numbers, and plain numbers are the same in all of them. A vector of such a lane is a plain array of
every thread. Only what folds a lane into one number goes from thread to thread, so threads may branch apart in between. In
Numba's simulator, where there are no warps, threads exchange numbers through Python.
"""

import math
import threading
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import Any

import numpy as np
from numba import config, cuda, float64, types

from klazy.kernels.binding import (
    _FINGERPRINT,
    FLOAT,
    Lane,
    _address,
    _on_stack,
    bind,
    make_cache_folder,
)
from klazy.kernels.lane import exact, larger

SIMULATED = bool(config.ENABLE_CUDASIM)
REORDERED = {"reassoc", "contract", "nsz"}


def count_gpus() -> int:
    """Return how many GPUs CUDA can use; the simulator counts as one."""
    return len(cuda.gpus) if cuda.is_available() else 0


def use_gpu(number: int | None) -> AbstractContextManager[Any]:
    """Use a GPU in this thread, for a ``with`` block, or the current one. The simulator is all of them."""
    return nullcontext() if number is None or SIMULATED else cuda.gpus[number]


def name_gpu() -> str:
    """Return the name of the GPU in use."""
    if SIMULATED:
        return "Numba's CUDA simulator"
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


def name_failures() -> tuple[type[Exception], ...]:
    """List the exceptions that Numba raises if the GPU fails: out of memory, lost, or a kernel that was ended."""
    from numba.cuda.cudadrv import driver

    if SIMULATED:
        return (MemoryError,)
    return (MemoryError, driver.CudaAPIError, driver.LinkerError)


if SIMULATED:
    WARP = 2  # threads

    def pointer(array, at):
        return array[at:]

    def local(size):
        return np.zeros(size)

    def paste(part: FunctionType, flags: Any, inline: bool) -> Any:
        return part

    def _exchange(x):
        """Return the numbers of all threads, by a barrier of Python's own: the simulator's takes milliseconds."""
        thread: Any = threading.current_thread()
        manager = vars(thread._manager)
        count = math.prod(thread._manager._block_dim)
        barrier = manager.setdefault("barrier", threading.Barrier(count, timeout=60.0))
        box = manager.setdefault("box", [0.0] * count)
        box[thread.threadIdx.x] = x
        barrier.wait()
        numbers = list(box)
        barrier.wait()
        return numbers

    def wait():
        _exchange(0.0)

    def total(x):
        return math.fsum(_exchange(x))

    def largest(x):
        return max(_exchange(x))

    def smallest(x):
        return min(_exchange(x))

    def survey(least, low, high, means):
        return smallest(least), smallest(low), largest(high), total(means)

    def gather(sums, X, d):
        for i in range(d):
            X[i] = total(sums[i])

    def gather_with(weights, sums, X, d):
        gather(sums, X, d)
        return total(weights)

    def broadcast(v, more, place, out, d):
        for i in range(d):
            out[i] = _exchange(v[i])[place]
        return _exchange(more)[place]

    def near(array, at):
        return array

    def own_place():
        thread: Any = threading.current_thread()
        return thread.threadIdx.x

    for _part in (
        wait,
        total,
        largest,
        smallest,
        survey,
        gather,
        gather_with,
        broadcast,
        near,
        own_place,
    ):
        _part.is_bound = True  # pyright: ignore[reportFunctionMemberAccess]

else:
    from llvmlite import ir
    from numba.core import cgutils
    from numba.cuda.extending import intrinsic

    WARP = 32
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # a small batch is no mistake
    SHARED_SPACE = 3  # the address space that threads share
    _ALL = 0xFFFFFFFF

    # As on a processor; only Numba's registries differ.
    pointer = intrinsic(_address)
    local = intrinsic(_on_stack)

    @intrinsic
    def box(context):
        """Return memory that the threads of a block share, of the size that a launch asks for.

        Numba's own shared arrays cannot be part of several others: each of these would define them.
        """

        def code(context, builder, signature, arguments):
            numbers = ir.ArrayType(ir.DoubleType(), 0)
            shared = builder.module.globals.get("klazy_box")
            if shared is None:
                shared = cgutils.add_global_variable(
                    builder.module, numbers, "klazy_box", SHARED_SPACE
                )
                shared.linkage = "external"
                shared.align = 8
            return builder.addrspacecast(shared, ir.PointerType(ir.DoubleType()))

        return types.CPointer(float64)(), code

    def paste(part: FunctionType, flags: Any, inline: bool) -> Any:
        """Compile a part for kernels of the GPU, inline: a pointer that is passed on keeps its numbers out of registers."""
        return cuda.jit(device=True, forceinline=True, fastmath=flags)(part)

    # Folding: within a warp from thread to thread, beyond through shared memory. Every thread gets the same bits, for it adds
    # the same numbers in the same order, or in one that a swap of two of them does not change.

    def wait():
        """Wait until all threads of the block are here; then each sees what the others have written."""
        cuda.syncthreads()

    @exact
    def fold(v, maxima, n):
        """Fold n numbers of every thread at once: the first ``maxima`` into their largest, the others into their sums."""
        for bit in (16, 8, 4, 2, 1):
            for i in range(n):
                other = cuda.shfl_xor_sync(_ALL, v[i], bit)
                v[i] = join(v[i], other, i < maxima)
        if WARPS > 1:
            shared = box()
            if cuda.threadIdx.x % 32 == 0:
                for i in range(n):
                    shared[i * WARPS + cuda.threadIdx.x // 32] = v[i]
            cuda.syncthreads()
            for i in range(n):
                v[i] = shared[i * WARPS]
                for warp in range(1, WARPS):
                    v[i] = join(v[i], shared[i * WARPS + warp], i < maxima)
            cuda.syncthreads()

    @exact
    def join(x, other, is_maximum):
        """Return the larger of two numbers, or their sum."""
        if is_maximum:
            return other if other > x else x
        return x + other

    def total(x):
        v = local(1)
        v[0] = x
        fold(v, 0, 1)
        return v[0]

    def largest(x):
        v = local(1)
        v[0] = x
        fold(v, 1, 1)
        return v[0]

    def smallest(x):
        return -largest(-x)

    def survey(least, low, high, means):
        v = local(SURVEYED)
        v[0] = -least
        v[1] = -low
        v[2] = high
        v[3] = means
        fold(v, 3, SURVEYED)
        return -v[0], -v[1], v[2], v[3]

    def gather(sums, X, d):
        for i in range(d):
            X[i] = sums[i]
        fold(X, 0, d)

    def gather_with(weights, sums, X, d):
        for i in range(d):
            X[i] = sums[i]
        X[d] = weights
        fold(X, 0, d + 1)
        return X[d]

    def broadcast(v, more, place, out, d):
        """Write the vector of the thread in this place into ``out``, and return one more number of that thread."""
        shared = box()
        if cuda.threadIdx.x == place:
            for i in range(d):
                shared[i] = v[i]
            shared[d] = more
        cuda.syncthreads()
        for i in range(d):
            out[i] = shared[i]
        more = shared[d]
        cuda.syncthreads()
        return more

    def near(array, at):
        """Return memory that the threads of a block share, from the place ``at`` on; the simulator has only the ``array``."""
        return pointer(box(), at)

    def own_place():
        return cuda.threadIdx.x


WARPS = 1  # Warps of a block; a kernel chooses.
SURVEYED = 4  # numbers of a warp in a survey


def smaller_number(x, y):
    """Return the smaller of two, neither NaN, by the comparison of :func:`~klazy.kernels.lane.larger`: it sorts both."""
    return y if x > y else x


_THREAD_WORDS = FLOAT.words | dict.fromkeys(("skip", "beyond", "pointer"), pointer)
_THREAD_WORDS |= dict.fromkeys(("smaller", "smaller_number"), smaller_number)
_THREAD_WORDS |= {"larger_number": larger, "local": local}
_FOLDS = (wait, total, largest, smallest, survey, gather, gather_with, broadcast, own_place)
THREAD = Lane(1, _THREAD_WORDS, paste)
BLOCK = Lane(0, _THREAD_WORDS | {part.__name__: part for part in _FOLDS}, paste)


def count_box(d: int, threads: int) -> int:
    """Return how many numbers a block of threads shares to fold vectors of this dimension."""
    return max(d + 1, SURVEYED) * max(threads // WARP, 1)


def compile_cuda(
    template: FunctionType,
    lane: Lane,
    key: tuple[int, ...],
    *,
    registers: int | None = None,
    **choices: Any,
) -> Any:
    """Link ``template`` for the GPU; Numba compiles it when it is first launched, and stores it on disk.

    As with the kernels of a processor, its name carries ``key`` and a fingerprint of the sources, for Numba looks at neither.
    """
    function = bind(template, lane, choices)
    if SIMULATED:
        return cuda.jit(function)
    name = "_".join(map(str, (template.__name__, *key)))
    function.__qualname__ = f"{name}_{_FINGERPRINT:08x}"
    kernel = cuda.jit(fastmath=REORDERED, max_registers=registers)(function)
    _keep_on_disk(kernel)
    return kernel


def _keep_on_disk(kernel: Any) -> None:
    """Let Numba store a kernel in a folder of this user alone; without such a folder it is not stored."""
    from numba.cuda.core import config as settings

    before = settings.CACHE_DIR
    try:
        settings.CACHE_DIR = str(make_cache_folder("cuda"))
        kernel.enable_caching()
    except (OSError, RuntimeError):
        # Numba raises the latter if it finds no place, pathlib if there is no home.
        return
    finally:
        settings.CACHE_DIR = before


class DeviceMemory:
    """The arrays on the GPU, and two streams: while one has work, arrays travel on the other."""

    def __init__(self) -> None:
        self._streams = (cuda.stream(), cuda.stream())
        self._kept: dict[str, tuple[Any, Any]] = {}

    def stream(self, turn: int) -> Any:
        """Return the streams in turn."""
        return self._streams[turn % 2]

    def keep(self, name: str, array: Any) -> Any:
        """Copy an array that several launches read, once."""
        if name not in self._kept or self._kept[name][0] is not array:
            self._kept[name] = array, cuda.to_device(np.ascontiguousarray(array).reshape(-1))
        return self._kept[name][1]

    def send(self, array: Any, stream: Any) -> Any:
        """Copy an array for one launch."""
        return cuda.to_device(np.ascontiguousarray(array).reshape(-1), stream=stream)

    def allocate(self, n: int, stream: Any) -> Any:
        """Allocate room for the output of a launch."""
        return cuda.device_array(n, stream=stream)
