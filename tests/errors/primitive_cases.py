"""Small programs that primitives refuse, and the texts of the errors.

The texts of the cases of a test file stand in a file beside it. `Texts` compares them, and writes
them anew when the test file is run. What is written is to be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorsmith.schedule import Schedule, ScheduleError
from tensorsmith.script import parse_program

HEADER = """
from tensorsmith import script as T

n = T.dim("n", min=0)
M = T.Buffer((8, 8), "float32")

@T.program
def f(A: M, B: M, C: T.Buffer((8,), "float32"), N: T.Buffer((n,), "float32")):
"""
ROW_SUMS = """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.remap("SR", i, k)
        with T.init():
            C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
"""
ADD = """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.remap("SS", i, j)
        B[vi, vj] = A[vi, vj] + 1.0
"""
STEPS = """
L = T.alloc((8, 8), "float32")
for i, j in T.grid(8, 8):
    with T.block("L"):
        vi, vj = T.remap("SS", i, j)
        L[vi, vj] = A[vi, vj] + 1.0
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.remap("SS", i, j)
        B[vi, vj] = L[vj, vi]
"""
SCAN = """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.remap("SO", i, j)
        B[vi, vj] = T.select(vj == 0, 0.0, B[vi, vj - 1]) + A[vi, vj]
"""
PAD = """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.remap("SS", i, j)
        B[vi, vj] = T.select(vj < 6, A[vi, vj], 0.0)
"""
WINDOW = """
L = T.alloc((8, 8), "float32")
for i in range(6):
    for r, j in T.grid(3, 8):
        with T.block("L"):
            vi, vr, vj = T.remap("OSS", i, r, j)
            L[vi + vr, vj] = A[vi + vr, vj]
    for j in range(8):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = L[vi, vj] + L[vi + 2, vj]
"""

Case = Callable[[], object]


class Texts:
    """The cases of one test file, by name, and the file that has what their errors say."""

    def __init__(self, test_file: str) -> None:
        self.test_file = Path(test_file)
        self.path = self.test_file.with_name(self.test_file.stem.removeprefix("test_") + ".txt")
        self.cases: dict[str, Case] = {}

    def case(self, function: Case) -> Case:
        """Add a case: a function that raises a ScheduleError."""
        self.cases[function.__name__] = function
        return function

    def found(self, name: str) -> str:
        """What the error of a case says, without line numbers of the test file."""
        with pytest.raises(ScheduleError) as caught:
            self.cases[name]()
        text = str(caught.value).replace(str(self.test_file), "here.py")
        text = re.sub(
            r"one of .*, or register_intrinsic", "one of ..., or register_intrinsic", text
        )
        return re.sub(r"here\.py:\d+:\d+", "here.py", text)

    def expected(self) -> dict[str, str]:
        """What the errors are to say."""
        parts = re.split(r"^=== (\w+)\n", self.path.read_text(), flags=re.MULTILINE)[1:]
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return {name: text.rstrip("\n") for name, text in pairs}

    def write(self) -> None:
        """Take what the errors say now."""
        self.path.write_text("\n".join(f"=== {n}\n{self.found(n)}\n" for n in self.cases))


def of(body: str) -> Schedule:
    """The schedule of a program with this body."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Schedule(parse_program(HEADER + indented))


def changed(body: str, old: str, new: str) -> Schedule:
    """As `of`, with one place of the body written otherwise."""
    assert old in body
    return of(body.replace(old, new))


def decompose(s: Schedule, at: int = -1, block: str = "C") -> None:
    s.decompose_reduction(s.get_block(block), s.get_loops(s.get_block(block))[at])
