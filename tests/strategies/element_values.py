"""The values that generated programs store: over loads, indices, parameters and constants."""

from __future__ import annotations

from hypothesis import strategies as st

from strategies.tensors import LARGEST_EXTENT, Axis, Point, Tensor, Value, World, clamped
from tensorsmith.ir import (
    INTRINSICS,
    BitXor,
    Cast,
    Const,
    DType,
    Eq,
    Expr,
    FloorDiv,
    FloorMod,
    Kind,
    Load,
    Max,
    Min,
    Neg,
    Not,
    Select,
    TruncDiv,
    Var,
    as_expr,
    const,
    dtype,
)

_ROUGH = tuple(INTRINSICS[n] for n in ("exp", "tanh", "sigmoid", "sin", "erf", "floor"))
_BOOL = dtype("bool")


def number(value: int, type_: DType) -> Expr:
    """A whole number of the dtype; of bool, its parity."""
    if type_.flag & Kind.BOOL:
        return const(value % 2, type_)
    if type_.flag & Kind.FLOAT:
        return const(float(value), type_)
    return const(min(max(value, type_.min_value), type_.max_value), type_)


def element(world: World, type_: DType, point: Point, depth: int = 2) -> Value:
    """A value of the dtype at a place of an iteration space."""
    if depth == 0 or world.chance(4):
        return _leaf(world, type_, point)
    if type_.flag & Kind.BOOL:
        return Value(condition(world, point, depth - 1))
    if world.chance(6):
        holds = condition(world, point, depth - 1)
        a, b = (element(world, type_, point, depth - 1) for _ in range(2))
        return Value(Select(holds, a.expr, b.expr), max(a.bound, b.bound))
    if type_.flag & Kind.FLOAT:
        return world.fits(_float(world, type_, point, depth))
    return _integer(world, type_, point, depth)


def _leaf(world: World, type_: DType, point: Point) -> Value:
    kind = world.draw(st.integers(0, 7))
    same = [t for t in world.tensors if t.buffer.dtype is type_]
    if kind <= 4 and same:
        return load(world, world.pick(same), point)
    if kind <= 5 and world.tensors:
        return convert(world, load(world, world.pick(world.tensors), point), type_)
    scalars = [p for p in world.params if isinstance(p, Var)]
    if kind == 6 and scalars:
        return convert(world, Value(world.pick(scalars), LARGEST_EXTENT), type_)
    if kind == 7 and point:
        axis = world.pick(point)
        return convert(world, Value(axis.index, LARGEST_EXTENT), type_)
    whole = world.draw(st.integers(-4, 4))
    return Value(number(whole, type_), abs(whole))


def convert(world: World, value: Value, type_: DType) -> Value:
    """`value` cast to the dtype, held to what stays exact."""
    source = value.expr.dtype
    if source is type_:
        return value
    if not type_.flag & Kind.FLOAT or not world.exact:
        return Value(Cast(value.expr, type_), value.bound)
    if source.flag & Kind.BOOL:
        return Value(Cast(value.expr, type_), 1)
    if source.flag & Kind.UINT:
        return Value(Cast(Min(value.expr, number(8, source)), type_), 8)
    if source.flag & Kind.INT or value.bound > world.room(type_):
        value = clamped(value.expr, min(8, 8 if source.is_float else source.max_value))
    return Value(Cast(value.expr, type_), value.bound)


def _integer(world: World, type_: DType, point: Point, depth: int) -> Value:
    a, b = (element(world, type_, point, depth - 1).expr for _ in range(2))
    divisor = Select(Eq(b, number(0, type_)), number(1, type_), b)
    makers = (
        lambda: a + b, lambda: a - b, lambda: a * b, lambda: Min(a, b), lambda: Max(a, b),
        lambda: Neg(a), lambda: FloorDiv(a, divisor), lambda: FloorMod(a, divisor),
        lambda: TruncDiv(a, divisor), lambda: BitXor(a, b), lambda: a << (b & number(3, type_)),
    )  # fmt: skip
    return Value(world.pick(makers)())


