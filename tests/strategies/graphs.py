"""Strategies for graph functions of operators, and arrays to run them on.

Graphs have what passes work on: values that nothing uses, the same twice, operators that do
nothing, constants, shape arithmetic, checks, branches, loops. All arithmetic is exact: integers
wrap, and floats are whole numbers (or infinite, or not a number, or -0.0) far below where rounding
begins; so a pass has to keep every bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st

from tensorsmith.ir import Buffer, Cast, Expr, GraphFunction, Lt, Var, as_expr, const, substitute
from tensorsmith.ir.dtype import index
from tensorsmith.ir.graph import Branch, Dims, Loop
from tensorsmith.ops import OPERATORS, GraphBuilder

MOST_STEPS = 9
LARGEST_EXTENT = 4
SPECIAL = (-0.0, float("inf"), float("-inf"), float("nan"))


class Growing:
    """A graph function on its way: `values` are those that the next step may read."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.builder = GraphBuilder(OPERATORS)
        self.dims = [Var("n", low=0), Var("m", low=1)]
        self.values: list[Buffer] = []
        self.depth = 0
        self.applied: list[tuple[str, tuple[Buffer, ...], dict[str, object]]] = []

    @contextmanager
    def body(self) -> Iterator[None]:
        """What is made inside is known inside."""
        values, applied = list(self.values), list(self.applied)
        self.depth += 1
        yield
        self.depth -= 1
        self.values, self.applied = values, applied

    def extent(self) -> Expr:
        """An extent: a number or a dimension."""
        return as_expr(self.draw(st.sampled_from([1, 2, 3, *self.dims])))

    def param(self, number: int) -> None:
        shape = (
            [self.extent() for _ in range(self.draw(st.integers(0, 3)))] if number else self.dims
        )
        dtype = self.draw(st.sampled_from(["float32", "float32", "int32", "bool"]))
        self.values.append(self.builder.param(f"x{number}", shape, dtype))

    def pick(self, *dtypes: str, rank: int = 0) -> Buffer:
        """A value of one of the types, or a new constant."""
        fit = [v for v in self.values if v.dtype.name in dtypes and v.rank >= rank]
        if fit and self.draw(st.integers(0, 4)):
            return self.draw(st.sampled_from(fit))
        return self.constant(self.draw(st.sampled_from(dtypes)), rank)

    def constant(self, dtype: str, rank: int = 0) -> Buffer:
        shape = self.draw(
            st.lists(st.sampled_from([1, 2, 3]), min_size=rank, max_size=max(rank, 2))
        )
        data = self.draw(elements(tuple(shape), dtype))
        made = self.builder.constant(data)
        self.values.append(made)
        return made

    def apply(self, op: str, *operands: Buffer, **attrs: object) -> Buffer:
        made = self.builder(op, *operands, **attrs)
        self.applied.append((op, operands, attrs))
        self.values.append(made)
        return made

    def fits(self, op: str, *operands: Buffer, **attrs: object) -> Buffer | None:
        """As `apply`, or nothing where the operands do not fit for all sizes."""
        shapes = [o.shape for o in operands]
        rank = max(map(len, shapes), default=0)
        for axis in range(1, rank + 1):
            extents = {s[-axis] for s in shapes if len(s) >= axis} - {const(1)}
            if len(extents) > 1:
                return None
        return self.apply(op, *operands, **attrs)


def unary(g: Growing) -> None:
    ops = ["neg", "abs", "relu", "sign", "copy"]
    g.apply(g.draw(st.sampled_from(ops)), g.pick("float32", "int32"))


def binary(g: Growing) -> None:
    dtype = g.draw(st.sampled_from(["float32", "int32"]))
    ops = ["add", "sub", "min", "max", *(["mul", "mul", "div"] if dtype == "int32" else [])]
    g.fits(g.draw(st.sampled_from(ops)), g.pick(dtype), g.pick(dtype))


def compare(g: Growing) -> None:
    dtype = g.draw(st.sampled_from(["float32", "int32"]))
    g.fits(g.draw(st.sampled_from(["less", "equal"])), g.pick(dtype), g.pick(dtype))


