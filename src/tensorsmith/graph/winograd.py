"""Convolutions of three by three taps are computed by minimal filtering where that is faster.

It takes a quarter of the products, or less than a half, but also maps images and results, and reads
kernels that are larger by as many points as they are mapped to. So it pays for many channels, and
images of more than a few tiles: a model of the time of each way decides. Where the call tells the
height or the width, it is asked for a likely one: what the image comes to where the inputs of the
model are of a usual size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any, Final

from tensorsmith.arith import simplify
from tensorsmith.ir import Const, Expr, IRModule, as_expr, as_exprs, free_vars, substitute
from tensorsmith.ir.graph import Apply, Binding, Body, Branch, GraphFunction, Loop
from tensorsmith.ops.winograd import POINTS, TAPS, TOGETHER

LIKELY: Final = 320
"""The height or width of an input of which only the call tells it."""
FEWEST_CHANNELS: Final = 32
"""Channels before and after, below which the maps cost as much as the products that they save."""
SUMS: Final = 32.0
"""Multiply-adds a cycle, of the machine that the other costs are of."""
SHARE: Final = 0.85
"""The part of that which sums reach, plain ones and those at points."""
MAP_CYCLES: Final = 0.2
"""Cycles to map a tile of one channel, for each point."""
KERNEL_CYCLES: Final = 0.8
"""Cycles to read one number of a kernel."""
LEAST_GAIN: Final = 1.1
"""How many times as fast it has to be to be chosen."""


def choose_minimal_filtering(module: IRModule) -> IRModule:
    """Have convolutions on blocks of channels computed by minimal filtering where that is faster.

    Before: any graph functions. After: the same, where some `blocked_conv` are `winograd_conv`: see
    `tensorsmith.ops.winograd`. Results differ by rounding. Gives `module` itself if there are none.
    """
    graphs = {name: _function(graph) for name, graph in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


def _function(graph: GraphFunction) -> GraphFunction:
    body = _bindings(graph.body)
    return graph if body is graph.body else replace(graph, body=body)


def _bindings(given: tuple[Binding, ...]) -> tuple[Binding, ...]:
    made = tuple(map(_binding, given))
    return given if all(a is b for a, b in zip(made, given, strict=True)) else made


def _binding(b: Binding) -> Binding:
    if isinstance(b, Apply):
        tile = best_tile(b)
        return b if tile is None else _filtered(b, tile)
    if isinstance(b, Branch):
        then, orelse = _body(b.then), _body(b.orelse)
        same = then is b.then and orelse is b.orelse
        return b if same else replace(b, then=then, orelse=orelse)
    if isinstance(b, Loop):
        body = _body(b.body)
        return b if body is b.body else replace(b, body=body)
    return b


def _body(body: Body) -> Body:
    bindings = _bindings(body.bindings)
    return body if bindings is body.bindings else replace(body, bindings=bindings)


def _filtered(apply: Apply, tile: int) -> Apply:
    """The convolution by minimal filtering in tiles of so many results."""
    attrs = {"block": apply.attrs["block"], "tile": tile}
    if "pads" in apply.attrs:
        attrs["pads"] = apply.attrs["pads"]
    return replace(apply, op="winograd_conv", attrs=MappingProxyType(attrs))


def operations_as_written(apply: Apply) -> int | None:
    """The operations for each element of the result that a convolution by minimal filtering stands
    for: those of the plain sum. None for any other operator, which is computed as it is written."""
    weight = apply.operands[1] if apply.op == "winograd_conv" else None
    if weight is None or not isinstance(depth := weight.shape[1], Const):
        return None
    return 2 * TAPS**2 * int(depth.value)


# --- Whether it pays -------------------------------------------------------------------------


def best_tile(apply: Apply) -> int | None:
    """The tile for which a convolution is the fastest by minimal filtering; None where the plain
    sums are faster, or where it is none that this computes."""
    if not _is_taken(apply):
        return None
    _, weight = apply.operands[:2]
    assert weight is not None
    made, depth = (int(e.value) for e in weight.shape[:2] if isinstance(e, Const))
    (result,) = apply.results
    batch, _, *extents, _ = result.shape
    image = [_likely(e) for e in extents]
    if min(image) <= min(POINTS):
        return None
    count = int(batch.value) if isinstance(batch, Const) else 1
    together = 1 if isinstance(extents[-1], Const) else TOGETHER
    plain = _direct_time(count, image, depth, made)
    times = {tile: _time(count, image, (depth, made), (tile, together)) for tile in POINTS}
    best = min(times, key=lambda tile: times[tile])
    return best if times[best] * LEAST_GAIN <= plain else None


def _is_taken(apply: Apply) -> bool:
    """Whether an operator is a convolution of blocks, of three by three taps side by side."""
    if apply.op != "blocked_conv" or any(o is None for o in apply.operands):
        return False
    x, weight = apply.operands[:2]
    attrs: Mapping[str, Any] = apply.attrs
    block, (result,) = attrs["block"], apply.results
    if x is None or weight is None or x.rank != 5 or not block or attrs.get("groups", 1) != 1:
        return False
    if result.dtype.name != "float32":
        return False
    sizes = [int(e.value) for e in weight.shape if isinstance(e, Const)]
    steps = as_exprs((*attrs.get("strides", ()), *attrs.get("dilations", ())))
    if any(not isinstance(e, Const) or e.value != 1 for e in steps):
        return False
    last = x.shape[-1]
    lanes = int(last.value) if isinstance(last, Const) else 0
    is_square = len(sizes) == 4 and sizes[2:] == [TAPS, TAPS]
    return (
        is_square
        and min(sizes[:2]) >= FEWEST_CHANNELS
        and lanes > 1
        and sizes[1] > lanes
        and sizes[0] > int(block)
    )


def _likely(extent: Expr) -> int:
    """An extent where each that only the call tells is `LIKELY`."""
    sizes: dict[Expr, Expr] = {v: as_expr(LIKELY) for v in free_vars(extent)}
    size = simplify(substitute(extent, sizes))
    return int(size.value) if isinstance(size, Const) else LIKELY


def _direct_time(batch: int, image: Sequence[int], depth: int, made: int) -> float:
    """Cycles of the plain sums."""
    sums = batch * prod(image) * TAPS**2 * depth * made
    return sums / (SUMS * SHARE) + TAPS**2 * depth * made * KERNEL_CYCLES


def _time(
    batch: int, image: Sequence[int], channels: tuple[int, int], tiles: tuple[int, int]
) -> float:
    """Cycles by minimal filtering. tiles: results of one along a dimension, and how many of them
    are always computed side by side."""
    (depth, made), (tile, together) = channels, tiles
    points = (tile + TAPS - 1) ** 2
    down, along = (-(-e // tile) for e in image)
    count = batch * down * -(-along // together) * together
    products = count * points * depth * made / (SUMS * SHARE)
    maps = count * points * (depth + made) * MAP_CYCLES
    return products + maps + points * depth * made * KERNEL_CYCLES
