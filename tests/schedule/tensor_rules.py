"""How the primitives on reductions, layouts, padding and tensor intrinsics are drawn.

`SMALL` are intrinsics of tiles so small that random programs hold some.
"""

from __future__ import annotations

from hypothesis import strategies as st

from schedule.applications import Draw, some_block, some_loop
from tensorsmith.arith.regions import block_regions
from tensorsmith.ir import Block, Buffer, Const
from tensorsmith.schedule import BlockRef, Schedule, ScheduleError
from tensorsmith.schedule.intrinsic import TensorIntrinsic, register_intrinsic
from tensorsmith.schedule.tree import find_block, find_loop
from tensorsmith.script import parse_program

_MATMUL = """
from tensorsmith import script as T

a, b, c, d, e, f = T.dims("a b c d e f", min=None)
n = T.dim("n")

@T.program
def {name}(
    X: T.Buffer((n, {m}), "int32", strides=(a, b)),
    Y: T.Buffer(({m}, n), "int32", strides=(c, d)),
    Z: T.Buffer((n, n), "int32", strides=(e, f)),
):
"""
_MATMUL_DESCRIPTION = """
    for i, j, k in T.grid(n, n, {m}):
        with T.block("update"):
            vi, vj, vk = T.remap("SSR", i, j, k)
            T.block_attrs({{"accumulate": True}})
            Z[vi, vj] = Z[vi, vj] + X[vi, vk] * Y[vk, vj]
"""
_MATMUL_IMPLEMENTATION = """
    for i in range(n):
        total = T.alloc((n,), "int32", scope="local")
        for j in range(n):
            total[j] = Z[i, j]
        for k in T.unrolled({m}):
            for j in range(n):
                total[j] += X[i, k] * Y[k, j]
        for j in range(n):
            Z[i, j] = total[j]
"""
_FILL = """
from tensorsmith import script as T

a = T.dim("a", min=None)
n = T.dim("n", min=2, max=8)

@T.program
def fill(X: T.Buffer((n,), "int32", strides=(a,))):
    {loop}
"""


def _small() -> list[TensorIntrinsic]:
    made = []
    for m in (1, 2, 3):
        texts = [
            (_MATMUL + body).format(name="matmul", m=m)
            for body in (_MATMUL_DESCRIPTION, _MATMUL_IMPLEMENTATION)
        ]
        made.append(TensorIntrinsic(f"test_matmul_{m}", *map(parse_program, texts)))
    loops = (
        "for i in range(n): X[i] = 0",
        "for i in range(n): X[n - 1 - i] = 0",
    )
    texts = [_FILL.format(loop=loop) for loop in loops]
    made.append(TensorIntrinsic("test_fill", *map(parse_program, texts)))
    return made


SMALL = [register_intrinsic(i, override=True) for i in _small()]


def some_buffer(draw: Draw, s: Schedule, block: BlockRef) -> Buffer:
    """A buffer that the block accesses."""
    node = find_block(s.program, block.name).node
    assert isinstance(node, Block)
    reads, writes = block_regions(node)
    found = [r.buffer for r in (*reads, *writes) if r.buffer.rank]
    if not found:
        raise ScheduleError("no buffers")
    return draw(st.sampled_from(found))


