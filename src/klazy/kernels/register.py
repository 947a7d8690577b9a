"""The words of :mod:`klazy.kernels.lane` for a vector register: a Numba type that holds one number of each of LANES runs.

Runs side by side are written with these, not left to the compiler to vectorise: it gives up on most such loops. Where
compilation is off the same words are NumPy's.
"""

from functools import partial, wraps
from operator import add, and_, eq, ge, gt, le, lt, mul, or_, sub, truediv
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, float64, types
from numba.core import cgutils, typing
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, models, register_model

from klazy.kernels.binding import Lane, local, pointer
from klazy.kernels.codes import LANES
from klazy.kernels.lane import exact, larger, spread, where

_VECTOR, _WHOLES = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.IntType(64), LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)
_FLAGS = (
    "contract",
    "nsz",
)  # a product and a sum may become one instruction; nothing is reordered


class _Lanes(types.Type):
    """LANES floats."""


class _Mask(types.Type):
    """LANES booleans."""


LANES_TYPE, MASK_TYPE = _Lanes("lanes"), _Mask("mask")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


@register_model(_Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _MASK)


def _spread(builder, value):
    """Put a number into every lane."""
    if value.type == _VECTOR:
        return value
    one = builder.insert_element(
        ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
    )
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), everywhere)


def _operator(symbol: Any, result: Any, build: Any) -> None:
    """Teach Numba one operator on lanes and numbers; ``build`` emits the instruction."""
    pairs = [(LANES_TYPE, LANES_TYPE), (LANES_TYPE, float64), (float64, LANES_TYPE)]

    @infer_global(symbol)
    class _Typing(ConcreteTemplate):
        cases = [typing.signature(result, *pair) for pair in pairs]  # noqa: RUF012

    def lower(context, builder, signature, arguments):
        return build(builder, *(_spread(builder, value) for value in arguments))

    for pair in pairs:
        lower_builtin(symbol, *pair)(lower)


_operator(add, LANES_TYPE, lambda b, x, y: b.fadd(x, y, flags=_FLAGS))
_operator(sub, LANES_TYPE, lambda b, x, y: b.fsub(x, y, flags=_FLAGS))
_operator(mul, LANES_TYPE, lambda b, x, y: b.fmul(x, y, flags=_FLAGS))
_operator(truediv, LANES_TYPE, lambda b, x, y: b.fdiv(x, y))
for _symbol, _sign in ((gt, ">"), (ge, ">="), (lt, "<"), (le, "<="), (eq, "==")):
    _operator(_symbol, MASK_TYPE, lambda b, x, y, sign=_sign: b.fcmp_ordered(sign, x, y))


def _mask_operator(symbol: Any, build: Any) -> None:
    """Teach Numba one operator on two masks."""

    @infer_global(symbol)
    class _Typing(ConcreteTemplate):
        cases = [typing.signature(MASK_TYPE, MASK_TYPE, MASK_TYPE)]  # noqa: RUF012

    def lower(context, builder, signature, arguments):
        return build(builder, *arguments)

    lower_builtin(symbol, MASK_TYPE, MASK_TYPE)(lower)


_mask_operator(and_, lambda b, x, y: b.and_(x, y))
_mask_operator(or_, lambda b, x, y: b.or_(x, y))


def _intrinsic(build: Any, result: Any, *kinds: Any) -> Any:
    """Make a function for kernels, of this signature, from one that emits its instructions."""

    def code(context, builder, signature, arguments):
        return build(builder, *arguments)

    # intrinsic() reads the number of arguments off the signature, which wraps() copies.
    @wraps(build)
    def declare(context, *arguments):
        return result(*kinds), code

    return intrinsic(declare)


def _scaled(builder, at):
    """Return the place at which entry ``at`` of a vector begins."""
    return builder.mul(at, ir.Constant(at.type, LANES))


def _entry(builder, array, at):
    """Return the address of entry ``at`` of a vector."""
    return builder.gep(array, [_scaled(builder, at)])


def _address(builder, array, at):
    """Return the same address, of a whole register."""
    return builder.bitcast(_entry(builder, array, at), _VECTOR.as_pointer())


