"""From definitions to statements: where each tensor of a program lives, and under which name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensorsmith.ir import (
    Alloc,
    Buffer,
    Expr,
    Load,
    Region,
    Stmt,
    Store,
    Var,
    as_expr,
    seq,
    substitute,
    transform,
)
from tensorsmith.te.tensor import Definition, Tensor

Read: TypeAlias = Callable[[tuple[Expr, ...]], Expr]
"""From the indices of a tensor's element to its value."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lives: in `buffer`, at the indices that begin with `leading`."""

    buffer: Buffer
    leading: tuple[Expr, ...] = ()

    def read(self, indices: tuple[Expr, ...]) -> Expr:
        """The element at `indices` of the tensor."""
        return Load(self.buffer, (*self.leading, *indices))


class Lowering:
    """The state of turning definitions into the statements of one program.

    places: where the tensors that have storage live.
    reads: how an element of each known tensor is read; most often from its place.
    variables: what stands for the axes of the definitions.
    """

    def __init__(self) -> None:
        self.places: dict[Tensor, Place] = {}
        self.reads: dict[Tensor, Read] = {}
        self.variables: dict[Expr, Var] = {}
        self._taken: dict[tuple[str, str], int] = {}
        """How often a block or buffer asked for a name; 1 for names that were made."""

    def unique(self, name: str, of: str = "block") -> str:
        """`name`, or with a number where a block or buffer has it; taken from now on."""
        candidate = name
        while (of, candidate) in self._taken:
            candidate = f"{name}_{self._taken[of, name]}"
            self._taken[of, name] += 1
        self._taken[of, candidate] = 1
        return candidate

    def put(self, tensor: Tensor, place: Place) -> None:
        """Let `tensor` live at `place`."""
        self.places[tensor] = place
        self.reads[tensor] = place.read

    def inline(self, tensor: Tensor, axes: Sequence[Var], value: Expr) -> None:
        """Let the element of `tensor` at `axes` be `value`, computed wherever it is read."""
        cache: dict[tuple[Expr, ...], Expr] = {}
        element: list[Expr] = []

        def read(indices: tuple[Expr, ...]) -> Expr:
            if not element:  # only now all that it reads has its place
                element.append(self.expr(value))
            found = cache.get(indices)
            if found is None:
                at: dict[Expr, Expr] = dict(zip(axes, indices, strict=True))
                found = cache[indices] = substitute(element[0], at)
            return found

        self.reads[tensor] = read

    def make_buffer(self, tensor: Tensor) -> Buffer:
        """A new buffer in which `tensor` lives from now on."""
        shape = tuple(self.expr(e) for e in tensor.shape)
        buffer = Buffer(self.unique(tensor.name, "buffer"), shape, tensor.dtype, span=tensor.span)
        self.put(tensor, Place(buffer))
        return buffer

    def expr(self, e: Expr) -> Expr:
        """`e` in terms of the program's buffers and iterators."""
        return transform(e, self._replace)

    def _replace(self, e: Expr) -> Expr | None:
        if isinstance(e, Load) and isinstance(e.buffer, Tensor):
            return self.reads[e.buffer](e.indices)
        return self.variables.get(e)

    def store(self, tensor: Tensor, indices: Sequence[Expr], value: Expr) -> Stmt:
        """Write an element, given in terms of the definitions."""
        place = self.places[tensor]
        where = (*place.leading, *(self.expr(i) for i in indices))
        return Store(place.buffer, where, self.expr(value))

    def region(self, tensor: Tensor) -> Region:
        """All of `tensor`, as a box of the buffer in which it lives."""
        place = self.places[tensor]
        points = [(i, as_expr(1)) for i in place.leading]
        whole = [(as_expr(0), self.expr(extent)) for extent in tensor.shape]
        return Region(place.buffer, (*points, *whole))

    def statements(self, definitions: Iterable[Definition]) -> Stmt:
        """The definitions in the given order, each after allocations for what it computes."""
        stmts: list[Stmt] = []
        for definition in definitions:
            stmts.extend(
                Alloc(self.make_buffer(o), span=definition.span)
                for o in definition.outputs
                if o not in self.places
            )
            stmts.append(definition.lower(self))
        return seq(*stmts)