def choose(g: Growing) -> None:
    dtype = g.draw(st.sampled_from(["float32", "int32"]))
    g.fits("where", g.pick("bool"), g.pick(dtype), g.pick(dtype))


def neutral(g: Growing) -> None:
    """An operator that does nothing, or nearly: what rules look for."""
    dtype = g.draw(st.sampled_from(["float32", "int32"]))
    x = g.pick(dtype)
    op, number = g.draw(
        st.sampled_from(
            [("add", 0), ("sub", 0), ("mul", 1), ("div", 1), ("mul", -1), ("add", -0.0), ("mul", 2)]
        )
    )
    c = g.builder.scalar(number, dtype)
    operands = (c, x) if op in ("add", "mul") and g.draw(st.booleans()) else (x, c)
    g.apply(op, *operands)


def transpose(g: Growing) -> None:
    x = g.pick("float32", "int32", "bool", rank=1)
    axes = tuple(g.draw(st.permutations(range(x.rank))))
    y = g.apply("transpose", x, axes=axes)
    if g.draw(st.booleans()):
        g.apply("transpose", y, axes=tuple(g.draw(st.permutations(range(x.rank)))))


def reshape(g: Growing) -> None:
    x = g.pick("float32", "int32", "bool")
    if g.draw(st.booleans()):
        axis = g.draw(st.integers(0, x.rank))
        y = g.apply("expand_dims", x, axes=(axis,))
        if g.draw(st.booleans()):
            g.apply("squeeze", y, axes=(axis,))
        return
    total = as_expr(1)
    for e in x.shape:
        total = total * e
    y = g.apply("reshape", x, shape=(total,))
    if g.draw(st.booleans()):
        g.apply("reshape", y, shape=x.shape)


def expand(g: Growing) -> None:
    x = g.pick("float32", "int32")
    wider = [g.extent() if e is const(1) else e for e in x.shape]
    g.apply("expand", x, shape=(*([g.extent()] if g.draw(st.booleans()) else []), *wider))


def concat(g: Growing) -> None:
    x = g.pick("float32", "int32", rank=1)
    axis = g.draw(st.integers(0, x.rank - 1))
    g.apply("concat", *[x] * g.draw(st.integers(1, 3)), axis=axis)


def cut(g: Growing) -> None:
    x = g.pick("float32", "int32", rank=1)
    axis = g.draw(st.integers(0, x.rank - 1))
    if g.draw(st.booleans()):
        g.apply("slice", x, starts=(0,), extents=(x.shape[axis],), axes=(axis,))
    elif x.shape[axis] in (const(2), const(3)):
        g.apply("slice", x, starts=(1,), extents=(1,), axes=(axis,))
    else:
        g.apply("flip", x, axes=(axis,))


def reduce(g: Growing) -> None:
    x = g.pick("float32", "int32", rank=1)
    axes = tuple(g.draw(st.sets(st.integers(0, x.rank - 1), min_size=1)))
    op = g.draw(st.sampled_from(["reduce_sum", "reduce_sum", "reduce_max"]))
    if op == "reduce_max" and any(x.shape[a] is g.dims[0] for a in axes):
        op = "reduce_sum"
    g.apply(op, x, axes=axes, keep_dims=g.draw(st.booleans()))


def product(g: Growing) -> None:
    x = g.pick("int32", rank=2)
    if x.rank == 2:
        g.apply("matmul", x, g.apply("transpose", x, axes=(1, 0)))


def again(g: Growing) -> None:
    """The same operator of the same operands another time."""
    if g.applied and not g.depth:
        op, operands, attrs = g.draw(st.sampled_from(g.applied))
        if all(o in g.values for o in operands):
            g.apply(op, *operands, **attrs)


def shape_tensor(g: Growing) -> None:
    """Dimensions as a tensor, and arithmetic on it."""
    sizes = g.builder.elements([g.extent(), g.extent()])
    two = g.builder.constant(np.array([2, 1], np.int64))
    g.values.append(g.builder("mul", sizes, two))


