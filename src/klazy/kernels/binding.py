"""How kernels are specialised: a template's global names are bound to its parts before it is compiled.

Numba caches a function on disk under its name and code, never under the functions it calls, and it cannot cache
closures over other compiled functions. So a kernel is a plain function whose parts (``threshold``, ``coordinate``, ...)
are global names; :func:`bind` gives each specialisation its own globals, and :func:`compiled` a name that says what it
is specialised on together with a fingerprint of this package's sources, so that no edit is served from an old cache.
"""

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any
from zlib import crc32

from numba import config, float64, njit, types
from numba.extending import intrinsic

_SOURCES = crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))

# Accumulations may be reordered, so that long sums vectorise ...
fused = njit(forceinline=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
# ... the arithmetic of single coordinates is kept as written.
exact = njit(forceinline=True, error_model="numpy")


def pointer(array: Any, at: int) -> Any:
    """The entries of a contiguous float64 array (or of a pointer) from position ``at`` on, as C sees them.

    A view would be counted up and down by atomic instructions in every round; a pointer is only an address.
    """
    return array.reshape(-1)[at:]


if not config.DISABLE_JIT:
    pointer = intrinsic(lambda context, array, at: _pointer(array))


def _pointer(array: Any):
    def lower(context, builder, signature, arguments):
        base = arguments[0]
        if isinstance(array, types.Array):
            base = context.make_array(array)(context, builder, base).data
        return builder.gep(base, [arguments[1]])

    return types.CPointer(float64)(array, types.intp), lower


def bind(template: Callable[..., Any], **parts: Any) -> FunctionType:
    """A copy of ``template`` that finds ``parts`` among its globals."""
    function = getattr(template, "py_func", template)
    return FunctionType(function.__code__, {**function.__globals__, **parts}, function.__name__, function.__defaults__)


def compiled(function: FunctionType, signature: Any, *key: int) -> Any:
    """``function`` compiled for one signature, cached under a name that carries ``key``."""
    function.__qualname__ = "_".join(map(str, (function.__name__, *key, f"{_SOURCES:08x}")))
    return njit(signature, nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})(function)