def _call(builder, name, *values):
    """Call one of LLVM's own functions of vectors."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(values))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")
    return builder.call(function, values)


def _select(builder, sign, x, y):
    """Return ``x`` where it compares like this with ``y``, else ``y``."""
    return builder.select(builder.fcmp_ordered(sign, x, y), x, y)


def _fold(builder, x, build):
    """Fold the lanes into one number, halves against each other."""
    width = LANES
    while width > 1:
        width //= 2
        other = ir.Constant(
            ir.VectorType(ir.IntType(32), LANES), [(i + width) % LANES for i in range(LANES)]
        )
        x = build(x, builder.shuffle_vector(x, ir.Constant(_VECTOR, ir.Undefined), other))
    return builder.extract_element(x, ir.Constant(ir.IntType(32), 0))


def _compare_bits(builder, sign, mask, bits):
    """Compare a mask with an integer."""
    integer = ir.IntType(LANES)
    return builder.icmp_unsigned(sign, builder.bitcast(mask, integer), ir.Constant(integer, bits))


def _shift_to_power(builder, shifted):
    """Return 2^k for an integer k to which 1.5 2^52 was added, so that it is in the lowest bits."""
    bias = ir.Constant(_WHOLES, [1023] * LANES)
    place = ir.Constant(_WHOLES, [52] * LANES)
    bits = builder.shl(builder.add(builder.bitcast(shifted, _WHOLES), bias), place)
    return builder.bitcast(bits, _VECTOR)


def _shift_from_power(builder, x):
    """Return the k for which x / 2^k is between the roots of 1/2 and of 2."""
    bits = builder.sub(
        builder.bitcast(x, _WHOLES), ir.Constant(_WHOLES, [_ROOT_HALF_BITS] * LANES)
    )
    return builder.sitofp(builder.ashr(bits, ir.Constant(_WHOLES, [52] * LANES)), _VECTOR)


def _divide_by_power(builder, x, k):
    """Return x / 2^k for an integer k, exactly."""
    whole = builder.shl(builder.fptosi(k, _WHOLES), ir.Constant(_WHOLES, [52] * LANES))
    return builder.bitcast(builder.sub(builder.bitcast(x, _WHOLES), whole), _VECTOR)


_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_LOG2_E = 1.4426950408889634
# ln 2 in two parts; multiples of the first are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_TO_WHOLE = 1.5 * 2.0**52  # adding it rounds to an integer
_POINTER = types.CPointer(float64)
_power_of_two = _intrinsic(_shift_to_power, LANES_TYPE, LANES_TYPE)
_power_in = _intrinsic(_shift_from_power, LANES_TYPE, LANES_TYPE)
_without_power = _intrinsic(_divide_by_power, LANES_TYPE, LANES_TYPE, LANES_TYPE)


@exact
def exp_of_register(z):
    """Return exp(z) for z <= 0, to a few units of the last digit: a polynomial around the nearest power of two."""
    z = larger(z, spread(-708.0))
    shifted = z * _LOG2_E + _TO_WHOLE
    power = shifted - _TO_WHOLE
    r = (z - power * _LN2_HIGH) - power * _LN2_LOW
    value = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    value = value * r + 1.0 / 39916800.0
    value = value * r + 1.0 / 3628800.0
    value = value * r + 1.0 / 362880.0
    value = value * r + 1.0 / 40320.0
    value = value * r + 1.0 / 5040.0
    value = value * r + 1.0 / 720.0
    value = value * r + 1.0 / 120.0
    value = value * r + 1.0 / 24.0
    value = value * r + 1.0 / 6.0
    value = value * r + 0.5
    value = value * r + 1.0
    value = value * r + 1.0
    return where(z > -708.0, value * _power_of_two(shifted), spread(0.0))


@exact
def log_of_register(x):
    """Return log(x) of a normal number x, to the last digit: the series in (x - 1) / (x + 1), fitted as in Sun's fdlibm."""
    k = _power_in(x)
    f = _without_power(x, k) - 1.0
    s = f / (f + 2.0)
    z = s * s
    rest = z * 1.479819860511658591e-01 + 1.531383769920937332e-01
    rest = rest * z + 1.818357216161805012e-01
    rest = rest * z + 2.222219843214978396e-01
    rest = rest * z + 2.857142874366239149e-01
    rest = rest * z + 3.999999999940941908e-01
    rest = rest * z + 6.666666666666735130e-01
    half = 0.5 * f * f
    value = k * _LN2_HIGH - ((half - (s * (half + rest * z) + k * _LN2_LOW)) - f)
    return where(x > 0.0, value, where(x == 0.0, spread(-np.inf), spread(np.nan)))


