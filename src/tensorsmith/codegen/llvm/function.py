"""Statements of one function as LLVM text.

Pure expressions are computed where the innermost variable they use is defined, once: this hoists
invariants and shares common subexpressions without a pass of its own. A vectorised loop is not a
loop here: its variable stands for all its values at once, and what depends on it is computed in
vectors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensorsmith.arith import Analyzer, Interval
from tensorsmith.codegen.llvm import calls
from tensorsmith.codegen.llvm.expressions import Expressions
from tensorsmith.codegen.llvm.memory import Memory, Place
from tensorsmith.codegen.llvm.prefetch import Share, fetch, prefetch, shares
from tensorsmith.codegen.llvm.runtime_calls import GIVE
from tensorsmith.codegen.llvm.scratch import allocated_before
from tensorsmith.codegen.llvm.text import Lines, Text
from tensorsmith.codegen.llvm.to_and_fro import turned
from tensorsmith.codegen.llvm.types import register_type
from tensorsmith.codegen.lower.annotations import NONTEMPORAL, PREFETCH, PREFETCH_NEXT
from tensorsmith.codegen.lower.lanes import is_vector
from tensorsmith.codegen.lower.tree import loads_anything
from tensorsmith.errors import CodegenError
from tensorsmith.ir import (
    Alloc,
    And,
    Assert,
    Bind,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Invoke,
    Le,
    LoopKind,
    Lt,
    Seq,
    Stmt,
    Store,
    Var,
    View,
    While,
    as_expr,
    equal,
)

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.module import ModuleText


@dataclass(frozen=True, slots=True)
class VectorLoop:
    """A vectorised loop that is open: its variable stands for `lanes` values, from `start`."""

    var: Var
    start: Expr
    lanes: int


@dataclass(slots=True)
class Function:
    """One function on its way to text.

    outer: the function whose parallel loop this one is the body of. What it uses of that one's
    variables and buffers is captured, in order of first use.
    """

    module: ModuleText
    name: str
    outer: Function | None = None
    text: Text = field(default_factory=Text)
    facts: Analyzer = field(default_factory=Analyzer)
    places: dict[Buffer, Place] = field(default_factory=dict)
    variables: dict[Var, tuple[str, int]] = field(default_factory=dict)
    """The register of each variable, and the depth at which it is defined."""
    bounds: dict[Var, Interval] = field(default_factory=dict)
    """What loops' and bound variables lie between wherever they are defined."""
    vector_vars: set[Var] = field(default_factory=set)
    loop: VectorLoop | None = None
    mask: str | None = None
    """In a vectorised loop: the lanes that run, None for all."""
    nontemporal: bool = False
    """Whether stores are asked to go past the caches."""
    has_nontemporal: bool = False
    """Whether some do, which must be seen by other threads when the function is left."""
    allocas: list[str] = field(default_factory=list)
    """Instructions at the start of the function."""
    heap: list[str] = field(default_factory=list)
    """Pointers that must be freed on leaving."""
    shares: dict[For, Share] = field(default_factory=dict)
    """What is to be fetched in each iteration of a loop."""
    allocated: set[Buffer] = field(default_factory=set)
    """Buffers that each iteration of a loop uses anew, whose memory was taken before the loop."""
    has_tiles: bool = False
    """Whether it uses tile registers, which are released when it is left."""
    is_entry: bool = False
    """Whether it checks arguments only, and holds nothing."""
    exits: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Where the function is left with an error while these pointers are held, by label."""
    stack: set[str] = field(default_factory=set)
    """Pointers to local buffers on the stack, which are known from the start."""
    cells: dict[str, int] = field(default_factory=dict)
    """Pointers to cells that may own memory, and how many there are: dropped after an error."""
    captured: list[Var | Buffer] = field(default_factory=list)
    repeated: list[Var] = field(default_factory=list)
    """The variables of the serial loops that are open, outermost first."""
    expressions: Expressions = field(init=False)
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self.expressions = Expressions(self)
        self.memory = Memory(self)

    @contextlib.contextmanager
    def repeating(self, s: For) -> Iterator[None]:
        """Note that a loop is open, if it runs one iteration after the other."""
        repeats = s.kind is LoopKind.SERIAL and s.extent is not as_expr(1)
        self.repeated += [s.var] if repeats else []
        yield
        del self.repeated[len(self.repeated) - repeats :]

    # --- What is defined outside of a parallel body ------------------------------------------

    def variable(self, v: Var) -> tuple[str, int]:
        """The register of `v` and its depth; captured from the function around if need be."""
        found = self.variables.get(v)
        if found is None:
            if self.outer is None:
                raise CodegenError(f"{v.name!r} has no value here", because="nothing defines it")
            found = self.variables[v] = (self.capture(v, register_type(v.dtype)), 0)
        return found

    def place(self, b: Buffer) -> Place:
        """Where `b` lies; captured from the function around if need be."""
        found = self.places.get(b)
        if found is None:
            if self.outer is None:
                raise CodegenError(f"{b.name!r} has no memory here", because="nothing allocates it")
            align = self.outer.place(b).align
            found = self.places[b] = Place(self.capture(b, "ptr"), 0, align)
        return found

    def capture(self, what: Var | Buffer, type_: str) -> str:
        """A load from the environment, at the start of the function."""
        slot = len(self.captured)
        self.captured.append(what)
        name = f"%{self.text.name('env')}"
        self.allocas.append(f"  {name}p = getelementptr i8, ptr %env, i64 {8 * slot}")
        if type_ == "i1":
            self.allocas.append(f"  {name}b = load i8, ptr {name}p, align 8")
            self.allocas.append(f"  {name} = trunc i8 {name}b to i1")
        else:
            self.allocas.append(f"  {name} = load {type_}, ptr {name}p, align 8")
        return name

    # --- Statements --------------------------------------------------------------------------

    def stmt(self, s: Stmt) -> None:
        """Emit a statement."""
        match s:
            case Seq():
                self.sequence(s)
            case Store():
                self.memory.store(s)
            case For():
                self.loop_stmt(s)
            case If():
                self.conditional(s)
            case Bind():
                self.bind(s)
            case Assert():
                self.check(s)
            case While():
                self.while_loop(s)
            case Invoke():
                calls.invoke(self, s)
            case View():
                self.memory.view(s)
            case Alloc():
                pass  # alone: nothing follows that could use it
            case _:
                raise CodegenError(f"{type(s).__name__} has no code", where=s.span)
        self.expressions.forget_loads()

    def sequence(self, s: Seq) -> None:
        """Emit statements in order; heap memory allocated among them is freed at their end."""
        before = len(self.heap)
        for x in s.stmts:
            if isinstance(x, Alloc):
                if x.buffer not in self.allocated:
                    self.memory.allocate(x.buffer, x.span)
            else:
                self.stmt(x)
        self.free_heap(before)
        del self.heap[before:]

    def free_heap(self, after: int = 0) -> None:
        """Give back the heap memory that is held here, but for the first `after` pieces."""
        for pointer in reversed(self.heap[after:]):
            self.module.declare(GIVE)
            self.text.line(f"call void @ts_give(ptr %ctx, ptr {pointer})")

    def leave(self, code: str) -> None:
        """Return an error code, giving back what is held: in one place, as a host has a thousand
        places from which it may leave."""
        if self.is_entry or not (self.heap or self.module.is_host):
            self.text.line(f"ret i32 {code}")
            return
        if not self.exits:
            self.allocas.append("  %failure = alloca i32, align 4")
        label = self.exits.setdefault(tuple(self.heap), f"leave{len(self.exits)}")
        self.text.line(f"store i32 {code}, ptr %failure, align 4")
        self.text.line(f"br label %{label}")

    def exit_lines(self) -> Iterator[str]:
        """The places that `leave` goes to."""
        for held, label in self.exits.items():
            yield f"{label}:"
            for at in self.cell_pointers():
                yield f"  call i32 @ts_drop(ptr %ctx, ptr {at})"
            for pointer in reversed(held):
                yield f"  call void @ts_give(ptr %ctx, ptr {pointer})"
            yield f"  %{label}.code = load i32, ptr %failure, align 4"
            yield f"  ret i32 %{label}.code"

    def cell_pointers(self) -> Iterator[str]:
        """Constant expressions cannot point into the stack, so: the cells, each by a name that
        `cell_lines` defines."""
        for pointer, count in self.cells.items():
            yield from (f"{pointer}.cell{k}" for k in range(count))

    def cell_lines(self) -> Iterator[str]:
        """What stands at the start of the function: cells own nothing at first."""
        for pointer, count in self.cells.items():
            for k in range(count):
                yield f"  {pointer}.cell{k} = getelementptr i8, ptr {pointer}, i64 {8 * k}"
                yield f"  store i64 0, ptr {pointer}.cell{k}, align 8"

    def bind(self, s: Bind) -> None:
        """Compute the value of a `Bind` here, once."""
        value, lanes = self.expressions.value(s.value)
        if lanes > 1:
            self.vector_vars.add(s.var)
        self.variables[s.var] = (value, self.text.depth)
        if self.module.is_host:
            return  # a thousand facts on sizes would make each question slow
        if s.value.dtype.is_index and not loads_anything(s.value):  # memory may change
            self.facts.learn(equal(s.var, s.value))
            self.bounds[s.var] = self.facts.bounds(s.var)

    def conditional(self, s: If) -> None:
        """A branch, or masks where the condition differs by lane."""
        value, lanes = self.expressions.value(s.condition)
        if lanes > 1:
            self.masked(s, value)
            return
        then, orelse, after = (self.text.name(h) for h in ("then", "else", "after"))
        self.text.open()
        target = orelse if s.orelse is not None else after
        self.text.line(f"br i1 {value}, label %{then}, label %{target}")
        self.text.begin(then)
        before = self.branch(s.condition, s.then, after)
        if s.orelse is not None:
            self.text.open(before)
            self.text.begin(orelse)
            self.branch(~s.condition, s.orelse, after)
        self.text.begin(after)

    def branch(self, condition: Expr, body: Stmt, after: str) -> Lines:
        """The body of a branch whose scope is open; closes it. Gives the place before it."""
        with self.facts.scope():
            self.facts.learn(condition)
            self.stmt(body)
        self.text.line(f"br label %{after}")
        return self.text.close()

    def masked(self, s: If, condition: str) -> None:
        """A condition that differs by lane: both branches run, each under its mask.

        Nothing is learnt from it: it may leave one lane alone, and the loop's variable, which
        stands for all of them, would become a constant.
        """
        assert self.loop is not None
        before = self.mask
        type_ = f"<{self.loop.lanes} x i1>"
        for body, negate in ((s.then, False), (s.orelse, True)):
            if body is None:
                continue
            lanes = condition
            if negate:
                lanes = self.text.value(f"xor {type_} {condition}, splat (i1 true)")
            if before is not None:
                lanes = self.text.value(f"and {type_} {lanes}, {before}")
            self.mask = lanes
            self.stmt(body)
        self.mask = before

    def check(self, s: Assert) -> None:
        """Leave with an error code where the condition does not hold."""
        good = self.expressions.where_run(*self.expressions.value(s.condition))
        self.fail_unless(good, self.module.message(s.message, s.span))

    def fail_unless(self, condition: str, code: int) -> None:
        """Return `code` from the function unless the ``i1`` `condition` holds."""
        good, bad = self.text.name("good"), self.text.name("bad")
        self.text.line(f"br i1 {condition}, label %{good}, label %{bad}")
        self.text.begin(bad)
        self.leave(str(code))
        self.text.begin(good)

    def while_loop(self, s: While) -> None:
        """A loop tested at its start."""
        head, body, after = (self.text.name(h) for h in ("while", "body", "after"))
        self.text.open()
        self.text.line(f"br label %{head}")
        self.text.begin(head)
        self.expressions.forget_loads()
        value, _ = self.expressions.value(s.condition)
        self.text.line(f"br i1 {value}, label %{body}, label %{after}")
        self.text.begin(body)
        self.stmt(s.body)
        self.text.line(f"br label %{head}")
        self.text.close()
        self.text.begin(after)

    def check_bounds(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        extents: tuple[Expr, ...] | None = None,
    ) -> None:
        """In a debug build: fail where an index, or a range of that extent, leaves the buffer."""
        if not self.module.check_bounds:
            return
        for axis, (i, size) in enumerate(zip(indices, buffer.shape, strict=True)):
            if extents is None:
                inside = And(Le(as_expr(0), i), Lt(i, size))
            else:
                inside = And(Le(as_expr(0), i), Le(i + extents[axis], size))
            if self.facts.prove(inside) is True:
                continue
            good = self.expressions.where_run(*self.expressions.value(inside))
            message = f"index {axis} of {buffer.name!r} is out of bounds"
            self.fail_unless(good, self.module.message(message, None))

    # --- Loops -------------------------------------------------------------------------------

    def loop_stmt(self, s: For) -> None:
        """A loop, as its kind and annotations ask."""
        self.expressions.forget_loads()
        before = self.nontemporal
        self.nontemporal = before or bool(s.attrs.get(NONTEMPORAL))
        self.loop_of_kind(s)
        self.nontemporal = before

    def loop_of_kind(self, s: For) -> None:
        """A loop, carried out as its kind says."""
        if is_vector(s) and self.loop is None:
            self.vector_loop(s)
        elif s.kind is LoopKind.PARALLEL and self.loop is None and self.outer is None:
            self.module.parallel_loop(self, s)
        elif s.kind is LoopKind.THREAD:
            raise CodegenError(
                f"the loop over {s.var.name!r} is bound to {s.thread}, which this target lacks",
                where=s.span,
                try_="a parallel loop",
            )
        else:
            self.serial_loop(s)

    def serial_loop(self, s: For) -> None:
        """One iteration after the other."""
        start, _ = self.expressions.value(s.start)
        end, _ = self.expressions.value(self.facts.simplify(s.start + s.extent))
        nonempty = self.facts.prove(s.extent > 0) is True
        self.counted_loop(s, start, end, nonempty=nonempty)

    def counted_loop(self, s: For, start: str, end: str, *, nonempty: bool) -> None:
        """The loop from `start` to before `end`, tested at its end; skipped if it may be empty."""
        text = self.text
        held = len(self.heap)
        scratch = [a for a in allocated_before(s) if self.memory.is_on_heap(a.buffer)]
        for alloc in scratch:
            self.memory.allocate(alloc.buffer, alloc.span)
        self.allocated.update(a.buffer for a in scratch)
        body, after = text.name("loop"), text.name("after")
        text.open()
        if nonempty:
            text.line(f"br label %{body}")
        else:
            some = text.value(f"icmp slt i64 {start}, {end}")
            text.line(f"br i1 {some}, label %{body}, label %{after}")
        entry = text.label
        text.begin(body)
        variable, following = f"%{text.name(_safe(s.var.name))}", f"%{text.name('next')}"
        phi: Lines = []  # filled below, when the end of the loop is known
        text.scopes[-1].lines.append(phi)
        self.variables[s.var] = (turned(self, s, variable, (start, end)), text.depth)
        with self.facts.scope(), self.repeating(s):
            self.facts.bind(s.var, s.start, s.extent)
            self.bounds[s.var] = self.facts.bounds(s.var)
            ahead = s.attrs.get(PREFETCH)
            if isinstance(ahead, int) and ahead > 0 and self.loop is None:
                prefetch(self, s, ahead)
            if s.attrs.get(PREFETCH_NEXT) and self.loop is None:
                self.shares.update(shares(self, s))
            if s in self.shares:
                fetch(self, self.shares[s])
            self.stmt(s.body)
        text.line(f"{following} = add nuw nsw i64 {variable}, 1")
        more = text.value(f"icmp slt i64 {following}, {end}")
        phi.append(f"  {variable} = phi i64 [ {start}, %{entry} ], [ {following}, %{text.label} ]")
        text.line(f"br i1 {more}, label %{body}, label %{after}")
        text.close()
        text.begin(after)
        self.allocated.difference_update(a.buffer for a in scratch)
        self.free_heap(held)
        del self.heap[held:]

    def vector_loop(self, s: For) -> None:
        """All iterations at once, as lanes."""
        assert isinstance(s.extent, Const)
        self.loop = VectorLoop(s.var, s.start, int(s.extent.value))
        self.vector_vars.add(s.var)
        self.text.open()
        self.variables[s.var] = ("", self.text.depth)
        with self.facts.scope():
            self.facts.bind(s.var, s.start, s.extent)
            self.bounds[s.var] = self.facts.bounds(s.var)
            self.stmt(s.body)
        self.text.close()
        self.loop = None


def _safe(name: str) -> str:
    """The name if LLVM takes it as it is; else a plain one."""
    return f"{name}." if name.isidentifier() and name.isascii() else "v."
