"""Kernels with a schedule of their own for few rows."""

from dataclasses import replace

import numpy as np
import pytest

from tensorsmith.compiler import compile
from tensorsmith.compiler.constants import marked
from tensorsmith.compiler.pipeline import run
from tensorsmith.compiler.variants import divided
from tensorsmith.ir import Buffer, For, If, IRModule, LoopKind, Var
from tensorsmith.ir.rewrite import statements
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.schedule import default_schedule
from tensorsmith.schedule.defaults.few import MOST_ROWS, few_rows
from tensorsmith.target import Target

DEPTH, COLUMNS = 200, 300


def product(kind, columns=COLUMNS):
    """A product with rows of any number, a bias and a rectifier; and the other operand."""
    rng = np.random.default_rng(0)
    shape = (columns, DEPTH) if kind == "turned" else (DEPTH, columns)
    weight = rng.integers(-5, 6, shape).astype(np.int8 if kind == "quantised" else np.float32)
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("rows", low=1), DEPTH), "float32")
    w = b.param("w", shape, "float32") if kind == "given" else b.constant(weight)
    if kind == "quantised":
        w = b("mul", b("cast", w, dtype="float32"), b.constant(np.float32(0.5)))
    if kind == "turned":
        w = b("transpose", w, axes=(1, 0))
    bias = rng.integers(-5, 6, columns).astype(np.float32)
    y = b("relu", b("add", b("matmul", x, w), b.constant(bias)))
    module = IRModule.of(b.function("main", [y]))
    right = weight.T if kind == "turned" else weight
    right = right * np.float32(0.5) if kind == "quantised" else right
    return module, weight, right, bias


@pytest.mark.parametrize("kind", ["constant", "given", "quantised", "turned"])
def test_few_rows_and_many_give_the_same(kind):
    module, weight, right, bias = product(kind)
    model = compile(module, threads=1)
    rng = np.random.default_rng(1)
    for rows in (1, 2, MOST_ROWS, MOST_ROWS + 1, 8, 9, 17):
        x = rng.integers(-5, 6, (rows, DEPTH)).astype(np.float32)
        given = (x, weight) if kind == "given" else (x,)
        np.testing.assert_array_equal(model(*given), np.maximum(x @ right + bias, 0))


@pytest.mark.parametrize("cores", [1, 4])
def test_what_is_constant_is_packed_once_for_both(cores):
    module, *_ = product("constant")
    (program,) = run(module).programs.values()
    target = replace(Target.named("x86-64-v3"), cores=cores)
    given = marked(program, [1, 2])
    few = few_rows(given, target)
    assert few is not None
    condition, schedule = few
    rest, parts = divided(default_schedule(given, target).program, (condition, schedule.program))
    assert parts is not None
    assert parts.rest is rest
    assert any(isinstance(s, If) for s in statements(rest.body))
    assert not any(isinstance(s, If) for s in statements(parts.before.body))


@pytest.mark.parametrize(("columns", "streams"), [(256, 4), (288, 3), (300, 2)])
def test_constant_columns_are_read_in_several_places(columns, streams):
    module, _, right, bias = product("constant", columns)
    (program,) = run(module).programs.values()
    target = Target.named("x86-64-v4")
    given = marked(program, [1, 2])
    few = few_rows(given, target)
    assert few is not None
    _, parts = divided(default_schedule(given, target).program, (few[0], few[1].program))
    assert parts is not None
    shapes = [p.shape for p in parts.rest.params if isinstance(p, Buffer) and len(p.shape) == 4]
    assert [int(shape[0].value) for shape in shapes] == [streams]
    model = compile(module, threads=1)
    for rows in (1, MOST_ROWS, MOST_ROWS + 1):
        x = np.arange(rows * DEPTH).reshape(rows, DEPTH).astype(np.float32) % 7
        np.testing.assert_array_equal(model(x), np.maximum(x @ right + bias, 0))


def test_there_is_no_case_of_few_rows_where_they_are_known_or_columns_are_not():
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (4, DEPTH), "float32")
    y = b.param("y", (DEPTH, Var("columns", low=1)), "float32")
    z = b.param("z", (DEPTH, COLUMNS), "float32")
    module = IRModule.of(b.function("main", [b("matmul", x, y), b("matmul", x, z)]))
    for program in run(module).programs.values():
        assert few_rows(program, Target.named("x86-64-v3")) is None


def test_attention_to_few_tokens_has_a_schedule_of_its_own():
    b = GraphBuilder(OPERATORS)
    new, all_ = Var("new", low=1), Var("all", low=1)
    q = b.param("q", (2, new, 16), "float32")
    k, v = (b.param(name, (2, all_, 16), "float32") for name in "kv")
    scores = b("softmax", b("matmul", q, b("transpose", k, axes=(0, 2, 1))), axis=-1)
    module = IRModule.of(b.function("main", [b("matmul", scores, v)]))
    (program,) = run(module).programs.values()
    few = few_rows(program, Target.host())
    assert few is not None
    assert "<=" in str(few[0])
    model = compile(module, threads=1)
    rng = np.random.default_rng(2)
    for count in (1, 2, MOST_ROWS + 1, 11):
        args = [rng.standard_normal((2, n, 16), dtype=np.float32) for n in (count, 21, 21)]
        powers = np.exp(args[0].astype(np.float64) @ args[1].transpose(0, 2, 1))
        wanted = powers / powers.sum(-1, keepdims=True) @ args[2]
        np.testing.assert_allclose(model(*args), wanted, rtol=1e-4, atol=1e-5)


def test_few_rows_of_a_large_product_run_on_threads():
    module, *_ = product("constant", 2048)
    (program,) = run(module).programs.values()
    few = few_rows(marked(program, [1, 2]), replace(Target.named("x86-64-v4"), cores=4))
    assert few is not None
    _, parts = divided(few[1].program)
    assert parts is not None
    assert any(
        isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(parts.rest.body)
    )
