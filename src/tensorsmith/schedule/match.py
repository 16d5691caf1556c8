"""Matching of statements with the description of a tensor intrinsic.

The description is a tensor program; a part of another program matches if it is the same up to the
names and order of loops, unit loops, the order of operands of + and *, where its operands lie in
larger buffers, and in which order of dimensions and with which strides. What a match tells is where
each parameter of the description is in the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Add,
    And,
    Bind,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    If,
    IterKind,
    Load,
    Mul,
    Or,
    Seq,
    Stmt,
    Store,
    TensorProgram,
    Var,
    const,
    equal,
    free_vars,
    seq,
    substitute,
)
from tensorsmith.ir.buffer import GLOBAL
from tensorsmith.ir.rewrite import children, statements, substitute_stmt, with_children
from tensorsmith.ir.stmt import TRUE, ZERO
from tensorsmith.schedule.nest import describe

COMMUTATIVE: Final = (Add, Mul, And, Or)
MOST_LOOPS: Final = 5
"""Of more loops in a nest, other orders than the written one are not tried."""


@dataclass(frozen=True, slots=True)
class View:
    """Where a parameter of a description lies: a box of `buffer` that begins at `base`.

    dims: for each dimension of `buffer` the one of the parameter that runs along it, or None where
        the box is one element wide.
    """

    buffer: Buffer
    base: tuple[Expr, ...]
    dims: tuple[int | None, ...]

    def indices(self, inner: Sequence[Expr]) -> tuple[Expr, ...]:
        """The subscripts of `buffer` for those of the parameter."""
        return tuple(
            start if d is None else _sum(start, inner[d])
            for start, d in zip(self.base, self.dims, strict=True)
        )

    def axis(self, d: int) -> int | None:
        """The dimension of `buffer` along which dimension `d` of the parameter runs."""
        return self.dims.index(d) if d in self.dims else None


def _sum(a: Expr, b: Expr) -> Expr:
    if a is ZERO:
        return b
    return a if b is ZERO else a + b


@dataclass(frozen=True, slots=True)
class Match:
    """What stands for the variables of a description, and for its parameters."""

    values: Mapping[Var, Expr]
    views: Mapping[Buffer, View]


class NoMatchError(Exception):
    """Two parts do not match; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def match_program(description: TensorProgram, body: Stmt, facts: Analyzer) -> Match:
    """`body` as an instance of what `description` does. Raises NoMatchError if it is none.

    facts: what is known where `body` stands.
    """
    matcher = _Matcher(description, facts)
    matcher.stmt(flattened(description.body), flattened(body))
    matcher.finish()
    return Match(dict(matcher.values), dict(matcher.views))


# --- Normal form -----------------------------------------------------------------------------


def flattened(s: Stmt) -> Stmt:
    """`s` without blocks and unit loops: iterators replaced by their bindings, predicate and init
    made conditions."""
    match s:
        case Block():
            values: dict[Expr, Expr] = {it.var: it.binding for it in s.iters}
            body = substitute_stmt(s.body, values)
            if s.init is not None:
                first: Expr = TRUE
                for it in s.iters:
                    if it.kind is IterKind.REDUCE:
                        start = equal(it.binding, it.start)
                        first = start if first is TRUE else first & start
                body = seq(If(first, substitute_stmt(s.init, values)), body)
            body = flattened(body)
            return body if s.predicate is TRUE else If(s.predicate, body)
        case For() if isinstance(s.extent, Const) and s.extent.value == 1:
            return flattened(substitute_stmt(s.body, {s.var: s.start}))
    inner = with_children(s, tuple(flattened(c) for c in children(s)))
    return seq(inner) if isinstance(inner, Seq) else inner


# --- The walk --------------------------------------------------------------------------------


