"""What the parser makes of scripts: constructs, sugar, metaprogramming, surroundings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorsmith import ir
from tensorsmith import script as T
from tensorsmith.errors import TensorsmithError
from tensorsmith.ir.structural import structural_equal

n = T.dim("n")
FACTORS = [1.0, 0.5]


def body(*lines: str) -> ir.TensorProgram:
    head = (
        'n = T.dim("n")\n@T.program\ndef f('
        'A: T.Buffer((n, 8), "float32"), B: T.Buffer((n,), "int32"), x: T.int32):\n'
    )
    return T.parse_program(head + "".join(f"    {line}\n" for line in lines))


@pytest.mark.parametrize(
    ("sugar", "canonical"),
    [
        (["A[0, 0] += 1.0"], ["A[0, 0] = A[0, 0] + 1.0"]),
        (["A[0, 0] = 1.0 if x > 2 else 0"], ["A[0, 0] = T.select(2 < x, 1.0, 0.0)"]),
        (["if 0 <= x < 5:", "    pass"], ["if 0 <= x and x < 5:", "    pass"]),
        (["for i in range(2, n):", "    pass"], ["for i in T.serial(n - 2, start=2):", "    pass"]),
        (["for i in range(2, 5):", "    pass"], ["for i in T.serial(3, start=2):", "    pass"]),
        (["A[x, 0] = 0"], ["A[T.index(x), 0] = 0.0"]),
        (["A[0, 0] = min(A[0, 1], 0, 1)"], ["A[0, 0] = T.min(T.min(A[0, 1], 0.0), 1.0)"]),
        (["B[0] = abs(x)"], ["B[0] = T.abs(x)"]),
        (["y: T.float32 = 1", "A[0, 0] = y"], ["y = T.float32(1)", "A[0, 0] = y"]),
        (["T.call('g', A)"], ["T.call('g', A[0:n, 0:8])"]),
        (["T.call('g', A[2, :4])"], ["T.call('g', A[2:3, 0:4])"]),
        (["T.call('g', A[1:, 3:n])"], ["T.call('g', A[1:1 + (n - 1), 3:3 + (n - 3)])"]),
        (["y = T.alias(x + x)", "B[0] = y * y"], ["B[0] = (x + x) * (x + x)"]),
        (["y = T.static([1, 2])", "B[0] = y[1]"], ["B[0] = 2"]),
        (["for i in T.static(range(2)):", "    B[i] = i"], ["B[0] = 0", "B[1] = 1"]),
        (["for i, v in enumerate([5, 6]):", "    B[i] = v"], ["B[0] = 5", "B[1] = 6"]),
        (["for i, v in zip([0, 1], (5, 6)):", "    B[i] = v"], ["B[0] = 5", "B[1] = 6"]),
        (["if 1 < 2:", "    B[0] = 1", "else:", "    B[0] = 2"], ["B[0] = 1"]),
        (["y = T.static(0)", "for i in [1, 2]:", "    y += i", "B[0] = y"], ["B[0] = 3"]),
        (["assert 1 < 2", "'text'"], []),
        (["if x > 0:", "    pass", "elif 1 > 2:", "    B[0] = 0"], ["if 0 < x:", "    pass"]),
        (["B[0] = ~x & 1 ^ -x | +x"], ["B[0] = ((~x & 1) ^ -x) | x"]),
        (["B[0] = T.max(*[B[i] for i in range(3) if i != 1])"], ["B[0] = T.max(B[0], B[2])"]),
        (["B[T.index(0)] = (lambda a, b: a * b)(x, 2)"], ["B[0] = x * 2"]),
        (["y = A.shape[0] + 1"], ["y = n + 1"]),
        (["A[0, 0] = -float('inf')"], ["A[0, 0] = T.float32('-inf')"]),
    ],
)
def test_sugar(sugar: list[str], canonical: list[str]) -> None:
    assert structural_equal(body(*sugar), body(*(canonical or ["pass"])))


def test_surroundings_are_values() -> None:
    tile = np.int64(2)

    def scaled(value: ir.Expr, factor: float) -> ir.Expr:
        return value * factor

    @T.program
    def f(A: T.Buffer((n, tile), "float32")):
        for i in range(n):
            for j, factor in enumerate(FACTORS):
                A[i, j] = scaled(A[i, j], factor) + math.pi

    @T.program
    def expected(A: T.Buffer((n, 2), "float32")):
        for i in range(n):
            A[i, 0] = A[i, 0] * 1.0 + T.float32(math.pi)
            A[i, 1] = A[i, 1] * 0.5 + T.float32(math.pi)

    assert structural_equal(f, expected)


def test_a_module_is_a_class() -> None:
    @T.module(attrs={"version": 3})
    class Kernels:
        m = T.dim("m", min=4)

        @T.program(attrs={"fast_math": True})
        def zero(A: T.Buffer((m,), "float32")):
            for i in range(m):  # noqa: F821
                A[i] = 0.0

        @T.program(name="zero_twice")
        def both(A: T.Buffer((m,), "float32"), B: T.Buffer((m,), "float32")):
            T.call("zero", A)
            T.call("zero", B)

    assert list(Kernels.functions) == ["zero", "zero_twice"]
    assert Kernels.attrs == {"version": 3}
    assert Kernels["zero"].attrs == {"fast_math": True}
    assert Kernels["zero"].dims == Kernels["zero_twice"].dims
    assert structural_equal(T.parse_module(Kernels.script()), Kernels)


def test_scalars_may_shape_buffers_before_them() -> None:
    @T.program
    def f(A: T.Buffer((size,), "float32"), size: T.Scalar("index", min=1)):
        for i in range(size):
            A[i] = 0.0

    a, size = f.params
    assert a.shape == (size,)
    assert size.low == 1
    assert f.dims == ()


def test_spans_point_at_the_source() -> None:
    @T.program
    def f(ä: T.Buffer((4,), "float32")):  # noqa: PLC2401
        "é"; ä[0] = 1.0; ä[1] = 2.0  # fmt: skip # noqa: E702

    assert isinstance(f.body, ir.Seq)
    second = f.body.stmts[1].span
    assert second is not None
    assert second.source.name == __file__
    line = second.source.line(second.line)
    assert line[second.column : second.end_column] == "ä[1] = 2.0"
    assert f.buffers[0].span is not None


def test_loops_and_blocks() -> None:
    f = body(
        'for i in T.parallel(n, attrs={"chunk": 4}):',
        "    for j in T.vectorized(8):",
        '        with T.block("C"):',
        "            vi, vj = T.remap('SO', i, j)",
        "            T.where(i < 5)",
        "            T.reads(B[vi])",
        "            T.writes(A[vi, vj], A[vi, 0:8])",
        '            T.block_attrs({"a": (1, "b")})',
        "            with T.init():",
        "                A[vi, vj] = 0.0",
        "            A[vi, vj] = 1.0",
    )
    outer = f.body
    assert isinstance(outer, ir.For)
    inner = outer.body
    assert isinstance(inner, ir.For)
    block = inner.body
    assert isinstance(block, ir.Block)
    assert (outer.kind, inner.kind) == (ir.LoopKind.PARALLEL, ir.LoopKind.VECTORIZED)
    assert outer.attrs == {"chunk": 4}
    assert [it.kind for it in block.iters] == [ir.IterKind.SPATIAL, ir.IterKind.OPAQUE]
    assert [it.binding for it in block.iters] == [outer.var, inner.var]
    assert block.reads is not None
    assert block.writes is not None
    assert [len(block.reads), len(block.writes)] == [1, 2]
    assert block.attrs == {"a": (1, "b")}
    assert block.init is not None
    assert all(s.span is not None for s in (outer, inner, block, block.body, block.init))


def test_names_end_with_their_lines() -> None:
    body("for i in range(n):", "    y = x", "for i in range(n):", "    y = x")
    with pytest.raises(TensorsmithError, match="'y' is defined already"):
        body("y = x", "for i in range(n):", "    y = x")


def test_a_text_runs_nothing() -> None:
    for line in ("().__class__", "T.program.__globals__", "__import__('os')", "A.replace()"):
        with pytest.raises(TensorsmithError):
            body(f"y = {line}")


def test_vector_types() -> None:
    f = T.parse_program("@T.program\ndef f(v: T.float32x4):\n    y = v * 2 + T.float32x4(1)\n")
    assert f.params[0].dtype.name == "float32x4"
    assert structural_equal(T.parse_program(f.script()), f)
