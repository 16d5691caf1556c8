"""Graph functions as text, and back."""

import numpy as np
import pytest

from tensorsmith import ir
from tensorsmith.errors import ScriptError
from tensorsmith.ir import Buffer, Cast, Load, Lt, Var, const
from tensorsmith.ir.dtype import bfloat16, float8_e4m3fn, index, int4, int64
from tensorsmith.ir.graph_text import MAX_INLINE, all_bindings, constants_of
from tensorsmith.ir.structural import diff, structural_hash
from tensorsmith.script import parse_graph, parse_module

n, m = Var("n", low=1), Var("m", low=0, multiple_of=4)
X = Buffer("x", (n, m))


def comes_back(graph):
    """The text of a graph function, which parses back to an equal one of the same text."""
    module = ir.IRModule.of(graph)
    text = module.script()
    back = parse_module(text, constants=constants_of(module))
    assert diff(module, back) is None
    assert structural_hash(module) == structural_hash(back)
    assert back.script() == text
    compile(text, "printed", "exec")  # it is Python
    before, after = (list(all_bindings(f.body)) for f in (graph, back.graph(graph.name)))
    assert [b.sources for b in before] == [b.sources for b in after]
    alone = parse_graph(graph.script(), constants=constants_of(graph))
    assert diff(graph, alone) is None
    return text


def graph(body, results=(), params=(X,), **fields):
    return ir.GraphFunction("main", tuple(params), tuple(body), tuple(results), **fields)


def test_an_operator_reads_as_a_call() -> None:
    y = Buffer("y", (n, m))
    applied = ir.Apply((y,), "softmax", (X,), {"axis": -1}, sources=("node",))
    assert comes_back(graph([applied], [y])) == (
        "from tensorsmith import script as T\n"
        "\n"
        "\n"
        "@T.module\n"
        "class Module:\n"
        '    n = T.dim("n", min=1)\n'
        '    m = T.dim("m", min=0, multiple_of=4)\n'
        "\n"
        "    @T.graph\n"
        '    def main(x: T.Tensor((n, m), "float32")):\n'
        '        T.source("node")\n'
        '        y: T.Tensor((n, m), "float32") = T.op.softmax(x, axis=-1)\n'
        "        return y\n"
    )


def test_operators_with_any_name_operands_and_attributes() -> None:
    y, z = Buffer("y/1", (n,)), Buffer("y/1", (m,))
    attrs = {"a": (1, 2.5, "s", True, n + 1, const(3, int64)), "b": float("nan"), "c": ((),)}
    body = [
        ir.Apply((y, z), "and", (X, None, X), attrs),
        ir.Apply((), "nothing", ()),
        ir.Apply((Buffer("w", ()),), "add", (y,), {"lambda": 1}),
        ir.Apply((Buffer("v", (n * n + n * 3,)),), "not a name", (y,)),
    ]
    comes_back(graph(body, [z, y, z], attrs={"entry": True}))


@pytest.mark.parametrize(
    "data",
    [
        np.array([1.5, -0.0, np.inf, -np.inf, np.nan], np.float32),
        np.array(0.1, np.float64),
        np.array([[0.1, 1e-7], [65504, 3]], np.float16),
        np.array([0.1, 3e38], bfloat16.numpy),
        np.array([0.1, 448], float8_e4m3fn.numpy),
        np.array([-8, 7], int4.numpy),
        np.array([0, 2**64 - 1], np.uint64),
        np.array([[True], [False]]),
        np.zeros((3, 0), np.int8),
        np.array([0x7F800001, 0xFFC00000], np.uint32).view(np.float32),
        np.arange(MAX_INLINE + 1.0).reshape(1, -1),
        np.arange(40, dtype=np.int32).reshape(5, 8).T,
    ],
    ids=lambda data: f"{data.dtype}-{data.shape}",
)
def test_constants_keep_every_bit(data) -> None:
    c = Buffer("c", data.shape, data.dtype.name)
    made = graph([ir.Constant(c, data)], [c])
    comes_back(made)
    (back,) = parse_graph(made.script(), constants=constants_of(made)).body
    assert back.data.dtype == data.dtype
    assert back.data.tobytes() == data.tobytes()


def test_a_large_constant_is_named_by_its_content() -> None:
    data = np.arange(64, dtype=np.float32)
    made = graph([ir.Constant(Buffer("w", (64,)), data)])
    with pytest.raises(ScriptError, match="the constant 'w' is not in the text"):
        parse_graph(made.script())
    (key,) = constants_of(made)
    with pytest.raises(ScriptError, match="the array given for 'w' has another content"):
        parse_graph(made.script(), constants={key: data + 1})


