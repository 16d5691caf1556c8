"""The whole text of the errors of graph functions in script form."""

import pytest

from tensorsmith import script as T
from tensorsmith.errors import DTypeError, ScriptError, ShapeError, TensorsmithError

HEADER = """from tensorsmith import script as T

n = T.dim("n")


@T.graph
def f(x: T.Tensor((n, 4), "float32"), c: T.Tensor((), "bool")):
"""


def error_of(*lines, header=HEADER):
    """The error of a graph function of these lines, without the lines that show its place."""
    text = header + "".join(f"    {line}\n" for line in lines)
    with pytest.raises(TensorsmithError) as caught:
        T.parse_graph(text)
    shown = str(caught.value).splitlines()
    kept = [line for line in shown if not line.startswith("    ")]
    return type(caught.value), "\n".join(kept)


CASES = {
    "no return": (
        ["y: T.Tensor((n, 4)) = T.op.neg(x)"],
        ScriptError,
        "<string>:8:5: a graph function ends with `return` and its results",
    ),
    "no value": (["return 3"], DTypeError, "<string>:8:5: 3 is not a value of the graph function"),
    "no type": (
        ["y = T.op.neg(x)", "return y"],
        ScriptError,
        (
            "<string>:8:5: 'y' has no type\n"
            '  try: y: T.Tensor(shape, "float32"), on this line or one before'
        ),
    ),
    "a scalar's type": (
        ["y: T.index = T.op.neg(x)", "return y"],
        ScriptError,
        "<string>:8:5: 'y' is a tensor, and its type is a scalar's",
    ),
    "a tensor's type": (
        ["k: T.Tensor((n,)) = T.read(n)", "return x"],
        ScriptError,
        "<string>:8:5: 'k' is an integer, and its type is a tensor's",
    ),
    "no type of a value": (
        ["y: 3 = T.op.neg(x)", "return y"],
        DTypeError,
        '<string>:8:5: 3 is not the type of a value\n  try: T.Tensor(shape, "float32")',
    ),
    "declared and never given": (
        ["y: T.Tensor((n,))", "return x"],
        ScriptError,
        "<string>:7:1: 'y' is declared, and gets no value",
    ),
    "declared twice": (
        ["y: T.Tensor((n,))", "y: T.Tensor((n,))", "return x"],
        ScriptError,
        "<string>:9:5: 'y' is declared already",
    ),
    "defined twice": (
        ["x: T.Tensor((n,)) = T.op.neg(x)", "return x"],
        ScriptError,
        (
            "<string>:8:5: 'x' is defined already, as a parameter\n"
            "  because: a name is given once; line 7 did it\n"
            "  try: another name; what changes while the program runs is an element of a buffer"
        ),
    ),
    "no operand": (
        ["y: T.Tensor((n,)) = T.op.neg(3)", "return y"],
        DTypeError,
        "<string>:8:25: 3 is not a tensor of the graph function",
    ),
    "no attribute": (
        ["y: T.Tensor((n,)) = T.op.neg(x, axis=x)", "return y"],
        DTypeError,
        (
            "<string>:8:25: x: Buffer((n, 4), 'float32') cannot be an attribute\n"
            "  because: attributes are numbers, strings, expressions, and tuples of these"
        ),
    ),
    "does nothing": (["x", "return x"], ScriptError, "<string>:8:5: this expression does nothing"),
    "no binding": (
        ["y: T.Tensor((n,)) = 3", "return y"],
        ScriptError,
        "<string>:8:25: this is no operator, call or constant",
    ),
    "a statement of programs": (
        ["for i in range(4):", "    pass", "return x"],
        ScriptError,
        "<string>:8:5: this statement cannot be used in a graph function",
    ),
    "a region": (
        ['y: T.Tensor((n, 4)) = T.call("g", x[0:2, 0:4])', "return y"],
        ScriptError,
        "<string>:8:5: a graph function passes whole tensors, not regions of them",
    ),
    "inplace": (
        ['y: T.Tensor((n, 4)) = T.call("g", x, inplace=((0,),))', "return y"],
        ScriptError,
        "<string>:8:27: `inplace` has pairs of a result's number and an operand's",
    ),
    "numbers of names": (
        ["k, j = T.read(n)", "return x"],
        ScriptError,
        "<string>:8:5: 1 values for 2 names",
    ),
    "a constant of nothing": (
        ["y: T.Tensor((2,)) = T.constant()", "return y"],
        ScriptError,
        "<string>:8:25: a constant has its elements, or the hash of their content",
    ),
    "a constant of an open shape": (
        ["y: T.Tensor((n,)) = T.constant([1.0])", "return y"],
        ShapeError,
        "<string>:8:5: a constant has a shape of numbers, and elements that are numbers",
    ),
    "a constant of another size": (
        ["y: T.Tensor((2,)) = T.constant([1.0])", "return y"],
        ShapeError,
        (
            "<string>:8:5: the constant 'y' is float32 of shape (2,), and its elements are"
            " float32 of shape (1,)"
        ),
    ),
    "a constant of strings": (
        ['y: T.Tensor((1,)) = T.constant(["a"])', "return y"],
        DTypeError,
        "<string>:8:5: 'a' is not an element of a constant",
    ),
    "a branch on a number": (
        ["if n:", "    pass", "return x"],
        ScriptError,
        "<string>:8:8: a branch is decided by a boolean tensor of shape ()",
    ),
    "sides that differ": (
        ["y: T.Tensor((n, 4))", "if c:", "    y = x", "else:", "    pass", "return y"],
        ScriptError,
        (
            "<string>:9:5: both sides of a branch end by giving the same names their values\n"
            "  given: one side gives y"
        ),
    ),
    "a loop over nothing": (
        ["y: T.Tensor((n, 4)) = T.loop(x, x)", "return y"],
        ScriptError,
        "<string>:8:5: the body of a loop is a function that stands before it",
    ),
    "an opaque result": (
        ['y: T.Opaque("strings") = T.op.neg(x)', "return y"],
        ScriptError,
        "<string>:8:5: operators and programs give tensors, and nothing else",
    ),
    "a message": (
        ["assert n > 2, 3", "return x"],
        ScriptError,
        "<string>:8:5: the message of an assertion is a string",
    ),
    "an assertion that fails": (
        ['assert 1 > 2, "no"', "return x"],
        ScriptError,
        "<string>:8:12: the assertion fails: no",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_error(name) -> None:
    lines, kind, text = CASES[name]
    assert error_of(*lines) == (kind, text)


def test_parameters() -> None:
    head = 'from tensorsmith import script as T\nn = T.dim("n")\n@T.graph\n'
    cases = {
        "def f(x):\n": (
            "<string>:4:7: the parameter 'x' has no type\n  try: x: T.Tensor(shape, \"float32\")"
        ),
        "def f(k: T.index):\n": "<string>:4:1: a graph function takes tensors, no scalars",
        "def f(*x: T.Tensor((n,))):\n": (
            "<string>:4:1: a graph function has plain parameters, without defaults"
        ),
    }
    for header, text in cases.items():
        assert error_of("return ()", header=head + header) == (ScriptError, text)


def test_how_many_graph_functions() -> None:
    with pytest.raises(ScriptError) as caught:
        T.parse_graph("from tensorsmith import script as T\n")
    assert str(caught.value) == (
        "<string>: the text has 0 graph functions, and one is needed\n  try: @T.graph on a function"
    )


def test_nesting() -> None:
    lines = [f"{'    ' * k}if c:" for k in range(70)]
    assert error_of(*lines, f"{'    ' * 70}pass", "return x") == (
        ScriptError,
        "<string>:73:265: bodies are nested more than 64 deep",
    )
