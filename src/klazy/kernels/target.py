"""What kernels are compiled for: this processor, or a level of features that many processors have.

The levels are those of the x86-64 psABI, as compilers name them in ``-march=x86-64-v3``. A kernel that is compiled for a level
runs on every processor that has its features. Code for a level and code for this very processor may round differently, so a
process compiles all of its kernels for one of them.
"""

from typing import Any

from numba import config
from numba.core import codegen
from numba.core.registry import cpu_target

_V3 = "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
# The best one first.
LEVELS = {
    "x86-64-v4": f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl",
    "x86-64-v3": _V3,
}


def list_levels() -> list[str]:
    """List the levels whose features this processor has, best first; none where Numba is told what to compile for."""
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return []
    present = set(codegen.get_host_cpu_features().split(","))
    return [name for name, needed in LEVELS.items() if present.issuperset(needed.split(","))]


class _LevelCodegen(codegen.JITCPUCodegen):
    """Numba's code generator, for a level in place of this processor."""

    def __init__(self, level: str) -> None:
        self._level = level
        super().__init__("klazy.exec")

    def _get_host_cpu_name(self) -> str:
        return self._level

    def _get_host_cpu_features(self) -> str:
        return LEVELS[self._level]


def make_context(level: str | None) -> Any:
    """Return what Numba compiles in: its own context, or one for a level, which other compiled functions do not see."""
    context = cpu_target.target_context
    if level is None:
        return context
    return context.subtarget(_internal_codegen=_LevelCodegen(level))
