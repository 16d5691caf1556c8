"""Structural equality, hashing and difference."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace

import pytest

from tensorsmith import ir
from tensorsmith.errors import Source, Span
from tensorsmith.ir.dtype import bool_, float32, index, int32
from tensorsmith.ir.parts import FIELDS, SYMBOL_FIELDS
from tensorsmith.ir.stmt import LoopKind, Stmt
from tensorsmith.ir.structural import diff, structural_equal, structural_hash


def matmul(
    names: str = "nijkABC",
    *,
    low: int | None = 1,
    dtype: str = "float32",
    scope: str = "global",
    kind: LoopKind = LoopKind.SERIAL,
    thread: str | None = None,
    transposed: bool = False,
    zero: float = 0.0,
    attrs: dict[str, ir.AttrValue] | None = None,
) -> ir.TensorProgram:
    """A matrix product with one block, with the given names and details."""
    n = ir.Var(names[0], low=low)
    a = ir.Buffer(names[4], (n, 128), dtype)
    b = ir.Buffer(names[5], (128, 64), dtype, scope=scope)
    c = ir.Buffer(names[6], (n, 64), dtype)
    i, j, k = (ir.Var(name) for name in names[1:4])
    vi, vj, vk = (ir.Var("v" + name) for name in names[1:4])
    left = a[vk, vi] if transposed else a[vi, vk]
    block = ir.Block(
        "C",
        (
            ir.Iter(vi, n, ir.IterKind.SPATIAL, i),
            ir.Iter(vj, ir.const(64), ir.IterKind.SPATIAL, j),
            ir.Iter(vk, ir.const(128), ir.IterKind.REDUCE, k),
        ),
        ir.Store(c, (vi, vj), c[vi, vj] + left * b[vk, vj]),
        init=ir.Store(c, (vi, vj), ir.const(zero, dtype)),
    )
    inner = ir.For(k, ir.const(128), block)
    body = ir.For(i, n, ir.For(j, ir.const(64), inner), kind, thread=thread, attrs=attrs or {})
    return ir.TensorProgram("matmul", (a, b, c), body)


def assert_equal(a: object, b: object, **options: bool) -> None:
    """Equal, both ways, with one hash."""
    assert diff(a, b, **options) is None
    assert structural_equal(a, b, **options)
    assert structural_equal(b, a, **options)
    assert structural_hash(a) == structural_hash(b)


def assert_different(a: object, b: object) -> None:
    """Different, both ways, with two hashes."""
    assert diff(a, b) is not None
    assert not structural_equal(a, b)
    assert not structural_equal(b, a)
    assert structural_hash(a) != structural_hash(b)


def test_names_do_not_count() -> None:
    assert_equal(matmul(), matmul("mxyzPQR"))
    assert_equal(matmul(), replace(matmul(), name="other"))


def test_spans_do_not_count() -> None:
    program = matmul()
    span = Span(Source("f.py", "text"), 1, 0, 1, 4)
    assert_equal(program, replace(program, body=replace(program.body, span=span), span=span))


@pytest.mark.parametrize(
    "change",
    [
        {"low": 0},
        {"low": None},
        {"dtype": "float64"},
        {"scope": "shared"},
        {"kind": LoopKind.PARALLEL},
        {"kind": LoopKind.THREAD, "thread": "blockIdx.x"},
        {"transposed": True},
        {"zero": -0.0},
        {"attrs": {"unroll": 4}},
    ],
    ids=str,
)
def test_everything_else_counts(change: dict[str, object]) -> None:
    assert_different(matmul(), matmul(**change))


def test_attributes_count_by_type_and_in_no_order() -> None:
    assert_equal(matmul(attrs={"a": 1, "b": 2.5}), matmul(attrs={"b": 2.5, "a": 1}))
    assert_different(matmul(attrs={"a": 1}), matmul(attrs={"a": True}))
    assert_different(matmul(attrs={"a": 1}), matmul(attrs={"a": 1.0}))
    assert_different(matmul(attrs={"a": 1}), matmul(attrs={"b": 1}))
    assert_different(matmul(attrs={"a": (1, 2)}), matmul(attrs={"a": (1, 2, 3)}))


def test_free_variables_are_themselves() -> None:
    x, y = ir.Var("x"), ir.Var("x")
    assert structural_equal(x + 1, x + 1)
    assert not structural_equal(x + 1, y + 1)
    assert structural_equal(x + y, y + x, map_free_vars=True)
    assert not structural_equal(x + x, x + y, map_free_vars=True)
    assert not structural_equal(x + y, x + x, map_free_vars=True)
    assert structural_hash(x + y) == structural_hash(y + x) != structural_hash(x + x)


def test_free_buffers_are_themselves() -> None:
    i = ir.Var("i")
    a, b, c = ir.Buffer("A", (4,)), ir.Buffer("B", (4,)), ir.Buffer("C", (4,), "int32")
    assert not structural_equal(a[i], b[i])
    assert structural_equal(a[i], b[i], map_free_vars=True)
    assert not structural_equal(a[i], c[i], map_free_vars=True)


def test_free_variables_match_with_their_facts_only() -> None:
    x, y, z = ir.Var("x", low=1), ir.Var("y"), ir.Var("z", int32)
    assert not structural_equal(x, y, map_free_vars=True)
    assert not structural_equal(y, z, map_free_vars=True)
    assert structural_equal(x, x.renamed("other"), map_free_vars=True)


def test_a_loop_variable_is_not_a_free_one() -> None:
    i, j = ir.Var("i"), ir.Var("j")
    a = ir.Buffer("A", (8,))
    uses_own = ir.For(i, ir.const(8), ir.Store(a, (i,), ir.const(1.0, float32)))
    uses_other = ir.For(i, ir.const(8), ir.Store(a, (j,), ir.const(1.0, float32)))
    renamed = ir.For(j, ir.const(8), ir.Store(a, (j,), ir.const(1.0, float32)))
    assert_equal(uses_own, renamed)
    assert_different(uses_own, uses_other)


def test_dimensions_correspond_wherever_they_stand() -> None:
    def program(first: int, second: int) -> ir.TensorProgram:
        dims = ir.Var("n"), ir.Var("m")
        a, b = ir.Buffer("A", (dims[0] * 2,)), ir.Buffer("B", (dims[first], dims[second]))
        return ir.TensorProgram("f", (a, b), ir.Seq(()))

    assert_equal(program(0, 1), program(0, 1))
    assert_different(program(0, 1), program(1, 0))
    assert_different(program(0, 0), program(0, 1))


def test_nesting_of_sequences_does_not_count() -> None:
    a = ir.Buffer("A", ())
    one, two, three = (ir.Store(a, (), ir.const(v, float32)) for v in (1.0, 2.0, 3.0))
    assert_equal(ir.Seq((one, ir.Seq((two, three)))), ir.Seq((one, two, three)))
    assert_equal(ir.Seq((one,)), one)
    assert_different(ir.Seq((one, two)), ir.Seq((two, one)))


def test_layouts_match_up_to_their_inputs() -> None:
    def program(*layouts: ir.IndexMap) -> ir.TensorProgram:
        buffers = tuple(ir.Buffer("A", (8, 8), layout=layout) for layout in layouts)
        return ir.TensorProgram("f", buffers, ir.Seq(()))

    def blocked(i: ir.Expr, j: ir.Expr) -> tuple[ir.Expr, ...]:
        return i // 4, j, i % 4

    shared = ir.IndexMap.of(blocked, 2)
    other = ir.IndexMap.of(lambda i, j: (j // 4, i, j % 4), 2)
    assert_equal(program(shared, shared), program(*(ir.IndexMap.of(blocked, 2) for _ in "12")))
    assert_different(program(shared), program(other))


def test_functions_of_a_module_match_by_name() -> None:
    f, g = replace(matmul(), name="f"), replace(matmul(dtype="float64"), name="g")
    assert_equal(ir.IRModule.of(f, g), ir.IRModule.of(g, replace(matmul("mxyzPQR"), name="f")))
    assert_different(ir.IRModule.of(f, g), ir.IRModule.of(f))
    assert_different(
        ir.IRModule.of(f, g), ir.IRModule.of(replace(f, name="g"), replace(g, name="f"))
    )


def test_functions_of_a_module_have_dimensions_of_their_own() -> None:
    n, m = ir.Var("n"), ir.Var("m")

    def module(first: ir.Var, second: ir.Var) -> ir.IRModule:
        return ir.IRModule.of(
            ir.TensorProgram("f", (ir.Buffer("A", (first,)),), ir.Seq(())),
            ir.TensorProgram("g", (ir.Buffer("A", (second,)),), ir.Seq(())),
        )

    assert_equal(module(n, n), module(n, m))


def test_dags_and_deep_expressions_are_fast() -> None:
    def doubled(e: ir.Expr, times: int) -> ir.Expr:
        for _ in range(times):
            e = e + e
        return e

    def chain(e: ir.Expr, levels: int) -> ir.Expr:
        for level in range(levels):
            e = e + level
        return e

    x, y = ir.Var("x"), ir.Var("y")
    assert_equal(doubled(x, 200), doubled(y, 200), map_free_vars=True)
    assert_equal(chain(x, 10_000), chain(y, 10_000), map_free_vars=True)
    found = diff(chain(x * 2, 10_000), chain(y * 3, 10_000), map_free_vars=True)
    assert found is not None
    assert found.path == ".".join(["a"] * 10_000 + ["b"])


def test_deep_statements_do_not_overflow() -> None:
    def nest(levels: int) -> ir.Stmt:
        stmt: ir.Stmt = ir.Seq(())
        for _ in range(levels):
            stmt = ir.For(ir.Var("i"), ir.const(1), stmt)
        return stmt

    assert_equal(nest(10_000), nest(10_000))
    assert_different(nest(10_000), nest(9_999))


def test_the_hash_is_the_same_in_every_process() -> None:
    code = (
        "from tensorsmith import ir; from tensorsmith.ir.structural import structural_hash as h\n"
        "x = ir.Var('x', low=1); b = ir.Buffer('B', (x, 8), scope='shared')\n"
        "print(h(ir.For(x, x + 1, ir.Store(b, (x, x), b[x, x] + 0.5), attrs={'b': 1, 'a': 2})))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 32


def test_each_field_of_each_statement_counts() -> None:
    ignored = {"name", "span"}
    statements = {getattr(ir, cls.__name__) for cls in Stmt.__subclasses__()} - {ir.Seq}
    for cls in (*statements, ir.Iter, ir.TensorProgram, ir.IRModule):
        walked = {name.lstrip("=") for name in FIELDS[cls]}
        assert walked == {f.name for f in fields(cls) if f.init} - ignored, cls
    assert set(SYMBOL_FIELDS[ir.Buffer]) == set(ir.Buffer.__slots__) - ignored


def test_constants_differ_by_bits_and_dtype() -> None:
    nan = float("nan")
    assert structural_equal(ir.const(nan, "float32"), ir.const(nan, "float32"))
    assert not structural_equal(ir.const(0.0, "float32"), ir.const(-0.0, "float32"))
    assert not structural_equal(ir.const(1, index), ir.const(1, int32))
    assert not structural_equal(ir.const(1, "uint8"), ir.const(1, bool_))


def test_a_difference_says_where_and_what() -> None:
    found = diff(matmul(), matmul(transposed=True))
    assert found is not None
    assert found.path == "body[0].body[0].body[0].body[0].body[0].value.b.a.indices[0]"
    assert found.what == "'vi' corresponds to 'vi', not to 'vk'"


def test_a_difference_of_lengths_shows_what_is_missing() -> None:
    a = ir.Buffer("A", ())
    one, two = (ir.Store(a, (), ir.const(v, float32)) for v in (1.0, 2.0))
    found = diff(ir.Seq((one, two)), one)
    assert found is not None
    assert (found.path, found.what, found.right) == ("[1]", "different kinds", "nothing")


def test_the_difference_of_modules_names_the_function() -> None:
    f = replace(matmul(), name="f")
    found = diff(ir.IRModule.of(f), ir.IRModule.of(replace(matmul(zero=1.0), name="f")))
    assert found is not None
    assert found.path == "functions['f'].body[0].body[0].body[0].body[0].init[0].value"
