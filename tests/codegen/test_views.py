"""Views of bytes: native code and the interpreter agree, also where bytes are used again."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.codegen import build
from tensorsmith.errors import EvaluationError, OutOfBoundsError
from tensorsmith.evaluate.interpreter import interpret
from tensorsmith.ir import IRModule, TensorProgram, View
from tensorsmith.ir.rewrite import map_exprs, replace_buffers, statements
from tensorsmith.ir.structural import structural_equal, structural_hash
from tensorsmith.schedule import Schedule
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.script import parse_module
from tensorsmith.verify import verify

HEADER = "from tensorsmith import script as T\n"

REUSED = (
    HEADER
    + """
n = T.dim("n", min=0)

@T.program
def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    arena = T.alloc((n * 4 + 64,), "uint8", align=64)
    x = T.view(arena, 0, (n,), "float32")
    for i in range(n):
        x[i] = A[i] + 1.0
    y = T.view(arena, 64, (n,), "float32", align=64)
    z = T.view(arena, 0, (n,), "float32")
    for i in range(n):
        B[i] = z[i] * 2.0
    for i in range(n):
        y[i] = B[i]
    for i in range(n):
        B[i] = y[i] + z[0]
"""
)

CALLED = (
    HEADER
    + """
n = T.dim("n")
m = T.dim("m")

@T.program
def scale(X: T.Buffer((m,), "{dtype}"), Y: T.Buffer((m,), "{dtype}")):
    for i in T.parallel(m):
        Y[i] = X[i] + X[0]

@T.program
def f(A: T.Buffer((n,), "{dtype}"), W: T.Buffer((n * {size},), "uint8"),
      B: T.Buffer((n,), "{dtype}")):
    arena = T.alloc((n * {size} * 2 + 64,), "uint8", align=64)
    w = T.view(W, 0, (n,), "{dtype}")
    x = T.view(arena, 0, (n,), "{dtype}")
    y = T.view(arena, (n * {size} + 63) // 64 * 64, (n,), "{dtype}", align=64)
    T.call("scale", A, x)
    T.call("scale", x, y)
    T.call("scale", w, x)
    for i in range(n):
        B[i] = y[i] + x[i]
"""
)


def only(text: str) -> TensorProgram:
    """The program of a script."""
    return parse_module(text).program("f")


@pytest.mark.parametrize("n", [0, 1, 2, 17, 63, 1024, 20011])
def test_bytes_are_used_again_at_another_time(n: int) -> None:
    program = only(REUSED)
    verify(program)
    a = np.random.default_rng(n).random(n, np.float32)
    expected = np.full(n, np.nan, np.float32)
    interpret(program, a, expected)
    for check_bounds in (False, True):
        b = np.empty_like(a)
        build(program, cache=False, check_bounds=check_bounds)(a, b)
        np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint64", "float64"])
def test_views_are_passed_to_programs(dtype: str) -> None:
    from tensorsmith.ir.dtype import dtype as dtype_of

    type_ = dtype_of(dtype)
    module = parse_module(CALLED.format(dtype=dtype, size=type_.bytes))
    verify(module)
    assert type_.numpy is not None
    random = np.random.default_rng(7)
    for n in (1, 13, 1000):
        a = random.integers(0, 5, n).astype(type_.numpy)
        w = random.integers(0, 5, n).astype(type_.numpy).view(np.uint8)
        expected, b = np.empty_like(a), np.empty_like(a)
        interpret(module, a, w, expected, entry="f")
        build(module, cache=False, threads=2)["f"](a, w, b)
        np.testing.assert_array_equal(b.view(np.uint8), expected.view(np.uint8))


RESHAPED = (
    HEADER
    + """
n = T.dim("n")

@T.program
def f(A: T.Buffer((n, 6), "float32"), B: T.Buffer((n, 6), "float32")):
    a = T.view(A, 0, (n * 2, 3), "float32")
    b = T.view(B, 0, (2, n, 3), "float32")
    for i, j, k in T.grid(2, n, 3):
        b[i, j, k] = a[i * n + j, k] + A[0, 0]
"""
)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_buffer_is_viewed_by_another_shape(n: int) -> None:
    program = only(RESHAPED)
    verify(program)
    a = np.random.default_rng(n).random((n, 6), np.float32)
    expected, b = np.empty_like(a), np.empty_like(a)
    interpret(program, a, expected)
    build(program, cache=False)(a, b)
    np.testing.assert_array_equal(b, expected)
    np.testing.assert_array_equal(b, a + a[:1, :1])


def test_text_structure_and_copies() -> None:
    program = only(REUSED)
    assert only(program.script()).script() == program.script()
    assert structural_equal(only(program.script()), program)
    assert structural_hash(only(program.script())) == structural_hash(program)
    other = only(
        REUSED.replace("arena, 64,", "arena, 32,").replace('"float32", align=64)', '"float32")')
    )
    assert not structural_equal(other, program)
    assert structural_hash(other) != structural_hash(program)
    views = [s for s in statements(program.body) if isinstance(s, View)]
    new = {v.buffer: v.buffer.replace(name="renamed") for v in views}
    changed = [s for s in statements(replace_buffers(program.body, new)) if isinstance(s, View)]
    assert [v.buffer for v in changed] == list(new.values())
    assert map_exprs(program.body, lambda e: e) is program.body


def test_checked_builds_find_views_that_leave_their_source() -> None:
    text = (
        HEADER
        + """
n = T.dim("n")

@T.program
def f(k: T.Scalar("index"), S: T.Buffer((n,), "uint8"), B: T.Buffer((4,), "float32")):
    x = T.view(S, k, (4,), "float32")
    for i in range(4):
        B[i] = x[i]
"""
    )
    program = only(text)
    verify(program)
    exe = build(program, check_bounds=True)
    source, b = np.arange(32, dtype=np.uint8), np.empty(4, np.float32)
    exe(16, source, b)
    np.testing.assert_array_equal(b, source[16:].view(np.float32))
    for k, what in ((20, "leaves 'S'"), (-4, "leaves 'S'"), (2, "is not aligned to 4 bytes")):
        with pytest.raises(EvaluationError) as raised:
            exe(k, source, b)
        assert raised.value.what == f"f: the view 'x' {what}"
    with pytest.raises(OutOfBoundsError, match="views bytes 20 to 36 of 'S' as 'x'"):
        interpret(program, 20, source, b)
    with pytest.raises(EvaluationError, match="'x' at byte 2, which is no multiple of 4"):
        interpret(program, 2, source, b)


def test_loops_over_views_that_overlap_run_in_order() -> None:
    text = (
        HEADER
        + """
@T.program
def f(A: T.Buffer((64,), "int32")):
    arena = T.alloc((260,), "uint8", align=64)
    x = T.view(arena, 0, (64,), "int32")
    y = T.view(arena, 4, (64,), "int32")
    x[0] = 1
    for i in range(64):
        y[i] = x[i] * 3
    for i in range(64):
        A[i] = x[i]
"""
    )
    program = only(text)
    expected, a = np.zeros(64, np.int32), np.zeros(64, np.int32)
    interpret(program, expected)
    build(program, cache=False)(a)
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_array_equal(expected[:4], [1, 3, 9, 27])


def test_schedules_refuse_views() -> None:
    module = IRModule.of(only(REUSED))
    with pytest.raises(ScheduleError) as raised:
        Schedule(module)
    assert str(raised.value).endswith(
        "  because: 'x' is a view of memory that others may share\n"
        "  try: an allocation for each buffer"
    )
