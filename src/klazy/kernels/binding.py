"""How kernels are specialised: a template's global names are bound to its parts before it is compiled.

Numba caches a function on disk under its name and code, never under the functions it calls, and it cannot cache
closures over other compiled functions. So a kernel is a plain function whose parts (``threshold``, ``coordinate``, ...)
are global names; :func:`bind` gives each specialisation its own globals, and :func:`compiled` a name that says what it
is specialised on together with a fingerprint of this package's sources, so that no edit is served from an old cache.
"""

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any
from zlib import crc32

import numpy as np
from numba import config, float64, njit, types
from numba.core import cgutils, errors
from numba.extending import intrinsic

_SOURCES = crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))

_REORDERED = {"reassoc", "contract", "nsz"}
# Only kernels call parts, and only Python calls kernels: entrances for anyone else would take a tenth of the time to compile.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Accumulations may be reordered, so that long sums vectorise ...
fused = njit(**_INNER, forceinline=True, error_model="numpy", fastmath=_REORDERED)
# ... the arithmetic of single coordinates is kept as written. (A flag that is not set is inherited from the caller.)
exact = njit(**_INNER, forceinline=True, error_model="numpy", fastmath=False)
# Long functions that are called, not pasted into each kernel.
called = njit(**_INNER, forceinline=False, error_model="numpy", fastmath=_REORDERED)


def _address(context: Any, array: Any, at: Any):
    """Typing and code of :func:`pointer`, in the form Numba asks for."""

    def code(context, builder, signature, arguments):
        base, first = arguments
        if isinstance(array, types.Array):
            base = context.make_array(array)(context, builder, base).data
        return builder.gep(base, [first])

    return types.CPointer(float64)(array, types.intp), code


def _on_stack(context: Any, size: Any):
    """Typing and code of :func:`local`."""

    def code(context, builder, signature, arguments):
        return cgutils.alloca_once(builder, context.get_value_type(float64), size=size.literal_value)

    if not isinstance(size, types.IntegerLiteral):
        raise errors.RequireLiteralValue("local needs a constant size")
    return types.CPointer(float64)(size), code


def _alive(context: Any, array: Any):
    """Typing and code of :func:`hold`."""

    def code(context, builder, signature, arguments):
        return context.get_dummy_value()

    return types.void(array), code


# pointer(array, at): the entries of a contiguous float64 array, or of a pointer, from position ``at`` on, as C sees them.
# A view would be counted up and down by atomic instructions in every round; a pointer is only an address.
# hold(array): nothing but a use of the array by name. Numba frees an array after its last use, whatever points at it.
# local(size): a few numbers that nothing else can point to, so that the compiler keeps them in registers.
if config.DISABLE_JIT:

    def pointer(array, at):
        return array.reshape(-1)[at:]

    def hold(array):
        return

    local = np.empty
else:
    pointer = intrinsic(_address)
    hold = intrinsic(_alive)
    local = intrinsic(_on_stack)


_MAKING = RLock()


def once(make: Callable[..., Any]) -> Any:
    """Make each kernel once in a process, also when threads ask for it together.

    A second copy, loaded from the cache that the first has just filled, would share its symbols and lose them with it.
    """
    made = cache(make)

    @wraps(make)
    def locked(*key: int) -> Any:
        with _MAKING:
            return made(*key)

    locked.cache_clear = made.cache_clear
    return locked


def bind(template: Callable[..., Any], **parts: Any) -> FunctionType:
    """A copy of ``template`` that finds ``parts`` among its globals."""
    function = getattr(template, "py_func", template)
    return FunctionType(
        function.__code__, {**function.__globals__, **parts}, function.__name__, function.__defaults__
    )


def compiled(function: FunctionType, signature: Any, *key: int) -> Any:
    """``function`` compiled for one signature, cached under a name that carries ``key``."""
    name = "_".join(map(str, (function.__name__, *key)))
    function.__qualname__ = f"{name}_{_SOURCES:08x}"
    kernel = njit(
        signature, nogil=True, cache=True, no_cfunc_wrapper=True, error_model="numpy", fastmath=_REORDERED
    )(function)
    if not config.DISABLE_JIT and kernel.stats.cache_misses:
        _forget_older(Path(kernel.stats.cache_path), name)
    return kernel


def _forget_older(folder: Path, name: str) -> None:
    """Remove what earlier sources left in the cache under this kernel's name."""
    for file in folder.glob(f"*.{name}_*.nb?"):
        if f"{name}_{_SOURCES:08x}" not in file.name:
            file.unlink(missing_ok=True)
