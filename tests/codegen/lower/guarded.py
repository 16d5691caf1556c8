"""Random loop nests with conditions on their variables, as splits and paddings leave them."""

from __future__ import annotations

from hypothesis import strategies as st

from tensorsmith.ir import (
    Bind,
    Buffer,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Select,
    Stmt,
    Store,
    TensorProgram,
    Var,
    const,
    dtype,
    equal,
    not_equal,
    seq,
)

KINDS = (LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.VECTORIZED, LoopKind.UNROLLED)
SIZES = (1, 2, 3, 4, 7)


@st.composite
def guarded_programs(draw: st.DrawFn) -> tuple[TensorProgram, int]:
    """A nest whose store is guarded or selects, and the value of its dimension ``n``.

    Each iteration of the whole nest writes an element of its own; the last loop may reduce.
    """
    n = Var("n", low=1)
    value_of_n = draw(st.integers(1, 9))
    loops = [Var(f"i{k}") for k in range(draw(st.integers(1, 3)))]
    extents: list[Expr] = []
    sizes: list[int] = []
    for _ in loops:
        if draw(st.integers(0, 3)) == 0:
            divisor = draw(st.sampled_from((1, 2, 4)))
            extents.append((n + (divisor - 1)) // divisor)
            sizes.append(9)
        else:
            sizes.append(draw(st.sampled_from(SIZES)))
            extents.append(const(sizes[-1]))
    a, out = Buffer("A", (n, 8), "int32"), Buffer("out", tuple(sizes), "int32")

    def affine() -> Expr:
        e: Expr = const(draw(st.integers(-4, 9)))
        for v in loops:
            e = e + v * draw(st.integers(-2, 4))
        return e

    def condition() -> Expr:
        kind = draw(st.integers(0, 6))
        bound = n if draw(st.booleans()) else const(draw(st.integers(-2, 12)))
        if kind == 0:
            return equal(draw(st.sampled_from(loops)), draw(st.integers(-1, 4)))
        if kind == 1:
            return not_equal(affine(), bound)
        if kind == 2:
            return condition() & condition()
        if kind == 3:
            return condition() | ~condition()
        return affine() < bound if draw(st.booleans()) else bound <= affine()

    def value() -> Expr:
        loaded = Load(a, ((affine() % n), affine() % 8))
        if draw(st.booleans()):
            return loaded
        return Select(condition(), loaded, const(draw(st.integers(0, 3)), "int32"))

    here = tuple(loops)
    reducing = len(loops) > 1 and draw(st.booleans())
    if reducing:
        here = (*loops[:-1], const(0))
        added: Expr = Load(out, here) * 3 + value()
        start = If(equal(loops[-1], 0), Store(out, here, const(1, "int32")))
        body: Stmt = Store(out, here, added)
        body = seq(start, If(condition(), body) if draw(st.booleans()) else body)
    else:
        body = Store(out, here, value())
        if draw(st.booleans()):
            orelse = Store(out, here, value()) if draw(st.booleans()) else None
            body = If(condition(), body, orelse)
        if draw(st.booleans()):
            held = Var("held", dtype("int32"))
            body = seq(Bind(held, value()), body, Store(out, here, Load(out, here) + held))
    parallel_at = draw(st.integers(-2, 0))
    for k, (v, extent) in reversed(list(enumerate(zip(loops, extents, strict=True)))):
        kind = draw(st.sampled_from(KINDS))
        if k == parallel_at:
            kind = LoopKind.PARALLEL
        if reducing and k == len(loops) - 1:
            kind = draw(st.sampled_from((LoopKind.SERIAL, LoopKind.UNROLLED)))
        body = For(v, extent, body, kind=kind)
    return TensorProgram("main", (a, out), body), value_of_n
