"""Products of matrices of bytes in tile registers, as programs call them: ``llvm.x86.tdpbusd``.

Such a call is ``Invoke(name, (C, A, B))`` for ``C[i, j] = sum over k of A[i, k] * B[k // 4, j,
k % 4]``, in 32 bits: a region of int32, and two of bytes. All of C stays in tile registers for the
whole sum: its rows and columns are multiples of 16, and `is_block` says how many there may be. The
extent of k is a multiple of 64. Rows of A and C lie any number of elements apart; B is dense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorsmith.arith import Analyzer
from tensorsmith.codegen.llvm.regions import check_region
from tensorsmith.codegen.strides import strides_of
from tensorsmith.errors import CodegenError
from tensorsmith.ir import Const, Expr, Invoke, Region, as_expr

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function

Array: TypeAlias = npt.NDArray[Any]
NEEDS: Final = ("amx-int8",)
SIDE: Final = 16
"""Rows of a tile, and columns of one of sums."""
DEPTH: Final = 64
"""Bytes in a row of a tile."""
GROUP: Final = 4
"""Steps of k that lie side by side in B."""
REGISTERS: Final = 8
FETCH_BYTES: Final = 8192
"""How far ahead of its use B is fetched."""
CONFIGURATION: Final = "@ts_tiles"
_CONFIGURATION_BYTES: Final = (
    1,  # the only kind of configuration that there is
    *(0,) * 15,
    *(DEPTH, 0) * REGISTERS,
    *(0,) * (48 - 16 - 2 * REGISTERS),
    *(SIDE,) * REGISTERS,
    *(0,) * (16 - REGISTERS),
)
_CONFIGURED: Final = (
    f"{CONFIGURATION} = private unnamed_addr constant [64 x i8]"
    f" [{', '.join(f'i8 {b}' for b in _CONFIGURATION_BYTES)}], align 64"
)


@dataclass(frozen=True, slots=True)
class TileProduct:
    """A product of tiles. a, b: the types of the operands."""

    name: str
    a: str
    b: str

    def fits(self, given: Sequence[Region], facts: Analyzer) -> bool:
        """Whether regions are a result and operands of it."""
        if [r.buffer.dtype.name for r in given] != ["int32", self.a, self.b]:
            return False
        c, a, b = (_long(r) for r in given)
        if [len(c), len(a), len(b)] != [2, 2, 3] or not all(isinstance(e, Const) for e, _ in c):
            return False
        (rows, _), (columns, _) = c
        depth, groups = a[1][0], b[0][0]
        wanted = (
            (a[0][0], rows),
            (b[1][0], columns),
            (b[2][0], as_expr(GROUP)),
            (groups * GROUP, depth),
            (depth % DEPTH, as_expr(0)),
            (b[0][1], columns * GROUP),
            (b[1][1], as_expr(GROUP)),
            *((line[-1][1], as_expr(1)) for line in (c, a, b)),
        )
        sizes = [int(e.value) for e, _ in c if isinstance(e, Const)]
        return is_block(*sizes) and all(facts.equal(x, y) for x, y in wanted)

    def reference(self, c: Array, a: Array, b: Array) -> None:
        """Compute into `c`, for the interpreter."""
        c, a, b = (np.squeeze(x) for x in (c, a, b))
        right = b.astype(np.int64).transpose(0, 2, 1).reshape(-1, b.shape[1])
        c[...] = (a.astype(np.int64) @ right).astype(np.uint64).astype(np.uint32).view(np.int32)


TILE_PRODUCTS: Final[Mapping[str, TileProduct]] = {
    f"llvm.x86.tdpb{letters}d": TileProduct(f"llvm.x86.tdpb{letters}d", a, b)
    for letters, a, b in (
        ("ss", "int8", "int8"),
        ("su", "int8", "uint8"),
        ("us", "uint8", "int8"),
        ("uu", "uint8", "uint8"),
    )
}
"""The products that there are, by name."""

REFERENCES: Final[Mapping[str, Callable[..., None]]] = {
    name: p.reference for name, p in TILE_PRODUCTS.items()
}
"""What the interpreter needs to run programs that call them."""


def is_block(rows: int, columns: int) -> bool:
    """Whether there are registers for so many sums, and for the operands beside them."""
    if rows < SIDE or columns < SIDE or rows % SIDE or columns % SIDE:
        return False
    down, across = rows // SIDE, columns // SIDE
    return down * across + down + 1 <= REGISTERS


def _long(region: Region) -> list[tuple[Expr, Expr]]:
    """The extents that are not 1, and elements between neighbours there; none of what a layout
    places."""
    strides = strides_of(region.buffer) or ()
    return [
        (e, stride)
        for (_, e), stride in zip(region.ranges, strides, strict=bool(strides))
        if not (isinstance(e, Const) and e.value == 1)
    ]


def emit(function: Function, s: Invoke) -> None:
    """Emit a product of tiles."""
    product = TILE_PRODUCTS[s.callee]
    target = function.module.target
    if not target.features.issuperset(NEEDS):
        raise CodegenError(
            f"{target.cpu or target.triple} lacks {s.callee!r}",
            where=s.span,
            because=f"it needs {' or '.join(NEEDS)}",
            try_="a target that has it, or a schedule without it",
        )
    regions = [a for a in s.args if isinstance(a, Region)]
    if len(s.args) != len(regions) or not product.fits(regions, function.facts):
        raise CodegenError(
            f"{s.callee!r} cannot take {', '.join(map(repr, s.args))}",
            where=s.span,
            because="it needs 32-bit sums in whole tiles, and operands that have as many rows and"
            " columns, with elements of a row that lie one after the other",
        )
    for region in regions:
        check_region(function, region)
    configure(function)
    _Product(function, product, regions).emit()


def configure(function: Function) -> None:
    """Configure the tile registers, outside of all loops around. It takes 200 cycles, and is the
    same for all products."""
    text = function.text
    if not text.depth:
        reconfigure(function)
    elif CONFIGURATION not in text.scopes[1].cache:
        text.scopes[1].cache[CONFIGURATION] = "", 1
        text.scopes[1].before.append(_configuring(function))


def reconfigure(function: Function) -> None:
    """Configure the tile registers here."""
    function.text.scopes[-1].lines.append(_configuring(function))


def _configuring(function: Function) -> str:
    function.has_tiles = True
    for declared in (
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        _CONFIGURED,
    ):
        function.module.declare(declared)
    return f"  call void @llvm.x86.ldtilecfg(ptr {CONFIGURATION})"


def releasing(function: str) -> str:
    """The text of a function that releases the tile registers wherever it returns."""
    return function.replace("\n  ret ", "\n  call void @llvm.x86.tilerelease()\n  ret ")


class _Product:
    """One product of tiles on its way to text.

    Registers are numbered: first the sums, row by row; then a tile of A for each row of tiles; the
    others take the tiles of B in turn.
    """

    def __init__(self, function: Function, product: TileProduct, regions: list[Region]) -> None:
        self.function = function
        self.text = function.text
        self.product = product
        self.regions = regions
        self.lines = [_long(r) for r in regions]
        rows, columns = (int(e.value) for e, _ in self.lines[0] if isinstance(e, Const))
        self.down, self.across = rows // SIDE, columns // SIDE

    def emit(self) -> None:
        """All sums from 0, over all of k, and stored."""
        for name, types in (
            ("tilezero", "i8"),
            ("tileloadd64", "i8, ptr, i64"),
            ("tilestored64", "i8, ptr, i64"),
        ):
            self.function.module.declare(f"declare void @llvm.x86.{name}({types})")
        self.function.module.declare(f"declare void @{self.product.name}(i8, i8, i8)")
        a, b = (self.pointer(k) for k in (1, 2))
        row = self.bytes(self.lines[1][0][1])
        below = [self.text.value(f"mul i64 {row}, {SIDE * i}") for i in range(1, self.down)]
        depth, _ = self.function.expressions.value(self.lines[1][1][0])
        for register in range(self.down * self.across):
            self.text.line(f"call void @llvm.x86.tilezero(i8 {register})")
        self.loop((a, row, below), b, depth)
        self.store()

    def pointer(self, at: int) -> str:
        region = self.regions[at]
        starts = tuple(start for start, _ in region.ranges)
        return self.function.memory.address(region.buffer, starts)

    def bytes(self, elements: Expr, size: int = 1) -> str:
        value, _ = self.function.expressions.value(elements * size)
        return value

    def loop(self, left: tuple[str, str, list[str]], b: str, depth: str) -> None:
        """The sums. left: where A begins, the bytes from row to row, and to each row of tiles."""
        text = self.text
        a, row, below = left
        body, after = text.name("tiles"), text.name("summed")
        k, following = f"%{text.name('k')}", f"%{text.name('next')}"
        entry = text.label
        text.line(f"br label %{body}")
        text.begin(body)
        text.line(f"{k} = phi i64 [ 0, %{entry} ], [ {following}, %{body} ]")
        tops = [text.value(f"getelementptr i8, ptr {a}, i64 {k}")]
        tops += [text.value(f"getelementptr i8, ptr {tops[0]}, i64 {step}") for step in below]
        groups = text.value(f"mul i64 {k}, {SIDE * self.across}")
        right = text.value(f"getelementptr i8, ptr {b}, i64 {groups}")
        self.step(tops, row, right)
        text.line(f"{following} = add nuw nsw i64 {k}, {DEPTH}")
        more = text.value(f"icmp slt i64 {following}, {depth}")
        text.line(f"br i1 {more}, label %{body}, label %{after}")
        text.begin(after)

    def step(self, tops: list[str], row: str, right: str) -> None:
        """One tile of k. tops: where the tiles of A begin."""
        sums = self.down * self.across
        free = range(sums + self.down, REGISTERS)
        width = SIDE * GROUP * self.across
        share = -(-SIDE // self.down)
        for j in range(self.across):
            from_b = free[j % len(free)]
            if not j:
                self.load(sums, tops[0], row)
            place = self.text.value(f"getelementptr i8, ptr {right}, i64 {SIDE * GROUP * j}")
            self.load(from_b, place, str(width))
            for i in range(self.down):
                if i and not j:
                    self.load(sums + i, tops[i], row)
                self.text.line(
                    f"call void @{self.product.name}"
                    f"(i8 {i * self.across + j}, i8 {sums + i}, i8 {from_b})"
                )
                self.fetch(right, j * SIDE + i * share, share)

    def fetch(self, right: str, first: int, count: int) -> None:
        """Fetch some lines of B that come later: hardware does not see far enough ahead where they
        lie behind the second-level cache, and there is time for it beside each product."""
        self.function.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for line in range(first, first + count):
            ahead = FETCH_BYTES + DEPTH * line
            place = self.text.value(f"getelementptr i8, ptr {right}, i64 {ahead}")
            self.text.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")

    def load(self, register: int, pointer: str, step: str) -> None:
        self.text.line(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {pointer}, i64 {step})")

    def store(self) -> None:
        """The sums to where they belong."""
        text, region = self.text, self.regions[0]
        step = self.bytes(self.lines[0][0][1], 4)
        top = self.pointer(0)
        for i in range(self.down):
            left = top
            if i:
                below = text.value(f"mul i64 {step}, {SIDE * i}")
                left = text.value(f"getelementptr i8, ptr {top}, i64 {below}")
            for j in range(self.across):
                place = text.value(
                    f"getelementptr i8, ptr {left}, i64 {region.buffer.dtype.bytes * SIDE * j}"
                )
                register = i * self.across + j
                text.line(
                    f"call void @llvm.x86.tilestored64(i8 {register}, ptr {place}, i64 {step})"
                )