_REGISTER_WORDS = {
    "load": _intrinsic(
        lambda b, v, i: b.load(_address(b, v, i), align=8), LANES_TYPE, _POINTER, types.intp
    ),
    "store": _intrinsic(
        lambda b, v, i, value: b.store(value, _address(b, v, i), align=8),
        types.void,
        _POINTER,
        types.intp,
        LANES_TYPE,
    ),
    "peek": _intrinsic(lambda b, v, i: b.load(_entry(b, v, i)), float64, _POINTER, types.intp),
    "skip": _intrinsic(lambda b, v, n: _entry(b, v, n), _POINTER, _POINTER, types.intp),
    "spread": _intrinsic(lambda b, value: _spread(b, value), LANES_TYPE, float64),
    "where": _intrinsic(
        lambda b, mask, x, y: b.select(mask, x, y), LANES_TYPE, MASK_TYPE, LANES_TYPE, LANES_TYPE
    ),
    "larger": _intrinsic(
        lambda b, x, y: _select(b, ">", x, y), LANES_TYPE, LANES_TYPE, LANES_TYPE
    ),
    "smaller": _intrinsic(
        lambda b, x, y: _select(b, "<", x, y), LANES_TYPE, LANES_TYPE, LANES_TYPE
    ),
    "signed": _intrinsic(
        lambda b, x, sign: _call(b, "copysign", x, sign), LANES_TYPE, LANES_TYPE, LANES_TYPE
    ),
    "size": _intrinsic(lambda b, x: _call(b, "fabs", x), LANES_TYPE, LANES_TYPE),
    "root": _intrinsic(lambda b, x: _call(b, "sqrt", x), LANES_TYPE, LANES_TYPE),
    "log": log_of_register,
    "exp": exp_of_register,
    "anywhere": _intrinsic(
        lambda b, mask: _compare_bits(b, "!=", mask, 0), types.boolean, MASK_TYPE
    ),
    "everywhere": _intrinsic(
        lambda b, mask: _compare_bits(b, "==", mask, 2**LANES - 1), types.boolean, MASK_TYPE
    ),
    "total": _intrinsic(lambda b, x: _fold(b, x, b.fadd), float64, LANES_TYPE),
    "largest": _intrinsic(
        lambda b, x: _fold(b, x, partial(_select, b, ">")), float64, LANES_TYPE
    ),
    "smallest": _intrinsic(
        lambda b, x: _fold(b, x, partial(_select, b, "<")), float64, LANES_TYPE
    ),
}


def _entries(v, i):
    """Return the numbers of entry ``i``, one of each run."""
    return v[i * LANES : (i + 1) * LANES]


# What the words mean where compilation is off.
_ARRAY_WORDS = {
    "load": lambda v, i: _entries(v, i).copy(),
    "store": lambda v, i, value: np.copyto(_entries(v, i), value),
    "peek": lambda v, i: v[i * LANES],
    "skip": lambda v, n: v[n * LANES :],
    "spread": lambda value: np.full(LANES, value),
    "where": np.where,
    "larger": np.maximum,
    "smaller": np.minimum,
    "signed": np.copysign,
    "size": np.abs,
    "root": np.sqrt,
    "log": np.log,
    "exp": np.exp,
    "anywhere": np.any,
    "everywhere": np.all,
    "total": np.sum,
    "largest": np.max,
    "smallest": np.min,
}

_LANE_WORDS = _ARRAY_WORDS if config.DISABLE_JIT else _REGISTER_WORDS
_LANE_WORDS |= {f"{name}_number": _LANE_WORDS[name] for name in ("larger", "smaller")}
REGISTER = Lane(LANES, _LANE_WORDS | {"beyond": pointer, "local": local})
