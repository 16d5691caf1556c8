"""Images get their channels in blocks where convolutions are the faster for it.

A convolution that makes a block of channels at once stores whole vectors, whatever the extents of
the image are, and reads what another has made as it lies. So from one convolution to the next,
images stay (n, c / b, *image, b), and only where something else reads them they are put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.graph.blocks import CONVOLUTIONS, Blocks, Convolution
from tensorsmith.graph.following import CHANNELS, Follow, channels, is_point
from tensorsmith.graph.kernel import Array, Operators
from tensorsmith.graph.regions import Regions, elements, moved_elements
from tensorsmith.graph.substitution import Substitution
from tensorsmith.ir import Buffer, Const, Expr, IRModule, as_expr
from tensorsmith.ir.graph import (
    Apply,
    Binding,
    Body,
    Branch,
    Constant,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
)
from tensorsmith.ir.graph_text import all_bindings
from tensorsmith.ops import OPERATORS
from tensorsmith.ops.operator import placeholders, result_types
from tensorsmith.ops.requirements import collecting


def choose_layouts(module: IRModule, *, operators: Operators = OPERATORS) -> IRModule:
    """Have images in blocks of channels between convolutions by known weights.

    Before: any graph functions. After: the same results, but for the order of sums. Convolutions
    are `blocked_conv` whose result has its channels in blocks of 16 or 8 (see
    `tensorsmith.ops.channels`), or that only read such, and what follows them computes on blocks;
    `reshape` and `transpose` put images in blocks and back, once for all that read them so.
    Convolutions that are not worth what it costs to put their images in blocks and back stay as
    they are: see `tensorsmith.graph.regions`. Gives `module` itself if there are none that are.
    """
    graphs = {name: _function(graph, operators) for name, graph in module.graphs.items()}
    if all(graphs[name] is graph for name, graph in module.graphs.items()):
        return module
    return replace(module, functions={**module.functions, **graphs})


@dataclass(frozen=True, slots=True)
class LayoutReport:
    """What `choose_layouts` made of a function.

    convolutions: those that make blocks of channels. divided, put_back: images that are put in
    blocks, and back.
    """

    convolutions: int
    divided: int
    put_back: int


def layout_report(graph: GraphFunction) -> LayoutReport:
    """How many convolutions and moves of images there are after `choose_layouts`."""
    found = [b for b in all_bindings(graph.body) if isinstance(b, Apply)]
    made = sum(b.attrs.get("block", 0) != 0 for b in found if b.op in CONVOLUTIONS.values())
    moves = [b.attrs["axes"] for b in found if b.op == "transpose" and not b.sources]
    divided = sum(axes == _axes_to_divide(len(axes)) for axes in moves if isinstance(axes, tuple))
    return LayoutReport(made, divided, len(moves) - divided)


def _axes_to_divide(rank: int) -> tuple[int, ...]:
    """The axes of (n, c / b, b, *image) in the order of blocks."""
    return (0, CHANNELS, *range(3, rank), 2)


def _function(graph: GraphFunction, operators: Operators) -> GraphFunction:
    blocks = Blocks(operators)
    blocks.learn(graph.body)
    while blocks.convolutions:
        walk = _Walk(operators, blocks)
        made = walk.function(graph)
        poor = walk.regions.poor()
        if not poor:
            return made if walk.has_blocks else graph
        for apply in poor:
            del blocks.convolutions[apply]
    return graph


@dataclass(slots=True)
class _Scope:
    """What there is of each value at a place.

    blocked: the value in blocks. only: those that are there in no other form. aligned: operands
    that are broadcast to blocks, by the rank and the blocks.
    """

    blocked: dict[Value, Buffer] = field(default_factory=dict)
    only: set[Value] = field(default_factory=set)
    aligned: dict[tuple[Value, int, int], Buffer] = field(default_factory=dict)
    plain: dict[Value, Value] = field(default_factory=dict)

    def inner(self) -> _Scope:
        """A scope that begins with the same."""
        return _Scope(dict(self.blocked), set(self.only), dict(self.aligned), dict(self.plain))


class _Walk:
    """A walk over the bindings of a function, in order."""

    def __init__(self, operators: Operators, blocks: Blocks) -> None:
        self.operators = operators
        self.blocks = blocks
        self.regions = Regions()
        self.constants: dict[Value, Array] = {}
        self.replaced = Substitution()
        self.scope = _Scope()
        self.replaced.values = self.scope.plain
        self.made: list[Binding] = []
        self.facts = Analyzer()
        self.has_blocks = False

    def function(self, graph: GraphFunction) -> GraphFunction:
        self.sequence(graph.body)
        results = tuple(map(self.plain, graph.results))
        return replace(graph, body=tuple(self.made), results=results)

    def sequence(self, bindings: Iterable[Binding]) -> None:
        for b in bindings:
            self.binding(b)

    def binding(self, b: Binding) -> None:
        """Append what stands for `b`."""
        if isinstance(b, Apply):
            conv = self.blocks.convolutions.get(b)
            if conv is not None and self.blocks.of(b.results[0]):
                self.convolution(b, conv)
                return
            if conv is not None and b.operands[0] in self.scope.only:
                self.last_convolution(b)
                return
            follow = self.blocks.follows.get(b)
            if follow is not None and self.follows(follow):
                self.follow(b, follow)
                return
        if isinstance(b, MatchShape) and b.operand in self.scope.only:
            size = self.blocks.of(b.result)
            if size and size == self.blocks.of(b.operand):
                self.match(b, size)
                return
        if isinstance(b, Constant):
            self.constants[b.result] = b.data
        for value in b.inputs:
            self.plain(value)
        if isinstance(b, Branch):
            b = replace(b, then=self.body(b.then), orelse=self.body(b.orelse))
        elif isinstance(b, Loop):
            b = replace(b, body=self.body(b.body))
        self.made.append(self.replaced.binding(b))

    def body(self, body: Body) -> Body:
        """A body; what it makes of values outside stays inside."""
        scope, bindings = self.scope, self.made
        self.scope, self.made = scope.inner(), []
        self.replaced.values = self.scope.plain
        self.sequence(body.bindings)
        results = tuple(map(self.plain, body.results))
        made = replace(body, bindings=tuple(self.made), results=results)
        self.scope, self.made = scope, bindings
        self.replaced.values = scope.plain
        return made

    # --- Operators ---------------------------------------------------------------------------

    def convolution(self, apply: Apply, conv: Convolution) -> None:
        """A convolution whose result is in blocks."""
        x, (result,) = apply.operands[0], apply.results
        assert x is not None
        given = self.in_blocks(x) if self.reads_blocks(x, conv) else self.plain(x)
        assert isinstance(given, Buffer)
        self.give(result, self.convolved(apply, given, self.blocks.of(result)))
        region = self.regions.join([v for v in (x, result) if v in self.scope.blocked])
        region.convolutions.append(apply)
        region.work += conv.flops * elements(result)

    def reads_blocks(self, x: Buffer, conv: Convolution) -> bool:
        """Whether a convolution is to read an image in blocks: if it can, and nothing has to be
        padded for it."""
        if x in self.scope.blocked or conv.is_depthwise:
            return True
        return self.blocks.of(x) > 0 and self.blocks.padded(x) == channels(x)

    def last_convolution(self, apply: Apply) -> None:
        """A convolution that reads blocks, of whose own channels there are no blocks."""
        x, (result,) = apply.operands[0], apply.results
        assert x is not None
        self.scope.plain[result] = self.convolved(apply, self.in_blocks(x), 0)

    def convolved(self, apply: Apply, given: Buffer, size: int) -> Buffer:
        """A convolution of `given` that makes blocks of `size`."""
        x, weight, *rest = apply.operands
        (result,) = apply.results
        assert x is not None
        assert weight is not None
        read = self.blocks.padded(x) if given.rank > x.rank else channels(x)
        made = self.blocks.padded(result) if size else channels(result)
        attrs = {**apply.attrs, "block": size}
        more = {"in": read - channels(x), "out": made - channels(result)}
        axes = ("out", "in") if apply.op == "conv" else ("in", "out")
        conv = self.blocks.convolutions[apply]
        if conv.is_depthwise:
            attrs["groups"], more["in"] = made, 0
        operands = [self.padded(weight, axes, more)]
        operands += [self.padded(o, ("out",), more) for o in rest if o is not None]
        op, name = CONVOLUTIONS[apply.op], result.name
        return self.apply(op, (given, *operands), attrs, name, apply)

    def padded(self, value: Buffer, axes: Sequence[str], more: Mapping[str, int]) -> Value:
        """A weight or bias with more channels: zeros for what is read and nothing depends on, the
        last one again for what is made."""
        if not any(more[a] for a in axes):
            return self.plain(value)
        data = self.constants[value]
        for d, axis in enumerate(axes):
            around = [(0, more[axis] if k == d else 0) for k in range(data.ndim)]
            data = np.pad(data, around, mode="constant" if axis == "in" else "edge")
        return self.constant(data, value)

    def follows(self, follow: Follow) -> bool:
        """Whether an operator is to follow: it reads blocks of more than one point."""
        return any(v in self.scope.blocked and not is_point(v) for v in follow.images[:-1])

    def follow(self, apply: Apply, follow: Follow) -> None:
        """An operator on blocks."""
        (result,) = apply.results
        size = self.blocks.of(result)
        operands: list[Value | None] = []
        for place, o in enumerate(apply.operands):
            if o is None or place in follow.plain:
                operands.append(None if o is None else self.plain(o))
            elif o in follow.images:
                operands.append(self.in_blocks(o))
            else:
                operands.append(self.aligned(o, result.rank, size))
        made = self.apply(apply.op, operands, follow.attrs(size), result.name, apply)
        self.give(result, made)
        self.regions.join(v for v in follow.images if not is_point(v))

    def match(self, b: MatchShape, size: int) -> None:
        """Another view of the shape of blocks."""
        count = as_expr(self.blocks.padded(b.result) // size)
        shape = (b.result.shape[0], count, *b.result.shape[2:], as_expr(size))
        made = Buffer(b.result.name, shape, b.result.dtype)
        operand = self.scope.blocked[b.operand]
        self.made.append(MatchShape(made, operand, sources=b.sources, span=b.span))
        self.give(b.result, made)
        self.regions.join((b.operand, b.result))

    def give(self, result: Buffer, made: Buffer) -> None:
        """Let `made` be a value in blocks, which is there in no other form."""
        self.scope.blocked[result] = made
        self.scope.only.add(result)

    def apply(
        self,
        op: str,
        operands: Sequence[Value | None],
        attrs: Mapping[str, Any],
        name: str,
        origin: Apply | None = None,
    ) -> Buffer:
        """A new operator with one result."""
        self.has_blocks = True
        tensors = [o if isinstance(o, Buffer) else None for o in operands]
        with collecting():  # what it requires was checked for the operator that it stands for
            results = self.operators[op](placeholders(tensors), attrs)
        values = result_types(results, (name,), self.facts)
        kept = MappingProxyType(dict(attrs))
        sources = origin.sources if origin is not None else ()
        span = origin.span if origin is not None else None
        self.made.append(Apply(values, op, tuple(tensors), kept, sources=sources, span=span))
        return values[0]

    # --- Forms of values ---------------------------------------------------------------------

    def plain(self, value: Value) -> Value:
        """The value with its channels on an axis of their own."""
        if value in self.scope.only:
            assert isinstance(value, Buffer)
            self.scope.only.discard(value)
            self.scope.plain[value] = self.put_back(value, self.scope.blocked[value])
            self.regions.join((value,)).moved += moved_elements(value)
        return self.replaced.value(value)

    def put_back(self, value: Buffer, blocked: Buffer) -> Buffer:
        """The plain form of what is in blocks."""
        last, count = blocked.rank - 1, channels(value)
        if not is_point(value):
            axes = (0, CHANNELS, last, *range(2, last))
            blocked = self.apply("transpose", (blocked,), {"axes": axes}, value.name)
        whole = (value.shape[0], as_expr(self.blocks.padded(value)), *value.shape[2:])
        made = self.apply("reshape", (blocked,), {"shape": whole}, value.name)
        if self.blocks.padded(value) == count:
            return made
        attrs = {"starts": (0,), "extents": (count,), "axes": (CHANNELS,)}
        return self.apply("slice", (made,), attrs, value.name)

    def in_blocks(self, value: Value) -> Buffer:
        """The value with its channels in blocks."""
        assert isinstance(value, Buffer)
        found = self.scope.blocked.get(value)
        if found is None:
            size = self.blocks.of(value)
            if value in self.constants:
                found = self.divided_data(value, value.rank, size)
            else:
                found = self.divided(value, value.shape, size)
                self.regions.join((value,)).moved += moved_elements(value)
            self.scope.blocked[value] = found
        return found

    def divided(self, value: Buffer, shape: Sequence[Expr], size: int) -> Buffer:
        """A plain value, by a shape of as many elements, in blocks."""
        axes = _axes_to_divide(len(shape) + 1)
        operand = self.plain(value)
        extent = shape[CHANNELS]
        assert isinstance(extent, Const)
        given = int(extent.value)
        count = -(-given // size)
        if count * size > given:
            operand = self.apply("reshape", (operand,), {"shape": tuple(shape)}, value.name)
            zeros = (0,) * len(shape)
            after = (0, count * size - given, *zeros[2:])
            attrs = {"before": zeros, "after": after, "mode": "edge"}
            operand = self.apply("pad", (operand,), attrs, value.name)
        parts = (shape[0], as_expr(count), as_expr(size), *shape[2:])
        if all(_is_one(e) for e in shape[2:]):
            whole = (shape[0], as_expr(count), *shape[2:], as_expr(size))
            return self.apply("reshape", (operand,), {"shape": whole}, value.name)
        apart = self.apply("reshape", (operand,), {"shape": parts}, value.name)
        return self.apply("transpose", (apart,), {"axes": axes}, value.name)

    def divided_data(self, value: Buffer, rank: int, size: int) -> Buffer:
        """A constant that is broadcast to images of `rank`, in blocks."""
        data = self.constants[value]
        whole = data.reshape((1,) * (rank - data.ndim) + data.shape)
        more = -whole.shape[CHANNELS] % size
        whole = np.pad(whole, [(0, more if d == CHANNELS else 0) for d in range(rank)], mode="edge")
        n, c, *image = whole.shape
        return self.constant(np.moveaxis(whole.reshape((n, c // size, size, *image)), 2, -1), value)

    def aligned(self, value: Value, rank: int, size: int) -> Buffer:
        """An operand that is broadcast to images of `rank`, in blocks of `size` where they are."""
        assert isinstance(value, Buffer)
        key = (value, rank, size)
        found = self.scope.aligned.get(key)
        if found is None:
            found = self.scope.aligned[key] = self.broadcast(value, rank, size)
        return found

    def broadcast(self, value: Buffer, rank: int, size: int) -> Buffer:
        """As `aligned`, made anew."""
        if all(map(_is_one, value.shape)):
            plain = self.plain(value)
            assert isinstance(plain, Buffer)
            return plain
        whole = (*(as_expr(1),) * (rank - value.rank), *value.shape)
        data = self.constants.get(value)
        if _is_one(whole[CHANNELS]):
            shape = (*value.shape, as_expr(1))
            if data is not None:
                return self.constant(data.reshape((*data.shape, 1)), value)
            return self.apply("reshape", (self.plain(value),), {"shape": shape}, value.name)
        if data is None:
            return self.divided(value, whole, size)
        return self.divided_data(value, rank, size)

    def constant(self, data: Array, origin: Buffer) -> Buffer:
        """A new constant, of the elements of another."""
        value = Buffer(origin.name, data.shape, origin.dtype)
        self.made.append(Constant(value, np.ascontiguousarray(data)))
        self.constants[value] = data
        return value


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, Const) and extent.value == 1
