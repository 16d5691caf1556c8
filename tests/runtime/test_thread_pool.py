"""The thread pool: all pieces once, errors passed on, forks, several callers, no work when idle."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.ir import TensorProgram
from tensorsmith.runtime.jit import link_ir
from tensorsmith.runtime.thread_pool import Context, symbols
from tensorsmith.schedule import Schedule

BODY = """
define i32 @count(ptr %context, ptr %env, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %env, i64 %i
  %old = atomicrmw add ptr %p, i64 1 seq_cst
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
define i32 @begin(ptr %context, ptr %env, i64 %begin, i64 %end) {
  %p = getelementptr i64, ptr %env, i64 %begin
  store i64 1, ptr %p
  ret i32 0
}
define i32 @fail(ptr %context, ptr %env, i64 %begin, i64 %end) {
  %hit = icmp sge i64 %end, 50
  %code = select i1 %hit, i32 7, i32 0
  ret i32 %code
}
"""


@pytest.fixture(scope="module")
def bodies() -> dict[str, int]:
    return link_ir(BODY, ["count", "fail", "begin"])


def parallel(context: Context, body: int, env: np.ndarray | None, begin: int, end: int) -> int:
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
    where = None if env is None else env.ctypes.data
    return call(symbols()["ts_parallel"])(context.address, body, where, begin, end)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 1000])
def test_every_iteration_runs_once(bodies, threads, count) -> None:
    seen = np.zeros(max(count, 1), np.int64)
    context = Context(threads)
    for _ in range(50):
        assert parallel(context, bodies["count"], seen, 0, count) == 0
    assert (seen[:count] == 50).all()


def test_threads_that_come_late_find_the_next_loop(bodies) -> None:
    """More threads than processors, loops over before most of them wake up, other memory each."""
    context = Context(8)
    random = np.random.default_rng(2)
    for _ in range(3000):
        seen = np.zeros(int(random.integers(2, 12)), np.int64)
        assert parallel(context, bodies["count"], seen, 0, len(seen)) == 0
        assert (seen == 1).all()


def test_each_thread_has_an_equal_part_of_its_own(bodies) -> None:
    """Pieces begin anew at each part, whoever takes them."""
    begun = np.zeros(101, np.int64)
    assert parallel(Context(2), bodies["begin"], begun, 0, 101) == 0
    assert list(np.flatnonzero(begun)) == [*range(0, 51, 6), *range(51, 101, 6)]


def test_an_error_code_is_passed_on(bodies) -> None:
    context = Context(2)
    assert parallel(context, bodies["fail"], None, 0, 100) == 7
    assert parallel(context, bodies["fail"], None, 0, 10) == 0


def test_callers_at_once_do_not_disturb_each_other(bodies) -> None:
    rows = np.zeros((8, 100), np.int64)
    context = Context(2)

    def work(row: np.ndarray) -> None:
        for _ in range(300):
            parallel(context, bodies["count"], row, 0, 100)

    callers = [threading.Thread(target=work, args=(row,)) for row in rows]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert (rows == 300).all()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own: forking with threads
def test_a_forked_child_has_threads_of_its_own(bodies) -> None:
    seen = np.zeros(100, np.int64)
    context = Context(2)
    parallel(context, bodies["count"], seen, 0, 100)
    child = os.fork()
    if child == 0:
        for _ in range(100):
            parallel(context, bodies["count"], seen, 0, 100)
        os._exit(0 if (seen == 101).all() else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_an_idle_pool_uses_no_processor(bodies) -> None:
    seen = np.zeros(100, np.int64)
    parallel(Context(2), bodies["count"], seen, 0, 100)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05


def scaled() -> TensorProgram:
    """A program with a parallel loop."""
    n = T.dim("n")
    a = te.placeholder((n, 64), name="A")
    s = Schedule(te.program([a], te.compute((n, 64), lambda i, j: a[i, j] * 2.0, "B"), "scaled"))
    s.parallel(s.get_loops(s.get_block("B"))[0])
    return s.program


def test_python_threads_share_one_executable() -> None:
    exe = build(scaled(), threads=2)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((37, 64), dtype=np.float32) for _ in range(8)]
    outputs = [np.empty_like(a) for a in inputs]

    def work(a: np.ndarray, b: np.ndarray) -> None:
        for _ in range(100):
            exe(a, b)

    callers = [threading.Thread(target=work, args=p) for p in zip(inputs, outputs, strict=True)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    for a, b in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(b, a * 2)
