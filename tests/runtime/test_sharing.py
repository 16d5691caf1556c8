"""A machine shared by several users: threads that call one executable, executables that run at the
same time, and a process that does nothing. What takes time is compared within one run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.ir import TensorProgram
from tensorsmith.schedule import Schedule

TRIES = 8
CALLS = 20


def product(rows: int, depth: int, columns: int = 256) -> TensorProgram:
    """A matrix product on threads, whose floats are summed in one order."""
    a = te.placeholder((rows, depth), name="A")
    b = te.placeholder((depth, columns), name="B")
    k = te.reduce_axis(depth, "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    s = Schedule(te.program([a, b], c, "product"))
    block = s.get_block("C")
    i, j, k_loop = s.get_loops(block)
    j_outer, j_inner = s.split(j, [None, 16])
    s.reorder(i, j_outer, k_loop, j_inner)
    s.vectorize(j_inner)
    s.decompose_reduction(block, k_loop)
    s.parallel(i)
    return s.program


def operands(seed: int, rows: int, depth: int, columns: int = 256) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = (rows, depth), (depth, columns)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
    return [a, b, np.zeros((rows, columns), np.float32)]


def test_eight_threads_get_the_bits_that_one_gets() -> None:
    program = product(61, 96)
    shared, alone = build(program, threads=2), build(program, threads=1)
    cases = [operands(seed, 61, 96) for seed in range(8)]
    expected = [np.zeros_like(case[2]) for case in cases]
    for (a, b, _), c in zip(cases, expected, strict=True):
        alone(a, b, c)
    wrong: list[int] = []

    def work(number: int) -> None:
        a, b, c = cases[number]
        for _ in range(40):
            c.fill(7)
            shared(a, b, c)
            if c.tobytes() != expected[number].tobytes():
                wrong.append(number)

    run_at_once([lambda n=n: work(n) for n in range(8)])
    assert wrong == []


def run_at_once(tasks: list[Callable[[], object]]) -> float:
    """Run each task in a thread of its own; gives the seconds until all have ended."""
    threads = [threading.Thread(target=task) for task in tasks]
    begin = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return time.perf_counter() - begin


def assert_shared(users: list[Callable[[], object]]) -> None:
    """At once they take no longer than one after the other, but for a quarter: each uses all of the
    machine, and gets its share of it. The best of several tries counts, as others may use it, too.
    """
    ratios = []
    for _ in range(TRIES):
        alone = sum(run_at_once([user]) for user in users)
        ratios.append(run_at_once(users) / alone)
    assert min(ratios) < 1.25, f"at once / one after the other: {ratios}"


@pytest.mark.slow
def test_two_executables_in_one_process_share_the_machine() -> None:
    users = []
    for seed, (rows, depth) in enumerate(((256, 256), (192, 384))):
        exe, args = build(product(rows, depth), threads=2), operands(seed, rows, depth)
        users.append(lambda exe=exe, args=args: [exe(*args) for _ in range(CALLS)])
        users[-1]()
    assert_shared(users)


CHILD = """
import sys
from runtime.test_sharing import CALLS, build, operands, product

rows, depth = map(int, sys.argv[1:])
exe, args = build(product(rows, depth), threads=2), operands(0, rows, depth)
exe(*args)
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(CALLS):
        exe(*args)
    print("done", flush=True)
"""


@pytest.mark.slow
def test_two_processes_share_the_machine() -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(process(CHILD, *map(str, size))) for size in ((256, 256),) * 2]
        for user in users:
            assert user.stdout.readline() == "ready\n"

        def ask(user: subprocess.Popen[str]) -> None:
            user.stdin.write("go\n")
            user.stdin.flush()
            assert user.stdout.readline() == "done\n"

        assert_shared([lambda user=user: ask(user) for user in users])
        for user in users:
            user.stdin.close()


def process(code: str, *args: str) -> subprocess.Popen[str]:
    """A Python process that has the modules of this one."""
    setup = f"import sys; sys.path[:0] = {sys.path!r}\n"
    return subprocess.Popen(
        [sys.executable, "-c", setup + code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


IDLE = """
import time
from runtime.test_sharing import build, operands, product

exe, args = build(product(64, 64), threads=2), operands(0, 64, 64)
for _ in range(100):
    exe(*args)
time.sleep(0.05)
processor, wall = time.process_time(), time.perf_counter()
time.sleep(2)
print(time.process_time() - processor, time.perf_counter() - wall)
"""


@pytest.mark.slow
def test_an_idle_process_uses_no_processor() -> None:
    """Threads that have just worked sleep: in two seconds they use less than a hundredth."""
    with process(IDLE) as idle:
        used, passed = map(float, idle.communicate()[0].split())
    assert used < passed / 100, f"{used} s of {passed} s"
