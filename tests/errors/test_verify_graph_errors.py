"""The whole text of the verifier's errors about graph functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tensorsmith import ir
from tensorsmith.errors import IRError
from tensorsmith.ir import Buffer, IRModule, Var, const
from tensorsmith.ir.dtype import int32
from tensorsmith.verify import errors, verify
from verify.programs import only_problem

n, m, k = Var("n", low=0), Var("m", low=1), Var("k", low=0)
X, Y = Buffer("x", (n, m)), Buffer("y", (n, m))
FLAG = Buffer("flag", (), "bool")
NEG = ir.Apply((Y,), "neg", (X,), sources=("node",))
EMPTY = ir.Body((), (), ())


def graph(*body, results=(), params=(X, FLAG)):
    return ir.GraphFunction("f", tuple(params), tuple(body), tuple(results))


def problem(error, *body, programs=(), **parts):
    return only_problem(IRModule.of(graph(*body, **parts), *programs), error)


def test_defined() -> None:
    assert problem(errors.UndefinedError, results=[Y]) == (
        "in 'f': the value 'y' is used, and nothing defines it before\n"
        "  try: a parameter, or a result of a binding before this place"
    )
    grown = ir.Apply((Buffer("y", (k,)),), "neg", (X,), sources=("node",))
    assert problem(errors.UndefinedError, grown) == (
        "node in 'f': the variable 'k' is used, and nothing defines it before\n"
        "  try: a dimension of a parameter, or what a read or match before this place binds"
    )


def test_defined_once() -> None:
    assert problem(errors.RedefinedError, NEG, NEG) == (
        "node in 'f': 'y' is defined twice\n"
        "  because: every value and variable has one definition in a function\n"
        "  try: a new Buffer or Var for each definition; they may share a name"
    )
    assert "'n' is defined twice" in problem(errors.RedefinedError, ir.Dims((n,), (m,)))
    assert "'x' is defined twice" in problem(errors.RedefinedError, params=[X, X])


def test_in_scope() -> None:
    branch = ir.Branch((), FLAG, ir.Body((), (NEG,), ()), EMPTY)
    assert problem(errors.OutOfScopeError, branch, results=[Y]) == (
        "in 'f': the value 'y' is used outside of its scope\n"
        "  because: what the body of a branch or loop defines ends with it\n"
        "  try: a result of the branch or loop"
    )


def test_attribute() -> None:
    wrong = replace(NEG, attrs={"axis": (1, np.int64(3))})
    assert problem(errors.AttributeTypeError, wrong) == (
        "node in 'f': the attribute 'axis' is (1, np.int64(3)): tuple\n"
        "  because: attributes are numbers and strings of Python, None, expressions, and tuples of"
        " these"
    )


def test_constant() -> None:
    c = Buffer("c", (2,))
    assert problem(errors.ConstantTypeError, ir.Constant(c, np.zeros(3, np.float32))) == (
        "in 'f': the constant 'c' is c: Buffer((2,), 'float32'), and its data has shape (3,)"
    )
    assert problem(errors.ConstantTypeError, ir.Constant(c, np.zeros(2))) == (
        "in 'f': the constant 'c' is float32, and its data float64"
    )


def copying() -> ir.TensorProgram:
    rows, i, j = Var("rows", low=0), Var("i"), Var("j")
    a, b = Buffer("a", (rows, 4)), Buffer("b", (rows, 4))
    store = ir.Store(b, (i, j), a[i, j])
    return ir.TensorProgram("copy", (a, b), ir.For(i, rows, ir.For(j, const(4), store)))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            ir.CallProgram((Y,), "f", (X,)),
            (
                "'f' is a graph function, and a graph function calls tensor programs\n"
                "  try: one of 'copy'"
            ),
        ),
        (
            ir.CallProgram((Y,), "g", (X,)),
            (
                "'g' is not in the module, and a graph function calls tensor programs\n"
                "  try: one of 'copy'"
            ),
        ),
        (
            ir.CallProgram((Y,), "copy", ()),
            "'copy' takes 2 arguments, not 1\n  given: its parameters are a, b",
        ),
        (
            ir.CallProgram((Buffer("z", (n, 4)),), "copy", (const(3),)),
            "an argument of 'copy', 3, is a scalar, and must be a tensor of rank 2",
        ),
        (
            ir.CallProgram((Buffer("z", (n, 3)),), "copy", (X,)),
            (
                "an argument of 'copy', z: Buffer((n, 3), 'float32'), has the extent 3 in"
                " dimension 1, and must have 4"
            ),
        ),
        (
            ir.CallProgram((Buffer("z", (n,)),), "copy", (X,)),
            "an argument of 'copy', z: Buffer((n,), 'float32'), has rank 1, and must have rank 2",
        ),
        (
            ir.CallProgram((Buffer("z", (n, 4), "int32"),), "copy", (X,)),
            "an argument of 'copy', z: Buffer((n, 4), 'int32'), holds int32, and must hold float32",
        ),
        (
            ir.CallProgram((Buffer("z", (n, 4)),), "copy", (X,), ((0, 1),)),
            (
                "'copy' cannot put result 0 in the memory of operand 1\n"
                "  because: each result takes over the memory of one operand, a tensor"
            ),
        ),
    ],
)
def test_signature(call, text) -> None:
    assert problem(errors.SignatureError, call, programs=[copying()]) == f"in 'f': {text}"


def test_bind_type() -> None:
    j = Var("j", int32)
    assert problem(errors.BindTypeError, ir.Dims((j,), (n,))) == (
        "in 'f': 'j' is int32, and its value is index\n  given: n: index"
    )
    assert problem(errors.BindTypeError, ir.Dims((), (n,))) == (
        "in 'f': 1 values for 0 variables are read"
    )


def test_condition_type() -> None:
    assert problem(errors.ConditionTypeError, ir.Check(n, "message")) == (
        "in 'f': the condition of a check is index, and must be bool\n  given: n: index"
    )
    assert problem(errors.ConditionTypeError, ir.Branch((), X, EMPTY, EMPTY)) == (
        "in 'f': the condition of a branch is x: Buffer((n, m), 'float32'), and must be bool of"
        " shape ()"
    )


def test_shape_view() -> None:
    wrong = ir.MatchShape(Buffer("y", (n,)), X)
    assert problem(errors.ShapeViewError, wrong) == (
        "in 'f': 'x' has rank 2, and must have rank 1 to be 'y'"
    )
    other = ir.Alias(Buffer("y", (n, m), "int32"), X)
    assert problem(errors.ShapeViewError, other) == (
        "in 'f': 'x' holds float32, and by another shape int32"
    )
    larger = ir.Alias(Buffer("y", (n * m + 1,)), X)
    assert problem(errors.ShapeViewError, larger) == (
        "in 'f': 'x' has m * n elements, and by another shape m * n + 1"
    )


def test_branch() -> None:
    r = Buffer("r", (n, 3))
    given = ir.Body((), (), (Buffer("x3", (n, 3)),))
    params = [FLAG, given.results[0], Buffer("wide", (n, 4))]
    few = ir.Branch((r,), FLAG, given, EMPTY)
    assert problem(errors.BranchTypeError, few, params=params) == (
        "in 'f': the else side gives 0 results, and must give 1"
    )
    wide = ir.Branch((r,), FLAG, given, ir.Body((), (), (params[2],)))
    assert problem(errors.BranchTypeError, wide, params=params) == (
        "in 'f': the else side gives 'wide' for 'r', which has the extent 4 in dimension 1, and"
        " must have 3"
    )
    fresh = ir.Branch((Buffer("r", (n, k)),), FLAG, given, wide.orelse)
    verified = graph(fresh, params=params)

    verify(verified)


def test_loop() -> None:
    state, after = Buffer("state", (n, m)), Buffer("after", (n, m))
    inner = ir.Apply((after,), "neg", (state,))
    body = ir.Body((state,), (inner,), (after, after))
    loop = ir.Loop((Y, Buffer("scan", (3, n, m))), const(3), None, (X,), body)

    verify(graph(loop, results=[Y]))
    cases = [
        (replace(loop, initial=()), "the start gives 0 results, and must give 1"),
        (
            replace(loop, results=(Y,)),
            "an iteration gives 2 states and scans, and the loop 1 results for 1 states",
        ),
        (
            replace(loop, results=(Y, Buffer("scan", (3, n)))),
            "a scan gives 'after' for 'scan', which has rank 2, and must have rank 1",
        ),
        (
            replace(loop, trip=const(1.0, "float32")),
            "the number of iterations, T.float32(1.0), is float32",
        ),
        (
            replace(loop, initial=(FLAG,)),
            "the start gives 'flag' for 'state', which holds bool, and must hold float32",
        ),
    ]
    for wrong, text in cases:
        assert problem(errors.LoopTypeError, wrong) == f"in 'f': {text}"


def nested(depth: int) -> ir.GraphFunction:
    branch = ir.Branch((), FLAG, EMPTY, EMPTY)
    for _ in range(depth):
        branch = ir.Branch((), FLAG, ir.Body((), (branch,), ()), EMPTY)
    return graph(branch)


def test_nesting() -> None:
    verify(nested(60))
    assert only_problem(IRModule.of(nested(200)), errors.NestingError) == (
        "in 'f': bodies are nested more than 64 deep\n"
        "  try: a loop with a state, or programs of their own for the inner"
    )
    with pytest.raises(IRError) as caught:
        nested(200).script()
    assert str(caught.value) == (
        "bodies are nested more than 99 levels deep, and have no text\n"
        "  because: Python, whose syntax the text has, takes no more levels of indentation"
    )
