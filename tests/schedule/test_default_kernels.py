"""Default schedules of random kernels: right, legal, and never an error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedule.graph_kernels import kernels
from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.schedule import default
from tensorsmith.target import Target
from tensorsmith.target.target import Caches
from tensorsmith.verify import verify

SMALL = Caches(512, 1024, 8192)
"""So small that even small products are cut into panels and strips."""
TARGETS = ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")


def check(data: st.DataObject, *, native: bool) -> None:
    """The scheduled program gives the same results; they are whole numbers, so exactly."""
    program, args, results = data.draw(kernels())
    target = Target.named("host" if native else data.draw(st.sampled_from(TARGETS)))
    caches = data.draw(st.sampled_from((Caches(), SMALL)))
    target = dataclasses.replace(target, cores=data.draw(st.sampled_from((1, 2))), caches=caches)
    scheduled = default(program, target)
    verify(scheduled)
    expected = [np.copy(a) for a in args]
    interpret(program, *expected)
    if native:
        build(scheduled, target, threads=2, cache=False)(*args)
    else:
        interpret(scheduled, *args)
    for a, b in zip(expected[-results:], args[-results:], strict=True):
        np.testing.assert_array_equal(a, b)


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(deadline=None, max_examples=25, suppress_health_check=SLOW)
@given(st.data())
def test_random_kernels_keep_their_results(data: st.DataObject) -> None:
    check(data, native=False)


@settings(deadline=None, max_examples=15, suppress_health_check=SLOW)
@given(st.data())
def test_random_kernels_run(data: st.DataObject) -> None:
    check(data, native=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=3000, suppress_health_check=SLOW)
@given(st.data())
def test_many_random_kernels_keep_their_results(data: st.DataObject) -> None:
    check(data, native=data.draw(st.booleans()))


@pytest.mark.parametrize(("multiple", "vectors"), [(64, 4), (128, 4), (16, 1), (1, 1)])
def test_sums_that_leave_nothing_over_have_several_vectors(multiple: int, vectors: int) -> None:
    """A single vector of partial results waits for itself."""
    points = T.dim("points", min=2 * multiple, multiple_of=multiple)
    x = te.placeholder((points,), name="x")
    k = te.reduce_axis(points, "k")
    program = te.program([x], te.compute((), lambda: te.max(x[k], axis=k), "most"), "greatest")
    scheduled = default(program, "x86-64-v4")
    assert f"T.vectorized({16 * vectors})" in str(scheduled.body)
    data = np.random.default_rng(1).normal(size=3 * max(multiple, 64)).astype(np.float32)
    out = np.zeros((), np.float32)
    build(default(program), cache=False)(data, out)
    assert out == data.max()
