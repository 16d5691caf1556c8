"""Regions of blocks and statements."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arith.touched import Run, covers, elements
from tensorsmith.arith import Analyzer
from tensorsmith.arith.accesses import guarded_loads
from tensorsmith.arith.regions import accessed_regions, block_regions, clip_region, footprint
from tensorsmith.ir.buffer import Buffer, Region
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import Cast, Expr, Var, as_expr, const, equal, select
from tensorsmith.ir.stmt import (
    Alloc,
    Assert,
    Bind,
    Block,
    For,
    If,
    Invoke,
    Iter,
    IterKind,
    LoopKind,
    Seq,
    Stmt,
    Store,
    While,
    seq,
)

n, m = Var("n", low=1), Var("m", low=1)
i, j, k = Var("i"), Var("j"), Var("k")
x, y, z = Var("x"), Var("y"), Var("z")
A = Buffer("A", (n, m))
B = Buffer("B", (n,))
C = Buffer("C", (n, m))
T = Buffer("T", (n,), "index")


def loop(var: Var, extent, body: Stmt, start=0) -> For:
    return For(var, as_expr(extent), body, LoopKind.SERIAL, as_expr(start))


def block(body: Stmt, *iters: tuple[Var, object, str], **fields) -> Block:
    kinds = {"S": IterKind.SPATIAL, "R": IterKind.REDUCE}
    made = tuple(Iter(v, as_expr(e), kinds[kind], v.renamed("l")) for v, e, kind in iters)
    return Block("b", made, body, **fields)


def store(buffer: Buffer, *indices, value=0.0) -> Store:
    return Store(buffer, tuple(map(as_expr, indices)), as_expr(value))


def box(region: Region):
    return region.ranges


def exprs(*pairs):
    return tuple((as_expr(a), as_expr(b)) for a, b in pairs)


def test_points_are_exact():
    reads, writes = block_regions(
        block(store(C, x, y, value=A[x, y] + B[x]), (x, n, "S"), (y, m, "S"))
    )
    assert [r.buffer for r in reads] == [A, B]
    assert box(reads[0]) == exprs((x, 1), (y, 1))
    assert box(reads[1]) == exprs((x, 1))
    assert [(r.buffer, box(r)) for r in writes] == [(C, exprs((x, 1), (y, 1)))]


def test_loops_inside_are_relaxed():
    body = loop(i, 4, loop(j, m, store(C, x * 4 + i, j)))
    _, writes = block_regions(block(body, (x, n, "S")))
    assert box(writes[0]) == exprs((x * 4, 4), (0, m))


def test_symbolic_coefficients_and_starts():
    body = loop(i, n, loop(j, m, store(B, i * m + j + x)), start=2)
    _, writes = block_regions(block(body, (x, n, "S")))
    assert box(writes[0]) == exprs((m * 2 + x, m * n))


def test_negative_coefficients():
    _, writes = block_regions(block(loop(i, 5, store(B, x - i * 2)), (x, n, "S")))
    assert box(writes[0]) == exprs((x - 8, 9))


def test_triangular_loops():
    body = loop(i, n, loop(j, i + 1, store(C, x, j)))
    _, writes = block_regions(block(body, (x, n, "S")))
    assert box(writes[0]) == exprs((x, 1), (0, n))


def test_quotients_of_tiles():
    body = loop(i, 8, store(C, (x * 8 + i) // 8, (x * 8 + i) % 8))
    _, writes = block_regions(block(body, (x, n, "S")))
    assert box(writes[0]) == exprs((x, 1), (0, 8))


def test_accesses_are_united():
    body = store(C, x, y, value=B[x - 1] + B[x] + B[x + 1])
    reads, _ = block_regions(block(body, (x, n, "S"), (y, m, "S")))
    assert box(reads[0]) == exprs((x - 1, 3))


def test_data_dependent_indices_take_the_whole_dimension():
    body = seq(
        store(C, T[x], y),
        Bind(k, T[x] + 1),
        store(A, x, k),
    )
    reads, writes = block_regions(block(body, (x, n, "S"), (y, m, "S")))
    assert box(writes[0]) == exprs((0, n), (y, 1))
    assert box(writes[1]) == exprs((x, 1), (0, m))
    assert [(r.buffer, box(r)) for r in reads] == [(T, exprs((x, 1)))]


def test_loops_over_data_dependent_ranges():
    body = For(k, T[x + 1] - T[x], store(C, x, k), start=T[x])
    reads, writes = block_regions(block(body, (x, n, "S")))
    assert box(writes[0]) == exprs((x, 1), (0, m))
    assert box(reads[0]) == exprs((x, 2))


def test_values_of_other_integer_types_take_the_whole_dimension():
    odd = Cast(Cast(i, as_expr(0).dtype) * i % 7, index)
    _, writes = block_regions(block(loop(i, n, store(B, odd * odd * i)), (x, n, "S")))
    assert box(writes[0]) == exprs((0, n))


def test_bound_values_are_written_in():
    body = loop(i, 4, seq(Bind(k, x * 4 + i), store(B, k)))
    _, writes = block_regions(block(body, (x, n, "S")))
    assert box(writes[0]) == exprs((x * 4, 4))


def test_local_buffers_are_left_out():
    local = Buffer("local", (4,))
    body = seq(Alloc(local), store(local, 0, value=B[x]), store(C, x, y, value=local[0]))
    reads, writes = block_regions(block(body, (x, n, "S"), (y, m, "S")))
    assert [r.buffer for r in reads] == [B]
    assert [r.buffer for r in writes] == [C]


def test_init_and_its_guard():
    body = store(B, x, value=B[x] + A[x, y])
    reduction = block(body, (x, n, "S"), (y, m, "R"), init=store(B, x))
    reads, writes = block_regions(reduction)
    assert [(r.buffer, box(r)) for r in writes] == [(B, exprs((x, 1)))]
    assert {r.buffer for r in reads} == {A, B}
    first = footprint(reduction).accesses[0]
    assert first.guards == (equal(y, 0),)


def test_nested_blocks_count_with_their_bindings():
    inner = Block("in", (Iter(y, as_expr(4), IterKind.SPATIAL, i + 1),), store(C, x, y * 2))
    _, writes = block_regions(block(loop(i, 3, inner), (x, n, "S")))
    assert box(writes[0]) == exprs((x, 1), (2, 5))


def test_regions_written_out_are_taken():
    stated = (Region(A, ((x, 2), (0, 4))),)
    call = Invoke("extern", (A.region(), B.region()))
    outer = block(call, (x, n, "S"), reads=stated, writes=())
    assert block_regions(outer) == (stated, ())
    inner = Block(
        "in",
        (Iter(y, n, IterKind.SPATIAL, x + i),),
        call,
        reads=(Region(A, ((y, 2), (0, 4))),),
        writes=(Region.point(B, (y,)),),
    )
    reads, writes = block_regions(block(loop(i, 3, inner), (x, n, "S")))
    assert [(r.buffer, box(r)) for r in reads] == [(A, exprs((x, 4), (0, 4)))]
    assert [(r.buffer, box(r)) for r in writes] == [(B, exprs((x, 3)))]


def test_calls_outside_of_blocks_read_and_write_their_regions():
    call = loop(i, 4, Invoke("f", (Region(B, ((i * 2, 2),)), T[0])))
    reads, writes = accessed_regions(call)
    assert [(r.buffer, box(r)) for r in reads] == [(B, exprs((0, 8))), (T, exprs((0, 1)))]
    assert [(r.buffer, box(r)) for r in writes] == [(B, exprs((0, 8)))]


def test_conditions_and_loop_bounds_are_reads():
    stmts = Seq(
        (
            If(B[0] < 1.0, store(C, 0, 0), store(C, 1, 1)),
            While(T[1] < 4, store(T, 1, value=T[1] + 1)),
            Assert(A[0, 1] < 0.0, "no"),
        )
    )
    reads, writes = accessed_regions(stmts)
    assert [r.buffer for r in reads] == [B, T, A]
    assert [(r.buffer, box(r)) for r in writes] == [
        (C, exprs((0, 2), (0, 2))),
        (T, exprs((1, 1))),
    ]


def test_of_a_block_statement_the_iterators_are_bound():
    inner = Block("in", (Iter(y, n, IterKind.SPATIAL, i + 1),), store(B, y), predicate=i < j)
    _, writes = accessed_regions(inner)
    assert box(writes[0]) == exprs((i + 1, 1))
    (access,) = footprint(Seq((inner,))).accesses
    assert access.guards == (i < j,)


def test_guards_of_lazy_expressions():
    value = select((as_expr(0) <= i) & (i < n), B[i], 0.0) + B[j]
    found = dict(guarded_loads((value,)))
    assert found[B[i]] == (as_expr(0) <= i, i < n)
    assert found[B[j]] == ()
    shared = select(i < n, B[i], select(j < n, B[i], B[j]))
    assert dict(guarded_loads((shared,)))[B[i]] == ()


def test_guards_leave_out_only_what_loads():
    value = select((i < n) & (B[j] < 1.0), B[i], select((n <= i) | (B[j] < 2.0), 0.0, B[i + 1]))
    found = dict(guarded_loads((value,)))
    assert found[B[i]] == (i < n,)
    assert found[B[i + 1]] == (~(n <= i),)


def test_guards_of_statements():
    body = If(i < n, store(B, i), If(i < m, store(C, 0, i)))
    found = footprint(body).accesses
    assert [a.guards for a in found] == [(i < n,), (~(i < n), i < m)]
    assert footprint(If(B[0] < 1.0, store(B, i))).accesses[1].guards == ()


def test_clipping_to_the_buffer():
    small = Buffer("small", (14,))
    clipped = clip_region(Region(small, ((-1, 17),)))
    assert box(clipped) == exprs((0, 14))


def test_deep_nests_do_not_overflow():
    body: Stmt = store(B, i)
    value: Expr = B[i]
    for _ in range(3_000):
        body = If(i < n, Seq((body,)))
    for _ in range(10_000):
        value = select(i < m, value, 1.0)
    reads, writes = accessed_regions(seq(body, store(B, j, value=value)))
    assert [box(r) for r in reads] == [exprs((i, 1))]
    assert len(writes) == 1


# --- Random nests ----------------------------------------------------------------------------


@st.composite
def indices(draw, variables):
    """An index: mostly affine, sometimes with a quotient or remainder."""
    e: Expr = const(draw(st.integers(-3, 3)))
    for v in draw(st.lists(st.sampled_from(variables), max_size=3)):
        term = v * draw(st.integers(-3, 3))
        wrap = draw(st.sampled_from(["none", "none", "quotient", "remainder"]))
        by = draw(st.integers(1, 4))
        e = e + {"none": term, "quotient": term // by, "remainder": term % by}[wrap]
    return e


@st.composite
def nests(draw, depth=0, variables=(x, y)):
    """A nest of loops, conditions, blocks, bindings, stores and lazily guarded loads."""
    kind = draw(st.sampled_from(["loop", "loop", "if", "seq", "bind", "block", "store"]))
    if depth == 3 or kind == "store":
        read = Buffers[draw(st.integers(0, 1))][draw(indices(variables)), draw(indices(variables))]
        value = select(draw(indices(variables)) < 2, read, 0.0) if draw(st.booleans()) else read
        return store(Buffers[2], draw(indices(variables)), draw(indices(variables)), value=value)
    if kind == "if":
        condition = draw(indices(variables)) < draw(indices(variables))
        return If(condition, draw(nests(depth + 1, variables)), draw(nests(depth + 1, variables)))
    if kind == "seq":
        return Seq((draw(nests(depth + 1, variables)), draw(nests(depth + 1, variables))))
    new = Var(f"v{depth}")
    inside = draw(nests(depth + 1, (*variables, new)))
    if kind == "bind":
        return Seq((Bind(new, draw(indices(variables))), inside))
    if kind == "block":
        return Block(
            "in", (Iter(new, as_expr(9), IterKind.SPATIAL, draw(indices(variables))),), inside
        )
    extent = draw(
        st.one_of(st.integers(1, 4).map(as_expr), st.sampled_from(variables).map(lambda v: v + 1))
    )
    return loop(new, extent, inside, start=draw(st.integers(-1, 2)))


Buffers = [Buffer(name, (100, 100)) for name in "PQR"]


def check_covered(stmt: Stmt) -> None:
    outer = block(stmt, (x, 3, "S"), (y, 2, "S"))
    regions = block_regions(outer)
    for at in itertools.product(range(3), range(2)):
        env = dict(zip((x, y), at, strict=True))
        run = Run()
        run.run(stmt, dict(env))
        for boxes, touched in zip(regions, (run.reads, run.writes), strict=True):
            by_buffer = {r.buffer: r for r in boxes}
            for buffer, places in touched.items():
                assert covers(by_buffer[buffer], env, places), (buffer, at)


@given(nests())
@settings(max_examples=150)
def test_regions_cover_what_is_touched(stmt):
    check_covered(stmt)


@pytest.mark.slow
@given(nests())
@settings(max_examples=10_000)
def test_regions_cover_what_is_touched_many(stmt):
    check_covered(stmt)


@st.composite
def affine_accesses(draw):
    """One store at sums of loop variables in a nest of loops, constant or symbolic."""
    loops = [Var(f"v{d}") for d in range(draw(st.integers(1, 3)))]
    factors = st.sampled_from([const(c) for c in range(-3, 4)] + [n, n * 2])
    index_list = []
    for _ in range(2):
        e: Expr = x * draw(st.integers(-2, 2)) + draw(st.integers(-3, 3))
        for v in draw(st.sets(st.sampled_from(loops))):
            e = e + v * draw(factors)
        index_list.append(e)
    stmt: Stmt = store(Buffers[0], *index_list)
    for v in loops:
        extent = draw(st.sampled_from([as_expr(1), as_expr(3), n, n + 2]))
        stmt = loop(v, extent, stmt, start=draw(st.sampled_from([0, 1, -2])))
    return stmt


def check_exact(stmt: Stmt) -> None:
    _, (region,) = block_regions(block(stmt, (x, 3, "S")))
    for at, size in itertools.product(range(3), (1, 3)):
        env = {x: at, n: size}
        run = Run()
        run.run(stmt, dict(env))
        (places,) = run.writes.values()
        for axis, bounds in enumerate(elements(region, env)):
            values = [place[axis] for place in places]
            assert bounds == (min(values), max(values) + 1)


@given(affine_accesses())
@settings(max_examples=150)
def test_regions_of_affine_accesses_are_exact(stmt):
    check_exact(stmt)


@pytest.mark.slow
@given(affine_accesses())
@settings(max_examples=10_000)
def test_regions_of_affine_accesses_are_exact_many(stmt):
    check_exact(stmt)


def test_facts_of_an_analyzer_are_used():
    free = Var("free")
    analyzer = Analyzer()
    analyzer.assume(as_expr(2) <= free)
    _, writes = accessed_regions(loop(i, 4, seq(store(B, i * free), store(B, 0))), analyzer)
    assert box(writes[0]) == exprs((0, Analyzer().simplify(free * 3 + 1)))


@pytest.mark.parametrize(("start", "extent"), [(-3, 2), (-2, 2), (8, 1), (9, 2)])
def test_a_region_outside_of_its_buffer_is_clipped_to_nothing(start, extent):
    ((_, size),) = clip_region(Region(Buffer("D", (8,)), [(start, extent)])).ranges
    assert size is const(0)


def test_what_may_lie_outside_is_never_clipped_to_less_than_nothing():
    free = Var("free")
    ((_, size),) = clip_region(Region(Buffer("D", (8,)), [(free, 2)])).ranges
    assert Analyzer().prove(size >= 0) is True
