"""Strategies for whole tensor programs, modules, and the data to run them on.

Programs are well-formed by construction: they pass `verify`, read nothing that was not written,
stay inside their buffers, end, and always do the same. Extents are at most `LARGEST_EXTENT`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from strategies.dtypes import buffer_dtypes
from strategies.reference import evaluate_expr
from strategies.scopes import dim_values
from strategies.stages import STAGES
from strategies.tensors import LARGEST_EXTENT, Tensor, World
from strategies.values import Array, arrays
from tensorsmith.ir import (
    Buffer,
    Expr,
    For,
    Invoke,
    IRModule,
    Kind,
    Region,
    Store,
    TensorProgram,
    Var,
    const,
    dtype,
    seq,
)

ATTRS = ({}, {}, {}, {"fast_math": False}, {"note": "a 'b' \\ \n", "numbers": (3, 0.5, (True,))})
Argument = Array | int | float | bool


@st.composite
def programs(
    draw: st.DrawFn, *, max_stages: int = 4, exact: bool = True, name: str = "program"
) -> TensorProgram:
    """A tensor program of a few stages, each of which reads what those before it wrote.

    exact: floats stay whole numbers that their dtype holds exactly (given `arguments` that are
        whole), so that results do not depend on the order of sums; else also divisions and
        transcendental functions, whose results may be NaN.
    """
    world = World(draw, exact)
    _declare(world)
    for _ in range(draw(st.integers(1, max_stages))):
        draw(st.sampled_from(STAGES))(world)
    if not any(p in [t.buffer for t in world.outputs] for p in world.params):
        _copy_out(world)
    attrs = draw(st.sampled_from(ATTRS))
    return TensorProgram(name, tuple(world.params), seq(*world.body), attrs)


def _declare(world: World) -> None:
    """Dimensions, inputs and scalars."""
    draw = world.draw
    dims: list[Expr] = []
    for d in range(draw(st.integers(0, 2))):
        multiple = draw(st.sampled_from((1, 1, 4, 2)))
        high = draw(st.sampled_from((None, LARGEST_EXTENT)))
        dims.append(Var("nm"[d], low=multiple, high=high, multiple_of=multiple))
    world.extents = (*dims, *dims, const(4), const(1), const(3), const(2), const(5))
    for _ in range(draw(st.integers(1, 3))):
        shape = [draw(st.sampled_from(world.extents)) for _ in range(draw(st.integers(0, 2)))]
        buffer = Buffer(world.name("A"), shape, draw(buffer_dtypes))
        world.params.append(buffer)
        world.tensors.append(Tensor(buffer))
    if world.chance(4):
        world.params.append(Var(world.name("s"), dtype(draw(st.sampled_from(("int32", "int8"))))))
    bound = {d for p in world.params if isinstance(p, Buffer) for d in p.shape}
    if unbound := [d for d in dims if d not in bound]:  # a dimension is known from some parameter
        buffer = Buffer(world.name("A"), unbound, "float32")
        world.params.append(buffer)
        world.tensors.append(Tensor(buffer))


def _copy_out(world: World) -> None:
    """A parameter that receives the last result, if there is any: a program does something."""
    source = (world.outputs or world.tensors)[-1].buffer
    out = Buffer(world.name("out"), source.shape, source.dtype)
    world.params.append(out)
    loops = [Var(world.name("i")) for _ in out.shape]
    stmt: Store | For = Store(out, tuple(loops), source[tuple(loops)])
    for var, extent in zip(reversed(loops), reversed(out.shape), strict=True):
        stmt = For(var, extent, stmt)
    world.body.append(stmt)


@st.composite
def modules(draw: st.DrawFn, *, exact: bool = True) -> IRModule:
    """A program and, mostly, others that it calls row by row or with whole buffers."""
    main = draw(programs(exact=exact, name="main"))
    rows = [b for b in main.buffers if b.rank == 2 and b.name.startswith("out")]
    if not rows:
        return IRModule.of(main)
    target = draw(st.sampled_from(rows))
    helper = _helper(draw, target)
    return IRModule.of(_calling(draw, main, helper, target), helper)


def _helper(draw: st.DrawFn, like: Buffer) -> TensorProgram:
    """Changes a matrix in place: each element becomes the least of itself and its mirror image."""
    n, m = Var("rows", low=1), Var("columns", low=1)
    buffer = Buffer("X", (n, m), like.dtype)
    i, j = Var("i"), Var("j")
    value = buffer[i, j]
    if like.dtype.flag & Kind.NUMBER:
        value = draw(st.sampled_from((value, -value)))
    body = For(i, n, For(j, m, Store(buffer, (i, j), value)))
    return TensorProgram("helper", (buffer,), body)


def _calling(
    draw: st.DrawFn, main: TensorProgram, helper: TensorProgram, target: Buffer
) -> TensorProgram:
    if draw(st.booleans()):
        call = Invoke(helper.name, (target.region(),))
        return TensorProgram(main.name, main.params, seq(main.body, call), main.attrs)
    i = Var("row")
    row = Region(target, ((i, const(1)), (const(0), target.shape[1])))
    calls = For(i, target.shape[0], Invoke(helper.name, (row,)))
    return TensorProgram(main.name, main.params, seq(main.body, calls), main.attrs)


# --- Data ------------------------------------------------------------------------------------


@st.composite
def dim_assignments(
    draw: st.DrawFn, program: TensorProgram, largest: int = LARGEST_EXTENT
) -> Mapping[Var, int]:
    """A value for each symbolic dimension, within its facts and mostly at most `largest`."""
    return {d: draw(dim_values(d, largest)) for d in program.dims}


@st.composite
def arguments(
    draw: st.DrawFn, program: TensorProgram, *, whole: bool = True, largest: int = LARGEST_EXTENT
) -> list[Argument]:
    """What to call a program with: arrays of shapes that fit, and scalars.

    whole: floats are small whole numbers; else any, with NaN and infinities.
    """
    dims = draw(dim_assignments(program, largest))
    values: list[Argument] = []
    for p in program.params:
        if isinstance(p, Buffer):
            shape = tuple(int(evaluate_expr(e, dims)) for e in p.shape)
            values.append(draw(arrays(shape, p.dtype, whole=whole)))
        else:
            values.append(draw(_scalar(p, whole=whole)))
    return values


def _scalar(var: Var, *, whole: bool) -> st.SearchStrategy[Argument]:
    if var.dtype.flag & Kind.BOOL:
        return st.booleans()
    if not var.dtype.flag & Kind.INTEGER:
        return st.integers(-4, 4).map(float) if whole else st.floats(width=16)
    low = max(var.dtype.min_value, -8) if var.low is None else var.low
    high = max(low, min(var.dtype.max_value, 8)) if var.high is None else var.high
    step = var.multiple_of
    return st.integers(-(-low // step), high // step).map(lambda k: k * step)


def copied(values: list[Argument]) -> list[Argument]:
    """The same arguments in fresh arrays, for another run."""
    return [v.copy() if isinstance(v, np.ndarray) else v for v in values]
