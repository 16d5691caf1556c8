"""The whole text of the verifier's errors, for scripts."""

from __future__ import annotations

import pytest

from tensorsmith.script import parse_module
from tensorsmith.verify import errors, problems, verify
from verify.programs import HEADER, Case, check_case

CASES = {
    "undefined variable": Case(
        errors.UndefinedError,
        """\
n = T.dim("n")
m = T.dim("m")


@T.program
def f(A: T.Buffer((n,), "float32")):
    for i in range(m):
        if i < n:
            A[i] = 0.0
""",
        "f.py:10:5: the variable 'm' is used, and nothing defines it before\n"
        "    for i in range(m):\n"
        "    ^^^^^^^^^^^^^^^^^^\n"
        "  try: a parameter, a dimension of a parameter, a loop variable, a binding "
        "before this place",
    ),
    "extent": Case(
        errors.ExtentError,
        """\
n = T.dim("n")


@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n - 3,), "float32")):
    for i in range(n - 3):
        B[i] = A[i + 3]
""",
        "f.py:8:1: dimension 0 of 'B' cannot be proven positive: n - 3\n"
        '    def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n - 3,), "float32")):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: n - 3 is at least -2\n"
        "  because: an extent is at least 0, for all values that its variables may take\n"
        '  try: a minimum for what it is made of, such as T.dim("n", min=...)',
    ),
    "extent dim": Case(
        errors.ExtentError,
        """\
n = T.dim("n", min=None)


@T.program
def f(A: T.Buffer((n,), "float32")):
    pass
""",
        "f.py:8:1: dimension 0 of 'A' cannot be proven positive: n\n"
        '    def f(A: T.Buffer((n,), "float32")):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: nothing is known of n\n"
        "  because: an extent is at least 0, for all values that its variables may take\n"
        '  try: n = T.dim("n", min=1)',
    ),
    "memory scope": Case(
        errors.MemoryScopeError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    t = T.alloc((8,), "float32", scope="my memory")
    for i in range(8):
        t[i] = A[i]
""",
        "f.py:6:5: the scope 'my memory' of 't' is not a name\n"
        '    t = T.alloc((8,), "float32", scope="my memory")\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  try: 'global', 'local', 'shared', or another name, with dots between its parts",
    ),
    "zero loop": Case(
        errors.LoopExtentError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    for i in range(0):
        A[i] = 0.0
""",
        "f.py:6:5: a 0-extent loop: 'i' takes no value\n"
        "    for i in range(0):\n"
        "    ^^^^^^^^^^^^^^^^^^\n"
        "  because: its body never runs\n"
        "  try: remove it, or check its range",
    ),
    "negative loop": Case(
        errors.LoopExtentError,
        """\
n = T.dim("n")


@T.program
def f(A: T.Buffer((n,), "float32")):
    for i in range(-n):
        A[i] = 0.0
""",
        "f.py:9:5: the loop over 'i' has the negative extent -n\n"
        "    for i in range(-n):\n"
        "    ^^^^^^^^^^^^^^^^^^^\n"
        "  given: -n is at most -1",
    ),
    "bounds always": Case(
        errors.BoundsError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    A[8] = 0.0
""",
        "f.py:6:5: index 0 of 'A', 8, is outside of its extent 8\n"
        "    A[8] = 0.0\n"
        "    ^^^^^^^^^^\n"
        "  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or"
        " an if",
    ),
    "bounds perhaps": Case(
        errors.BoundsError,
        """\
n = T.dim("n")


@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = A[i + 1]
""",
        "f.py:10:9: index 0 of 'A', i + 1, may be outside of its extent n\n"
        "    B[i] = A[i + 1]\n"
        "    ^^^^^^^^^^^^^^^\n"
        "  given: i + 1 is at least 1\n"
        "  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or"
        " an if",
    ),
    "bounds below": Case(
        errors.BoundsError,
        """\
n = T.dim("n")


@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        B[i] = A[i - 1]
""",
        "f.py:10:9: index 0 of 'A', i - 1, may be less than 0\n"
        "    B[i] = A[i - 1]\n"
        "    ^^^^^^^^^^^^^^^\n"
        "  given: i - 1 is at least -1\n"
        "  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or"
        " an if",
    ),
    "bounds region": Case(
        errors.BoundsError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        T.call("external", A[i:i + 2])
""",
        "f.py:7:9: the range of dimension 0 of 'A', i to i + 2, may be outside of its "
        "extent 8\n"
        '    T.call("external", A[i:i + 2])\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: i + 2 is between 2 and 9\n"
        "  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or"
        " an if",
    ),
    "recursion": Case(
        errors.CallCycleError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    T.call("f", A)
""",
        "f.py:6:5: 'f' calls itself\n"
        '    T.call("f", A)\n'
        "    ^^^^^^^^^^^^^^\n"
        "  given: f -> f\n"
        "  because: tensor programs do not recurse\n"
        "  try: a loop",
    ),
    "cycle": Case(
        errors.CallCycleError,
        """\
@T.module
class M:
    @T.program
    def f(A: T.Buffer((8,), "float32")):
        T.call("g", A)

    @T.program
    def g(A: T.Buffer((8,), "float32")):
        T.call("f", A)
""",
        "f.py:12:9: 'f' calls itself through others\n"
        '    T.call("f", A)\n'
        "    ^^^^^^^^^^^^^^\n"
        "  given: f -> g -> f\n"
        "  because: tensor programs do not recurse\n"
        "  try: a loop",
    ),
    "signature count": Case(
        errors.SignatureError,
        """\
@T.module
class M:
    @T.program
    def f(A: T.Buffer((8,), "float32")):
        T.call("g", A, A)

    @T.program
    def g(B: T.Buffer((8,), "float32")):
        B[0] = 0.0
""",
        "f.py:8:9: 'g' takes 1 argument, not 2\n"
        '    T.call("g", A, A)\n'
        "    ^^^^^^^^^^^^^^^^^\n"
        "  given: its parameters are B",
    ),
    "bounds gather": Case(
        errors.BoundsError,
        """\
@T.program
def f(D: T.Buffer((8,), "index"), A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[D[i] % 8 + 8] = 0.0
""",
        "f.py:7:9: index 0 of 'A', D[i] % 8 + 8, is outside of its extent 8\n"
        "    A[D[i] % 8 + 8] = 0.0\n"
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: D[i] % 8 + 8 is between 8 and 15\n"
        "  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or"
        " an if",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    check_case(CASES[name])


def test_each_argument_of_a_call_is_checked() -> None:
    script = """\
n = T.dim("n")


@T.module
class M:
    @T.program
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((8,), "int8")):
        T.call("g", A, A[0:3], 1.0)
        T.call("g", A, C, 1.0)
        T.call("g", A, B, 1.0)
        T.call("g", A, 1.0, A)
        T.call("g", A, A, T.int32(1))
        T.call("h", A)

    @T.program
    def g(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32"), z: T.float32):
        X[0] = Y[0]

    @T.program
    def h(X: T.Buffer((8,), "float32", scope="shared")):
        X[0] = 0.0
"""
    found = problems(parse_module(HEADER + script, "f.py"))
    assert {type(p) for p in found} == {errors.SignatureError}
    assert [p.what for p in found] == [
        "argument 1 of 'g', for 'Y', has the extent 3 in dimension 0, and must have 8",
        "argument 1 of 'g', for 'Y', holds int8, and must hold float32",
        "argument 1 of 'g', for 'Y', has rank 2, and must have rank 1",
        "argument 1 of 'g', for 'Y', is a scalar, and must be a region of rank 1",
        "argument 2 of 'g', for 'z', is a region, and must be a scalar of type float32",
        "argument 2 of 'g', for 'z', is int32, and must be float32",
        "argument 0 of 'h', for 'X', lives in the scope 'global', and must live in 'shared'",
    ]


def test_all_problems_are_listed_at_once() -> None:
    script = """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    A[8] = 0.0
    for i in range(0):
        A[i] = 0.0
    A[9] = 0.0
"""
    with pytest.raises(errors.BoundsError) as caught:
        verify(parse_module(HEADER + script, "f.py"))
    assert str(caught.value) == (
        "f.py:6:5: index 0 of 'A', 8, is outside of its extent 8\n"
        "    A[8] = 0.0\n"
        "    ^^^^^^^^^^\n"
        "  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or an if\n"
        "and 2 more problems:\n"
        "f.py:7:5: a 0-extent loop: 'i' takes no value\n"
        "    for i in range(0):\n"
        "    ^^^^^^^^^^^^^^^^^^\n"
        "  because: its body never runs\n"
        "  try: remove it, or check its range\n"
        "f.py:9:5: index 0 of 'A', 9, is outside of its extent 8\n"
        "    A[9] = 0.0\n"
        "    ^^^^^^^^^^\n"
        "  try: a shorter loop, or a guard: T.where(...), T.select(condition, ..., 0), or an if"
    )
