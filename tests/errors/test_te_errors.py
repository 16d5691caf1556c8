"""What a wrong tensor expression is told: the whole text of each error."""

import linecache

import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.errors import DTypeError, IRError, ShapeError, TensorsmithError
from tensorsmith.ir import Region
from tensorsmith.verify import VerifyError

n = T.dim("n")
A = te.placeholder((4, 6), name="A")
B = te.placeholder((4,), "int32", "B")
k = te.reduce_axis(6, "k")
even = T.dim("even", multiple_of=2)


@T.program
def halve(X: T.Buffer((even,), "int32"), Y: T.Buffer((even // 2,), "int32")):
    for i in range(even // 2):
        Y[i] = X[2 * i]


@T.program
def scale(X: T.Buffer((n,), "int32"), by: T.int32, Y: T.Buffer((n,), "int32")):
    for i in range(n):
        Y[i] = X[i] * by


def last_line(_):
    return None


CASES = {
    "reduction as a left operand": (
        lambda: te.compute((4,), lambda i: te.sum(A[i, k], axis=k) / 6.0),
        IRError,
        """\
te.sum(...) is an operand here, and a reduction must stand at the top of a compute
  because: each reduction becomes a block of its own, with its own buffer
  try: total = te.compute(shape, lambda ...: te.sum(...)), then use total[...]""",
    ),
    "reduction as a right operand": (
        lambda: te.compute((4,), lambda i: A[i, 0] - te.max(A[i, k], axis=k)),
        IRError,
        """\
te.max(...) is an operand here, and a reduction must stand at the top of a compute
  because: each reduction becomes a block of its own, with its own buffer
  try: total = te.compute(shape, lambda ...: te.max(...)), then use total[...]""",
    ),
    "reduction of a reduction": (
        lambda: te.compute((), lambda: te.sum(te.argmin(A[0, k], axis=k), axis=k)),
        IRError,
        """\
te.argmin(...) is an operand here, and a reduction must stand at the top of a compute
  because: each reduction becomes a block of its own, with its own buffer
  try: total = te.compute(shape, lambda ...: te.argmin(...)), then use total[...]""",
    ),
    "reduction as an operand of a function": (
        lambda: te.compute((4,), lambda i: T.exp(te.sum(A[i, k], axis=k))),
        IRError,
        """\
te.sum(...) is an operand here, and a reduction must stand at the top of a compute
  because: each reduction becomes a block of its own, with its own buffer
  try: total = te.compute(shape, lambda ...: te.sum(...)), then use total[...]""",
    ),
    "reduction and expression side by side": (
        lambda: te.compute((4,), lambda i: (A[i, 0], te.sum(A[i, k], axis=k))),
        IRError,
        """\
the index function gives reductions and plain expressions
  because: one block either reduces all of its outputs or none
  try: two computes""",
    ),
    "reductions over different points": (
        lambda: te.compute(
            (), lambda: (te.sum(A[0, k], axis=k), te.max(A[0, k], axis=k, where=k > 0))
        ),
        IRError,
        """\
te.sum and te.max reduce over different points
  given: axis=[k] and axis=[k]
  because: reductions of one compute share their axes and their where=
  try: two computes""",
    ),
    "too many indices": (
        lambda: te.compute((4,), lambda i, j: A[i, j]),
        ShapeError,
        """\
the shape has 1 dimension, and the index function takes 2 indices
  given: (i, j)""",
    ),
    "too few indices": (
        lambda: te.compute((4, 6), lambda i: A[i, 0]),
        ShapeError,
        """\
the shape has 2 dimensions, and the index function takes 1 index
  given: (i)""",
    ),
    "wrong rank of an access": (
        lambda: te.compute((4,), lambda i: A[i]),
        ShapeError,
        """\
'A' has rank 2, and is indexed with 1 index
  given: A: Buffer((4, 6), 'float32')""",
    ),
    "a float as an index": (
        lambda: te.compute((4,), lambda i: B[A[i, 0]]),
        DTypeError,
        """\
index 0 of 'B' is float32, and must be an integer of type index
  given: A[i, 0]: float32""",
    ),
    "a tensor that is not indexed": (
        lambda: te.compute((4, 6), lambda i, j: A * 2.0),
        ShapeError,
        """\
the tensor 'A' of rank 2 is used as one element
  given: A: Buffer((4, 6), 'float32')
  try: index it, as A[i, j]""",
    ),
    "operands of two types": (
        lambda: te.compute((4,), lambda i: A[i, 0] * B[i]),
        DTypeError,
        """\
* needs operands of one type, not float32 and int32
  given: A[i, 0]: float32, B[i]: int32
  try: cast(..., 'float32') on one of them""",
    ),
    "another dtype than asked for": (
        lambda: te.compute((4,), lambda i: B[i], dtype="float32"),
        DTypeError,
        """\
the index function gives int32, and dtype='float32' is asked for
  given: B[i]
  try: cast the result to float32""",
    ),
    "nothing": (
        lambda: te.compute((4,), last_line),
        IRError,
        """\
the index function gives nothing
  try: return an expression for each element""",
    ),
    "an extent below 0": (
        lambda: te.compute((4, -1), lambda i, j: 0.0),
        ShapeError,
        """\
the extent -1 of dimension 1 is negative""",
    ),
    "a shape that is no tuple": (
        lambda: te.placeholder(4),
        ShapeError,
        """\
a shape is a tuple of extents, not 4
  try: (4,)""",
    ),
    "an extent that is a float": (
        lambda: te.placeholder((4.0,)),
        ShapeError,
        """\
the extent T.float32(4.0) of dimension 0 is float32, and must be an integer of type index""",
    ),
    "a reduction axis of less than nothing": (
        lambda: te.reduce_axis(-1, "r"),
        ShapeError,
        """\
the extent -1 of the reduction axis 'r' is negative""",
    ),
    "a reduction start that is a float": (
        lambda: te.reduce_axis(4, "r", start=0.5),
        DTypeError,
        """\
the start T.float32(0.5) of 'r' is float32, and must be index""",
    ),
    "an axis that is a number": (
        lambda: te.sum(A[0, k], axis=1),
        IRError,
        """\
axis=1 is not a reduction axis
  try: an axis from te.reduce_axis(extent)""",
    ),
    "no axis": (
        lambda: te.sum(A[0, k], axis=()),
        IRError,
        """\
a reduction needs at least one axis""",
    ),
    "an axis twice": (
        lambda: te.sum(A[0, k], axis=(k, k)),
        IRError,
        """\
a reduction names an axis twice: k, k""",
    ),
    "a predicate that is no bool": (
        lambda: te.sum(A[0, k], axis=k, where=k % 2),
        DTypeError,
        """\
where=k % 2 is index, and must be bool
  try: a comparison""",
    ),
    "a reducer for other types": (
        lambda: te.any(A[0, k], axis=k),
        DTypeError,
        """\
any combines values of type bool, not float32
  given: A[0, k]: float32""",
    ),
    "a reducer with a wrong number of values": (
        lambda: te.sum((A[0, k], A[1, k]), axis=k),
        IRError,
        """\
sum combines 1 value a point, and 2 are given""",
    ),
    "a combine that changes the type": (
        lambda: te.reducer(lambda a, b: a < b, 0.0, "less")(A[0, k], axis=k),
        DTypeError,
        """\
value 0 of the reducer less is float32, and combining makes it bool
  because: values, identity and result have one type""",
    ),
    "a combine that loses a value": (
        lambda: te.reducer(lambda a, b: (a[0],), (0, 0), "half")((B[k], B[k]), axis=k),
        IRError,
        """\
combine of the reducer half gives 1 values, and must give 2""",
    ),
    "an unknown dtype": (
        lambda: te.placeholder((4,), "float31"),
        DTypeError,
        None,
    ),
    "facts about a float": (
        lambda: te.var("x", "float32", min=0),
        DTypeError,
        """\
only integers have ranges and multiples, and 'x' is float32""",
    ),
    # Scans
    "a step that changes the shape": (
        lambda: te.scan(3, lambda t, s: te.compute((5,), lambda i: B[0]), B, "S"),
        ShapeError,
        """\
a step of the scan 'S' changes the shape of state 0
  given: B: Buffer((4,), 'int32') before, t: Buffer((5,), 'int32') after""",
    ),
    "a step that changes the type": (
        lambda: te.scan(3, lambda t, s: te.compute((4,), lambda i: A[i, 0]), B, "S"),
        DTypeError,
        """\
a step of the scan 'S' makes state 0 float32, and it starts as int32""",
    ),
    "a step that loses a state": (
        lambda: te.scan(3, lambda t, a, b: a, (B, B), "S"),
        IRError,
        """\
a step of the scan 'S' gives 1 states from 2
  try: one tensor for each state""",
    ),
    "a scan of less than no steps": (
        lambda: te.scan(-1, lambda t, s: s, B, "S"),
        ShapeError,
        """\
the extent -1 of the scan 'S' is negative""",
    ),
    # Externs
    "an extern with too few inputs": (
        lambda: te.extern(scale, [B], ((4,), "int32")),
        IRError,
        """\
the program 'scale' takes 3 inputs and outputs, and 2 are given""",
    ),
    "an extern with a tensor for a scalar": (
        lambda: te.extern(scale, [B, B], ((4,), "int32")),
        IRError,
        """\
the parameter 'by' of the program 'scale' is a scalar, and B: Buffer((4,), 'int32') is given""",
    ),
    "an extern with another type": (
        lambda: te.extern(scale, [B, 2.0], ((4,), "int32")),
        DTypeError,
        """\
the parameter 'by' of the program 'scale' is int32, and T.float32(2.0) is float32""",
    ),
    "an extern with another rank": (
        lambda: te.extern(
            scale, [te.placeholder((2, 2), "int32", "C"), te.var("x", "int32")], ((4,), "int32")
        ),
        ShapeError,
        """\
the parameter 'X' of the program 'scale' has rank 1, and 'C' has rank 2""",
    ),
    "an extern with shapes that do not fit": (
        lambda: te.extern(halve, [B], ((3,), "int32")),
        ShapeError,
        """\
the parameter 'Y' of the program 'halve' has the extent even // 2 where 3 is given
  because: 2 == 3 does not follow from what is known""",
    ),
    "an extern with a dimension that lacks a fact": (
        lambda: te.extern(halve, [te.placeholder((n,), "int32", "C")], ((n // 2,), "int32")),
        ShapeError,
        """\
n % 2 == 0 does not follow from what is known, and the dimension 'even' of the program 'halve' \
needs it
  try: a dimension with this fact: script.dim(name, min=, max=, multiple_of=)""",
    ),
    "a region for a program": (
        lambda: te.extern(scale, [Region(B, ((0, 2),)), te.var("x", "int32")], ((2,), "int32")),
        IRError,
        """\
the region B[0:2] is given to a body that takes whole tensors
  try: the tensor itself, or a te.compute that copies the region""",
    ),
    "a body that gives no statement": (
        lambda: te.program([B], te.extern(lambda b, c: None, [B], ((2,), "int32"), "E")),
        IRError,
        """\
the body of the extern 'E' gives None, which is no statement""",
    ),
    # Programs
    "no outputs": (
        lambda: te.program([A], []),
        IRError,
        """\
a program needs an output""",
    ),
    "an input that is an output": (
        lambda: te.program([A], A),
        IRError,
        """\
the output 'A' is an input
  because: a program writes its results into parameters of their own
  try: te.compute(A.shape, lambda *i: A[i]), a copy""",
    ),
    "an input that is a number": (
        lambda: te.program([A, 3], te.compute((4,), lambda i: A[i, 0])),
        IRError,
        """\
the input 3 is not a tensor or a variable
  try: te.placeholder or te.var""",
    ),
    "an output that is an expression": (
        lambda: te.program([A], [A[0, 0]]),
        IRError,
        """\
the output A[0, 0] is not a tensor
  try: te.compute(...)""",
    ),
    "an input given twice": (
        lambda: te.program([A, A], te.compute((4,), lambda i: A[i, 0])),
        IRError,
        """\
'A' is given twice among the inputs and outputs""",
    ),
    "a placeholder that is not an input": (
        lambda: te.program([], te.compute((4,), lambda i: A[i, 0], "C")),
        IRError,
        """\
'C' reads 'A', which is not among the inputs
  try: add A to the inputs of te.program""",
    ),
    "a variable that nothing defines": (
        lambda: te.program([A], te.compute((4,), lambda i: A[i, k], "C")),
        IRError,
        """\
'C' uses the variable 'k', which nothing defines
  try: add it to the inputs of te.program; or if it is a reduction axis, reduce over it: \
te.sum(..., axis=...)""",
    ),
    "an access outside of its tensor": (
        lambda: te.program([A], te.compute((4,), lambda i: A[i + 1, 0], "C")),
        VerifyError,
        """\
index 0 of 'A', vi + 1, may be outside of its extent 4
  given: vi + 1 is between 1 and 4
  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or an if""",
    ),
}


def without_place(error):
    """The text, less the excerpt of this file, after a check that it is one."""
    lines = str(error).split("\n")
    place = f"{__file__}:{error.where.line}:{error.where.column + 1}: "
    assert lines[0].startswith(place)
    lines[0] = lines[0].removeprefix(place)
    shown = linecache.getline(__file__, error.where.line).strip()
    assert shown == lines.pop(1).strip()
    assert set(lines.pop(1).strip()) == {"^"}
    return "\n".join(lines)


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    build, kind, expected = CASES[name]
    with pytest.raises(kind) as caught:
        build()
    assert isinstance(caught.value, TensorsmithError)
    if expected is None:
        assert "'float31' is not an element type" in str(caught.value)
    else:
        assert without_place(caught.value) == expected


def test_state_outside_of_its_scan():
    seen = []

    def step(t, s):
        seen.append(s)
        return te.compute((4,), lambda i: s[i] + 1, "step")

    te.scan(3, step, B, "S")
    outside = te.compute((4,), lambda i: seen[0][i], "outside")
    with pytest.raises(IRError) as caught:
        te.program([B], outside)
    assert without_place(caught.value) == (
        "the state 'S_before' of a scan is used outside of the scan\n"
        "  try: the tensor that te.scan gives: its element [t, ...] is the state after step t"
    )


def test_place_is_the_call():
    with pytest.raises(ShapeError) as caught:
        te.compute((4,), lambda i: A[i], "C")
    assert str(caught.value).split("\n")[1:3] == [
        '    te.compute((4,), lambda i: A[i], "C")',
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]
