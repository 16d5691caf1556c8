"""Fast calls: the same as general ones, without their cost, for what they know."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorsmith import ir, te
from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.errors import DTypeError, EvaluationError, TensorsmithError
from tensorsmith.ir import Buffer, Store, TensorProgram, Var, const
from tensorsmith.runtime.fast_call import MOST_PARAMETERS, is_supported
from tensorsmith.runtime.general_call import GeneralCall

pytestmark = pytest.mark.skipif(not is_supported(), reason="needs CPython of 64 bits")

n, m = T.dims("n m", min=0)
s, t = T.dims("s t", min=None)


@T.program
def store(
    x: T.int32,
    A: T.Buffer((n, m), "float32", strides=(s, t)),
    C: T.Buffer((2,), "float32"),
):
    C[0] = 0.0
    for i, j in T.grid(n, m):
        C[0] = C[0] + A[i, j]
    C[1] = T.float32(x)


@pytest.fixture
def general_calls(monkeypatch) -> list[tuple[object, ...]]:
    """The arguments of the calls that the fast path left to the general one."""
    seen: list[tuple[object, ...]] = []
    original = GeneralCall.__call__

    def recorded(self: GeneralCall, *values: object) -> None:
        seen.append(values)
        original(self, *values)

    monkeypatch.setattr(GeneralCall, "__call__", recorded)
    return seen


@pytest.fixture(scope="module")
def exe():
    return build(store, threads=1)


DTYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64"),
]


def copier(dtype: str, rank: int = 1) -> TensorProgram:
    shape = tuple(T.dim(f"n{axis}", min=0) for axis in range(rank))
    a = te.placeholder(shape, dtype, "A")
    return te.program([a], te.compute(shape, lambda *i: a[i], "B"), "copied")


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_type_are_fast(dtype, general_calls) -> None:
    copied = build(copier(dtype), threads=1)
    a = np.arange(5).astype(dtype)
    b = np.zeros(5, dtype)
    copied(a, b)
    np.testing.assert_array_equal(a, b)
    assert general_calls == []
    for other in {"int8", "float64"} - {dtype}:
        with pytest.raises(DTypeError, match=f"'A' must be {dtype}"):
            copied(a.astype(other), b)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_types_that_buffers_do_not_have_are_general(dtype, general_calls) -> None:
    copied = build(copier(dtype), threads=1)
    a = np.arange(5).astype(getattr(ml_dtypes, dtype))
    b = np.zeros_like(a)
    copied(a, b)
    assert a.tobytes() == b.tobytes()
    assert len(general_calls) == 1


@pytest.mark.parametrize("rank", [0, 1, 8, 9])
def test_ranks(rank, general_calls) -> None:
    copied = build(copier("float32", rank), threads=1)
    a = np.arange(2**rank, dtype=np.float32).reshape((2,) * rank)
    b = np.zeros_like(a)
    copied(a, b)
    np.testing.assert_array_equal(a, b)
    assert len(general_calls) == (rank > 8)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[::-1, ::2],
        lambda a: a[:0],
        lambda a: np.broadcast_to(a[0], (3, 6)),
    ],
)
def test_strides(exe, view, general_calls) -> None:
    a = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    c = np.empty(2, np.float32)
    exe(7, a, c)
    assert list(c) == [a.sum(), 7]
    assert general_calls == []


def test_a_stride_that_is_no_number_of_elements(exe) -> None:
    packed = np.zeros(4, np.dtype([("a", "u1"), ("b", "f4")]))["b"]
    with pytest.raises(DTypeError, match="axis 1 has a stride of 5 bytes"):
        exe(7, packed[None], np.empty(2, np.float32))


def scalar_program(dtype: str) -> TensorProgram:
    x, out = Var("x", ir.dtype(dtype)), Buffer("C", (1,), dtype)
    return TensorProgram("hold", (x, out), Store(out, (const(0),), x))


SCALARS = {
    "int8": [5, -128, 127, np.int8(-3), np.uint64(9), -1],
    "uint8": [0, 255, np.int64(200)],
    "int32": [-(2**31), 2**31 - 1, np.int32(-1)],
    "uint32": [2**32 - 1, np.uint32(7)],
    "int64": [-(2**63), 2**63 - 1, np.int64(-5)],
    "uint64": [0, 2**63 - 1, 2**64 - 1],
    "bool": [True, False, np.True_, np.False_],
    "float32": [1.5, -1.0, 3, np.float32(0.1), np.float64(2.5), np.int8(4), float("inf"), 1e300],
    "float64": [0.1, -1, np.float32(0.1), np.float16(0.5), float("-inf")],
}


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("dtype", SCALARS)
def test_numbers(dtype) -> None:
    exe = build(scalar_program(dtype), threads=1)
    for value in SCALARS[dtype]:
        c = np.empty(1, dtype)
        exe(value, c)
        assert c[0] == np.float32(value) if dtype == "float32" else c[0] == value, value


WRONG_SCALARS = {
    "int8": [(128, "argument 'x' is 128, which does not fit int8"), (True, "an integer, not True")],
    "uint8": [(-1, "argument 'x' is -1, which does not fit uint8"), (1.0, "an integer, not 1.0")],
    "int64": [(2**63, "which does not fit int64"), (None, "must be an integer, not None")],
    "uint64": [(2**64, "which does not fit uint64"), ("1", "must be an integer, not '1'")],
    "bool": [(1, "argument 'x' must be a bool, not 1"), (None, "must be a bool, not None")],
    "float32": [("1", "must be a number, not '1'"), (1j, "must be a number, not 1j")],
    "float64": [(10**400, "which does not fit float64"), (np.complex64(1), "must be a number")],
}


@pytest.mark.parametrize("dtype", WRONG_SCALARS)
def test_wrong_numbers(dtype) -> None:
    exe = build(scalar_program(dtype), threads=1)
    for value, text in WRONG_SCALARS[dtype]:
        with pytest.raises(DTypeError, match=text):
            exe(value, np.empty(1, dtype))


def test_what_goes_wrong_inside_runs_once() -> None:
    @T.program
    def count(C: T.Buffer((1,), "int32")):
        C[0] = C[0] + 1
        assert C[0] > 5, "not yet"

    exe = build(count, threads=1)
    c = np.zeros(1, np.int32)
    with pytest.raises(EvaluationError, match="not yet"):
        exe(c)
    assert c[0] == 1


def test_a_read_only_array_is_refused_only_where_it_is_written(exe, general_calls) -> None:
    a, c = np.ones((2, 2), np.float32), np.empty(2, np.float32)
    a.flags.writeable = False
    exe(1, a, c)
    assert (c[0], general_calls) == (4, [])
    c.flags.writeable = False
    with pytest.raises(DTypeError, match="argument 'C' is read-only"):
        exe(1, a, c)


def test_references_are_given_back(exe) -> None:
    a, c, x = np.ones((2, 2), np.float32), np.empty(2, np.float32), 123456789
    wrong = [(x, a, a), (x, c, c), (x, a.astype(np.float64), c), (x, a, None), (x, a), (a, x, c)]
    exe(x, a, c)
    before = [sys.getrefcount(o) for o in (a, c, x, np.ndarray)]
    for _ in range(300):
        exe(x, a, c)
        for args in wrong:
            with pytest.raises(TensorsmithError):
                exe(*args)
    gc.collect()
    after = [sys.getrefcount(o) for o in (a, c, x, np.ndarray)]
    assert max(abs(p - q) for p, q in zip(before, after, strict=True)) < 50


def test_no_buffer_stays_held(exe) -> None:
    a = np.ones((2, 2), np.float32)
    exe(1, a, np.empty(2, np.float32))
    a.resize((3, 3), refcheck=True)  # raises if anything else holds the array


def test_none_is_counted(exe) -> None:
    a, c = np.ones((2, 2), np.float32), np.empty(2, np.float32)
    before = sys.getrefcount(None)
    for _ in range(1000):
        exe(1, a, c)
    assert abs(sys.getrefcount(None) - before) < 100


def test_an_executable_goes_without_the_collector() -> None:
    exe = build(store, threads=1)
    gone = weakref.ref(exe["store"]._general)
    gc.disable()
    try:
        del exe
        assert gone() is None
    finally:
        gc.enable()


OBJECTS = st.sampled_from(
    [
        *(None, 0, -1, 1.5, True, 2**70, "A", b"bytes", (), [], {}, object, Ellipsis, 1j),
        *(np.float32(1), np.int64(3), np.datetime64("2020-01-01"), np.array("text")),
        *(np.zeros(2, np.float32), np.zeros((2, 2), np.float32), np.zeros((2, 2))),
        *(np.zeros((2, 2), ">f4"), np.zeros((2, 2), "c8"), np.zeros((2, 2), object)),
        *(np.zeros((0, 5), np.float32), np.float32(3).reshape(()), np.zeros((1,) * 20, "f4")),
        *(np.ma.zeros((2, 2), "f4"), np.zeros((2, 2), "f4").view(np.matrix)),
        *(memoryview(b"abcd"), bytearray(8), np.zeros((2, 2), ml_dtypes.bfloat16)),
        *(np.zeros(2, [("x", "f4")]), np.lib.stride_tricks.as_strided(np.zeros(9, "f4"), (2, 2))),
    ]
)


def outcome(call, args) -> tuple[type, str] | None:
    try:
        call(*args)
    except TensorsmithError as error:
        return type(error), str(error)
    return None


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # np.matrix
@settings(max_examples=300, deadline=None)
@given(args=st.lists(OBJECTS, max_size=5))
def test_any_objects_give_what_the_general_call_gives(exe, args) -> None:
    program = exe["store"]
    assert outcome(program, args) == outcome(program._general, args)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@settings(max_examples=20_000, deadline=None)
@given(args=st.lists(OBJECTS, min_size=2, max_size=4))
def test_any_objects_many(exe, args) -> None:
    program = exe["store"]
    assert outcome(program, args) == outcome(program._general, args)


def test_more_parameters_than_the_stack_is_for() -> None:
    buffers = tuple(Buffer(f"b{i}", (1,), "int32") for i in range(MOST_PARAMETERS + 1))
    exe = build(
        TensorProgram("many", buffers, Store(buffers[-1], (const(0),), buffers[0][0])), threads=1
    )
    arrays = [np.full(1, i + 7, np.int32) for i in range(len(buffers))]
    exe(*arrays)
    assert arrays[-1][0] == 7


def spin() -> TensorProgram:
    @T.program
    def spun(count: T.int64, C: T.Buffer((1,), "uint32")):
        for _ in range(T.index(count)):
            C[0] = C[0] * T.uint32(1664525) + T.uint32(1013904223)

    return spun


def test_other_threads_run_during_a_call() -> None:
    exe = build(spin(), threads=1)
    c = np.ones(1, np.uint32)
    caller = threading.Thread(target=exe, args=(600_000_000, c))
    ticks = 0
    caller.start()
    while caller.is_alive():
        time.sleep(0.002)
        ticks += 1
    caller.join()
    assert ticks > 5


def test_threads_with_right_and_wrong_arguments(exe) -> None:
    failures: list[object] = []

    def work(seed: int) -> None:
        a = np.full((seed + 1, 3), seed, np.float32)
        c = np.empty(2, np.float32)
        for at in range(300):
            exe(seed, a, c)
            if list(c) != [a.sum(), seed]:
                failures.append(c.copy())
            if at % 10 == 0 and outcome(exe, (seed, c, a)) is None:
                failures.append("a wrong call passed")

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert failures == []
