"""The stages of generated programs: each writes a whole buffer, or changes one in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from strategies.dtypes import buffer_dtypes
from strategies.element_values import condition, element, gathered, number
from strategies.nests import block_nest
from strategies.tensors import Axis, Point, Value, World, clamped, largest_extent
from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Block,
    Buffer,
    Cast,
    DType,
    Eq,
    Expr,
    For,
    If,
    Iter,
    IterKind,
    Kind,
    Load,
    Max,
    Min,
    Mul,
    Select,
    Seq,
    Stmt,
    Store,
    Var,
    While,
    const,
    dtype,
    seq,
)

SPATIAL, REDUCE, OPAQUE = IterKind.SPATIAL, IterKind.REDUCE, IterKind.OPAQUE


def _shape(world: World, least: int, most: int) -> list[Expr]:
    rank = world.draw(st.integers(least, most))
    return [world.pick(world.extents) for _ in range(rank)]


def _at(axes: Sequence[Axis]) -> tuple[Expr, ...]:
    return tuple(a.index for a in axes)


def _bare_loops(world: World, shape: Sequence[Expr], body: Callable[[list[Axis]], Stmt]) -> Stmt:
    """Loops over `shape` without a block."""
    loops = [Var(world.name("i")) for _ in shape]
    stmt = body([Axis(v, e) for v, e in zip(loops, shape, strict=True)])
    for var, extent in zip(reversed(loops), reversed(shape), strict=True):
        stmt = For(var, extent, stmt)
    return stmt


def elementwise(world: World) -> None:
    """One value for every element of a new buffer, in a block or in bare loops."""
    shape = _shape(world, 0, 3)
    type_ = world.draw(buffer_dtypes)
    out = world.result(shape, type_)
    order = world.draw(st.permutations(range(len(shape))))
    bounds: list[int] = []

    def store(axes: list[Axis]) -> Stmt:
        at = [axes[order.index(d)] for d in range(len(shape))]
        value = element(world, type_, at)
        bounds.append(value.bound)
        return _store(world, out, at, value)

    domain = [(shape[d], SPATIAL) for d in order]
    if world.chance(5):
        world.body.append(_bare_loops(world, [e for e, _ in domain], store))
    else:
        world.body.append(block_nest(world, "map", domain, lambda axes: (store(axes), None)))
    world.written(out, bounds[0])


def _store(world: World, out: Buffer, at: Point, value: Value) -> Stmt:
    """A store, now and then by way of a binding."""
    if not world.chance(5):
        return Store(out, _at(at), value.expr)
    bound = Var(world.name("x"), value.expr.dtype)
    return seq(Bind(bound, value.expr), Store(out, _at(at), bound))


# --- Reductions ------------------------------------------------------------------------------


def _combine(world: World, type_: DType) -> tuple[Callable[[Expr, Expr], Expr], Expr]:
    """A commutative and associative operation on the dtype, and its identity."""
    if type_.flag & Kind.BOOL:
        both = (lambda a, b: a & b, const(1, "bool"))
        return world.pick(((lambda a, b: a | b, const(0, "bool")), both))
    low, high = (
        (float("-inf"), float("inf")) if type_.is_float else (type_.min_value, type_.max_value)
    )
    return world.draw(
        st.sampled_from(
            (
                (lambda a, b: a + b, number(0, type_)),
                (Max, const(low, type_)),
                (Min, const(high, type_)),
                (Mul, number(1, type_)),
            )
        )
    )


def _reduced(world: World, value: Value, combine: object, extents: Sequence[Expr]) -> Value:
    """`value`, clamped so that its reduction over `extents` stays exact."""
    type_ = value.expr.dtype
    points = 1
    for extent in extents:
        points *= largest_extent(extent)
    if not type_.is_float or combine in (Min, Max):
        return value
    if combine is Mul:
        return clamped(value.expr, 1)
    if value.bound * points > world.room(type_) and world.exact:
        return clamped(value.expr, 1)
    return value


def reduction(world: World) -> None:
    """A sum, product, least or greatest over some axes, with an init or over a filled buffer."""
    shape = _shape(world, 0, 2)
    reduced = _shape(world, 1, 2 if len(shape) < 2 else 1)
    type_ = world.draw(buffer_dtypes)
    combine, identity = _combine(world, type_)
    out = world.result(shape, type_)
    filled = world.chance(4)
    if filled:
        fill = lambda axes: (Store(out, _at(axes), identity), None)  # noqa: E731
        world.body.append(block_nest(world, "fill", [(e, SPATIAL) for e in shape], fill))
    bounds: list[int] = []

    def body(axes: list[Axis]) -> tuple[Stmt, Stmt | None]:
        at = _at(axes[: len(shape)])
        value = _reduced(world, element(world, type_, axes), combine, reduced)
        bounds.append(value.bound)
        init = None if filled else Store(out, at, identity)
        return Store(out, at, combine(Load(out, at), value.expr)), init

    domain = [(e, SPATIAL) for e in shape] + [(e, REDUCE) for e in reduced]
    world.body.append(block_nest(world, "reduce", domain, body))
    points = 1
    for extent in reduced:
        points *= largest_extent(extent)
    world.written(out, bounds[0] * (1 if combine in (Min, Max, Mul) else points))


def argmax(world: World) -> None:
    """The greatest value along an axis and where it first stands: two buffers in one block.

    Of equal values the first counts in whatever order they come: the reducer is commutative.
    """
    shape = _shape(world, 0, 1)
    type_ = world.pick([dtype("float32"), dtype("int32"), dtype("int8")])
    best, place = world.result(shape, type_), world.result(shape, dtype("int32"))
    least = float("-inf") if type_.is_float else type_.min_value
    bounds: list[int] = []

    def body(axes: list[Axis]) -> tuple[Stmt, Stmt]:
        at, k = _at(axes[:-1]), axes[-1].index
        value = element(world, type_, axes, depth=1)
        bounds.append(value.bound)
        here = Cast(k, place.dtype)
        tie = Eq(Load(best, at), value.expr) & (here < Load(place, at))
        keep = Select((Load(best, at) < value.expr) | tie, here, Load(place, at))
        nowhere = const(place.dtype.max_value, place.dtype)
        init = seq(Store(best, at, const(least, type_)), Store(place, at, nowhere))
        greatest = Max(Load(best, at), value.expr)
        return seq(Store(place, at, keep), Store(best, at, greatest)), init

    domain = [(e, SPATIAL) for e in shape] + [(world.pick(world.extents), REDUCE)]
    world.body.append(block_nest(world, "argmax", domain, body))
    world.written(best, bounds[0])
    world.written(place, 0)


def scan(world: World) -> None:
    """Running sums along an axis, whose order counts."""
    shape = _shape(world, 1, 2)
    type_ = world.pick([dtype("float32"), dtype("int32"), dtype("int64")])
    out = world.result(shape, type_)
    bounds: list[int] = []

    def body(axes: list[Axis]) -> tuple[Stmt, None]:
        at, k = _at(axes[:-1]), axes[-1].index
        value = _reduced(world, element(world, type_, axes), None, shape[-1:])
        bounds.append(value.bound)
        before = Load(out, (*at, k - 1))
        total = Select(const(0) <= k - 1, before, number(0, type_)) + value.expr
        return Store(out, (*at, k), total), None

    domain = [(e, SPATIAL) for e in shape[:-1]] + [(shape[-1], OPAQUE)]
    world.body.append(block_nest(world, "scan", domain, body))
    world.written(out, bounds[0] * largest_extent(shape[-1]))


# --- Without blocks --------------------------------------------------------------------------


def imperfect(world: World) -> None:
    """A row at a time: an accumulator is set, filled by an inner loop, and stored."""
    rows = world.pick(world.extents)
    type_ = world.pick([dtype("float32"), dtype("int32"), dtype("uint8")])
    out = world.result([rows], type_)
    accumulator = Buffer(world.name("acc"), (), type_, scope="local")
    i, j = Var(world.name("i")), Var(world.name("j"))
    shape = world.draw(st.integers(0, 2))
    start, extent, columns = (
        (const(0), rows, rows),  # a square
        (const(0), i + 1, rows),  # the lower triangle
        (i, rows - i, rows),  # the upper triangle
    )[shape]
    point = [Axis(i, rows), Axis(j, columns)]
    value = _reduced(world, element(world, type_, point), None, [columns])
    total = Load(accumulator, ()) + value.expr
    row = seq(
        Alloc(accumulator),
        Store(accumulator, (), number(0, type_)),
        For(j, extent, Store(accumulator, (), total), start=start),
        Store(out, (i,), Load(accumulator, ())),
    )
    world.body.append(For(i, rows, row))
    world.written(out, value.bound * largest_extent(columns))


def _update(world: World, out: Buffer, bounds: list[int], *, as_block: bool) -> Stmt:
    """A change in place of every element of a buffer, which reads only its own place of it."""

    def store(axes: list[Axis]) -> Stmt:
        value = element(world, out.dtype, axes, depth=1)
        bounds.append(value.bound)
        old = Load(out, _at(axes))
        if out.dtype.flag & Kind.BOOL:
            return Store(out, _at(axes), old & value.expr)
        return Store(out, _at(axes), world.pick((Min, Max))(old, value.expr))

    if not as_block:
        return _bare_loops(world, out.shape, store)
    domain = [(e, SPATIAL) for e in out.shape]
    return block_nest(world, "update", domain, lambda axes: (store(axes), None))


def update(world: World) -> None:
    """A change in place, now and then under a condition, or several times in a while loop."""
    if not world.outputs:
        return
    tensor = world.pick(world.outputs)
    world.forget(tensor.buffer)
    bounds = [tensor.bound]
    how = world.draw(st.integers(0, 4))
    change = _update(world, tensor.buffer, bounds, as_block=how < 3)
    if how in (1, 3):
        other = None
        if world.chance(2):
            other = _update(world, tensor.buffer, bounds, as_block=False)
        world.body.append(If(condition(world, []), change, other))
    elif how == 4:
        world.body.append(_repeated(world, change))
    else:
        world.body.append(change)
    world.written(tensor.buffer, max(bounds))


def _repeated(world: World, change: Stmt) -> Stmt:
    """`change` up to three times, counted in a buffer."""
    count = Buffer(world.name("count"), (1,), "int32", scope="local")
    step = Store(count, (const(0),), count[0] + 1)
    times = world.draw(st.integers(0, 3))
    return seq(
        Alloc(count),
        Store(count, (const(0),), const(0, "int32")),
        While(count[0] < times, seq(change, step)),
    )


def histogram(world: World) -> None:
    """Values added where the data say: several points may meet in one element, in order."""
    bins = world.pick(world.extents)
    extent = world.pick(world.extents)
    type_ = world.pick([dtype("int32"), dtype("float32")])
    out = world.result([bins], type_)
    fill = lambda axes: (Store(out, _at(axes), number(0, type_)), None)  # noqa: E731
    world.body.append(block_nest(world, "fill", [(bins, SPATIAL)], fill))
    bounds: list[int] = []

    def body(axes: list[Axis]) -> tuple[Stmt, None]:
        at = (gathered(world, bins, axes),)
        value = _reduced(world, element(world, type_, axes, depth=1), None, [extent])
        bounds.append(value.bound)
        return Store(out, at, Load(out, at) + value.expr), None

    world.body.append(block_nest(world, "scatter", [(extent, OPAQUE)], body))
    world.written(out, bounds[0] * largest_extent(extent))


def rows(world: World) -> None:
    """A block for each row, with a loop of its own inside and a buffer that lives in it."""
    extent, columns = _shape(world, 2, 2)
    type_ = world.pick([dtype("float32"), dtype("int32")])
    out = world.result([extent, columns], type_)
    i, row = Var(world.name("i")), Var(world.name("v"))
    line = Buffer(world.name("line"), (columns,), type_, scope="local")
    first, second = Var(world.name("j")), Var(world.name("j"))
    value = element(world, type_, [Axis(row, extent), Axis(first, columns)])
    back = columns - 1 - second
    body = seq(
        Alloc(line),
        For(first, columns, Store(line, (first,), value.expr)),
        For(second, columns, Store(out, (row, second), Load(line, (back,)))),
    )
    block = Block(world.name("rows"), (Iter(row, extent, SPATIAL, i),), body)
    world.body.append(For(i, extent, block))
    world.written(out, value.bound)


def nested(world: World) -> None:
    """A block of tiles, each of which is a block of elements that knows the tile's iterator."""
    tiles = world.pick(world.extents)
    size = const(world.pick((2, 4, 3)))
    type_ = world.draw(buffer_dtypes)
    out = world.result([tiles * size], type_)
    outer, inner = Var(world.name("o")), Var(world.name("i"))
    tile, place = Var(world.name("v")), Var(world.name("v"))
    value = element(world, type_, [Axis(place, tiles * size)])
    binding = Iter(place, tiles * size, SPATIAL, tile * size + inner)
    body = Block(world.name("element"), (binding,), Store(out, (place,), value.expr))
    block = Block(world.name("tile"), (Iter(tile, tiles, SPATIAL, outer),), For(inner, size, body))
    world.body.append(For(outer, tiles, block))
    world.written(out, value.bound)