def test_variables_are_read_from_tensors() -> None:
    count = Buffer("count", (2,), "int64")
    k, j = Var("k", low=0, high=9), Var("j", int64)
    first, second = (Load(count, (const(at),)) for at in (0, 1))
    y = Buffer("y", (k, m))
    body = [
        ir.Dims((k, j), (Cast(first, index), second)),
        ir.Dims((Var("i", multiple_of=2),), (Cast(second, index),)),
        ir.Dims((Var("h", int64),), (first,)),
        ir.Dims((), ()),
        ir.Check(Lt(k, n), "k is less"),
        ir.MatchShape(y, X),
    ]
    comes_back(graph(body, [y], params=(X, count)))


def test_a_match_binds_the_new_variables_of_its_shape() -> None:
    k, q = Var("k", low=0), Var("q", low=2)
    y = Buffer("y", (k, q * 2))
    assert 'q = T.dim("q", min=2)' in comes_back(graph([ir.MatchShape(y, X)], [y]))


def test_another_shape_of_the_same_memory() -> None:
    y = Buffer("y", (n * m,))
    assert 'y: T.Tensor((n * m,), "float32") = T.reshaped(x)' in comes_back(
        graph([ir.Alias(y, X)], [y])
    )


def test_programs_and_external_functions() -> None:
    text = ir.Opaque("text", "strings", (n,))
    y, z = Buffer("y", (n, m)), Buffer("z", (n,), "int64")
    state = ir.Opaque("memory", "state")
    body = [
        ir.CallProgram((y,), "gelu", (X, n + 1, const(1, int64)), ((0, 0),)),
        ir.CallProgram((), "log", (X,)),
        ir.CallExtern((z, state), "encode", (text, None, n), {"width": 3}, is_python=True),
        ir.CallExtern((), "close", (state,), is_pure=False),
    ]
    comes_back(graph(body, [y, text, z], params=(X, text)))


def test_branches() -> None:
    condition, k = Buffer("if", (), "bool"), Var("k", low=0)
    r, s, a, b = (Buffer(name, (k, m)) for name in "rsab")
    then = ir.Body((), (ir.Apply((a,), "relu", (X,), sources=("inner",)),), (a, a))
    orelse = ir.Body((), (ir.Apply((b,), "neg", (X,)),), (b, X))
    nested = ir.Branch((), condition, ir.Body((), (), ()), ir.Body((), (ir.Dims((), ()),), ()))
    both = ir.Branch((r, s), condition, then, orelse, sources=("if",))
    comes_back(graph([both, nested], [s, r], params=(X, condition)))


def test_loops() -> None:
    go = Buffer("go", (), "bool")
    k, rows, i = Var("k", low=0), Var("rows", low=0), Var("i", low=0)
    state, inner, after = Buffer("s", (n,)), Buffer("s", (rows,)), Buffer("s", (rows + 1,))
    last, scan = Buffer("last", (Var("final", low=0),)), Buffer("scan", (k, m))
    ok = Buffer("ok", (), "bool")
    bindings = (
        ir.Constant(ok, np.array(True)),
        ir.Apply((after,), "grow", (inner,), {"by": (i,)}, sources=("inside",)),
    )
    body = ir.Body((inner,), bindings, (ok, after, X), (i,))
    loop = ir.Loop((last, scan), n, go, (state,), body, has_condition=True, sources=("loop",))
    endless = ir.Loop((), None, None, (), ir.Body((), (), ()))
    comes_back(graph([loop, endless], [scan, last], params=(X, go, state)))


def test_a_kernel_beside_the_function_that_calls_it() -> None:
    a, b, i, y = Buffer("a", (n,)), Buffer("b", (n,)), Var("i"), Buffer("y", (n,))
    copy = ir.TensorProgram("copy", (a, b), ir.For(i, n, ir.Store(b, (i,), a[i])))
    main = graph([ir.CallProgram((y,), "copy", (a,))], [y], params=(a,))
    module = ir.IRModule.of(main, copy)
    back = parse_module(module.script())
    assert diff(module, back) is None
    assert list(back.functions) == ["main", "copy"]
    assert back.script() == module.script()


def test_what_counts_in_graph_functions() -> None:
    def one(op="add", axis=1, result=None, data=1.0, operand=X, sources=()):
        y, c = result or Buffer("y", (n,)), Buffer("c", ())
        return graph(
            [
                ir.Constant(c, np.array(data, np.float32)),
                ir.Apply((y,), op, (operand, c), {"axis": axis}, sources=sources),
            ],
            [y],
        )

    assert diff(one(), one(sources=("elsewhere",), result=Buffer("other", (n,)))) is None
    others = [one("sub"), one(axis=2), one(axis=1.0), one(data=2.0), one(operand=None)]
    others.append(one(result=Buffer("y", (n,), "int32")))
    for other in others:
        assert diff(one(), other) is not None
        assert structural_hash(one()) != structural_hash(other)
