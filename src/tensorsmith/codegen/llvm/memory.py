"""Addresses, loads, stores and allocations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tensorsmith.arith.polynomial import constant
from tensorsmith.arith.prove import split
from tensorsmith.codegen.llvm import casts
from tensorsmith.codegen.llvm.expressions import Lanes
from tensorsmith.codegen.llvm.runtime_calls import GIVE, TAKE
from tensorsmith.codegen.llvm.transpose import Column, Tiles
from tensorsmith.codegen.llvm.types import memory_type, suffix, vector
from tensorsmith.codegen.strides import dense_strides
from tensorsmith.errors import CodegenError, Span
from tensorsmith.ir import (
    And,
    Buffer,
    Const,
    Expr,
    Le,
    Load,
    Lt,
    Store,
    View,
    as_expr,
    equal,
    free_vars,
    substitute,
)

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function

STACK_BYTES: Final = 16 * 1024
"""Local buffers up to this size lie on the stack; larger ones come from the context's memory."""
ALIGN: Final = 64
"""Bytes that divide the address of every buffer that we allocate."""
SPREAD: Final = 2
"""Elements from lane to lane up to which loads of all that lies between are cheaper."""
NOWHERE: Final = "@ts_nowhere = private unnamed_addr constant [16 x i8] zeroinitializer, align 16"
"""What a load takes its 0 from that must not be done."""
ONE_NODE: Final = 0
"""The number of the metadata node that holds a 1."""


@dataclass(slots=True)
class Place:
    """Where a buffer lies: a pointer to its first element, and the depth at which that is known.

    align: bytes that divide the pointer, as far as is known.
    """

    pointer: str
    depth: int
    align: int = 1


class Lane(NamedTuple):
    """How the elements of one vector access lie: `offset` of lane 0, and elements between lanes
    (None: anywhere; `offset` then varies by lane)."""

    offset: Expr
    stride: int | None