def _tiled(draw: Draw, rank: int):
    """A layout: dimensions in another order, each perhaps cut into tiles, two perhaps fused."""
    order = draw(st.permutations(range(rank)))
    tiles = [draw(st.sampled_from((1, 1, 2, 3, 4))) for _ in range(rank)]
    fused = draw(st.integers(0, 4)) == 0

    def layout(*i):
        outer = [i[d] // tiles[d] if tiles[d] > 1 else i[d] for d in order]
        inner = [i[d] % tiles[d] for d in range(rank) if tiles[d] > 1]
        if fused and len(inner) > 1:
            inner = [
                inner[0] * tiles[[d for d in range(rank) if tiles[d] > 1][1]] + inner[1],
                *inner[2:],
            ]
        return (*outer, *inner)

    return layout


def _with_rank(layout, rank: int):
    from tensorsmith.ir import IndexMap, Var

    inputs = [Var(f"i{d}") for d in range(rank)]
    return IndexMap(inputs, layout(*inputs))


def _transform_layout(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    buffer = some_buffer(draw, s, block)
    pad = draw(st.sampled_from((None, None, 0, 1)))
    s.transform_layout(
        block,
        buffer.name,
        _with_rank(_tiled(draw, buffer.rank), buffer.rank),
        pad_value=pad if pad is None or not buffer.dtype.is_bool else bool(pad),
    )


def _transform_block_layout(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    node = find_block(s.program, block.name).node
    assert isinstance(node, Block)
    iters = node.iters
    if not iters:
        raise ScheduleError("no iterators")
    choice = draw(st.integers(0, 2))
    extents = [it.extent.value if isinstance(it.extent, Const) else 1 for it in iters]
    if choice == 0 and len(iters) > 1:
        flat = _with_rank(lambda *i: (i[0] * iters[1].extent + i[1], *i[2:]), len(iters))
    elif choice == 1:
        tile = draw(st.sampled_from([t for t in (1, 2, 3, 4) if extents[0] % t == 0]))
        flat = _with_rank(lambda *i: (i[0] % tile, *i[1:], i[0] // tile), len(iters))
    else:
        flat = _with_rank(_tiled(draw, len(iters)), len(iters))
    s.transform_block_layout(block, flat)


def _reorder_block_iter_var(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    node = find_block(s.program, block.name).node
    assert isinstance(node, Block)
    s.reorder_block_iter_var(block, draw(st.permutations(range(len(node.iters)))))


def _set_axis_separator(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    buffer = some_buffer(draw, s, block)
    cuts = draw(st.lists(st.integers(0, buffer.rank), unique=True, max_size=2))
    s.set_axis_separator(block, buffer.name, sorted(cuts))


def _pad_einsum(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    node = find_block(s.program, block.name).node
    assert isinstance(node, Block)
    s.pad_einsum(block, [draw(st.sampled_from((1, 2, 4))) for _ in node.iters])


def _decompose_padding(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    loops = s.get_loops(block)
    if not loops:
        raise ScheduleError("no loops")
    s.decompose_padding(block, draw(st.sampled_from(loops)))


def _blockize(draw: Draw, s: Schedule) -> None:
    if draw(st.integers(0, 3)):
        s.blockize(some_loop(draw, s))
    else:
        s.blockize([some_block(draw, s) for _ in range(draw(st.integers(1, 3)))])


def _tensorize(draw: Draw, s: Schedule) -> None:
    target = some_loop(draw, s) if draw(st.booleans()) else some_block(draw, s)
    s.tensorize(target, draw(st.sampled_from(SMALL)).name)


def _rfactor(draw: Draw, s: Schedule) -> None:
    loop = some_loop(draw, s)
    find_loop(s.program, loop.var)
    s.rfactor(loop, draw(st.integers(-2, 2)))


def _decompose_reduction(draw: Draw, s: Schedule) -> None:
    block = some_block(draw, s)
    loops = s.get_loops(block)
    if not loops:
        raise ScheduleError("no loops")
    s.decompose_reduction(block, draw(st.sampled_from(loops)))


def _rolling_buffer(draw: Draw, s: Schedule) -> None:
    s.rolling_buffer(some_block(draw, s))


TENSOR_RULES = {
    "decompose_reduction": _decompose_reduction,
    "rfactor": _rfactor,
    "transform_layout": _transform_layout,
    "transform_block_layout": _transform_block_layout,
    "reorder_block_iter_var": _reorder_block_iter_var,
    "set_axis_separator": _set_axis_separator,
    "pad_einsum": _pad_einsum,
    "decompose_padding": _decompose_padding,
    "blockize": _blockize,
    "tensorize": _tensorize,
    "rolling_buffer": _rolling_buffer,
}
