"""The whole text of every error of decompose_reduction and rfactor."""

from __future__ import annotations

import pytest

from errors.primitive_cases import ADD, ROW_SUMS, Texts, changed, decompose, of
from tensorsmith.schedule import Schedule

TEXTS = Texts(__file__)
case = TEXTS.case


def factor(s: Schedule, at: int, axis: int = 0, block: str = "C") -> None:
    s.rfactor(s.get_loops(s.get_block(block))[at], axis)


@case
def decompose_without_init():
    decompose(of(ADD), block="B")


@case
def decompose_at_a_loop_elsewhere():
    s = of(ROW_SUMS + ADD)
    s.decompose_reduction(s.get_block("C"), s.get_loops(s.get_block("B"))[0])


@case
def decompose_inside_of_the_reduction():
    s = of(ROW_SUMS)
    s.split(s.get_loops(s.get_block("C"))[1], [2, 4])
    decompose(s)


@case
def decompose_a_loop_of_both_kinds():
    s = of(ROW_SUMS)
    decompose_of = s.fuse(*s.get_loops(s.get_block("C")))
    s.decompose_reduction(s.get_block("C"), decompose_of)


@case
def decompose_an_opaque_loop():
    decompose(
        of(
            """
for o, i, k in T.grid(2, 8, 8):
    with T.block("C"):
        vo, vi, vk = T.remap("OSR", o, i, k)
        with T.init():
            C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
"""
        ),
        0,
    )


@case
def decompose_a_condition_of_both():
    block = """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.remap("SR", i, k)
        T.where(i + k < 15)
        with T.init():
            C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
"""
    decompose(of(block))


@case
def decompose_a_reduction_of_nothing():
    decompose(
        of(
            """
for i, k in T.grid(8, n):
    with T.block("C"):
        vi, vk = T.remap("SR", i, k)
        with T.init():
            C[vi] = 0.0
        C[vi] = C[vi] + N[vk]
"""
        )
    )


@case
def decompose_over_another_use():
    decompose(
        of(
            """
for i in range(8):
    C[i] = 1.0
    for k in range(8):
        with T.block("C"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
        ),
        0,
    )


@case
def decompose_under_data():
    decompose(
        changed(
            ROW_SUMS,
            '    with T.block("C"):\n        vi, vk = T.remap("SR", i, k)\n',
            '    with T.block("C"):\n        vi, vk = T.remap("SR", i, k)\n'
            "        T.where(A[0, 0] < 1.0)\n",
        )
    )


@case
def rfactor_several_blocks():
    s = of(
        """
for i in range(8):
    with T.block("X"):
        vi = T.remap("S", i)
        C[vi] = 1.0
    with T.block("Y"):
        vi = T.remap("S", i)
        B[vi, 0] = 1.0
"""
    )
    factor(s, 0, block="X")


@case
def rfactor_a_spatial_loop():
    factor(of(ROW_SUMS), 0)


@case
def rfactor_without_init():
    s = of(ROW_SUMS)
    decompose(s)
    factor(s, -1)


@case
def rfactor_at_no_axis():
    factor(of(ROW_SUMS), 1, 3)


@case
def rfactor_what_is_not_associative():
    factor(changed(ROW_SUMS, "C[vi] + A[vi, vk]", "T.select(C[vi] < 1.0, A[vi, vk], C[vi])"), 1)


@case
def rfactor_what_is_no_reducer():
    factor(changed(ROW_SUMS, "C[vi] + A[vi, vk]", "C[vi] * 2.0 + A[vi, vk]"), 1)


@case
def rfactor_a_body_with_a_condition():
    factor(
        changed(
            ROW_SUMS,
            "        C[vi] = C[vi] + A",
            "        if vk < 3:\n            C[vi] = C[vi] + A",
        ),
        1,
    )


@case
def rfactor_with_other_statements():
    factor(
        of(
            """
for i in range(8):
    for k in range(8):
        B[i, k] = 1.0
        with T.block("C"):
            vi, vk = T.remap("SR", i, k)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
        ),
        1,
    )


@case
def decompose_inside_of_a_while():
    decompose(
        of(
            """
for i in range(8):
    while B[i, 0] < 1.0:
        for k in range(8):
            with T.block("C"):
                vi, vk = T.remap("SR", i, k)
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
"""
        ),
        0,
    )


@case
def decompose_a_triangle():
    decompose(
        of(
            """
for k in range(8):
    for i in T.serial(k + 1):
        with T.block("C"):
            vk = T.reduce(8, k)
            vi = T.spatial(8, i)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
        ),
        0,
    )


@case
def decompose_with_a_call_that_depends_on_the_reduction():
    decompose(
        of(
            """
for i, k in T.grid(8, 8):
    with T.block("C"):
        vi, vk = T.remap("SR", i, k)
        T.reads(A[vi, vk], C[vi])
        T.writes(C[vi])
        with T.init():
            T.call("start", C[vi:vi + 1])
        T.call("add", C[vi:vi + 1], A[vi, vk:vk + 1])
"""
        )
    )


@case
def decompose_over_an_allocation():
    decompose(
        of(
            """
for i in range(8):
    L = T.alloc((1,), "float32")
    for k in range(8):
        with T.block("L"):
            vo = T.spatial(8, i)
            vk = T.reduce(8, k)
            with T.init():
                L[0] = 0.0
            L[0] = L[0] + A[vo, vk]
"""
        ),
        0,
        "L",
    )


@case
def rfactor_a_triangle():
    factor(
        of(
            """
for i in range(8):
    for k in T.serial(i + 1):
        with T.block("C"):
            vi = T.spatial(8, i)
            vk = T.reduce(8, k)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
        ),
        1,
    )


@case
def rfactor_an_init_of_something_else():
    factor(changed(ROW_SUMS, "            C[vi] = 0.0", "            B[vi, 0] = 0.0"), 1)


@case
def rfactor_an_init_of_another_element():
    factor(changed(ROW_SUMS, "            C[vi] = 0.0", "            C[7 - vi] = 0.0"), 1)


@case
def rfactor_a_result_that_changes_twice():
    factor(
        changed(
            ROW_SUMS,
            "        C[vi] = C[vi] + A[vi, vk]",
            "        C[vi] = C[vi] + A[vi, vk]\n        C[vi] = C[vi] + 1.0",
        ),
        1,
    )


@case
def rfactor_a_value_that_is_not_found():
    factor(changed(ROW_SUMS, "C[vi] + A[vi, vk]", "C[vi] + A[vi, vk] * C[vi]"), 1)


@pytest.mark.parametrize("name", TEXTS.cases)
def test_text(name):
    assert TEXTS.found(name) == TEXTS.expected()[name]


def test_every_text_has_its_case():
    assert list(TEXTS.expected()) == list(TEXTS.cases)


if __name__ == "__main__":
    TEXTS.write()
