"""What operands that do not fit an operator are told: the whole text of each error."""

import pytest

from tensorsmith.errors import DTypeError, IRError, ShapeError
from tensorsmith.ops import OPERATORS
from tensorsmith.te import placeholder

A = placeholder((2, 3), "float32", "a")
B = placeholder((4, 5), "float32", "b")
N = placeholder((2, 3), "int32", "n")
V = placeholder((4,), "float32", "v")
C = placeholder((2, 6, 5), "float32", "c")
P = placeholder((6,), "float32", "p")

CASES = {
    "types that differ": (
        ("add", [A, N], {}),
        DTypeError,
        """\
add takes operands of one type, not float32 and int32
  given: a: Buffer((2, 3), 'float32'), n: Buffer((2, 3), 'int32')""",
    ),
    "a type that is not taken": (
        ("exp", [N], {}),
        DTypeError,
        """\
exp does not take int32
  given: n: Buffer((2, 3), 'int32')
  because: it takes floats""",
    ),
    "shapes that do not broadcast": (
        ("mul", [A, B], {}),
        ShapeError,
        """\
the shapes (2, 3) and (4, 5) do not broadcast
  because: extents that are aligned at the end must be equal, or one of them 1""",
    ),
    "no operands": (
        ("max", [], {}),
        ShapeError,
        "max takes one operand or more",
    ),
    "an axis that is not there": (
        ("reduce_sum", [A], {"axes": (2,)}),
        ShapeError,
        """\
reduce_sum over axis 2 of a tensor of rank 2
  because: axes are counted from -2 to 1""",
    ),
    "an axis twice": (
        ("reduce_max", [A], {"axes": (0, -2)}),
        ShapeError,
        """\
reduce_max names an axis twice
  given: axes=(0, -2)""",
    ),
    "matrices that do not fit": (
        ("matmul", [A, B], {}),
        ShapeError,
        """\
the operands of matmul do not fit: 3 and 4 must be equal
  given: a: Buffer((2, 3), 'float32') and b: Buffer((4, 5), 'float32')""",
    ),
    "a term that does not fit": (
        ("einsum", [A], {"equation": "ijk->ik"}),
        ShapeError,
        "the term 'ijk' of 'ijk->ik' does not fit an operand of rank 2",
    ),
    "a scale that does not fit": (
        ("layer_norm", [A, V], {}),
        ShapeError,
        """\
the scale of layer_norm does not broadcast to the shape of the data
  given: v: Buffer((4,), 'float32') and a: Buffer((2, 3), 'float32')""",
    ),
    "a rank that is not taken": (
        ("trilu", [V], {}),
        ShapeError,
        """\
trilu takes a tensor of rank 2 or more, not 1
  given: v: Buffer((4,), 'float32')""",
    ),
    "bits that do not fit": (
        ("bitcast", [A], {"dtype": "int64"}),
        DTypeError,
        """\
the bits of float32 cannot be read as int64
  given: a: Buffer((2, 3), 'float32')
  because: they are 32, and not 64""",
    ),
    "groups that do not divide": (
        ("group_norm", [C, P, P], {"groups": 4}),
        ShapeError,
        """\
6 channels do not divide into 4 groups
  given: c: Buffer((2, 6, 5), 'float32')""",
    ),
    "an attribute that is not there": (
        ("softmax", [A], {"axes": (1,)}),
        IRError,
        """\
the operator 'softmax' has no attribute 'axes'
  try: one of axis""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_text(case):
    (name, operands, attrs), error, expected = CASES[case]
    with pytest.raises(error) as caught:
        OPERATORS[name](operands, attrs)
    assert str(caught.value) == expected