def _float(world: World, type_: DType, point: Point, depth: int) -> Value:
    a, b = (element(world, type_, point, depth - 1) for _ in range(2))
    kind = world.draw(st.integers(0, 6 if world.exact else 9))
    wider = max(a.bound, b.bound)
    match kind:
        case 0:
            return Value(a.expr + b.expr, a.bound + b.bound)
        case 1:
            return Value(a.expr * b.expr, a.bound * b.bound)
        case 2:
            return Value(a.expr - b.expr, a.bound + b.bound)
        case 3:
            return Value(Min(a.expr, b.expr), wider)
        case 4:
            return Value(Max(a.expr, b.expr), wider)
        case 5:
            return Value(INTRINSICS["abs"](a.expr), a.bound)
        case 6:
            return Value(-a.expr, a.bound)
        case 7:
            return Value(world.pick(_ROUGH)(a.expr), wider)
        case 8:
            return Value(INTRINSICS["sqrt"](INTRINSICS["abs"](a.expr)), wider)
    return Value(a.expr / (INTRINSICS["abs"](b.expr) + 1.0), wider)


def condition(world: World, point: Point, depth: int = 1) -> Expr:
    """A bool at a place of an iteration space."""
    kind = world.draw(st.integers(0, 5))
    if kind <= 2 and point:
        axis = world.pick(point)
        bound = as_expr(world.draw(st.integers(0, 5)))
        return (axis.index < bound, Eq(axis.index % 2, const(0)), bound <= axis.index)[kind]
    if kind == 3 and depth > 0:
        return Not(condition(world, point, depth - 1))
    if kind == 4 and depth > 0:
        a, b = (condition(world, point, depth - 1) for _ in range(2))
        return world.pick((a & b, a | b))
    numbers = [t for t in world.tensors if t.buffer.dtype.flag & Kind.NUMBER]
    type_ = world.pick(numbers).buffer.dtype if numbers else dtype("int32")
    a, b = (element(world, type_, point, 0).expr for _ in range(2))
    return world.pick((a < b, a <= b, Eq(a, b)))


# --- Loads -----------------------------------------------------------------------------------


def load(world: World, tensor: Tensor, point: Point) -> Value:
    """An element of `tensor`, never outside: aligned, wrapped, clamped, gathered or guarded."""
    guards: list[Expr] = []
    indices = [_subscript(world, extent, point, guards) for extent in tensor.buffer.shape]
    e: Expr = Load(tensor.buffer, tuple(indices))
    for guard in guards:
        e = Select(guard, e, number(0, tensor.buffer.dtype))
    return Value(e, tensor.bound)


def _subscript(world: World, extent: Expr, point: Point, guards: list[Expr]) -> Expr:
    aligned = [a for a in point if a.extent is extent]
    kind = world.draw(st.integers(0, 9))
    if not point or (isinstance(extent, Const) and extent.value == 1) or kind == 9:
        return const(0)
    if kind <= 4 and aligned:
        return world.pick(aligned).index
    axis = world.pick(aligned or point)
    if kind == 5:
        return Min(axis.index, extent - 1)
    if kind == 6:
        return _shifted(world, axis, extent, guards)
    if kind == 7:
        return gathered(world, extent, point)
    if kind == 8 and aligned:
        return extent - 1 - axis.index
    return axis.index % extent


def _shifted(world: World, axis: Axis, extent: Expr, guards: list[Expr]) -> Expr:
    """A neighbour, guarded as padding is."""
    shift = world.pick((-1, 1, -2))
    index = axis.index + shift if shift > 0 else axis.index - -shift
    if shift < 0:
        guards.append(const(0) <= index)
    if shift > 0 or axis.extent is not extent:
        guards.append(index < extent)
    return index


def gathered(world: World, extent: Expr, point: Point) -> Expr:
    """A subscript that the data decide, clamped to the extent."""
    sources = [t for t in world.tensors if t.buffer.dtype.name in ("int32", "int8", "uint8")]
    plain = [t for t in sources if t.buffer.rank <= 1]
    if not plain:
        return Min(point[0].index, extent - 1)
    buffer = world.pick(plain).buffer
    same = [a.index for a in point if buffer.rank and a.extent is buffer.shape[0]]
    at = (same[0] if same else const(0),) if buffer.rank else ()
    chosen = Cast(Load(buffer, at), dtype("index"))
    return Max(Min(chosen, extent - 1), const(0))
