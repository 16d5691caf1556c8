"""Tiles that are written by rows and read by columns: transposed in registers.

A small local buffer takes whole vectors, one a row; a vector of its columns is then a shuffle of
those, not a gather from memory. The stores that nothing loads any more are LLVM's to drop. Rows and
columns are exchanged within the 128-bit parts of vectors first, by interleaving pairs of rows, then
whole parts are: each step is one instruction of the machine. Source: Eklundh, A fast computer
method for matrix transposing, 1972.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tensorsmith.codegen.llvm.types import vector
from tensorsmith.ir import Buffer
from tensorsmith.ir.buffer import GLOBAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorsmith.codegen.llvm.text import Text

PART_BYTES: Final = 16
"""Bytes within which machines interleave elements."""
MOST_PARTS: Final = 4
"""Parts of the longest vector that is transposed."""


class Row(NamedTuple):
    """A vector that was stored, and the basic block that stored it."""

    value: str
    lanes: int
    label: str


class Column(NamedTuple):
    """A vector to be loaded: `lanes` elements from `start`, `stride` apart."""

    start: int
    stride: int
    lanes: int


@dataclass(slots=True)
class Tiles:
    """What the local buffers of one function hold, as far as it is whole vectors.

    Only what was stored in the basic block that is being written is known.
    """

    text: Text
    rows: dict[Buffer, dict[int, Row]] = field(default_factory=dict)
    columns: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    shared: set[Buffer] = field(default_factory=set)

    def share(self, *buffers: Buffer) -> None:
        """What is stored to one of these buffers may be stored to another one, too."""
        self.shared.update(buffers)
        for buffer in buffers:
            self.forget(buffer)

    def store(self, buffer: Buffer, start: int, value: str, lanes: int) -> None:
        """A vector was stored to neighbours from `start`."""
        if buffer.scope == GLOBAL or buffer in self.shared:
            return
        rows = self.rows.setdefault(buffer, {})
        for at in [a for a, r in rows.items() if a < start + lanes and start < a + r.lanes]:
            del rows[at]
        rows[start] = Row(value, lanes, self.text.label)

    def forget(self, buffer: Buffer) -> None:
        """Something else was stored to the buffer."""
        self.rows.pop(buffer, None)

    def forget_all(self) -> None:
        """Anything may have been stored."""
        self.rows.clear()

    def load(self, buffer: Buffer, column: Column, element: str, element_bytes: int) -> str | None:
        """The vector of a column; None if the rows that it crosses are not at hand."""
        rows = self.rows.get(buffer, {})
        first = max((a for a in rows if a <= column.start), default=None)
        if first is None or column.lanes < 2:
            return None
        size = rows[first].lanes
        label = self.text.label
        found: list[str] = []
        for lane in range(column.lanes):
            row = rows.get(first + lane * column.stride)
            if row is None or row.lanes != size or row.label != label:
                return None
            found.append(row.value)
        if column.start - first >= size or not can_transpose(size, column.lanes, element_bytes):
            return None
        key = (element, label, *found)
        if key not in self.columns:
            self.columns[key] = transpose(self.text, found, (element, element_bytes), size)
        return self.columns[key][column.start - first]

    def interleave(self, buffer: Buffer, places: Sequence[int], element: str) -> str | None:
        """The vector of the elements at `places`, if they are the columns of two or four rows, one
        after the other; None if they are not, or not at hand."""
        rows = self.rows.get(buffer, {})
        group = next((k for k, p in enumerate(places) if p == places[0] + 1), 0)
        if group not in (2, 4) or len(places) % group:
            return None
        first = max((a for a in rows if a <= places[0]), default=None)
        if first is None:
            return None
        column, size = places[0] - first, rows[first].lanes
        starts = [p - column for p in places[:group]]
        wanted = [starts[k % group] + column + k // group for k in range(len(places))]
        if list(places) != wanted or column + len(places) // group > size:
            return None
        found = [rows[a] for a in starts if a in rows]
        label = self.text.label
        if len(found) < group or any(r.lanes != size or r.label != label for r in found):
            return None
        across = range(column, column + len(places) // group)
        pairs = [
            self._shuffle(
                (a.value, b.value), (element, size), [x for c in across for x in (c, size + c)]
            )
            for a, b in zip(found[::2], found[1::2], strict=True)
        ]
        if group == 2:
            return pairs[0]
        half = len(places) // 2
        both = [x for k in range(0, half, 2) for x in (k, k + 1, half + k, half + k + 1)]
        return self._shuffle((pairs[0], pairs[1]), (element, half), both)

    def _shuffle(self, values: tuple[str, str], type_: tuple[str, int], lanes: list[int]) -> str:
        of = vector(*type_)
        mask = ", ".join(f"i32 {k}" for k in lanes)
        return self.text.value(
            f"shufflevector {of} {values[0]}, {of} {values[1]},"
            f" {vector('i32', len(lanes))} <{mask}>"
        )


def can_transpose(columns: int, rows: int, element_bytes: int) -> bool:
    """Whether a matrix of so many columns and rows of such elements is transposed in registers."""
    size = max(columns, rows)
    if columns < 2 or columns & (columns - 1) or columns != 1 << (size - 1).bit_length():
        return False
    return size * element_bytes <= PART_BYTES * MOST_PARTS


def transpose(text: Text, rows: Sequence[str], element: tuple[str, int], size: int) -> list[str]:
    """The columns of a matrix whose rows are vectors of `size` elements, a power of two at least
    the number of rows. element: LLVM's name of the type, and its bytes."""
    name, element_bytes = element
    padded = [*rows, *["poison"] * (size - len(rows))]
    whole = _Shuffles(text, name, size)
    part = min(size, PART_BYTES // element_bytes)
    groups = [
        whole.interleaved(padded[at : at + part], part) for at in range(0, size, part)
    ]  # of each, vector number c has column c of every part
    columns = [""] * size
    for c in range(part):
        parts = whole.exchanged([g[c] for g in groups], part)
        for p, value in enumerate(parts):
            columns[p * part + c] = value
    if len(rows) == size:
        return columns
    kept = ", ".join(f"i32 {k}" for k in range(len(rows)))
    short = vector("i32", len(rows))
    type_ = vector(name, size)
    return [
        text.value(f"shufflevector {type_} {c}, {type_} poison, {short} <{kept}>") for c in columns
    ]


class _Shuffles:
    """Shuffles of pairs of vectors of one type."""

    def __init__(self, text: Text, element: str, size: int) -> None:
        self.text = text
        self.size = size
        self.type = vector(element, size)

    def shuffle(self, a: str, b: str, lanes: Sequence[int]) -> str:
        """Lanes of two vectors; those of the second count from the size of the first."""
        if a == b == "poison":
            return "poison"
        mask = ", ".join(f"i32 {k}" for k in lanes)
        return self.text.value(
            f"shufflevector {self.type} {a}, {self.type} {b}, {vector('i32', self.size)} <{mask}>"
        )

    def interleaved(self, rows: Sequence[str], part: int) -> list[str]:
        """From `part` rows: for each column of a part, that of all parts."""
        values = list(rows)
        run = 1
        while run < part:
            following = list(values)
            for i in range(part):
                if not i & run:
                    a, b = values[i], values[i | run]
                    low, high = self._interleave(run, part)
                    following[i] = self.shuffle(a, b, low)
                    following[i | run] = self.shuffle(a, b, high)
            values = following
            run *= 2
        bits = part.bit_length() - 1
        return [values[_reversed(c, bits)] for c in range(part)]

    def _interleave(self, run: int, part: int) -> tuple[list[int], list[int]]:
        """Masks that take runs of two vectors in turn, from the low or high half of each part."""
        masks: tuple[list[int], list[int]] = ([], [])
        for first in range(0, self.size, part):
            for half, mask in enumerate(masks):
                for at in range(first + half * part // 2, first + (half + 1) * part // 2, run):
                    mask.extend(range(at, at + run))
                    mask.extend(range(self.size + at, self.size + at + run))
        return masks

    def exchanged(self, vectors: Sequence[str], part: int) -> list[str]:
        """From one vector a group: for each part, that of all groups side by side."""
        if len(vectors) == 1:
            return list(vectors)
        if len(vectors) == 2:
            first, second = vectors
            return [self._parts(first, second, part, [(0, p), (1, p)]) for p in (0, 1)]
        halves = []
        for a, b in (vectors[:2], vectors[2:]):
            halves.append(
                [self._parts(a, b, part, [(0, p), (0, p + 2), (1, p), (1, p + 2)]) for p in (0, 1)]
            )
        made = [""] * 4
        for odd in (0, 1):
            a, b = halves[0][odd], halves[1][odd]
            for far in (0, 1):
                wanted = [(0, far), (0, far + 2), (1, far), (1, far + 2)]
                made[odd + 2 * far] = self._parts(a, b, part, wanted)
        return made

    def _parts(self, a: str, b: str, part: int, wanted: Sequence[tuple[int, int]]) -> str:
        """Parts of two vectors: of which of the two, and which part."""
        lanes = [vector_ * self.size + at * part + k for vector_, at in wanted for k in range(part)]
        return self.shuffle(a, b, lanes)


def _reversed(value: int, bits: int) -> int:
    """The number with its lowest `bits` bits in the other order."""
    return int(f"{value:0{bits}b}"[::-1], 2) if bits else 0
