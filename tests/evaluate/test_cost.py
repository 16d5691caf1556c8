"""Costs against formulas by hand, and against a run that counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import strategies as st

from strategies import arguments, programs
from strategies.cases import fast_and_slow
from tensorsmith.arith import simplify
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate import CostDomain, Memory, NumPyDomain, Walker, cost
from tensorsmith.evaluate.cost_domain import Place, is_counted
from tensorsmith.ir import (
    INTRINSICS,
    Alloc,
    Block,
    Buffer,
    Call,
    Cast,
    Expr,
    For,
    If,
    Invoke,
    IRModule,
    Iter,
    IterKind,
    Region,
    Select,
    Store,
    TensorProgram,
    Var,
    While,
    const,
    dtype,
    seq,
)

n, m, k = (Var(name, low=1) for name in "nmk")
i, j, p = (Var(name) for name in "ijp")


def same(found: Expr, expected: Expr | int) -> bool:
    return simplify(found) is simplify(found * 0 + expected)


def matmul(type_: str = "float32", *, split: bool = False) -> TensorProgram:
    a, b, c = Buffer("A", (n, k), type_), Buffer("B", (k, m), type_), Buffer("C", (n, m), type_)
    vi, vj, vk, outer, inner = (Var(v) for v in ("vi", "vj", "vk", "outer", "inner"))
    depth = k * 4 if split else k
    if split:
        a, b = Buffer("A", (n, depth), type_), Buffer("B", (depth, m), type_)
    block = Block(
        "C",
        (
            Iter(vi, n, IterKind.SPATIAL, i),
            Iter(vj, m, IterKind.SPATIAL, j),
            Iter(vk, depth, IterKind.REDUCE, outer * 4 + inner if split else p),
        ),
        Store(c, (vi, vj), c[vi, vj] + a[vi, vk] * b[vk, vj]),
        init=Store(c, (vi, vj), const(0, type_)),
    )
    reduce = For(outer, k, For(inner, const(4), block)) if split else For(p, k, block)
    return TensorProgram("matmul", (a, b, c), For(i, n, For(j, m, reduce)))


def test_matmul():
    found = cost(matmul())
    a, b, c = found.program.buffers
    assert same(found.flops, 2 * n * m * k)
    assert same(found.integer_operations, 0)
    assert same(found.traffic[a].loads, n * m * k)
    assert same(found.traffic[b].loads, n * m * k)
    assert same(found.traffic[c].loads, n * m * k)
    assert same(found.traffic[c].stores, n * m * k + n * m)
    assert same(found.bytes_read, 12 * n * m * k)
    assert same(found.bytes_written, 4 * n * m * k + 4 * n * m)
    assert same(found.unique_bytes_read, 4 * (n * k + k * m + n * m))
    assert same(found.unique_bytes_written, 4 * n * m)


def test_matmul_of_bytes_counts_integer_operations():
    found = cost(matmul("int8"))
    assert same(found.flops, 0)
    assert same(found.integer_operations, 2 * n * m * k)
    assert same(found.unique_bytes_written, n * m)


def test_a_split_reduction_initialises_once():
    found = cost(matmul(split=True))
    c = found.program.buffers[2]
    assert same(found.flops, 8 * n * m * k)
    assert same(found.traffic[c].stores, 4 * n * m * k + n * m)


def test_dimensions_can_be_given():
    found = cost(matmul()).at(n=2, m=3, k=5)
    assert found.flops is const(60)
    assert found.bytes_written is const(4 * 36)
    with pytest.raises(EvaluationError, match="has no variable 'z'"):
        cost(matmul()).at(z=1)


def square(body_of) -> TensorProgram:
    """A program over one n x n buffer."""
    a = Buffer("A", (n, n))
    return TensorProgram("square", (a,), body_of(a))


def test_triangle():
    """Half of the elements: n (n - 1) / 2."""
    found = cost(square(lambda a: For(i, n, For(j, i, Store(a, (i, j), a[i, j] * a[j, i])))))
    assert found.flops is (n * n - n) // 2
    assert same(found.bytes_read, (n * n - n) * 4)


def test_triangle_from_a_start():
    found = cost(square(lambda a: For(i, n, For(j, n - i, Store(a, (i, j), -a[i, j]), start=i))))
    assert found.flops is (n + n * n) // 2


def test_tetrahedron():
    """n (n + 1) (n + 2) / 6."""
    found = cost(
        square(
            lambda a: For(i, n, For(j, i + 1, For(p, j + 1, Store(a, (i, j), a[i, p] + a[j, p]))))
        )
    )
    for size in (1, 2, 5, 9):
        assert found.at(n=size).flops is const(size * (size + 1) * (size + 2) // 6)


def test_fused_multiply_add_is_two_operations():
    fma = INTRINSICS["fma"]
    found = cost(square(lambda a: For(i, n, Store(a, (i, i), fma(a[i, i], a[i, 0], a[0, i])))))
    assert same(found.flops, 2 * n)


def test_shared_nodes_are_computed_once():
    def body(a):
        x = a[i, i] + 1.0
        return For(i, n, Store(a, (i, i), x * x))

    found = cost(square(body))
    assert same(found.flops, 2 * n)
    assert same(found.bytes_read, 4 * n)


def test_of_two_branches_the_dearer_counts():
    def body(a):
        even = (i % 2).__lt__(1)
        dear, cheap = a[i, i] * 2.0 + 1.0, a[i, 0] + 1.0
        return For(i, n, If(even, Store(a, (i, i), dear), Store(a, (i, i), cheap)))

    found = cost(square(body))
    assert same(found.flops, 2 * n)
    assert same(found.bytes_written, 4 * n)


def test_selects_count_the_dearer_branch():
    a, b = Buffer("a", (n,)), Buffer("b", (n + 2,))
    padded = Select((const(1) <= i) & (i < n + 1), a[i - 1], const(0, "float32"))
    program = TensorProgram("pad", (a, b), For(i, n + 2, Store(b, (i,), padded)))
    found = cost(program)
    assert same(found.traffic[a].loads, n + 2)
    assert same(found.traffic[a].read_footprint, n)


def test_stencil_footprint():
    a, b = Buffer("a", (n + 2,)), Buffer("b", (n,))
    value = a[i] + a[i + 1] + a[i + 2]
    found = cost(TensorProgram("stencil", (a, b), For(i, n, Store(b, (i,), value))))
    assert same(found.flops, 2 * n)
    assert same(found.bytes_read, 12 * n)
    assert same(found.unique_bytes_read, 4 * n + 8)


def test_local_buffers_move_no_bytes_of_parameters():
    a, t = Buffer("a", (n,)), Buffer("t", (), scope="local")
    body = For(i, n, seq(Alloc(t), Store(t, (), a[i] * 2.0), Store(a, (i,), t[()])))
    found = cost(TensorProgram("f", (a,), body))
    assert same(found.bytes_read, 4 * n)
    assert same(found.traffic[t].stores, n)


def test_calls_count_where_the_data_are():
    """A program called for each row of a matrix."""
    row, mat = Buffer("row", (1, m)), Buffer("mat", (n, m))
    body = For(j, m, Store(row, (const(0), j), row[0, j] * 2.0))
    double = TensorProgram("double", (row,), body)
    region = Region(mat, ((i, 1), (0, m)))
    main = TensorProgram("main", (mat,), For(i, n, Invoke("double", (region,))))
    found = cost(IRModule.of(main, double), entry="main")
    assert same(found.flops, n * m)
    assert same(found.unique_bytes_written, 4 * n * m)


def test_what_only_a_run_knows_is_a_variable():
    a = Buffer("a", (n,))
    halve = Store(a, (const(0),), a[0] * 0.5)
    found = cost(TensorProgram("f", (a,), While(const(1.0, "float32") < a[0], halve)))
    (iterations,) = found.unknowns
    assert same(found.flops, 2 * iterations)
    assert found.at(iterations_of_while=10).flops is const(20)


def test_loops_over_data_are_bounded_by_a_variable():
    a, rows = Buffer("a", (n,)), Buffer("rows", (n,), "int32")
    extent = Cast(rows[i], dtype("index"))
    body = For(i, n, For(j, extent, Store(a, (i,), a[i] + 1.0)))
    found = cost(TensorProgram("f", (a, rows), body))
    assert same(found.flops, n * found.unknowns[0])


class CountingDomain(NumPyDomain):
    """Runs a program, and counts on the way."""

    def __init__(self):
        super().__init__(vectorize=False)
        self.seen = Counter()
        self.operations = {kind: self.counting(rule) for kind, rule in self.operations.items()}

    def counting(self, rule):
        def apply(e, *args):
            if is_counted(e):
                twice = isinstance(e, Call) and e.intrinsic.name == "fma"
                is_float = e.args[0].dtype.is_float
                self.seen["flops" if is_float else "integers"] += 2 if twice else 1
            return rule(e, *args)

        return apply

    def load(self, e, memory, indices):
        self.seen["loads", e.buffer] += 1
        return super().load(e, memory, indices)

    def store(self, stmt, memory, indices, value):
        self.seen["stores", stmt.buffer] += 1
        super().store(stmt, memory, indices, value)


def costs_bound_what_a_run_counts(data: st.DataObject) -> None:
    program = data.draw(programs())
    args = data.draw(arguments(program))
    found = cost(program)
    sizes = dims_of(program, args)
    domain = CountingDomain()
    memories = [Memory(a) if isinstance(a, np.ndarray) else a for a in args]
    Walker(domain, {}).call(program, memories)
    if found.unknowns:
        return
    there = found.at(**sizes)
    assert domain.seen["flops"] <= there.flops.value
    assert domain.seen["integers"] <= there.integer_operations.value
    for buffer, traffic in there.traffic.items():
        assert domain.seen["loads", buffer] <= traffic.loads.value
        assert domain.seen["stores", buffer] <= traffic.stores.value


def dims_of(program, args):
    sizes = {}
    for param, arg in zip(program.params, args, strict=True):
        if isinstance(param, Buffer):
            sizes |= {
                e.name: size
                for e, size in zip(param.shape, arg.shape, strict=True)
                if isinstance(e, Var)
            }
        elif param.dtype.is_integer:
            sizes[param.name] = int(arg)
    return sizes


test_costs_bound_what_a_run_counts, test_costs_bound_what_a_run_counts_slow = fast_and_slow(
    costs_bound_what_a_run_counts, fast=100
)


def test_the_domain_leaves_no_branch_open():
    domain = CostDomain()
    program = matmul()
    Walker(domain, {}).call(program, [whole(buffer) for buffer in program.buffers])
    assert not domain._branches
    assert not domain._loops


def whole(buffer):
    return Place(buffer, (const(0),) * buffer.rank, buffer.shape)
