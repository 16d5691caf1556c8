"""Modules with every construct in every place: well scoped and well typed, without any sense.

For the printer and the parser, which must carry over whatever the classes of the representation can
say; `strategies.programs` draws programs that compute something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from strategies.values import scalar_values
from tensorsmith import ir
from tensorsmith.ir import Buffer, Expr, Region, Stmt, Var, dtype
from tensorsmith.ir.dtype import SCALAR_TYPES, DType, Kind
from tensorsmith.ir.stmt import LoopKind

NAMES = [
    "i",
    "i",
    "j",
    "x",
    "e",
    "e_1",
    "A",
    "lambda",
    "T",
    "range",
    "Module",
    "conv/1:0",
    "",
    "1st",
]
NAMES += ["__x", "_", "ä", "ﬁ", "program", "x_1", "a b", "None", "match", "len"]
CONSTANT_TYPES = [t for t in SCALAR_TYPES if t.kind is not Kind.HANDLE]
INDEX, BOOL = dtype("index"), dtype("bool")
BINARY = (
    *(ir.Add, ir.Sub, ir.Mul, ir.Div, ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod, ir.Min),
    *(ir.Max, ir.BitAnd, ir.BitOr, ir.BitXor, ir.ShiftLeft, ir.ShiftRight, ir.And, ir.Or),
)
COMPARE = (ir.Eq, ir.Ne, ir.Lt, ir.Le)
TEXTS = st.one_of(st.sampled_from(["", "C", 'a "b"', "it's", "\n\\\t", "é\u2028\x00"]), st.text())


@dataclass(frozen=True)
class Scope:
    """What is defined at a place."""

    vars: tuple[Var, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    loops: tuple[ir.For, ...] = ()

    def with_var(self, var: Var) -> Scope:
        return replace(self, vars=(*self.vars, var))


names = st.sampled_from(NAMES)


def number(draw: st.DrawFn, type_: DType) -> Expr:
    if draw(st.booleans()):
        return ir.const(draw(st.integers(0, 1)), type_)
    if type_.is_integer or type_.is_bool:
        return ir.const(draw(scalar_values(type_)), type_)
    return ir.const(draw(st.floats()), type_)


def expr(draw: st.DrawFn, scope: Scope, type_: DType, depth: int = 3) -> Expr:
    """An expression of `type_`; of a handle there is none but variables."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        known = [v for v in scope.vars if v.dtype is type_]
        loads = [b for b in scope.buffers if b.dtype is type_]
        pick = draw(st.integers(0, 2))
        if pick == 0 and known:
            return draw(st.sampled_from(known))
        if pick == 1 and loads and depth:
            buffer = draw(st.sampled_from(loads))
            return ir.Load(buffer, tuple(expr(draw, scope, INDEX, depth - 1) for _ in buffer.shape))
        return number(draw, type_)
    e = operation(draw, scope, type_, depth)
    if type_.flag & Kind.NUMBER and draw(st.integers(0, 99)) == 0:
        for _ in range(draw(st.integers(1, 40))):
            e = draw(st.sampled_from([ir.Add, ir.Max]))(e, e)
    return e


def operation(draw: st.DrawFn, scope: Scope, type_: DType, depth: int) -> Expr:
    def sub(t: DType) -> Expr:
        return expr(draw, scope, t, depth - 1)

    kinds = ["binary", "select", "cast", "cast", "reinterpret", "intrinsic", "unary"]
    kind = draw(st.sampled_from([*kinds, "compare"] if type_.is_bool else kinds))
    if kind == "binary" and (ops := [op for op in BINARY if op.takes & type_.flag]):
        return draw(st.sampled_from(ops))(sub(type_), sub(type_))
    if kind == "compare":
        of = draw(st.sampled_from(CONSTANT_TYPES))
        ops = [op for op in COMPARE if op.takes & of.flag]
        return draw(st.sampled_from(ops))(sub(of), sub(of)) if ops else sub(type_)
    if kind == "unary" and (
        ops := [op for op in (ir.Neg, ir.Not, ir.BitNot) if op.takes & type_.flag]
    ):
        return draw(st.sampled_from(ops))(sub(type_))
    if kind == "cast":
        return ir.Cast(sub(draw(st.sampled_from(CONSTANT_TYPES))), type_)
    fixed = Kind.BITS | Kind.FLOAT | Kind.STORAGE
    if kind == "reinterpret" and type_.flag & fixed:
        same = [t for t in CONSTANT_TYPES if t.bits == type_.bits and t.flag & fixed]
        return ir.Reinterpret(sub(draw(st.sampled_from(same))), type_)
    calls = [c for c in ir.INTRINSICS.values() if c.takes & type_.flag and not c.result_is_bool]
    if kind == "intrinsic" and calls:
        intrinsic = draw(st.sampled_from(calls))
        return ir.Call(intrinsic, tuple(sub(type_) for _ in range(intrinsic.arity)))
    return ir.Select(sub(BOOL), sub(type_), sub(type_))