class _Matcher:
    """The state of one match: what has been found so far."""

    def __init__(self, description: TensorProgram, facts: Analyzer) -> None:
        self.description = description
        self.facts = facts
        self.values: dict[Var, Expr] = {}
        self.views: dict[Buffer, View] = {}
        self.loops: list[Var] = []
        """The loops of the matched statements around."""
        self.free = {*description.dims, *(p for p in description.params if isinstance(p, Var))}

    def attempt(self, *pairs: tuple[Expr, Expr]) -> NoMatchError | None:
        """Match all pairs. If they do not, nothing has changed, and the error is given back."""
        saved = dict(self.values), dict(self.views)
        try:
            for a, b in pairs:
                self.expr(a, b)
        except NoMatchError as error:
            self.values, self.views = saved
            return error
        return None

    def stmt(self, wanted: Stmt, found: Stmt) -> None:
        if isinstance(wanted, For) and isinstance(found, For):
            self.nest(wanted, found)
            return
        if type(wanted) is not type(found):
            raise NoMatchError(f"{describe(wanted)} is wanted where {describe(found)} stands")
        match wanted, found:
            case Seq(), Seq():
                if len(wanted.stmts) != len(found.stmts):
                    raise NoMatchError(
                        f"{len(wanted.stmts)} statements are wanted where {len(found.stmts)} stand"
                    )
                for a, b in zip(wanted.stmts, found.stmts, strict=True):
                    self.stmt(a, b)
            case Store(), Store():
                self.access(wanted.buffer, wanted.indices, found.buffer, found.indices)
                self.expr(wanted.value, found.value)
            case Bind(), Bind():
                self.expr(wanted.value, found.value)
                self.values[wanted.var] = found.var
            case If(), If():
                self.expr(wanted.condition, found.condition)
                self.stmt(wanted.then, found.then)
                if (wanted.orelse is None) is not (found.orelse is None):
                    raise NoMatchError("one has an else")
                if wanted.orelse is not None and found.orelse is not None:
                    self.stmt(wanted.orelse, found.orelse)
            case _:
                raise NoMatchError(f"{describe(wanted)} is never matched")

    def nest(self, wanted: For, found: For) -> None:
        """Perfect nests match in any order of loops: descriptions are of independent points or of
        reductions."""
        a, inner_a = _perfect(wanted)
        b, inner_b = _perfect(found)
        if len(a) != len(b):
            raise NoMatchError(f"{len(a)} loops are wanted where {len(b)} stand")
        reason: NoMatchError | None = None
        for order in permutations(b) if len(b) <= MOST_LOOPS else [tuple(b)]:
            saved = dict(self.values), dict(self.views), list(self.loops)
            try:
                for x, y in zip(a, order, strict=True):
                    self.loop(x, y)
                self.stmt(inner_a, inner_b)
            except NoMatchError as error:
                reason = reason or error
                self.values, self.views, self.loops = saved
                continue
            self.loops = saved[2]
            return
        assert reason is not None
        raise reason

    def loop(self, wanted: For, found: For) -> None:
        self.expr(wanted.extent, found.extent)
        if wanted.start is not ZERO or found.start is not ZERO:
            raise NoMatchError("a loop does not start at 0")
        self.values[wanted.var] = found.var
        self.loops.append(found.var)
        self.facts.bind(found.var, ZERO, found.extent)

    def expr(self, wanted: Expr, found: Expr) -> None:
        """Match two expressions. Recursive: descriptions are small."""
        if wanted.dtype is not found.dtype:
            raise NoMatchError(f"{wanted!r} is {wanted.dtype}, and {found!r} is {found.dtype}")
        if isinstance(wanted, Var):
            self.variable(wanted, found)
        elif isinstance(wanted, Load) and isinstance(found, Load):
            self.access(wanted.buffer, wanted.indices, found.buffer, found.indices)
        elif wanted.dtype.is_index:
            if not self.facts.equal(self.inside(wanted), found):
                raise NoMatchError(f"{wanted!r} is wanted where {found!r} stands")
        elif (
            type(wanted) is not type(found)
            or len(wanted.args) != len(found.args)
            or wanted.attr != found.attr
        ):
            raise NoMatchError(f"{wanted!r} is wanted where {found!r} stands")
        elif isinstance(wanted, COMMUTATIVE):
            (a, b), (x, y) = wanted.args, found.args
            refused = self.attempt((a, x), (b, y))
            if refused is not None and self.attempt((a, y), (b, x)) is not None:
                raise refused
        else:
            for a, b in zip(wanted.args, found.args, strict=True):
                self.expr(a, b)

    def inside(self, e: Expr) -> Expr:
        return substitute(e, dict(self.values.items()))

    def variable(self, wanted: Var, found: Expr) -> None:
        if wanted in self.values:
            if not self.facts.equal(self.values[wanted], found):
                raise NoMatchError(
                    f"{wanted.name!r} is {self.values[wanted]!r} elsewhere, and {found!r} here"
                )
            return
        if wanted not in self.free or set(self.loops) & set(free_vars(found)):
            raise NoMatchError(f"{wanted.name!r} is wanted where {found!r} stands")
        self._check_facts(wanted, found)
        self.values[wanted] = found

    def _check_facts(self, wanted: Var, found: Expr) -> None:
        conditions: list[Expr] = []
        if wanted.low is not None:
            conditions.append(found >= wanted.low)
        if wanted.high is not None:
            conditions.append(found <= wanted.high)
        if wanted.multiple_of != 1:
            conditions.append(equal(found % wanted.multiple_of, 0))
        for c in conditions:
            if self.facts.prove(c) is not True:
                raise NoMatchError(f"{wanted.name!r} cannot be {found!r}: not known is {c!r}")

    # --- Buffers ---

    def access(
        self, wanted: Buffer, inner: Sequence[Expr], buffer: Buffer, indices: Sequence[Expr]
    ) -> None:
        if wanted.dtype is not buffer.dtype:
            raise NoMatchError(
                f"{wanted.name!r} holds {wanted.dtype}, and {buffer.name!r} {buffer.dtype}"
            )
        if wanted.scope not in (GLOBAL, buffer.scope):
            raise NoMatchError(
                f"{wanted.name!r} lives in {wanted.scope!r}, and {buffer.name!r} in"
                f" {buffer.scope!r}"
            )
        view = self._view(wanted, [self.inside(i) for i in inner], buffer, indices)
        known = self.views.get(wanted)
        if known is None:
            self._place(wanted, view)
            self.views[wanted] = known = view
        same = known.buffer is view.buffer and known.dims == view.dims
        if not same or not all(map(self.facts.equal, known.base, view.base)):
            raise NoMatchError(
                f"{wanted.name!r} is {known.buffer.name}{list(known.base)} elsewhere, and"
                f" {buffer.name}{list(view.base)} here"
            )

    def _view(
        self, wanted: Buffer, inner: list[Expr], buffer: Buffer, indices: Sequence[Expr]
    ) -> View:
        origin: dict[Expr, Expr] = dict.fromkeys(self.loops, ZERO)
        simplify = self.facts.simplify
        left = {d: simplify(i) for d, i in enumerate(inner)}
        left = {d: i for d, i in left.items() if i is not ZERO}
        base: list[Expr] = []
        dims: list[int | None] = []
        for index in indices:
            start = simplify(substitute(index, origin))
            part = simplify(index - start)
            found = next((d for d, i in left.items() if self.facts.equal(i, part)), None)
            if part is not ZERO and found is None:
                raise NoMatchError(
                    f"the subscript {index!r} of {buffer.name!r} is none of {wanted.name!r}"
                )
            base.append(start)
            dims.append(None if part is ZERO else found)
            if part is not ZERO and found is not None:
                del left[found]
        if left:
            raise NoMatchError(
                f"the subscript {inner[next(iter(left))]!r} of {wanted.name!r} is none of"
                f" {buffer.name!r}"
            )
        return View(buffer, tuple(base), tuple(dims))

    # --- What follows from all of it ---

    def finish(self) -> None:
        """All that a description names must be found, and nothing written lies in two views."""
        for param in self.description.params:
            if isinstance(param, Buffer) and param not in self.views:
                raise NoMatchError(f"{param.name!r} is not accessed")
        self._check_aliases()
        missing = [v.name for v in self.free if v not in self.values]
        if missing:
            raise NoMatchError(f"nothing tells {', '.join(sorted(missing))}")

    def _check_aliases(self) -> None:
        """Parameters do not overlap: what is written is in a buffer of its own."""
        written = {s.buffer for s in statements(self.description.body) if isinstance(s, Store)}
        for a in written:
            for b, view in self.views.items():
                if b is not a and view.buffer is self.views[a].buffer:
                    raise NoMatchError(
                        f"{a.name!r}, which is written, and {b.name!r} both lie in"
                        f" {view.buffer.name!r}"
                    )

    def _place(self, param: Buffer, view: View) -> None:
        """Bind the strides and the offset of a parameter to those of the view."""
        strides = actual_strides(view.buffer)
        if strides is None:
            raise NoMatchError(f"{view.buffer.name!r} has a layout, not strides")
        wanted = param.strides if param.strides is not None else dense_strides(param.shape)
        for d, stride in enumerate(wanted):
            axis = view.axis(d)
            if axis is None:
                if isinstance(stride, Var) and stride not in self.values:
                    self.values[stride] = ZERO
                continue
            self._stride(param, d, stride, strides[axis])
        offset: Expr = view.buffer.offset
        for start, stride in zip(view.base, strides, strict=True):
            offset = offset + start * stride
        offset = self.facts.simplify(offset)
        if isinstance(param.offset, Var):
            self.variable(param.offset, offset)
        if param.align:
            self._aligned(param, view.buffer, offset)

    def _stride(self, param: Buffer, d: int, wanted: Expr, found: Expr) -> None:
        if isinstance(wanted, Var):
            self.variable(wanted, self.facts.simplify(found))
        elif not self.facts.equal(self.inside(wanted), found):
            raise NoMatchError(
                f"{param.name!r} has the stride {wanted!r} in dimension {d}, and finds {found!r}"
            )

    def _aligned(self, param: Buffer, buffer: Buffer, offset: Expr) -> None:
        size = max(param.dtype.bits // 8, 1)
        steps = max(param.align // size, 1)
        if buffer.align < param.align or not self.facts.equal(offset % steps, const(0)):
            raise NoMatchError(
                f"{param.name!r} is aligned to {param.align} bytes, and {buffer.name!r} is not"
                " known to be"
            )


def _perfect(loop: For) -> tuple[list[For], Stmt]:
    """The loops of a perfect nest, and what stands inside."""
    loops = [loop]
    while isinstance(loops[-1].body, For):
        loops.append(loops[-1].body)
    return loops, loops[-1].body


def dense_strides(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The strides of a row-major array without gaps."""
    strides: list[Expr] = []
    step: Expr = const(1)
    for extent in reversed(shape):
        strides.append(step)
        step = extent if step is const(1) else step * extent
    return tuple(reversed(strides))


def actual_strides(buffer: Buffer) -> tuple[Expr, ...] | None:
    """The strides of a buffer; None if it has a layout."""
    if buffer.layout is not None:
        return None
    return buffer.strides if buffer.strides is not None else dense_strides(buffer.shape)
