"""What a domain of values is.

`Walker` goes through a program once and for all; a `Domain` says what each thing that it meets
means. Over NumPy arrays the walk is a run of the program, over intervals it is a bounds analysis,
over counts a cost model, over a prime field a test of equivalence. A new analysis is a new
domain.

A domain has two types: V, the value of a scalar expression, and M, what stands for a buffer.

Expressions. `Domain.operations` gives a function ``(node, *operand values) -> value`` for each
class of nodes, as in `tensorsmith.ir.fold`; variables, loads and the lazy nodes (`Select`, `And`,
`Or`) are the walker's.

Branches. At a condition the walker asks `Domain.decide`. If the answer is True or False it takes
that branch only. If it is None, both are possible, and it walks both of them::

    enter_then(condition)  ... the first branch ...  enter_else()  ... the second ...  leave()

Between these calls a domain can assume the condition (as a mask, a narrowed interval) and count
what the branches do apart. For an expression, `merge` then makes one value of two. `And` and `Or`
are walked as the selects that they are: ``select(a, b, False)`` and ``select(a, True, b)``.

Loops. `Domain.iterate` runs the body for as many values of the loop variable as the domain needs:
for each of them, or once for an interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from tensorsmith.errors import EvaluationError
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Load, Var
from tensorsmith.ir.module import TensorProgram
from tensorsmith.ir.stmt import Alloc, Assert, Block, For, Invoke, Iter, Store, View, While

V = TypeVar("V")
M = TypeVar("M")
V_co = TypeVar("V_co", covariant=True)


class Body(Protocol[V]):
    """The body of a loop, as a domain sees it."""

    def __call__(self, value: V) -> None:
        """Walk the body with the loop variable at `value`."""

    def value_of(self, e: Expr, given: Mapping[Var, V]) -> V:
        """The value of `e` where the loop stands, with the variables of `given` as stated there."""


class Domain(ABC, Generic[V, M]):
    """The meaning of a program's parts, for the `Walker`. One object serves one evaluation."""

    operations: Mapping[type[Expr], Callable[..., V]]
    """For each class of nodes ``(node, *operand values) -> value``."""

    values_depend_on_branch: bool = False
    """Whether a value computed between `enter_then` and `leave` is of no use outside (it was
    computed under a mask, or counted in that branch only). If so it is computed again where
    needed."""

    program: str = ""
    """The name of the program being walked, for messages. The walker keeps it."""

    # --- Calls ---

    @abstractmethod
    def bind_parameters(
        self, program: TensorProgram, args: Sequence[V | M]
    ) -> tuple[dict[Var, V], dict[Buffer, M]]:
        """The values of the scalar parameters and dimensions, and the buffers', for this call."""

    @abstractmethod
    def call_external(self, stmt: Invoke, args: Sequence[V | M]) -> None:
        """A call of a function that is not in the module."""

    # --- Buffers ---

    @abstractmethod
    def allocate(self, stmt: Alloc, shape: Sequence[V]) -> M:
        """A new local buffer."""

    def view_bytes(self, stmt: View, source: V | M, offset: V, shape: Sequence[V]) -> M:
        """A buffer in the memory of another one, or at an address. By default, an analysis knows
        nothing of what that memory holds, and refuses."""
        raise EvaluationError(
            f"{self.program} has the view {stmt.buffer.name!r}, which this analysis does not follow"
        )

    @abstractmethod
    def view(self, region: Region, memory: M, ranges: Sequence[tuple[V, V]]) -> M:
        """The part of `memory` with these starts and extents, as a buffer of its own."""

    @abstractmethod
    def load(self, e: Load, memory: M, indices: Sequence[V]) -> V:
        """The value of an element."""

    @abstractmethod
    def store(self, stmt: Store, memory: M, indices: Sequence[V], value: V) -> None:
        """The change of an element."""

    # --- Branches ---

    @abstractmethod
    def decide(self, condition: V) -> bool | None:
        """Which branch is taken: the first (True), the second (False), or possibly both (None)."""

    def enter_then(self, condition: V) -> None:
        """From here on, the walk is in the first branch of an undecided condition."""

    def enter_init(self, block: Block, condition: V) -> None:
        """As `enter_then`, where the branch is the init of `block`."""
        self.enter_then(condition)

    def enter_else(self) -> None:
        """The first branch has ended, and the second begins."""

    def leave(self) -> None:
        """Both branches have ended."""

    @abstractmethod
    def merge(self, e: Expr, condition: V, a: V, b: V) -> V:
        """The value of `e`: `a` where the undecided `condition` holds, and `b` elsewhere."""

    # --- Statements ---

    @abstractmethod
    def iterate(self, loop: For, start: V, extent: V, body: Body[V]) -> None:
        """All iterations of a loop."""

    @abstractmethod
    def repeat(self, loop: While, condition: Callable[[], V], body: Callable[[], None]) -> None:
        """All iterations of a while loop; `condition` evaluates it, `body` walks the body."""

    def bind_iterator(self, block: Block, it: Iter, value: V, start: V, extent: V) -> V:
        """The value of a block's iterator, given that of its binding."""
        return value

    def check(self, stmt: Assert, condition: V) -> None:
        """An assertion of the program."""
