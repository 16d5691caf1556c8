"""Statements: loops, blocks, stores and what else a tensor program does.

Statements are immutable; use `dataclasses.replace`, which keeps the span. They are compared with
`tensorsmith.ir.structural`, up to the names of variables and buffers.

A *block* is the unit that schedules move. It says what is computed for each point of its iterators,
and nothing outside it matters to that: loops around it may change as long as the bindings still
take every point of the iterators' domain exactly once. Source: Feng et al., TensorIR, ASPLOS 2023.

Scopes. `Bind`, `Alloc` and `View` hold from where they stand to the end of the sequence they stand
in. Every variable and buffer is defined once in a program.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from tensorsmith.errors import Span
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.expr import Expr, Var, const

AttrValue: TypeAlias = "bool | int | float | str | Expr | tuple[AttrValue, ...] | None"
Attrs: TypeAlias = Mapping[str, AttrValue]
NO_ATTRS: Final[Attrs] = MappingProxyType({})
TRUE: Final = const(1, "bool")
ZERO: Final = const(0)


def no_attrs() -> Attrs:
    """The empty attributes."""
    return NO_ATTRS


class LoopKind(enum.Enum):
    """How the iterations of a loop are carried out."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    """By the threads of a pool, in any order."""
    VECTORIZED = "vectorized"
    """As the lanes of vector instructions."""
    UNROLLED = "unrolled"
    """As copies of the body."""
    THREAD = "thread"
    """By the hardware axis that `For.thread` names, such as 'threadIdx.x'."""


class IterKind(enum.Enum):
    """What a block may assume of the order in which an iterator takes its values."""

    SPATIAL = "spatial"
    """Each value writes its own elements: any order, also in parallel."""
    REDUCE = "reduce"
    """Values are combined by a commutative and associative reducer: any order."""
    OPAQUE = "opaque"
    """Nothing: the order stays as written (scans, side effects)."""


@dataclass(frozen=True, slots=True, eq=False)
class Stmt:
    """A statement. `span` is where the user wrote it."""

    span: Span | None = field(default=None, kw_only=True, repr=False)

    def __repr__(self) -> str:
        from tensorsmith.ir.printer import print_stmt

        return print_stmt(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Seq(Stmt):
    """Statements, one after the other. () does nothing."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Store(Stmt):
    """Write `value` to the element of `buffer` at `indices`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bind(Stmt):
    """Give `var` the value of an expression, evaluated once, here."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Alloc(Stmt):
    """Make a local buffer with undefined content."""

    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View(Stmt):
    """Let `buffer` be the memory of `source` from byte `offset` on, with the content that it has.

    source: a dense buffer, such as an arena of bytes that buffers share at different times; or an
        address as an int64, of memory that outlives the program's scopes.
    The bytes lie inside of `source` and are aligned for the buffer. Views of bytes that overlap are
    one memory: what is written through one is there for the others. A view is never a parameter's
    memory but that of `source`.
    """

    buffer: Buffer
    source: Buffer | Expr
    offset: Expr = ZERO


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assert(Stmt):
    """Fail with `message` when the program runs and `condition` is false."""

    condition: Expr
    message: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Invoke(Stmt):
    """Call a program of the module, or an external function, with scalars and regions of buffers.

    callee: the name of a function of the module, or of an external symbol. A callee of the module
        sees each region as a whole buffer of its own. What an external function does to its regions
        is what the block around it says (`Block.reads`, `Block.writes`); outside of a block it may
        read and write all of them. An instruction of a machine, by its name in LLVM
        ('llvm.x86...'), writes its first region alone, and reads the others alone.
    """

    callee: str
    args: tuple[Expr | Region, ...]

    @property
    def is_instruction(self) -> bool:
        """Whether it calls an instruction of a machine."""
        return self.callee.startswith("llvm.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Stmt):
    """Do `then` where `condition` holds, else `orelse`."""

    condition: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class While(Stmt):
    """Repeat `body` as long as `condition` holds."""

    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class For(Stmt):
    """`body` for each value of `var` from `start` to ``start + extent - 1``, carried out as `kind`
    says.

    thread: the hardware axis of a `LoopKind.THREAD` loop, such as 'blockIdx.x'.
    """

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    start: Expr = ZERO
    thread: str | None = None
    attrs: Attrs = field(default_factory=no_attrs)


@dataclass(frozen=True, slots=True, eq=False)
class Iter:
    """An iterator of a block: `var` ranges over ``start <= var < start + extent``.

    binding: its value, in terms of the loops around the block.
    """

    var: Var
    extent: Expr
    kind: IterKind
    binding: Expr
    start: Expr = ZERO


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Stmt):
    """A computation for each point of its iterators.

    iters: the iterators and their bindings to the loops around.
    body: in terms of the iterators (and of what is defined in it), never of the loops around.
    init: run before the body for those points where every reduce iterator has its first value.
    predicate: over the loops around; points where it is false are left out.
    reads, writes: the regions that one execution of the body touches, in terms of the iterators.
        None: as derived from the accesses (`tensorsmith.arith.regions`), which is the rule; written
        out only where the accesses do not tell, as around an external call.
    """

    name: str
    iters: tuple[Iter, ...]
    body: Stmt
    init: Stmt | None = None
    predicate: Expr = TRUE
    reads: tuple[Region, ...] | None = None
    writes: tuple[Region, ...] | None = None
    attrs: Attrs = field(default_factory=no_attrs)


def seq(*stmts: Stmt) -> Stmt:
    """The statements in order, nested sequences flattened; a single one is itself.

    Flattening never changes what a name means: every variable is defined once in a program.
    """
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat.extend(stmt.stmts)
        else:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
