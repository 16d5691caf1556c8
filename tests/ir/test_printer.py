"""The text of expressions, statements, programs and modules."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest

from tensorsmith import ir
from tensorsmith.errors import IRError
from tensorsmith.ir import Buffer, Expr, For, IRModule, Seq, Store, TensorProgram, Var, const
from tensorsmith.ir.expr_text import float_literal
from tensorsmith.ir.names import Names, identifier
from tensorsmith.ir.printer import print_expr
from tensorsmith.ir.structural import structural_equal
from tensorsmith.script import parse_module, parse_program

i, j = Var("i"), Var("j")
x, y = Var("x", ir.dtype("float32")), Var("y", ir.dtype("float32"))
p, q = Var("p", ir.dtype("bool")), Var("q", ir.dtype("bool"))
k = Var("k", ir.dtype("int32"))
A = Buffer("A", (8, 8))
CELL = Buffer("cell", ())


@pytest.mark.parametrize(
    ("e", "text"),
    [
        ((i + j) * 2 - i // 4 % 3, "(i + j) * 2 - i // 4 % 3"),
        (i - (j - 1), "i - (j - 1)"),
        (i - j - 1, "i - j - 1"),
        (const(1) + 2, "T.index(1) + 2"),
        (1 + i, "1 + i"),
        (const(-5), "-5"),
        (ir.Neg(const(5)), "T.neg(5)"),
        (-i * 2, "-i * 2"),
        (-(i * 2), "-(i * 2)"),
        (-5 * i, "-5 * i"),
        (k + 1 << k, "k + 1 << k"),
        (k & (k | 1) ^ ~k, "k & (k | 1) ^ ~k"),
        (ir.And(p, ir.Or(q, ir.Not(p))), "p and (q or not p)"),
        (ir.And(const(1, "bool"), p), "T.bool(True) and p"),
        (ir.Eq(p, ir.Lt(i, j)), "p == (i < j)"),
        (ir.Not(ir.Lt(i, j)), "not i < j"),
        (ir.Eq(ir.Not(p), q), "(not p) == q"),
        (x * 0.1, "x * 0.1"),
        (ir.Min(const(0.0, "float32"), x), "T.min(0.0, x)"),
        (const(5, "int32"), "T.int32(5)"),
        (const(-0.0, "float32"), "T.float32(-0.0)"),
        (const(math.nan, "float16"), 'T.float16("nan")'),
        (const(-math.inf, "float64"), 'T.float64("-inf")'),
        (x + math.inf, 'x + T.float32("inf")'),
        (ir.select(p, x, 1.0), "T.select(p, x, 1.0)"),
        (ir.Cast(k, ir.dtype("float32")), "T.float32(k)"),
        (ir.Cast(const(5), ir.dtype("float32")), 'T.cast(5, "float32")'),
        (ir.Reinterpret(x, ir.dtype("uint32")), 'T.reinterpret(x, "uint32")'),
        (ir.TruncDiv(k, const(2, "int32")), "T.truncdiv(k, 2)"),
        (ir.INTRINSICS["fma"](x, 2.0, y), "T.fma(x, 2.0, y)"),
        (A[i, 0], "A[i, 0]"),
        (CELL[()], "cell[()]"),
    ],
)
def test_expressions(e: Expr, text: str) -> None:
    assert print_expr(e) == text


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1"),
        (0.1, "float64", "0.1"),
        (1 / 3, "float16", "0.3333"),
        (1 / 3, "bfloat16", "0.334"),
        (16777217.0, "float64", "16777217.0"),
        (3.4028234663852886e38, "float32", "3.4028235e+38"),
        (5e-324, "float64", "5e-324"),
    ],
)
def test_floats_are_the_shortest_that_read_back(value: float, dtype: str, text: str) -> None:
    constant = const(value, dtype)
    assert float_literal(constant.value, constant.dtype) == text
    assert const(float(text), dtype) is constant


def test_names_are_unique_and_the_users_own_where_free() -> None:
    names = Names()
    variables = [Var(name) for name in ("i", "i", "i_1", "lambda", "T", "1st", "", "_", "_", "__a")]
    got = [names.of(v) for v in variables]
    assert got == ["i", "i_1", "i_1_1", "lambda_1", "T_1", "v1st", "v", "_", "v_1", "a"]
    assert [names.of(v) for v in variables] == got
    with names.scope():
        assert names.fresh("i") == "i_2"
    assert names.fresh("i") == "i_2"


def test_identifiers() -> None:
    assert identifier("conv/1:0") == "conv_1_0"
    assert identifier("ﬁ") == "v"  # Python would read it as `fi`
    assert identifier("ä") == "ä"


def program(*stmts: ir.Stmt, params: tuple[ir.Param, ...] = (A, CELL, x, k)) -> TensorProgram:
    return TensorProgram("f", params, ir.seq(*stmts))


def round_trip(f: TensorProgram) -> str:
    text = f.script()
    parsed = parse_program(text)
    assert structural_equal(parsed, f)
    assert parsed.script() == text
    return text


def deep(e: Expr, levels: int, step) -> Expr:
    for _ in range(levels):
        e = step(e)
    return e


STEPS = {
    "add": lambda e: e + 1.0,
    "right": lambda e: 1.0 - e,
    "neg": lambda e: -e,
    "min": lambda e: ir.Min(x, e),
    "select": lambda e: ir.select(x < e, x, e + 1.0),
    "condition": lambda e: ir.select(e < x, x, 1.0),
    "cast": lambda e: ir.Cast(ir.Cast(e, ir.dtype("int32")), ir.dtype("float32")),
    "reinterpret": lambda e: ir.Reinterpret(
        ~ir.Reinterpret(e, ir.dtype("int32")), ir.dtype("float32")
    ),
    "load": lambda e: A[ir.Cast(e, ir.dtype("index")), 0],
    "call": lambda e: ir.INTRINSICS["pow"](e, 2.0),
    "logic": lambda e: ir.select(ir.And(ir.Or(ir.Not(e < x), x < 1.0), e < 2.0), x, 1.0),
}


@pytest.mark.parametrize("name", STEPS)
def test_depth_is_no_limit(name: str) -> None:
    e = deep(x, 10_000, STEPS[name])
    assert len(repr(e)) < 10_000
    assert program(Store(CELL, (), e)).script().count("T.alias") > 300
    round_trip(program(Store(CELL, (), deep(x, 500, STEPS[name]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_depth_is_no_limit_for_the_round_trip(name: str) -> None:
    round_trip(program(Store(CELL, (), deep(x, 10_000, STEPS[name]))))


def test_depth_of_integers() -> None:
    def step(e: Expr) -> Expr:
        return ir.TruncMod(ir.TruncDiv((e << 1) >> 1, k) // 2 % 3, k) ^ (~e & k | 1)

    out = Buffer("out", (), "int32")
    round_trip(program(Store(out, (), deep(k, 500, step)), params=(out, k)))


def test_shared_parts_are_written_once() -> None:
    e = deep(x, 200, lambda e: e + e)
    text = round_trip(program(Store(CELL, (), e)))
    assert len(text) < 10_000
    assert "cell[()] = e_6" in text


def test_text_is_linear_in_the_nodes() -> None:
    times = []
    for levels in (4_000, 20_000):
        e = deep(x, levels, lambda e: e * x + 1.0)
        start = time.process_time()
        text = program(Store(CELL, (), e)).script()
        times.append(time.process_time() - start)
        assert len(text) < 40 * levels
    assert times[1] < 25 * times[0]  # 5 if linear, and 25 if quadratic


def test_a_large_repr_is_shortened() -> None:
    text = repr(deep(x, 100_000, lambda e: ir.Min(-e, e)))
    assert "..." in text
    assert len(text) < 2_000


def test_many_loops_share_one_header() -> None:
    stmt: ir.Stmt = Store(CELL, (), x)
    for level in range(150):
        stmt = For(Var("i"), const(level + 1), stmt)
    assert "T.grid(150, 149" in round_trip(program(stmt))


def test_a_long_chain_of_elif() -> None:
    stmt: ir.Stmt | None = None
    for level in range(500):
        stmt = ir.If(k < level, Store(CELL, (), x), stmt)
    assert round_trip(program(stmt)).count("elif") == 499


def test_deep_sequences_print_flat() -> None:
    stmt: ir.Stmt = Store(CELL, (), x)
    for _ in range(10_000):
        stmt = Seq((stmt,))
    assert program(stmt).script().endswith("    cell[()] = x\n")


def test_too_many_levels_of_indentation() -> None:
    stmt: ir.Stmt = Store(CELL, (), x)
    for _ in range(98):
        stmt = ir.While(k < 3, stmt)
    round_trip(program(stmt))
    stmt = ir.While(k < 3, ir.While(k < 3, stmt))
    with pytest.raises(IRError) as caught:
        program(stmt).script()
    assert str(caught.value) == (
        "statements are nested more than 99 levels deep, and have no text\n"
        "  because: Python, whose syntax the text has, takes no more levels of indentation\n"
        "  try: fewer nested loops and conditionals, or a program of their own for the inner"
    )
    assert repr(stmt).endswith("...")


def test_a_module_reads_well() -> None:
    n = Var("n", low=1, multiple_of=8)
    a, b = Buffer("A", (n, 16)), Buffer("B", (n,), scope="shared", align=64, offset=4)
    sums = TensorProgram("sums", (a, b), Store(b, (n - 1,), a[n - 1, 0]), {"fast_math": True})
    module = IRModule.of(sums, TensorProgram("again", (b,), Seq(())), attrs={"v": (1, "x")})
    assert (
        module.script()
        == """\
from tensorsmith import script as T


@T.module(attrs={"v": (1, "x")})
class Module:
    n = T.dim("n", min=1, multiple_of=8)

    @T.program(attrs={"fast_math": True})
    def sums(
        A: T.Buffer((n, 16), "float32"),
        B: T.Buffer((n,), "float32", offset=4, scope="shared", align=64),
    ):
        B[n - 1] = A[n - 1, 0]

    @T.program
    def again(B: T.Buffer((n,), "float32", offset=4, scope="shared", align=64)):
        pass
"""
    )


def test_printed_text_runs_as_python(tmp_path) -> None:
    n = Var("n", low=1)
    a, size = Buffer("A", (n,)), Var("size", low=1)
    layout = ir.IndexMap.of(lambda i: (i // 4, i % 4), 1)
    b = Buffer("B", (size,), layout=layout)
    loop = For(i, n, Store(a, (i,), a[i] * 2.0))
    module = IRModule.of(TensorProgram("f", (a,), loop), TensorProgram("g", (b, size), Seq(())))
    path = tmp_path / "printed.py"
    path.write_text(module.script() + "\n\nprint(Module.script(), end='')\n", encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == module.script()
    assert structural_equal(parse_module(done.stdout), module)
