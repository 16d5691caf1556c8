"""Times of calls and of parallel loops."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.errors import EvaluationError, ShapeError
from tensorsmith.runtime import LoopTimes, Profile

n = T.dim("n")


@T.program
def twice(A: T.Buffer((n, 1000), "float32"), B: T.Buffer((n, 1000), "float32")):
    for _ in range(3):
        for i in T.parallel(n):
            for j in range(1000):
                B[i, j] = T.sqrt(A[i, j])
    for i in T.parallel(n):
        for j in range(1000):
            B[i, j] = B[i, j] + 1.0


@T.program
def checked(x: T.int32):
    assert x > 0, "x must be positive"


@pytest.fixture(scope="module", params=[1, 2])
def exe(request):
    return build(twice, threads=request.param)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    a = np.ones((300, 1000), np.float32)
    return a, np.zeros_like(a)


def test_calls_and_loops(exe) -> None:
    a, b = arrays()
    started = time.perf_counter()
    profile = exe.profile(a, b, repeats=7, warmup=2)
    spent = time.perf_counter() - started
    assert (b == 2).all()
    assert (profile.name, profile.threads, len(profile.seconds)) == ("twice", exe.threads, 7)
    assert [loop.runs for loop in profile.loops] == [3, 1]
    assert all(len(loop.seconds) == 7 for loop in profile.loops)
    assert 0 < profile.best <= profile.median <= max(profile.seconds)
    assert sum(profile.seconds) < spent
    for call, *loops in zip(profile.seconds, *(p.seconds for p in profile.loops), strict=True):
        assert 0 < sum(loops) <= call


def test_by_name_and_for_one_program(exe) -> None:
    a, b = arrays()
    assert len(exe["twice"].profile(B=b, A=a, repeats=2).seconds) == 2


def test_it_prints_as_a_table() -> None:
    loops = (LoopTimes(1, (1e-6, 3e-6, 2e-6)), LoopTimes(4, (5e-5, 5e-5, 5e-5)))
    assert str(Profile("matmul", 2, (1e-4, 3e-4, 2e-4), loops)) == (
        "                                      least us    median us\n"
        "matmul: 3 calls on 2 threads             100.0        200.0\n"
        "  parallel loop 0, once a call             1.0          2.0\n"
        "  parallel loop 1, 4 times a call         50.0         50.0"
    )


def test_errors_are_those_of_a_call(exe) -> None:
    a, b = arrays()
    with pytest.raises(ShapeError, match="axis 1 of 'A' must have extent 1000"):
        exe.profile(a[:, :5].copy(), b)
    with pytest.raises(EvaluationError, match="x must be positive"):
        build(checked, threads=1).profile(0)
    with pytest.raises(EvaluationError) as caught:
        exe.profile(a, b, repeats=0)
    assert str(caught.value) == (
        "a profile of 0 calls after 1 is none\n  try: repeats=10, warmup=1"
    )
