"""Define vectors of eight numbers for the kernels: Numba has no type for them, LLVM does.

A vector lies in one register, or in several smaller ones. Each function here is an instruction or a few of them. Arrays
are pointers to numbers.
"""

from __future__ import annotations

from llvmlite import ir  # comes with Numba
from numba import types  # type: ignore[attr-defined]
from numba.extending import intrinsic, models, register_model

from zishu.chart._layout import LANES

# Reassociation lets sums vectorise. Infinities are values here, so "ninf" must stay out.
FASTMATH = {"reassoc", "contract", "nsz", "nnan"}

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)


class _Lanes(types.Type):  # type: ignore[misc]
    """The type of eight float64 numbers in one register, or in several smaller ones."""

    def __init__(self) -> None:
        super().__init__("Lanes")


_lanes = _Lanes()
register_model(_Lanes)(lambda manager, kind: models.PrimitiveModel(manager, kind, _VECTOR))


def _constant(value):
    return ir.Constant(_VECTOR, [value] * LANES)


def _place(builder, array, at):
    return builder.bitcast(builder.gep(array, [at]), _VECTOR.as_pointer())


@intrinsic
def tail(_context, array, _at):
    """Return the array that begins at array[at]."""

    def generate(_target, builder, _signature, arguments):
        return builder.gep(arguments[0], arguments[1:])

    return array(array, types.int64), generate


@intrinsic
def load(_context, array, _at):
    """Return array[at], ..., array[at + 7]."""

    def generate(_target, builder, _signature, arguments):
        return builder.load(_place(builder, *arguments), align=8)

    return _lanes(array, types.int64), generate


@intrinsic
def store(_context, array, _at, _x):
    """Store a vector in array[at], ..., array[at + 7]."""

    def generate(target, builder, _signature, arguments):
        array, at, x = arguments
        builder.store(x, _place(builder, array, at), align=8)
        return target.get_dummy_value()

    return types.void(array, types.int64, _lanes), generate


@intrinsic
def gather(_context, array, _at, _step):
    """Return array[at], array[at + step], ..., array[at + 7 step]."""

    def generate(_target, builder, _signature, arguments):
        array, at, step = arguments
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            vector = builder.insert_element(
                vector, builder.load(builder.gep(array, [at])), ir.IntType(32)(lane)
            )
            at = builder.add(at, step)
        return vector

    return _lanes(array, types.int64, types.int64), generate


@intrinsic
def lane_of(_context, _x, _lane):
    """Return one number of a vector."""

    def generate(_target, builder, _signature, arguments):
        return builder.extract_element(*arguments)

    return types.float64(_lanes, types.int64), generate


@intrinsic
def with_lane(_context, _x, _lane, _value):
    """Return a vector with one number replaced."""

    def generate(_target, builder, _signature, arguments):
        x, lane, value = arguments
        return builder.insert_element(x, value, lane)

    return _lanes(_lanes, types.int64, types.float64), generate


@intrinsic
def splat(_context, _x):
    """Return a vector of eight equal numbers."""

    def generate(_target, builder, _signature, arguments):
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            vector = builder.insert_element(vector, arguments[0], ir.IntType(32)(lane))
        return vector

    return _lanes(types.float64), generate


@intrinsic
def out_of_line(_context):
    """Keep the calling function out of its callers: there its code would slow down the code around it."""

    def generate(target, builder, _signature, _arguments):
        builder.function.attributes.add("noinline")
        return target.get_dummy_value()

    return types.void(), generate


def _binary(build):
    """Make an operation on two vectors."""

    @intrinsic
    def operation(_context, _x, _y):
        def generate(_target, builder, _signature, arguments):
            return build(builder, *arguments)

        return _lanes(_lanes, _lanes), generate

    return operation


def _larger(builder, x, y):
    return builder.select(builder.fcmp_ordered(">", x, y, flags=_FLAGS), x, y, flags=_FLAGS)


_FLAGS = tuple(FASTMATH)
sum_of = _binary(lambda builder, x, y: builder.fadd(x, y, flags=_FLAGS))
product_of = _binary(lambda builder, x, y: builder.fmul(x, y, flags=_FLAGS))
difference_of = _binary(lambda builder, x, y: builder.fsub(x, y, flags=_FLAGS))
larger_of = _binary(_larger)


@intrinsic
def where(_context, _x, _limit, _yes, _no):
    """Return `yes` where x is above the limit, otherwise `no`."""

    def generate(_target, builder, _signature, arguments):
        x, limit, yes, no = arguments
        return builder.select(builder.fcmp_ordered(">", x, limit), yes, no)

    return _lanes(_lanes, _lanes, _lanes, _lanes), generate


@intrinsic
def any_between(_context, _x, _low, _high):
    """Tell whether a number lies between the two limits."""

    def generate(_target, builder, _signature, arguments):
        x, low, high = arguments
        found = builder.and_(builder.fcmp_ordered(">", x, low), builder.fcmp_ordered("<", x, high))
        return builder.icmp_unsigned("!=", builder.bitcast(found, ir.IntType(LANES)), ir.IntType(LANES)(0))

    return types.boolean(_lanes, _lanes, _lanes), generate


@intrinsic
def exp_of(_context, _x):
    """Return the exponentials of numbers from -708 to 708: 2^k exp(r) with x = k log(2) + r and |r| < 0.35."""

    def generate(_target, builder, _signature, arguments):
        (x,) = arguments

        def fused(a, b, c):
            return builder.fadd(builder.fmul(a, b, flags=["contract"]), c, flags=["contract"])

        # Adding 1.5 * 2^52 rounds to an integer, whose last bits are then the last ones of the sum.
        rounder = _constant(6755399441055744.0)
        shifted = fused(x, _constant(1.4426950408889634), rounder)
        k = builder.fsub(shifted, rounder, flags=["contract"])
        r = fused(k, _constant(-6.93147180369123816490e-01), x)  # log(2), in two parts
        r = fused(k, _constant(-1.90821492927058770002e-10), r)
        total, factorial = _constant(1.0 / 6227020800), 6227020800
        for power in range(13, 0, -1):  # the series up to r^13 / 13!
            factorial //= power
            total = fused(total, r, _constant(1.0 / factorial))
        exponent = builder.shl(builder.bitcast(shifted, _BITS), ir.Constant(_BITS, [52] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(total, _BITS), exponent), _VECTOR)

    return _lanes(_lanes), generate
