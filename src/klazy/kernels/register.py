"""The words of :mod:`klazy.kernels.lane` for a vector register: a Numba type that holds one number of each of LANES runs.

Runs side by side are written with these, not left to the compiler to vectorise: it gives up on most such loops. Where
compilation is off the same words are NumPy's.
"""

from functools import wraps
from operator import add, and_, eq, ge, gt, le, lt, mul, or_, sub, truediv
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, float64, njit, types
from numba.core import cgutils, typing
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, models, register_model

from klazy.kernels.binding import FLOAT, Lane, pointer
from klazy.kernels.codes import LANES

_VECTOR, _WHOLES = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.IntType(64), LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)
_FLAGS = ("contract", "nsz")  # a product and a sum may become one instruction; nothing is reordered


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
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
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


def _function(result: Any, *kinds: Any):
    """Make an intrinsic with this signature from a function that emits its instructions."""

    def made(build):
        def code(context, builder, signature, arguments):
            return build(builder, *arguments)

        # intrinsic() reads the number of arguments off the signature, which wraps() copies.
        @wraps(build)
        def declare(context, *arguments):
            return result(*kinds), code

        return intrinsic(declare)

    return made


_POINTER = types.CPointer(float64)


def _scaled(builder, at):
    """Return the place at which entry ``at`` of a vector begins."""
    return builder.mul(at, ir.Constant(at.type, LANES))


def _address(builder, array, at):
    return builder.bitcast(builder.gep(array, [_scaled(builder, at)]), _VECTOR.as_pointer())


@_function(float64, _POINTER, types.intp)
def peek(builder, array, at):
    return builder.load(builder.gep(array, [_scaled(builder, at)]))


@_function(_POINTER, _POINTER, types.intp)
def skip(builder, array, n):
    return builder.gep(array, [_scaled(builder, n)])


@_function(LANES_TYPE, _POINTER, types.intp)
def load(builder, array, at):
    return builder.load(_address(builder, array, at), align=8)


@_function(types.void, _POINTER, types.intp, LANES_TYPE)
def store(builder, array, at, value):
    builder.store(value, _address(builder, array, at), align=8)


@_function(LANES_TYPE, float64)
def spread(builder, value):
    return _spread(builder, value)


@_function(LANES_TYPE, MASK_TYPE, LANES_TYPE, LANES_TYPE)
def where(builder, mask, x, y):
    return builder.select(mask, x, y)


def _called(builder, name, *values):
    """Call one of LLVM's own functions of vectors."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(values))
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")
    return builder.call(function, values)


@_function(LANES_TYPE, LANES_TYPE)
def root(builder, x):
    return _called(builder, "sqrt", x)


@_function(LANES_TYPE, LANES_TYPE)
def log(builder, x):
    """Take the logarithm lane by lane: a round takes few logarithms, and none is worth a polynomial."""
    kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.log.f64")
    result = x
    for lane in range(LANES):
        at = ir.Constant(ir.IntType(32), lane)
        result = builder.insert_element(result, builder.call(function, [builder.extract_element(x, at)]), at)
    return result


@_function(LANES_TYPE, LANES_TYPE)
def size(builder, x):
    return _called(builder, "fabs", x)


@_function(LANES_TYPE, LANES_TYPE, LANES_TYPE)
def signed(builder, x, sign):
    return _called(builder, "copysign", x, sign)


@_function(LANES_TYPE, LANES_TYPE, LANES_TYPE)
def larger(builder, x, y):
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


@_function(LANES_TYPE, LANES_TYPE, LANES_TYPE)
def smaller(builder, x, y):
    return builder.select(builder.fcmp_ordered("<", x, y), x, y)


def _folded(builder, x, build):
    """Fold the lanes into one number, halves against each other."""
    width = LANES
    while width > 1:
        width //= 2
        other = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [(i + width) % LANES for i in range(LANES)])
        x = build(x, builder.shuffle_vector(x, ir.Constant(_VECTOR, ir.Undefined), other))
    return builder.extract_element(x, ir.Constant(ir.IntType(32), 0))


def _bits(builder, mask):
    """Return a mask as an integer."""
    return builder.bitcast(mask, ir.IntType(LANES))


@_function(types.boolean, MASK_TYPE)
def anywhere(builder, mask):
    return builder.icmp_unsigned("!=", _bits(builder, mask), ir.Constant(ir.IntType(LANES), 0))


@_function(types.boolean, MASK_TYPE)
def everywhere(builder, mask):
    return builder.icmp_unsigned("==", _bits(builder, mask), ir.Constant(ir.IntType(LANES), 2**LANES - 1))


@_function(float64, LANES_TYPE)
def total(builder, x):
    return _folded(builder, x, lambda a, b: builder.fadd(a, b))


@_function(float64, LANES_TYPE)
def largest(builder, x):
    return _folded(builder, x, lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@_function(float64, LANES_TYPE)
def smallest(builder, x):
    return _folded(builder, x, lambda a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))


@_function(LANES_TYPE, LANES_TYPE)
def _power_of_two(builder, shifted):
    """Return 2^k for an integer k to which 1.5 2^52 was added, so that it is in the lowest bits."""

    def everywhere(number):
        return ir.Constant(_WHOLES, [number] * LANES)

    bits = builder.shl(builder.add(builder.bitcast(shifted, _WHOLES), everywhere(1023)), everywhere(52))
    return builder.bitcast(bits, _VECTOR)


_LOG2_E = 1.4426950408889634
# ln 2 in two parts; multiples of the first are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_TO_WHOLE = 1.5 * 2.0**52  # adding it rounds to an integer


@njit(forceinline=True, error_model="numpy", fastmath=False)
def exp(z):
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


if config.DISABLE_JIT:

    def load(array, at):
        return array[at * LANES : (at + 1) * LANES].copy()

    def store(array, at, value):
        array[at * LANES : (at + 1) * LANES] = value

    def peek(array, at):
        return array[at * LANES]

    def skip(array, n):
        return array[n * LANES :]

    def spread(value):
        return np.full(LANES, value)

    where = np.where
    root = np.sqrt
    size = np.abs
    signed = np.copysign
    larger = np.maximum
    smaller = np.minimum
    anywhere = np.any
    everywhere = np.all
    total = np.sum
    largest = np.max
    smallest = np.min
    exp = np.exp
    log = np.log

REGISTER = Lane(LANES, {name: value for name, value in globals().items() if name in FLOAT.words})
REGISTER.words["beyond"] = pointer