def checked(g: Growing) -> None:
    g.builder.check(Lt(g.dims[0], as_expr(99)), "n is small")


def read(g: Growing) -> None:
    """A number that a tensor holds, as an extent."""
    size = g.builder.elements([g.dims[1]])
    held = g.pick("int32")
    if held.rank or not g.draw(st.booleans()):
        (k,) = g.builder.integers(size)
    else:
        k = Var("k", low=0, high=3)
        small = g.builder("clip", held, *(g.builder.scalar(v, "int32") for v in (0, 3)))
        g.builder.emit(Dims((k,), (Cast(small[()], index),)))
    x = g.pick("float32", "int32")
    g.apply("expand", x, shape=(k, *x.shape))


def branch(g: Growing) -> None:
    if g.depth > 1:
        return
    condition = g.apply("reduce_any", g.pick("bool"), keep_dims=False)
    x = g.pick("float32", "int32", "bool")

    def side() -> list[Buffer]:
        with g.body():
            grow(g, 2)
            like = [v for v in g.values if v.dtype is x.dtype and v.shape == x.shape]
            return [g.draw(st.sampled_from(like))]

    then, orelse = (g.builder.body(side) for _ in range(2))
    result = Buffer("either", x.shape, x.dtype)
    g.builder.emit(Branch((result,), condition, then, orelse))
    g.values.append(result)


def loop(g: Growing) -> None:
    if g.depth > 1:
        return
    x = g.pick("float32", "int32")
    state, i = Buffer("state", x.shape, x.dtype), Var("i", low=0)

    def inside() -> list[Buffer]:
        with g.body():
            g.values.append(state)
            grow(g, 2)
            like = [v for v in g.values if v.dtype is x.dtype and v.shape == x.shape]
            return [g.draw(st.sampled_from(like)), g.draw(st.sampled_from(like))]

    body = g.builder.body(inside, [state], [i])
    trip = as_expr(g.draw(st.sampled_from([0, 1, 2, *g.dims])))
    last, scan = Buffer("last", x.shape, x.dtype), Buffer("scan", (trip, *x.shape), x.dtype)
    g.builder.emit(Loop((last, scan), trip, None, (x,), body))
    g.values.extend([last, scan])


STEPS = (
    *(unary, binary, binary, compare, choose, neutral, neutral, neutral, transpose, reshape),
    *(expand, concat, cut, reduce, product, again, again, shape_tensor, checked, read),
    *(branch, loop),
)


def grow(g: Growing, most: int) -> None:
    """Add up to `most` steps."""
    for _ in range(g.draw(st.integers(1, most))):
        g.draw(st.sampled_from(STEPS))(g)


@st.composite
def graphs(draw: st.DrawFn, *, most_steps: int = MOST_STEPS) -> GraphFunction:
    """A graph function of a few operators, some of whose values are its results."""
    g = Growing(draw)
    for number in range(draw(st.integers(1, 3))):
        g.param(number)
    grow(g, most_steps)
    results = draw(st.lists(st.sampled_from(g.values[::-1]), min_size=1, max_size=3))
    return g.builder.function("main", results)


@st.composite
def elements(draw: st.DrawFn, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Whole numbers, some of them special where the type is a float."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    data = rng.integers(-9, 10, shape).astype(dtype)
    if dtype == "float32" and data.size and draw(st.integers(0, 3)) == 0:
        data.reshape(-1)[0] = draw(st.sampled_from(SPECIAL))
    return data


@st.composite
def graph_arguments(draw: st.DrawFn, graph: GraphFunction) -> list[np.ndarray]:
    """An array for each parameter."""
    sizes: dict[Expr, Expr] = {
        v: as_expr(draw(st.integers(v.low or 0, LARGEST_EXTENT))) for v in graph.dims
    }
    return [
        draw(elements(tuple(int(substitute(e, sizes).value) for e in p.shape), p.dtype.name))
        for p in graph.params
    ]


def same_results(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    """Whether the arrays are equal bit by bit, but for which NaN a NaN is."""
    return len(left) == len(right) and all(map(_same, left, right))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)
    )
