"""The whole text of the verifier's errors, for scripts with blocks."""

from __future__ import annotations

import pytest

from tensorsmith.verify import errors
from verify.programs import Case, check_case

CASES = {
    "isolation": Case(
        errors.IsolationError,
        """\
@T.program
def f(A: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("zero"):
            vi = T.spatial(8, i)
            vj = T.spatial(8, j)
            A[vi, j] = 0.0
""",
        "f.py:10:13: block 'zero' uses the loop variable 'j' from around it\n"
        "    A[vi, j] = 0.0\n"
        "    ^^^^^^^^^^^^^^\n"
        "  because: the loops around a block may change; it sees of them what its "
        "iterators say\n"
        "  try: an iterator bound to it: vj = T.spatial(extent, j)",
    ),
    "isolation bind": Case(
        errors.IsolationError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        x = T.cast(i, "float32")
        with T.block("fill"):
            vi = T.remap("S", i)
            A[vi] = x
""",
        "f.py:10:13: block 'fill' uses the binding 'x' from around it\n"
        "    A[vi] = x\n"
        "    ^^^^^^^^^\n"
        "  because: the loops around a block may change; it sees of them what its "
        "iterators say\n"
        "  try: a binding of it inside of the block",
    ),
    "binding twice": Case(
        errors.BindingError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    for t, i in T.grid(4, 8):
        with T.block("zero"):
            vi = T.spatial(8, i)
            A[vi] = 0.0
""",
        "f.py:7:9: the loops around block 'zero' do not take each point of its iterators "
        "once: points are taken once for each value of t\n"
        '    with T.block("zero"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  because: no binding uses this loop variable\n"
        "  try: a binding for each loop, T.opaque(...) for a loop that repeats the block,"
        " or an `if` inside of the block",
    ),
    "binding overlap": Case(
        errors.BindingError,
        """\
@T.program
def f(A: T.Buffer((11,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("zero"):
            vi = T.spatial(11, i + j)
            A[vi] = 0.0
""",
        "f.py:7:9: the loops around block 'zero' do not take each point of its iterators "
        "once: i + j does not take each value of a range once\n"
        '    with T.block("zero"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: i takes 4 values from 0, j takes 8 values from 0\n"
        "  because: its terms overlap or leave gaps: the stride of each must be the "
        "stride times the extent of the one below\n"
        "  try: a binding for each loop, T.opaque(...) for a loop that repeats the block,"
        " or an `if` inside of the block",
    ),
    "binding domain": Case(
        errors.BindingError,
        """\
@T.program
def f(A: T.Buffer((16,), "float32")):
    for i in range(8):
        with T.block("zero"):
            vi = T.spatial(16, i)
            A[vi] = 0.0
""",
        "f.py:7:9: the loops around block 'zero' do not take each point of its iterators "
        "once: the binding of 'vi' takes other values than its range\n"
        '    with T.block("zero"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: i takes 8 values from 0, 'vi' has 16 from 0\n"
        "  try: a binding for each loop, T.opaque(...) for a loop that repeats the block,"
        " or an `if` inside of the block",
    ),
    "binding opaque": Case(
        errors.BindingError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("zero"):
            vi = T.opaque(8, i + 1)
            A[vi] = 0.0
""",
        "f.py:7:9: the binding of the iterator 'vi' of block 'zero' may leave its range\n"
        '    with T.block("zero"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: i + 1, and the range is 0 to 8\n"
        "  try: a range for the iterator that holds all values of its binding",
    ),
    "region": Case(
        errors.RegionError,
        """\
@T.program
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("first"):
            vi = T.remap("S", i)
            T.reads(A[vi, 0:4])
            T.writes(B[vi])
            B[vi] = A[vi, 0] + A[vi, 4]
""",
        "f.py:7:9: block 'first' reads more of 'A' than it states\n"
        '    with T.block("first"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: it reads A[vi, 0:5], and states A[vi, 0:4]\n"
        "  try: T.reads(A[vi, 0:5]), or no T.reads at all: it is then derived",
    ),
    "init missing": Case(
        errors.InitError,
        """\
@T.program
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            B[vi] += A[vi, vk]
""",
        "f.py:7:9: block 'total' accumulates in 'B', and nothing initialises it\n"
        '    with T.block("total"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  because: a reduction needs a start value\n"
        "  try: `with T.init():` in the block, a store before it, or, to add to what the "
        'caller passes, T.block_attrs({"accumulate": True})',
    ),
    "init no reduce": Case(
        errors.InitError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("copy"):
            vi = T.remap("S", i)
            with T.init():
                B[vi] = 0.0
            B[vi] = A[vi]
""",
        "f.py:7:9: block 'copy' has an init, and no reduce iterator\n"
        '    with T.block("copy"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  because: an init runs where every reduce iterator has its first value\n"
        "  try: a store before the block, or a reduce iterator: T.reduce(extent, k)",
    ),
    "init uses reduce": Case(
        errors.InitError,
        """\
@T.program
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                B[vi] = A[vi, vk]
            B[vi] += A[vi, vk]
""",
        "f.py:10:17: the init of block 'total' uses the reduce iterator 'vk'\n"
        "    B[vi] = A[vi, vk]\n"
        "    ^^^^^^^^^^^^^^^^^\n"
        "  because: it runs once for each point of the other iterators\n"
        "  try: a start value that is the same for all of them",
    ),
    "init reads": Case(
        errors.InitError,
        """\
@T.program
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                B[vi] = B[vi] * 2.0
            B[vi] += A[vi, vk]
""",
        "f.py:10:17: the init of block 'total' reads its result 'B'\n"
        "    B[vi] = B[vi] * 2.0\n"
        "    ^^^^^^^^^^^^^^^^^^^\n"
        "  because: before the init nothing has computed it\n"
        "  try: the start value of the reduction, such as 0",
    ),
    "init scatter": Case(
        errors.InitError,
        """\
@T.program
def f(D: T.Buffer((8,), "int32"), H: T.Buffer((4,), "int32")):
    for i in range(8):
        with T.block("count"):
            vi = T.remap("R", i)
            with T.init():
                H[0] = 0
            H[T.cast(D[vi], "index")] += 1
""",
        "f.py:11:13: the init of block 'count' cannot know which elements of 'H' it "
        "accumulates in\n"
        '    H[T.cast(D[vi], "index")] += 1\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  because: loaded data picks them, by a reduce iterator\n"
        "  try: a block before it that initialises the whole buffer",
    ),
    "reduction write": Case(
        errors.ReductionWriteError,
        """\
@T.program
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("total"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                B[vi, 0] = 0.0
            B[vi, vk] += A[vi, vk]
""",
        "f.py:11:13: the reduce iterator 'vk' of block 'total' picks the element of 'B' "
        "that is written\n"
        "    B[vi, vk] += A[vi, vk]\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  because: the values of a reduce iterator combine into one element\n"
        "  try: a spatial iterator: vk = T.spatial(...)",
    ),
    "region passed": Case(
        errors.RegionError,
        """\
@T.program
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("row"):
            vi = T.remap("S", i)
            T.reads(A[vi, 0:4])
            T.writes(B[vi])
            T.call("external", A[vi, 0:8], B[vi:vi + 1])
""",
        "f.py:7:9: block 'row' passes more of 'A' than it states\n"
        '    with T.block("row"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^\n"
        "  given: it passes A[vi, 0:8], and states A[vi, 0:4]\n"
        "  because: an external function does what the block around it says\n"
        "  try: T.reads(A[vi, 0:8]), T.writes(A[vi, 0:8]), or both",
    ),
    "binding predicate": Case(
        errors.BindingError,
        """\
@T.program
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 5:
            with T.block("zero"):
                vi = T.remap("S", i)
                A[vi] = 0.0
""",
        "f.py:8:13: the loops around block 'zero' do not take each point of its iterators"
        " once: the binding of 'vi' takes other values than its range\n"
        '    with T.block("zero"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^\n"
        "  given: i takes 5 values from 0, 'vi' has 8 from 0\n"
        "  try: a binding for each loop, T.opaque(...) for a loop that repeats the block,"
        " or an `if` inside of the block",
    ),
    "binding data": Case(
        errors.BindingError,
        """\
@T.program
def f(D: T.Buffer((8,), "index"), A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("scatter"):
            vi = T.spatial(8, D[i])
            A[vi] = 0.0
""",
        "f.py:7:9: the loops around block 'scatter' do not take each point of its "
        "iterators once: D[i] is not quasi-affine in the loop variables\n"
        '    with T.block("scatter"):\n'
        "    ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  because: a Load of loop variables is no sum of digits\n"
        "  try: a binding for each loop, T.opaque(...) for a loop that repeats the block,"
        " or an `if` inside of the block",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    check_case(CASES[name])
