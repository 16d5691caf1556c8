"""Calls of other programs of the module: small ones are written in, large ones get what they need.

A callee sees each region as a whole buffer of its own. Written in, its accesses become accesses of
the region. Called, it takes a pointer and maybe strides, so a region that does not lie in memory as
its parameter says is copied to a buffer that does, and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import Access, collect_accesses
from tensorsmith.codegen.lower.tree import map_scopes
from tensorsmith.codegen.strides import dense_strides, strides_of
from tensorsmith.errors import CodegenError
from tensorsmith.ir import (
    Alloc,
    Assert,
    Buffer,
    Const,
    Expr,
    For,
    Invoke,
    Load,
    LoopKind,
    Region,
    Stmt,
    Store,
    TensorProgram,
    Var,
    View,
    equal,
    free_vars,
    seq,
    substitute,
    transform,
)
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.rewrite import map_exprs, statements, transform_stmt
from tensorsmith.ir.stmt import TRUE, ZERO
from tensorsmith.ir.term_text import is_whole

MOST_STATEMENTS: Final = 24
"""Statements of a callee that is written in where it is called; larger ones are called."""

Functions = Mapping[str, TensorProgram]


def inline_calls(
    program: TensorProgram, *, functions: Functions, most: int = MOST_STATEMENTS
) -> TensorProgram:
    """Write small callees in where they are called.

    Before: any verified program. After: the calls that are left are of programs with more than
    `most` statements, with a parallel loop or with views, and of external symbols. Cost: each
    callee is copied once a call, callees of callees included, up to `most` statements each.
    """

    def change(s: Stmt) -> Stmt | None:
        callee = functions.get(s.callee) if isinstance(s, Invoke) else None
        if callee is None or not isinstance(s, Invoke) or not _is_small(callee, most):
            return None
        body = transform_stmt(_written_in(callee, s), change)
        return seq(*_checks(callee, s, Analyzer()), body)

    body = transform_stmt(program.body, change)
    return program if body is program.body else replace(program, body=body)


def _is_small(callee: TensorProgram, most: int) -> bool:
    for count, s in enumerate(statements(callee.body), 1):
        if count > most or isinstance(s, View):
            return False
        if isinstance(s, For) and s.kind is LoopKind.PARALLEL:
            return False
    return True


def prepare_calls(program: TensorProgram, *, functions: Functions) -> TensorProgram:
    """Copy regions that a callee cannot use where they lie, and check what it takes for granted.

    Before: no blocks. After: each region that is passed to a program of the module lies as its
    parameter says.
    """

    def change(s: Stmt, facts: Analyzer) -> Stmt | None:
        callee = functions.get(s.callee) if isinstance(s, Invoke) else None
        if callee is None or not isinstance(s, Invoke):
            return None
        return _Preparation(callee, s, facts).run()

    if program.attrs.get("host"):  # a thousand bindings, of which nothing need be known
        facts = Analyzer()
        return replace(program, body=transform_stmt(program.body, lambda s: change(s, facts)))
    return map_scopes(program, change)


# --- What a callee's variables are --------------------------------------------------------------


def callee_values(callee: TensorProgram, call: Invoke) -> dict[Var, Expr]:
    """The scalar parameters and dimensions of `callee` in terms of the caller's variables.

    Raises CodegenError if the arguments do not tell a dimension.
    """
    values: dict[Var, Expr] = {}
    for arg, param in zip(call.args, callee.params, strict=True):
        if isinstance(param, Var):
            assert isinstance(arg, Expr)
            values[param] = arg
            continue
        assert isinstance(arg, Region)
        for (_, given), wanted in zip(arg.ranges, param.shape, strict=True):
            if isinstance(wanted, Var):
                values.setdefault(wanted, given)
    for arg, param in zip(call.args, callee.params, strict=True):
        if isinstance(param, Buffer) and isinstance(arg, Region) and param.strides is not None:
            for stride, given in zip(param.strides, strides_of(arg.buffer) or (), strict=False):
                if isinstance(stride, Var):
                    values.setdefault(stride, given)
    for d in callee.dims:
        if d not in values:
            raise CodegenError(
                f"the dimension {d.name!r} of {callee.name!r} cannot be told from a call",
                where=call.span,
                because="no extent or stride of a parameter is that dimension alone",
                try_="a scalar parameter of that name",
            )
    return values


def _checks(callee: TensorProgram, call: Invoke, facts: Analyzer) -> list[Stmt]:
    """What must hold of the arguments: extents, and the facts on dimensions and scalars."""
    values = callee_values(callee, call)
    known: dict[Expr, Expr] = dict(values.items())
    checks: list[tuple[Expr, str]] = []
    for arg, param in zip(call.args, callee.params, strict=True):
        if not isinstance(param, Buffer) or not isinstance(arg, Region):
            continue
        for axis, ((_, given), wanted) in enumerate(zip(arg.ranges, param.shape, strict=True)):
            needed = substitute(wanted, known)
            if needed is not given:
                what = f"axis {axis} of {param.name!r} must have extent {wanted!r}"
                checks.append((equal(given, needed), what))
    for v, value in values.items():
        if v.low is not None:
            checks.append((value >= v.low, f"{v.name!r} must be at least {v.low}"))
        if v.high is not None:
            checks.append((value <= v.high, f"{v.name!r} must be at most {v.high}"))
        if v.multiple_of != 1:
            text = f"{v.name!r} must be a multiple of {v.multiple_of}"
            checks.append((equal(value % v.multiple_of, 0), text))
    return [
        Assert(condition, f"{callee.name}: {text}", span=call.span)
        for condition, text in checks
        if facts.simplify(condition) is not TRUE
    ]


def _written_in(callee: TensorProgram, call: Invoke) -> Stmt:
    """The callee's body on the caller's buffers."""
    regions = {
        param: arg
        for arg, param in zip(call.args, callee.params, strict=True)
        if isinstance(param, Buffer) and isinstance(arg, Region)
    }
    body = instantiate(callee.body, callee_values(callee, call))

    def shifted(region: Region, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(s + i for (s, _), i in zip(region.ranges, indices, strict=True))

    def loads(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in regions:
            region = regions[e.buffer]
            return Load(region.buffer, shifted(region, e.indices))
        return None

    def argument(a: Expr | Region) -> Expr | Region:
        if not isinstance(a, Region) or a.buffer not in regions:
            return a
        region = regions[a.buffer]
        starts = shifted(region, [start for start, _ in a.ranges])
        return Region(region.buffer, zip(starts, (extent for _, extent in a.ranges), strict=True))

    def stores(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer in regions:
            region = regions[s.buffer]
            return replace(s, buffer=region.buffer, indices=shifted(region, s.indices))
        if isinstance(s, Invoke):
            return replace(s, args=tuple(argument(a) for a in s.args))
        return None

    cache: dict[Expr, Expr] = {}
    return transform_stmt(map_exprs(body, lambda e: transform(e, loads, cache)), stores)


# --- Calls that stay ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Preparation:
    """One call on its way: copies before it and after it."""

    callee: TensorProgram
    call: Invoke
    facts: Analyzer

    def run(self) -> Stmt:
        if self.is_plain():
            return seq(*_checks(self.callee, self.call, self.facts), self.call)
        values = self.values(self.call)
        before: list[Stmt] = _checks(self.callee, self.call, Analyzer())
        after: list[Stmt] = []
        args: list[Expr | Region] = []
        for arg, param in zip(self.call.args, self.callee.params, strict=True):
            args.append(arg)
            if not isinstance(param, Buffer) or not isinstance(arg, Region):
                continue
            if not self.fits(arg, param, values):
                held = self.held(arg, param, values)
                args[-1] = held.region()
                before.append(Alloc(held))
                if self.reads(param):
                    before.append(_copy(arg, held, inwards=True))
                if self.writes(param):
                    after.append(_copy(arg, held, inwards=False))
        call = replace(self.call, args=tuple(args))
        self.check(call)
        return seq(*before, call, *after)

    def is_plain(self) -> bool:
        """Whether all regions are whole, dense, and wanted so: the common case, told at once."""
        return all(
            is_whole(arg)
            and arg.buffer.strides is None
            and arg.buffer.layout is None
            and param.strides is None
            and param.layout is None
            and param.offset is ZERO
            and max(arg.buffer.align, param.dtype.bytes) >= param.align
            for arg, param in zip(self.call.args, self.callee.params, strict=True)
            if isinstance(arg, Region) and isinstance(param, Buffer)
        )

    def values(self, call: Invoke) -> dict[Expr, Expr]:
        return dict(callee_values(self.callee, call).items())

    def check(self, call: Invoke) -> None:
        """Raise CodegenError if copies for one parameter changed the strides of another one."""
        values = self.values(call)
        for arg, param in zip(call.args, self.callee.params, strict=True):
            if not isinstance(arg, Region) or not isinstance(param, Buffer):
                continue
            if param.strides is not None and not self.strides_fit(arg, param, values):
                raise CodegenError(
                    f"{self.callee.name!r} wants strides of {param.name!r} that no copy has",
                    where=call.span,
                    because="a dimension is the stride of several parameters",
                    try_="a dimension for each",
                )

    def fits(self, arg: Region, param: Buffer, values: dict[Expr, Expr]) -> bool:
        """Whether the callee can use the region where it lies."""
        if strides_of(arg.buffer) is None or param.layout is not None or param.offset is not ZERO:
            return False
        if param.align > max(param.dtype.bytes, 1) and not self.is_aligned(arg, param):
            return False
        return self.strides_fit(arg, param, values)

    def strides_fit(self, arg: Region, param: Buffer, values: dict[Expr, Expr]) -> bool:
        """Whether the region's elements follow each other as the parameter says."""
        strides = strides_of(arg.buffer) or ()
        extents = [extent for _, extent in arg.ranges]
        wanted = param.strides
        if wanted is None:
            wanted = dense_strides(extents)
        else:
            wanted = tuple(substitute(stride, values) for stride in wanted)
        return all(
            (isinstance(extent, Const) and extent.value == 1) or self.facts.equal(given, stride)
            for extent, given, stride in zip(extents, strides, wanted, strict=True)
        )

    def is_aligned(self, arg: Region, param: Buffer) -> bool:
        starts_at_zero = all(self.facts.equal(start, 0) for start, _ in arg.ranges)
        return starts_at_zero and arg.buffer.align >= param.align

    def held(self, arg: Region, param: Buffer, values: dict[Expr, Expr]) -> Buffer:
        """A buffer that lies as the parameter says."""
        shape = tuple(extent for _, extent in arg.ranges)
        strides = param.strides
        if strides is not None and any(isinstance(v, Var) for v in free_vars(*strides)):
            dense = zip(strides, dense_strides(shape), strict=True)
            own: dict[Expr, Expr] = {s: value for s, value in dense if isinstance(s, Var)}
            known = {**values, **own}
            strides = tuple(substitute(stride, known) for stride in strides)
        return param.replace(shape=shape, strides=strides, scope=arg.buffer.scope)

    def reads(self, param: Buffer) -> bool:
        """Whether the callee may need what the region holds: it reads it, or leaves parts of it."""
        accesses = [a for a in collect_accesses(self.callee.body) if a.region.buffer is param]
        if any(not a.is_write for a in accesses):
            return True
        return not any(_writes_all(a, self.facts) for a in accesses)

    def writes(self, param: Buffer) -> bool:
        return any(
            (isinstance(s, Store) and s.buffer is param)
            or (
                isinstance(s, Invoke)
                and any(isinstance(a, Region) and a.buffer is param for a in s.args)
            )
            for s in statements(self.callee.body)
        )


def _writes_all(a: Access, facts: Analyzer) -> bool:
    """Whether the access goes through the whole buffer, one loop a dimension."""
    if a.guards or a.unknown or not isinstance(a.stmt, Store):
        return False
    loops = {x.var: x for x in a.loops}
    indices = [start for start, _ in a.region.ranges]
    if len(set(indices)) != len(indices):
        return False
    for i, extent in zip(indices, a.region.buffer.shape, strict=True):
        loop = loops.get(i) if isinstance(i, Var) else None
        if loop is None:
            return False
        if not facts.equal(loop.start, 0) or not facts.equal(loop.extent, extent):
            return False
    return True


def _copy(region: Region, held: Buffer, *, inwards: bool) -> Stmt:
    """The region copied to `held`, or from it."""
    loops = [Var(f"c{axis}") for axis in range(held.rank)]
    there = tuple(start + v for (start, _), v in zip(region.ranges, loops, strict=True))
    body: Stmt = (
        Store(held, tuple(loops), Load(region.buffer, there))
        if inwards
        else Store(region.buffer, there, Load(held, tuple(loops)))
    )
    for v, extent in zip(reversed(loops), reversed(held.shape), strict=True):
        body = For(v, extent, body)
    return body