def attr(draw: st.DrawFn, scope: Scope, depth: int = 2) -> ir.AttrValue:
    kind = draw(st.integers(0, 5 if depth else 4))
    if kind == 5:
        return tuple(attr(draw, scope, depth - 1) for _ in range(draw(st.integers(0, 3))))
    if kind == 4:
        return expr(draw, scope, draw(st.sampled_from(CONSTANT_TYPES)))
    scalars = [st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS]
    return draw(scalars[kind])


def attrs(draw: st.DrawFn, scope: Scope) -> ir.Attrs:
    keys = draw(st.lists(TEXTS, max_size=3, unique=True)) if draw(st.booleans()) else []
    return {key: attr(draw, scope) for key in keys}


def index(draw: st.DrawFn, scope: Scope) -> Expr:
    return expr(draw, scope, INDEX, 2)


def buffer(draw: st.DrawFn, scope: Scope) -> Buffer:
    rank = draw(st.integers(0, 3))
    shape = [index(draw, scope) for _ in range(rank)]
    strides = layout = None
    kind = draw(st.integers(0, 4))
    if kind == 0:
        strides = [index(draw, scope) for _ in range(rank)]
    elif kind == 1:
        inputs = tuple(Var(draw(names)) for _ in range(rank))
        inner = Scope((*scope.vars, *inputs), scope.buffers)
        layout = ir.IndexMap(
            inputs, [expr(draw, inner, INDEX, 1) for _ in range(draw(st.integers(0, 3)))]
        )
    return Buffer(
        draw(names),
        shape,
        draw(st.sampled_from(CONSTANT_TYPES)),
        strides=strides,
        offset=index(draw, scope) if draw(st.booleans()) else 0,
        layout=layout,
        scope=draw(st.sampled_from(["global", "shared", "local"])),
        align=draw(st.sampled_from([0, 0, 16])),
    )


def region(draw: st.DrawFn, scope: Scope) -> Region:
    of = draw(st.sampled_from(scope.buffers))
    if draw(st.booleans()):
        return of.region()
    return Region(of, [(index(draw, scope), index(draw, scope)) for _ in of.shape])


def statements(draw: st.DrawFn, scope: Scope, depth: int) -> Stmt:
    """A sequence, in which definitions hold for what follows."""
    stmts: list[Stmt] = []
    for _ in range(draw(st.integers(0, 3))):
        stmt, scope = statement(draw, scope, depth)
        stmts.append(stmt)
    return stmts[0] if len(stmts) == 1 and draw(st.booleans()) else ir.Seq(tuple(stmts))


def statement(draw: st.DrawFn, scope: Scope, depth: int) -> tuple[Stmt, Scope]:
    simple = ["store", "bind", "alloc", "assert", "invoke"]
    kind = draw(
        st.sampled_from([*simple, "if", "while", "for", "for", "block"] if depth else simple)
    )
    if kind == "store" and scope.buffers:
        of = draw(st.sampled_from(scope.buffers))
        indices = tuple(index(draw, scope) for _ in of.shape)
        return ir.Store(of, indices, expr(draw, scope, of.dtype)), scope
    if kind == "alloc":
        local = buffer(draw, scope)
        return ir.Alloc(local), replace(scope, buffers=(*scope.buffers, local))
    if kind == "assert":
        return ir.Assert(expr(draw, scope, BOOL), draw(TEXTS)), scope
    if kind == "invoke" and scope.buffers:
        return ir.Invoke(draw(TEXTS), arguments(draw, scope)), scope
    if kind in ("if", "while"):
        condition, then = expr(draw, scope, BOOL), statements(draw, scope, depth - 1)
        if kind == "while":
            return ir.While(condition, then), scope
        orelse = statements(draw, scope, depth - 1) if draw(st.booleans()) else None
        return ir.If(condition, then, orelse), scope
    if kind == "for":
        return loop(draw, scope, depth), scope
    if kind == "block":
        return block(draw, scope, depth), scope
    value = expr(draw, scope, draw(st.sampled_from(CONSTANT_TYPES)))
    var = Var(draw(names), value.dtype)
    return ir.Bind(var, value), scope.with_var(var)


