"""The debug build finds every access outside of a buffer, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.errors import EvaluationError
from tensorsmith.ir import (
    Assert,
    Buffer,
    Cast,
    For,
    If,
    Load,
    LoopKind,
    Select,
    Seq,
    Store,
    TensorProgram,
    Var,
    const,
    dtype,
)

# Built by hand: `verify` would refuse most of them.
A, B = Buffer("A", (16,), "int32"), Buffer("B", (16,), "int32")
P = Buffer("P", (16,), "int32")
i, k = Var("i"), Var("k")


def at(e):
    """Where P says."""
    return Load(P, (e,))


def index(e):
    """As an index."""
    return Cast(e, dtype("index"))


def loop(body, kind=LoopKind.VECTORIZED) -> TensorProgram:
    return TensorProgram("f", (P, A, B), For(i, const(16), body, kind=kind))


READ = Store(B, (i,), Load(A, (index(at(i)),)))
WRITE = Store(B, (index(at(i)),), Load(A, (i,)))
GUARDED = If((at(i) >= 0) & (at(i) < 16), READ)
SELECTED = Store(
    B,
    (i,),
    Select((at(i) >= 0) & (at(i) < 16), Load(A, (index(at(i)),)), const(7, "int32")),
)
KINDS = [LoopKind.VECTORIZED, LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.UNROLLED]


def run(program: TensorProgram, places: np.ndarray) -> np.ndarray:
    a, b = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    build(program, threads=1, check_bounds=True)(places.astype(np.int32), a, b)
    return b


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.value)
@pytest.mark.parametrize("body", [READ, WRITE], ids=["read", "write"])
@pytest.mark.parametrize("wrong", [-1, 16, 1 << 30, -(1 << 31)])
@pytest.mark.parametrize("lane", [0, 7, 15])
def test_one_wrong_index_is_found(kind, body, wrong, lane) -> None:
    places = np.arange(16)
    run(loop(body, kind), places)
    places[lane] = wrong
    with pytest.raises(EvaluationError, match=r"index 0 of '[AB]' is out of bounds"):
        run(loop(body, kind), places)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.value)
@pytest.mark.parametrize("body", [GUARDED, SELECTED], ids=["guarded", "selected"])
def test_lanes_that_do_not_run_are_not_wrong(kind, body) -> None:
    places = np.arange(16)
    places[[0, 3, 15]] = [-1, 16, 1 << 30]
    b = run(loop(body, kind), places)
    other = 0 if body is GUARDED else 7
    expected = np.arange(16)
    expected[[0, 3, 15]] = other
    np.testing.assert_array_equal(b, expected)


FIRST = Load(P, (const(0),))
UNIFORM = {
    "load": Load(A, (index(FIRST),)),
    "division": at(i) // (FIRST - (1 << 30)),
    "both": Load(A, (index(FIRST // (FIRST - (1 << 30))),)),
}


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("value", UNIFORM.values(), ids=UNIFORM)
@pytest.mark.parametrize("guard", ["if", "select"])
def test_what_no_lane_does_is_not_done(guard, value, checked) -> None:
    """Though it is the same in all lanes, and so computed once."""
    some = at(i) < 16
    body = Store(B, (i,), Select(some, value, const(7, "int32")))
    if guard == "if":
        body = If(some, Store(B, (i,), value), Store(B, (i,), const(7, "int32")))
    b = np.zeros(16, np.int32)
    places = np.full(16, 1 << 30, np.int32)
    build(loop(body), threads=1, check_bounds=checked)(places, np.arange(16, dtype=np.int32), b)
    np.testing.assert_array_equal(b, 7)


def test_an_assertion_holds_where_no_lane_runs() -> None:
    body = If(at(i) < 16, Seq((Assert(FIRST < 16, "first"), Store(B, (i,), at(i)))))
    b = run(loop(body), np.full(16, 99))
    np.testing.assert_array_equal(b, 0)
    with pytest.raises(EvaluationError, match="first"):
        run(loop(body), np.array([99, *[1] * 15]))


def test_a_region_that_leaves_its_buffer_is_found() -> None:
    @T.module
    class Calls:
        @T.program
        def main(start: T.int32, M: T.Buffer((8,), "int32")):
            T.call("clear", M[T.index(start) : T.index(start) + 4])

        @T.program
        def clear(X: T.Buffer((4,), "int32")):
            for j in T.vectorized(4):
                X[j] = 0

    exe = build(Calls, threads=1, check_bounds=True)
    data = np.ones(8, np.int32)
    exe["main"](4, data)
    assert data.sum() == 4
    for start in (-1, 5):
        with pytest.raises(EvaluationError, match="index 0 of 'M' is out of bounds"):
            exe["main"](start, data)


def test_a_loop_over_lanes_and_iterations() -> None:
    body = For(k, const(3), Store(B, (i + k,), Load(A, (i,))))
    with pytest.raises(EvaluationError, match="index 0 of 'B'"):
        run(loop(body), np.arange(16))