class Memory:
    """The memory accesses of one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.text = function.text
        self.tiles = Tiles(function.text)

    # --- Addresses ---------------------------------------------------------------------------

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """Elements from the buffer's base to the one at `indices`."""
        if buffer.layout is not None:
            indices = buffer.layout(*indices)
            shape = self.layout_shape(buffer)
        else:
            shape = buffer.shape
        strides = buffer.strides if buffer.strides is not None else dense_strides(shape)
        total = as_expr(0)
        for i, stride in zip(indices, strides, strict=True):
            total = total + i * stride
        return self.function.facts.simplify(total)

    def layout_shape(self, buffer: Buffer) -> tuple[Expr, ...]:
        """The shape of the array that a layout maps into."""
        from tensorsmith.arith.index_map import map_shape

        assert buffer.layout is not None
        return map_shape(buffer.layout, buffer.shape)

    def address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The pointer to the element at `indices`, the same in all lanes."""
        return self.pointer(buffer, self.offset(buffer, indices))

    def pointer(self, buffer: Buffer, offset: Expr) -> str:
        """The pointer to the element at `offset`; its invariant part is computed outside of the
        loops that it does not depend on."""
        place = self.function.place(buffer)
        base = place.pointer
        element = memory_type(buffer.dtype)
        if type(offset) is Const:
            if offset.value == 0:
                return base
            return self.text.value(f"getelementptr {element}, ptr {base}, i64 {offset.value}")
        moving, fixed = self.split_constant(offset)
        value = self.function.expressions.value(moving).text
        pointer = self.step(element, place, moving, value)
        if fixed:
            pointer = self.text.value(f"getelementptr {element}, ptr {pointer}, i64 {fixed}")
        return pointer

    def step(self, element: str, place: Place, moving: Expr, value: str) -> str:
        """``base + value``, computed where both are known first, and kept there."""
        expressions, base = self.function.expressions, place.pointer
        depth = min(max(expressions.depth_of(moving), place.depth), self.text.depth)
        cache = self.text.scopes[depth].cache
        key = ("pointer", base, element, moving)
        if key not in cache:
            pointer = expressions.emit(f"getelementptr {element}, ptr {base}, i64 {value}", depth)
            if expressions.depth_of(moving) > self.text.depth:
                return pointer
            cache[key] = (pointer, 1)
        return cache[key][0]

    def split_constant(self, offset: Expr) -> tuple[Expr, int]:
        """The offset without its constant, and that: many accesses then share one address."""
        p = self.function.facts.polynomial(offset)
        fixed = p.get((), 0)
        if not fixed:
            return offset, 0
        return self.function.facts.simplify(offset - fixed), fixed

    def lane(self, offset: Expr) -> Lane | None:
        """How an access at `offset` lies in the lanes of the loop; None if all lanes share it."""
        loop = self.function.loop
        if loop is None or self.function.expressions.lanes_of(offset) == 1:
            return None
        p = self.function.facts.polynomial(offset)
        step, rest = split(p, loop.var)
        varying = self.function.vector_vars
        rest_expr = self.function.facts.from_polynomial(rest)
        stride = constant(step)
        if stride is None or any(v in varying for v in free_vars(rest_expr)):
            return Lane(offset, None)
        start = self.function.facts.simplify(rest_expr + loop.start * stride)
        return Lane(start, stride)

    def alignment(self, buffer: Buffer, offset: Expr) -> int:
        """Bytes that surely divide the address of the element at `offset`."""
        element = buffer.dtype.element.bytes
        known = self.function.facts.congruence(offset)
        step = math.gcd(known.modulus, known.residue) * element
        base = max(self.function.place(buffer).align, element)
        return math.gcd(base, step) if step else base

    # --- Loads -------------------------------------------------------------------------------

    def load(self, e: Load) -> Lanes:
        """The loaded element(s)."""
        buffer = e.buffer
        self.function.check_bounds(buffer, e.indices)
        offset = self.offset(buffer, e.indices)
        lane = self.lane(offset)
        if lane is None:
            return Lanes(self.load_one(buffer, offset, runs=self.only_if(e)), 1)
        loop = self.function.loop
        assert loop is not None
        lanes = loop.lanes
        element = memory_type(buffer.dtype)
        column = self.from_tile(buffer, lane, element, lanes)
        if column is not None:
            raw = column
        elif lane.stride == 1:
            raw = self.load_contiguous(buffer, lane.offset, element, lanes, mask=self.function.mask)
        elif lane.stride == SPREAD and lanes > 1:
            raw = self.load_every_second(buffer, lane.offset, element, lanes)
        else:
            raw = self.gather(buffer, offset, lane, element, lanes)
        module = self.function.module
        return Lanes(casts.from_memory(module, self.text.value, buffer.dtype, raw, lanes), lanes)

    def from_tile(self, buffer: Buffer, lane: Lane, element: str, lanes: int) -> str | None:
        """Elements across the rows of a tile that are in registers; None if they are not such."""
        if lane.stride == 1 or buffer not in self.tiles.rows:
            return None
        if lane.stride is None:
            places = self.places(lane.offset, lanes)
            return None if places is None else self.tiles.interleave(buffer, places, element)
        if type(lane.offset) is not Const:
            return None
        column = Column(int(lane.offset.value), lane.stride, lanes)
        return self.tiles.load(buffer, column, element, buffer.dtype.element.bytes)

    def places(self, offset: Expr, lanes: int) -> list[int] | None:
        """The offset in each lane, if that is all that it depends on."""
        loop = self.function.loop
        assert loop is not None
        if free_vars(offset) != (loop.var,) or type(loop.start) is not Const:
            return None
        first = int(loop.start.value)
        found = [
            self.function.facts.simplify(substitute(offset, {loop.var: as_expr(first + k)}))
            for k in range(lanes)
        ]
        places = [int(e.value) for e in found if type(e) is Const]
        return places if len(places) == lanes else None

    def only_if(self, e: Load) -> str | None:
        """Whether the lanes that run, of which there may be none, are all that keeps a load inside
        of its buffer: then whether any does."""
        if self.function.mask is None:
            return None
        inside = all(
            self.function.facts.prove(And(Le(as_expr(0), i), Lt(i, size))) is True
            for i, size in zip(e.indices, e.buffer.shape, strict=True)
        )
        return None if inside else self.function.expressions.some_lane()

    def load_one(self, buffer: Buffer, offset: Expr, *, runs: str | None = None) -> str:
        """A load that is the same in all lanes. runs: a condition without which it gives 0."""
        pointer = self.pointer(buffer, offset)
        if runs is not None:
            self.function.module.declare(NOWHERE)
            pointer = self.text.value(f"select i1 {runs}, ptr {pointer}, ptr @ts_nowhere")
        element = memory_type(buffer.dtype)
        raw = self.text.value(
            f"load {element}, ptr {pointer}, align {buffer.dtype.element.bytes}{self.alias(buffer)}"
        )
        return casts.from_memory(self.function.module, self.text.value, buffer.dtype, raw, 1)

    def load_every_second(self, buffer: Buffer, offset: Expr, element: str, lanes: int) -> str:
        """Every second of some neighbours, from two loads of all of these: much cheaper than a load
        for each lane. The last lane is the last element that is loaded."""
        emit, mask = self.text.value, self.function.mask
        type_, masks = vector(element, lanes), vector("i1", lanes)
        parts = []
        for first in (0, lanes - 1):
            own = None
            if mask is not None:
                kept = _places(
                    (first + k) // SPREAD if (first + k) % SPREAD == 0 else lanes
                    for k in range(lanes)
                )
                own = emit(
                    f"shufflevector {masks} {mask}, {masks} zeroinitializer,"
                    f" {vector('i32', lanes)} <{kept}>"
                )
            place = self.function.facts.simplify(offset + first)
            parts.append(self.load_contiguous(buffer, place, element, lanes, mask=own))
        low, high = parts
        chosen = _places(SPREAD * k if SPREAD * k < lanes else SPREAD * k + 1 for k in range(lanes))
        return emit(
            f"shufflevector {type_} {low}, {type_} {high}, {vector('i32', lanes)} <{chosen}>"
        )

    def load_contiguous(
        self, buffer: Buffer, offset: Expr, element: str, lanes: int, *, mask: str | None
    ) -> str:
        """A load of neighbours into the lanes of a vector, under the mask."""
        pointer = self.pointer(buffer, offset)
        type_ = vector(element, lanes)
        align = self.alignment(buffer, offset)
        if mask is None:
            return self.text.value(
                f"load {type_}, ptr {pointer}, align {align}{self.alias(buffer)}"
            )
        name = f"llvm.masked.load.{suffix(element, lanes)}.p0"
        mask_type = vector("i1", lanes)
        self.function.module.declare(f"declare {type_} @{name}(ptr, {mask_type}, {type_})")
        return self.text.value(
            f"call {type_} @{name}(ptr align {align} {pointer}, {mask_type} {mask},"
            f" {type_} zeroinitializer)"
        )

    def gather(self, buffer: Buffer, offset: Expr, lane: Lane, element: str, lanes: int) -> str:
        """A load from a place of its own for each lane."""
        pointers = self.lane_pointers(buffer, offset, lane, element, lanes)
        type_, mask_type = vector(element, lanes), vector("i1", lanes)
        mask = self.function.mask or "splat (i1 true)"
        name = f"llvm.masked.gather.{suffix(element, lanes)}.v{lanes}p0"
        pointer_type = vector("ptr", lanes)
        self.function.module.declare(
            f"declare {type_} @{name}({pointer_type}, {mask_type}, {type_})"
        )
        return self.text.value(
            f"call {type_} @{name}({pointer_type} align {buffer.dtype.element.bytes} {pointers},"
            f" {mask_type} {mask}, {type_} zeroinitializer)"
        )

    def lane_pointers(
        self, buffer: Buffer, offset: Expr, lane: Lane, element: str, lanes: int
    ) -> str:
        """The pointers of all lanes."""
        if lane.stride is not None:
            base = self.pointer(buffer, lane.offset)
            steps = ", ".join(f"i64 {k * lane.stride}" for k in range(lanes))
            return self.text.value(
                f"getelementptr {element}, ptr {base}, {vector('i64', lanes)} <{steps}>"
            )
        base = self.function.place(buffer).pointer
        value = self.function.expressions.value(offset)
        offsets = self.function.expressions.spread(value, offset.dtype, lanes)
        return self.text.value(
            f"getelementptr {element}, ptr {base}, {vector('i64', lanes)} {offsets}"
        )

    # --- Stores ------------------------------------------------------------------------------

    def store(self, s: Store) -> None:
        """Store the value of a `Store`."""
        buffer = s.buffer
        value = self.function.expressions.value(s.value)
        self.function.check_bounds(buffer, s.indices)
        offset = self.offset(buffer, s.indices)
        lane = self.lane(offset)
        if lane is None:
            self.store_one(buffer, offset, value, s.span)
            return
        loop = self.function.loop
        assert loop is not None
        lanes = loop.lanes
        plain = lane.stride == 1 and self.function.mask is None
        if not plain or type(lane.offset) is not Const:
            self.tiles.forget(buffer)
        spread = self.function.expressions.spread(value, buffer.dtype, lanes)
        raw = casts.to_memory(self.function.module, self.text.value, buffer.dtype, spread, lanes)
        element = memory_type(buffer.dtype)
        if lane.stride == 1:
            self.store_contiguous(buffer, lane.offset, raw, element, lanes)
        else:
            self.scatter(buffer, offset, lane, raw, element, lanes)

    def store_one(self, buffer: Buffer, offset: Expr, value: Lanes, span: Span | None) -> None:
        """A store that is the same in all lanes that run."""
        text = self.text
        self.tiles.forget(buffer)
        if value.lanes > 1:
            raise CodegenError(
                f"lanes of a vectorised loop all store to one element of {buffer.name!r}",
                where=span,
                try_="a serial loop",
            )
        raw = casts.to_memory(self.function.module, text.value, buffer.dtype, value.text, 1)
        pointer = self.pointer(buffer, offset)
        element = memory_type(buffer.dtype)
        some = self.function.expressions.some_lane()
        align = buffer.dtype.element.bytes
        line = f"store {element} {raw}, ptr {pointer}, align {align}{self.alias(buffer)}"
        if some is None:
            text.line(line)
            return
        # The same value to the same place from all lanes that run: once, if any does.
        yes, after = text.name("some"), text.name("after")
        text.line(f"br i1 {some}, label %{yes}, label %{after}")
        text.begin(yes)
        text.line(line)
        text.line(f"br label %{after}")
        text.begin(after)

    def store_contiguous(
        self, buffer: Buffer, offset: Expr, raw: str, element: str, lanes: int
    ) -> None:
        """A store of the lanes of a vector to neighbours, under the mask."""
        pointer = self.pointer(buffer, offset)
        type_ = vector(element, lanes)
        align = self.alignment(buffer, offset)
        mask = self.function.mask
        if mask is None:
            if type(offset) is Const:
                self.tiles.store(buffer, int(offset.value), raw, lanes)
            past = self.past_caches(lanes * buffer.dtype.element.bytes, align)
            self.text.line(
                f"store {type_} {raw}, ptr {pointer}, align {align}{past}{self.alias(buffer)}"
            )
            return
        name = f"llvm.masked.store.{suffix(element, lanes)}.p0"
        mask_type = vector("i1", lanes)
        self.function.module.declare(f"declare void @{name}({type_}, ptr, {mask_type})")
        self.text.line(
            f"call void @{name}({type_} {raw}, ptr align {align} {pointer}, {mask_type} {mask})"
        )

    def past_caches(self, size: int, align: int) -> str:
        """What tells LLVM to store past the caches, where that is asked for and the vectors of the
        machine are aligned."""
        function = self.function
        if not function.nontemporal or align < min(size, function.module.target.vector_bytes):
            return ""
        function.has_nontemporal = True
        return f", !nontemporal !{ONE_NODE}"

    def scatter(
        self, buffer: Buffer, offset: Expr, lane: Lane, raw: str, element: str, lanes: int
    ) -> None:
        """A store to a place of its own for each lane."""
        pointers = self.lane_pointers(buffer, offset, lane, element, lanes)
        type_, mask_type = vector(element, lanes), vector("i1", lanes)
        pointer_type = vector("ptr", lanes)
        mask = self.function.mask or "splat (i1 true)"
        name = f"llvm.masked.scatter.{suffix(element, lanes)}.v{lanes}p0"
        self.function.module.declare(f"declare void @{name}({type_}, {pointer_type}, {mask_type})")
        self.text.line(
            f"call void @{name}({type_} {raw}, {pointer_type} align"
            f" {buffer.dtype.element.bytes} {pointers}, {mask_type} {mask})"
        )

    def alias(self, buffer: Buffer) -> str:
        """What tells LLVM that accesses to different buffers do not overlap."""
        return self.function.module.alias_metadata(buffer)

    # --- Allocations -------------------------------------------------------------------------

    def allocate(self, buffer: Buffer, span: Span | None) -> None:
        """Give `buffer` its memory: on the stack if it is small, else from the heap."""
        size = self._bytes(buffer)
        name = f"%{self.text.name('local')}"
        if not self.is_on_heap(buffer):
            assert isinstance(size, Const)
            bytes_ = max(int(size.value), 1)
            self.function.allocas.append(f"  {name} = alloca [{bytes_} x i8], align {ALIGN}")
            self.function.stack.add(name)
            self.place(buffer, Place(name, 0, ALIGN))
            return
        value = self.function.expressions.value(size).text
        self.function.module.declare(TAKE)
        self.function.module.declare(GIVE)
        pointer = self.text.value(f"call ptr @ts_take(ptr %ctx, i64 {value})")
        got = self.text.value(f"icmp ne ptr {pointer}, null")
        message = f"no memory for {buffer.name!r}"
        self.function.fail_unless(got, self.function.module.message(message, span))
        self.function.heap.append(pointer)
        self.place(buffer, Place(pointer, self.text.depth, ALIGN))

    def is_on_heap(self, buffer: Buffer) -> bool:
        """Whether a buffer is too large for the stack, or may be."""
        size = self._bytes(buffer)
        return not (isinstance(size, Const) and size.value <= STACK_BYTES)

    def _bytes(self, buffer: Buffer) -> Expr:
        return self.function.facts.simplify(self.elements(buffer) * buffer.dtype.bytes)

    def view(self, s: View) -> None:
        """Let a buffer lie in the memory of another one, or at an address."""
        function, buffer = self.function, s.buffer
        offset = function.expressions.value(function.facts.simplify(s.offset)).text
        if isinstance(s.source, Buffer):
            self.tiles.share(buffer, s.source)
            function.module.viewed[buffer] = function.module.viewed.get(s.source, s.source)
            self.check_view(s, s.source)
            base = function.place(s.source)
            pointer, align = base.pointer, base.align
        else:
            function.module.viewed[buffer] = None
            address = function.expressions.value(s.source).text
            pointer, align = self.text.value(f"inttoptr i64 {address} to ptr"), ALIGN
        known = function.facts.congruence(s.offset)
        align = math.gcd(align, known.modulus, known.residue) or 1
        if offset != "0":
            pointer = self.text.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        self.place(buffer, Place(pointer, self.text.depth, max(align, buffer.align)))

    def check_view(self, s: View, source: Buffer) -> None:
        """In a debug build: fail where a view leaves its source, or is not aligned."""
        function, buffer = self.function, s.buffer
        if not function.module.check_bounds:
            return
        end = s.offset + self.elements(buffer) * buffer.dtype.bytes
        whole = self.elements(source) * source.dtype.bytes
        inside = And(Le(as_expr(0), s.offset), Le(end, whole))
        step = max(buffer.align, buffer.dtype.bytes)
        for condition, what in (
            (inside, f"leaves {source.name!r}"),
            (equal(s.offset % step, 0), f"is not aligned to {step} bytes"),
        ):
            if function.facts.prove(condition) is not True:
                value = function.expressions.value(condition).text
                message = f"the view {buffer.name!r} {what}"
                function.fail_unless(value, function.module.message(message, s.span))

    def place(self, buffer: Buffer, start: Place) -> None:
        """Let `buffer` lie in the memory at `start`."""
        if buffer.offset is not as_expr(0):
            offset = self.function.expressions.value(self.function.facts.simplify(buffer.offset))
            element = memory_type(buffer.dtype)
            start = Place(
                self.text.value(f"getelementptr {element}, ptr {start.pointer}, i64 {offset.text}"),
                self.text.depth,
            )
        self.function.places[buffer] = start

    def elements(self, buffer: Buffer) -> Expr:
        """How many elements the memory of `buffer` must have room for."""
        shape = buffer.shape if buffer.layout is None else self.layout_shape(buffer)
        if buffer.strides is None:
            total = as_expr(1)
            for extent in shape:
                total = total * extent
            return total + buffer.offset
        last = as_expr(1)
        for extent, stride in zip(shape, buffer.strides, strict=True):
            last = last + (extent - 1) * stride
        return last + buffer.offset


def _places(places: Iterable[int]) -> str:
    """The lanes that a shuffle takes, as its mask."""
    return ", ".join(f"i32 {k}" for k in places)
