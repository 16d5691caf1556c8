"""What a schedule is told that would change how often, or in which order, a block is repeated."""

from __future__ import annotations

import pytest

from tensorsmith.schedule import Schedule, ScheduleError
from tensorsmith.script import parse_program

TEXT = """
from tensorsmith import script as T
@T.program
def f(X: T.Buffer((2, 9), "int32"), A: T.Buffer((8,), "int32"), Y: T.Buffer((4,), "int32")):
    S = T.alloc((1,), "int32")
    for t, i in T.grid(5, 8):
        with T.block("X"):
            vt, vi = T.remap("OS", t, i)
            X[(vt + 1) % 2, vi] = X[vt % 2, vi] + X[vt % 2, vi + 1]
    for u, m in T.grid(5, 8):
        with T.block("C"):
            vu, vm = T.remap("OS", u, m)
            T.call("log", A[vm : vm + 1])
    for k, r in T.grid(8, 3):
        with T.block("S"):
            vk, vr = T.remap("RO", k, r)
            with T.init():
                S[0] = 0
            S[0] = S[0] + A[vk]
    for j in range(4):
        with T.block("Y"):
            vj = T.remap("S", j)
            Y[vj] = S[0]
"""

CASES = {
    "steps that use neighbours": (
        lambda s, x: s.reorder(x["i"], x["t"]),
        (
            "reorder(i, t) would change the order in which the opaque iterator 'vt' of block 'X'"
            " takes its values, for those of 'i'\n"
            "  because: iterations of 'i' meet in 'X'"
        ),
    ),
    "calls": (
        lambda s, x: s.reorder(x["m"], x["u"]),
        (
            "reorder(m, u) would change the order in which the opaque iterator 'vu' of block 'C'"
            " takes its values, for those of 'm'\n"
            "  because: block 'C' does more than to write its buffers"
        ),
    ),
    "a reduction of which each part is repeated": (
        lambda s, x: s.compute_at(s.get_block("S"), x["j"]),
        (
            "<string>:15:9: compute_at: block 'S' is not reduced anew by each iteration of loop"
            " 'r', which repeats it\n"
            '    with T.block("S"):\n'
            "    ^^^^^^^^^^^^^^^^^^\n"
            "  because: the loop stands inside of one of the reduction"
        ),
    ),
    "an init that is repeated": (
        lambda s, x: s.blockize(x["r"]),
        (
            "<string>:15:9: blockize('r'): the init of block 'S' runs in each iteration of loop"
            " 'r'\n"
            '    with T.block("S"):\n'
            "    ^^^^^^^^^^^^^^^^^^\n"
            "  because: that of the new block runs once, before them"
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case) -> None:
    change, text = CASES[case]
    s = Schedule(parse_program(TEXT))
    found = {x.var.name: x for b in s.find_blocks() for x in s.get_loops(b)}
    module = s.module
    with pytest.raises(ScheduleError) as caught:
        change(s, found)
    assert str(caught.value) == text
    assert s.module is module