def arguments(draw: st.DrawFn, scope: Scope) -> tuple[Expr | Region, ...]:
    args: list[Expr | Region] = []
    for _ in range(draw(st.integers(0, 3))):
        value = expr(draw, scope, draw(st.sampled_from(CONSTANT_TYPES)))
        args.append(region(draw, scope) if draw(st.booleans()) else value)
    return tuple(args)


def loop(draw: st.DrawFn, scope: Scope, depth: int) -> Stmt:
    plain = draw(st.booleans())
    kind = LoopKind.SERIAL if plain else draw(st.sampled_from(list(LoopKind)))
    var = Var(draw(names))
    header = ir.For(
        var,
        index(draw, scope),
        ir.Seq(()),
        kind,
        ir.const(0) if plain else index(draw, scope),
        draw(TEXTS) if kind is LoopKind.THREAD else None,
        {} if plain else attrs(draw, scope),
    )
    inner = replace(scope.with_var(var), loops=(*scope.loops, header))
    if plain and draw(st.booleans()):
        return replace(header, body=loop(draw, inner, depth))
    return replace(header, body=statements(draw, inner, depth - 1))


def block(draw: st.DrawFn, scope: Scope, depth: int) -> Stmt:
    iters = []
    inner = scope
    for _ in range(draw(st.integers(0, 3))):
        kind, var = draw(st.sampled_from(list(ir.IterKind))), Var(draw(names))
        if scope.loops and draw(st.integers(0, 3)):
            whole = draw(st.sampled_from(scope.loops))
            it = ir.Iter(var, whole.extent, kind, whole.var, whole.start)
        else:
            it = ir.Iter(var, index(draw, scope), kind, index(draw, scope), index(draw, scope))
        iters.append(it)
        inner = inner.with_var(var)
    some = draw(st.booleans()) and inner.buffers
    return ir.Block(
        draw(TEXTS),
        tuple(iters),
        statements(draw, inner, depth - 1),
        statements(draw, inner, depth - 1) if draw(st.booleans()) else None,
        expr(draw, inner, BOOL) if draw(st.booleans()) else ir.const(1, "bool"),
        regions(draw, inner) if some else None,
        regions(draw, inner) if some and draw(st.booleans()) else None,
        attrs(draw, inner),
    )


def regions(draw: st.DrawFn, scope: Scope) -> tuple[Region, ...]:
    return tuple(region(draw, scope) for _ in range(draw(st.integers(0, 2))))


def dim(draw: st.DrawFn) -> Var:
    low = draw(st.sampled_from([None, 0, 1, 1, -3]))
    high = draw(st.sampled_from([None, 5, 4096]))
    return Var(draw(names), low=low, high=high, multiple_of=draw(st.sampled_from([1, 1, 8])))


def program(draw: st.DrawFn, name: str, dims: Sequence[Var]) -> ir.TensorProgram:
    scalars = [
        Var(draw(names), t) for t in draw(st.lists(st.sampled_from(SCALAR_TYPES), max_size=2))
    ]
    whole = [replace_facts(draw, s) for s in scalars]
    outer = Scope((*dims, *whole))
    params: list[ir.Param] = [*whole]
    params.extend(buffer(draw, outer) for _ in range(draw(st.integers(0, 3))))
    params = draw(st.permutations(params))
    buffers = tuple(p for p in params if isinstance(p, Buffer))
    shown = ir.free_vars(*(e for b in buffers for e in (*b.shape, *(b.strides or ()), b.offset)))
    scope = Scope((*(d for d in dims if d in shown), *whole), buffers)
    body = statements(draw, scope, draw(st.integers(0, 3)))
    return ir.TensorProgram(name, tuple(params), body, attrs(draw, Scope(tuple(dims))))


def replace_facts(draw: st.DrawFn, scalar: Var) -> Var:
    if scalar.dtype.is_integer and draw(st.booleans()):
        return Var(
            scalar.name, scalar.dtype, low=draw(st.sampled_from([None, 0, 1])), multiple_of=2
        )
    return scalar


@st.composite
def wild_modules(draw: st.DrawFn) -> ir.IRModule:
    """A module whose functions share some dimensions."""
    dims = [dim(draw) for _ in range(draw(st.integers(0, 3)))]
    function_names = draw(st.lists(names, max_size=3, unique=True))
    functions = [program(draw, name, dims) for name in function_names]
    return ir.IRModule.of(*functions, attrs=attrs(draw, Scope()))