def branches(world: World) -> None:
    """A loop whose body binds a place, and reads a neighbour only where a condition allows it."""
    extent = world.pick(world.extents)
    sources = [t for t in world.tensors if t.buffer.rank == 1 and t.buffer.shape[0] is extent]
    type_ = sources[0].buffer.dtype if sources else world.draw(buffer_dtypes)
    out = world.result([extent], type_)
    i, k = Var(world.name("i")), Var(world.name("k"))
    at = [Axis(i, extent), Axis(k, extent)]
    value = element(world, type_, at, depth=1)
    other = element(world, type_, at, depth=1)
    neighbour = Value(Load(sources[0].buffer, (i + 1,)), sources[0].bound) if sources else value
    choice = If(i + 1 < extent, Store(out, (i,), neighbour.expr), Store(out, (i,), other.expr))
    place = Min(i * world.draw(st.integers(0, 3)), extent - 1)
    world.body.append(For(i, extent, seq(Bind(k, place), choice)))
    world.written(out, max(neighbour.bound, other.bound))


def remark(world: World) -> None:
    """Nothing but a binding that is asserted of, or an empty sequence."""
    if world.chance(4):
        world.body.append(Seq(()))
        return
    whole = [t for t in world.tensors if t.buffer.dtype.flag & Kind.BITS]
    if not whole:
        world.body.append(Assert(const(0) <= world.extents[0], "an extent is positive"))
        return
    source = element(world, whole[0].buffer.dtype, [], depth=1).expr
    bound = Var(world.name("x"), source.dtype)
    world.body.append(Bind(bound, source))
    greatest = Max(bound, number(3, bound.dtype))
    world.body.append(Assert(bound <= greatest, 'the "greatest" is greatest'))


STAGES = (
    elementwise, reduction, elementwise, reduction, update, imperfect, scan, rows, argmax,
    histogram, nested, branches, remark,
)  # fmt: skip
