"""Define vectors of eight numbers for the kernels: Numba has no type for them, LLVM does.

A vector lies in one register, or in several smaller ones. Each function here is an instruction or a few of them. Only
`three_sums` is more: the innermost loop of the chart.
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


def _place(context, builder, kind, array, at):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())


@intrinsic
def load(_context, array, _at):
    """Return array[at], ..., array[at + 7]."""

    def generate(context, builder, signature, arguments):
        return builder.load(_place(context, builder, signature.args[0], *arguments), align=8)

    return _lanes(array, types.int64), generate


@intrinsic
def store(_context, array, _at, _x):
    """Store a vector in array[at], ..., array[at + 7]."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[2], _place(context, builder, signature.args[0], *arguments[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, _lanes), generate


@intrinsic
def gather(_context, array, _at, _step):
    """Return array[at], array[at + step], ..., array[at + 7 step]."""

    def generate(context, builder, signature, arguments):
        array, at, step = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            vector = builder.insert_element(
                vector, builder.load(builder.gep(data, [at])), ir.IntType(32)(lane)
            )
            at = builder.add(at, step)
        return vector

    return _lanes(array, types.int64, types.int64), generate


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

    def generate(context, builder, _signature, _arguments):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


def _binary(build):
    """Make an operation on two vectors."""

    @intrinsic
    def operation(_context, _x, _y):
        def generate(_target, builder, _signature, arguments):
            return build(builder, *arguments)

        return _lanes(_lanes, _lanes), generate

    return operation


def build_larger(builder, x, y):
    flags = tuple(FASTMATH)
    return builder.select(builder.fcmp_ordered(">", x, y, flags=flags), x, y, flags=flags)


def build_sum(builder, x, y):
    return builder.fadd(x, y, flags=tuple(FASTMATH))


def build_product(builder, x, y):
    return builder.fmul(x, y, flags=tuple(FASTMATH))


sum_of = _binary(build_sum)
product_of = _binary(build_product)
difference_of = _binary(lambda builder, x, y: builder.fsub(x, y, flags=tuple(FASTMATH)))
larger_of = _binary(build_larger)


def three_sums(zero, times, plus):
    """Make the function SUM_k chart[x + k step_x] (x) chart[y + k step_y] of three pairs x, y of places.

    The loop is written out here to keep LLVM from unrolling it: it would then need more registers than there are, for
    as many addresses, and take twice as long.
    """

    @intrinsic
    def sums(_context, chart, _x0, _y0, _x1, _y1, _x2, _y2, _step_x, _step_y, _count):
        def generate(context, builder, signature, arguments):
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            starts = [builder.gep(data, [place]) for place in arguments[1:7]]
            step_x, step_y, count = arguments[7:]
            before = builder.block
            loop, body, after = (
                builder.append_basic_block(name) for name in ("sums", "sums.body", "sums.end")
            )
            builder.branch(loop)
            builder.position_at_end(loop)
            k, x, y = (builder.phi(ir.IntType(64)) for _ in range(3))
            totals = [builder.phi(_VECTOR) for _ in range(3)]
            builder.cbranch(builder.icmp_signed("<", k, count), body, after)
            builder.position_at_end(body)
            values = [
                builder.load(builder.bitcast(builder.gep(start, [at]), _VECTOR.as_pointer()), align=8)
                for start, at in zip(starts, (x, y) * 3, strict=True)
            ]
            sums = [
                plus(builder, total, times(builder, *pair))
                for total, pair in zip(totals, zip(values[::2], values[1::2], strict=True), strict=True)
            ]
            following = [
                builder.add(k, k.type(1)), builder.add(x, step_x), builder.add(y, step_y), *sums
            ]  # fmt: skip
            end = builder.branch(loop)
            rule = builder.module.add_metadata(
                [ir.MetaDataString(builder.module, "llvm.loop.unroll.disable")]
            )
            name = builder.module.add_metadata([rule])
            name.operands = (name, rule)  # the name of a loop is a list that contains itself
            end.set_metadata("llvm.loop", name)
            for phi, value in zip((k, x, y, *totals), following, strict=True):
                phi.add_incoming(_constant(zero) if phi in totals else phi.type(0), before)
                phi.add_incoming(value, body)
            builder.position_at_end(after)
            return context.make_tuple(builder, signature.return_type, totals)

        return types.UniTuple(_lanes, 3)(chart, *[types.int64] * 9), generate

    return sums


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
