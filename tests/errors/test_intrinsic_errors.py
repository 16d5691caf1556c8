"""The whole text of every error of blockize, tensorize, and intrinsics."""

from __future__ import annotations

import pytest

from errors.primitive_cases import ADD, Texts, of
from tensorsmith import te
from tensorsmith.schedule import Schedule
from tensorsmith.schedule.blockize import blockize_blocks, blockize_loop
from tensorsmith.schedule.intrinsic import TensorIntrinsic, get_intrinsic, register_intrinsic
from tensorsmith.script import parse_program

TEXTS = Texts(__file__)
case = TEXTS.case


AXIS = te.reduce_axis(16, "k")


@case
def blockize_no_block():
    s = of("for i in range(8):\n    C[i] = 0.0\n" + ADD)
    blockize_loop(s.program, s.program.body.stmts[0].var)


@case
def blockize_nothing():
    of(ADD).blockize([])


@case
def blockize_what_does_not_divide():
    s = of(ADD)
    i, _j = s.get_loops(s.get_block("B"))
    outer, inner = s.split(i, [2, 4])
    s.reorder(inner, outer)
    s.blockize(outer)


@case
def blockize_around_other_statements():
    s = of(
        """
for i in range(8):
    for j in range(8):
        C[i] = 1.0
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj]
"""
    )
    s.blockize(s.get_loops(s.get_block("B"))[1])


@case
def blockize_with_a_block_between():
    s = of(ADD + ADD.replace('"B"', '"X"') + ADD.replace('"B"', '"Y"'))
    s.blockize([s.get_block("B"), s.get_block("Y")])


@case
def blockize_blocks_that_divide_otherwise():
    s = of(
        """
for i in range(8):
    for j in range(8):
        with T.block("X"):
            vi, vj = T.remap("SS", i, j)
            A[vi, vj] = 1.0
    for j in range(8):
        with T.block("Y"):
            vi = T.spatial(8, 7 - i)
            vj = T.spatial(8, j)
            B[vi, vj] = 1.0
"""
    )
    s.blockize([s.get_block("X"), s.get_block("Y")])


@case
def tensorize_with_no_such_intrinsic():
    s = of(ADD)
    s.tensorize(s.get_block("B"), "test_none")


@case
def tensorize_another_computation():
    s = of(ADD)
    s.tensorize(s.get_block("B"), "avx2_dot_u8s8s32_8x2")


@case
def tensorize_with_the_init_inside():
    s = Schedule(
        te.program(
            [a := te.placeholder((16, 16), name="A"), b := te.placeholder((16, 16), name="B")],
            te.compute(
                (16, 16),
                lambda i, j: te.sum(a[i, AXIS] * b[AXIS, j], axis=AXIS),
                "C",
            ),
            "matmul",
        )
    )
    s.tensorize(s.get_loops(s.get_block("C"))[0], "fake_accelerator_16x16x16")


@case
def an_intrinsic_of_two_signatures():
    one = get_intrinsic("avx2_dot_u8s8s32_8x2").description
    TensorIntrinsic("test_two", one, get_intrinsic("avx2_fma_f32_6x16").implementation)


@case
def an_intrinsic_that_is_there_already():
    register_intrinsic(get_intrinsic("avx2_fma_f32_6x16"))


@case
def blockize_no_blocks():
    blockize_blocks(of(ADD).program, [])


@case
def blockize_an_outer_and_an_inner_block():
    s = of(ADD)
    outer = s.blockize(s.get_loops(s.get_block("B"))[1])
    s.blockize([outer, s.get_block("B")])


@case
def blockize_around_an_allocation_that_is_used_later():
    s = of(
        """
for i in range(8):
    with T.block("X"):
        vi = T.remap("S", i)
        C[vi] = 0.0
    L = T.alloc((1,), "float32")
    with T.block("L"):
        vi = T.remap("O", i)
        L[0] = A[vi, 0]
    with T.block("Y"):
        vi = T.remap("S", i)
        B[vi, 0] = L[0]
"""
    )
    s.blockize([s.get_block("X"), s.get_block("L")])


@case
def blockize_around_a_condition():
    s = of(
        """
for i in range(8):
    if i < 4:
        for j in range(8):
            with T.block("B"):
                vi = T.opaque(8, i)
                vj = T.spatial(8, j)
                B[vi, vj] = A[vi, vj]
"""
    )
    s.blockize(s.get_loops(s.get_block("B"))[0])


@case
def blockize_from_one():
    s = of(
        """
for i in range(7):
    with T.block("C"):
        vi = T.spatial(7, i + 1, start=1)
        C[vi] = 0.0
"""
    )
    s.blockize([s.get_block("C")])


@case
def blockize_a_condition_on_what_is_no_iterator():
    s = of(
        """
for i, j in T.grid(16, 2):
    with T.block("B"):
        vi = T.spatial(4, i // 4)
        vj = T.spatial(8, i % 4 * 2 + j)
        T.where(i + j < 30)
        B[vi, vj] = 0.0
"""
    )
    s.blockize(s.get_loops(s.get_block("B"))[1])


@case
def blockize_blocks_with_other_predicates():
    s = of(
        """
for i in range(8):
    with T.block("X"):
        vi = T.remap("O", i)
        T.where(i < 4)
        C[vi] = 1.0
    with T.block("Y"):
        vi = T.remap("O", i)
        B[vi, 0] = 1.0
"""
    )
    s.blockize([s.get_block("X"), s.get_block("Y")])


@case
def blockize_a_triangle():
    s = of(
        """
for i in range(8):
    for j in T.serial(i + 1):
        with T.block("B"):
            vi, vj = T.remap("OO", i, j)
            B[vi, vj] = A[vi, vj]
"""
    )
    s.blockize(s.get_loops(s.get_block("B"))[1])


@case
def an_implementation_that_wants_to_know_more():
    header = "from tensorsmith import script as T\nn = T.dim('n')\nm = T.dim('m')\n"
    described, implemented = (
        parse_program(
            f"{header}@T.program\ndef f(X: T.Buffer((8, 8), 'float32', strides=({strides})),"
            f" Y: T.Buffer(({rows}, 8), 'float32')):\n"
            "    for i, j in T.grid(8, 8): X[i, j] = Y[i, j] + 1.0"
        )
        for strides, rows in (("8, 1", "8"), ("8 + m - m, 1", "8"))
    )
    register_intrinsic(TensorIntrinsic("test_more", described, implemented), override=True)
    s = of(ADD)
    s.tensorize(s.get_loops(s.get_block("B"))[0], "test_more")


@pytest.mark.parametrize("name", TEXTS.cases)
def test_text(name):
    assert TEXTS.found(name) == TEXTS.expected()[name]


def test_every_text_has_its_case():
    assert list(TEXTS.expected()) == list(TEXTS.cases)


if __name__ == "__main__":
    TEXTS.write()
