"""The whole text of every error of the primitives on reductions, layouts, padding and intrinsics.

`tensor_primitive_errors.txt` has the text of each case below. A new case, or a change of a text, is
written there by hand, or by running this file, and read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorsmith import te
from tensorsmith.schedule import Schedule, ScheduleError
from tensorsmith.schedule.blockize import blockize_loop
from tensorsmith.schedule.intrinsic import TensorIntrinsic, get_intrinsic, register_intrinsic
from tensorsmith.script import parse_program

TEXTS = Path(__file__).with_name("tensor_primitive_errors.txt")
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


def of(body: str) -> Schedule:
    """The schedule of a program with this body."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Schedule(parse_program(HEADER + indented))


def changed(body: str, old: str, new: str) -> Schedule:
    """As `of`, with one place of the body written otherwise."""
    assert old in body
    return of(body.replace(old, new))


AXIS = te.reduce_axis(16, "k")
CASES: dict[str, Callable[[], object]] = {}


def case(function: Callable[[], object]) -> Callable[[], object]:
    CASES[function.__name__] = function
    return function


def decompose(s: Schedule, at: int = -1, block: str = "C") -> None:
    s.decompose_reduction(s.get_block(block), s.get_loops(s.get_block(block))[at])


# --- Reductions ---


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


def factor(s: Schedule, at: int, axis: int = 0, block: str = "C") -> None:
    s.rfactor(s.get_loops(s.get_block(block))[at], axis)


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


# --- Layouts ---


@case
def layout_of_no_buffer():
    s = of(STEPS)
    s.transform_layout(s.get_block("L"), "X", lambda i, j: (j, i))


@case
def layout_of_no_position():
    s = of(STEPS)
    s.transform_layout(s.get_block("L"), (1, "read"), lambda i, j: (j, i))


@case
def layout_of_a_parameter():
    s = of(STEPS)
    s.transform_layout(s.get_block("L"), "A", lambda i, j: (j, i))


@case
def layout_with_padding_of_a_parameter():
    s = of(STEPS)
    s.transform_layout(
        s.get_block("L"), "A", lambda i, j: (j, i), pad_value=0.0, change_parameter=True
    )


@case
def layout_that_is_not_injective():
    s = of(STEPS)
    s.transform_layout(s.get_block("L"), "L", lambda i, j: (i // 2, j))


@case
def layout_of_another_rank():
    s = of(STEPS)
    s.transform_layout(s.get_block("L"), "L", lambda i: (i,))


@case
def layout_twice():
    s = of(STEPS)
    s.set_axis_separator(s.get_block("L"), "L", [])
    s.transform_layout(s.get_block("L"), "L", lambda i, j: (j, i))


@case
def layout_of_what_is_passed_on():
    s = of(STEPS + 'T.call("extern", L)\n')
    s.transform_layout(s.get_block("L"), "L", lambda i, j: (j, i))


@case
def separators_out_of_order():
    s = of(STEPS)
    s.set_axis_separator(s.get_block("L"), "L", [2, 1])


@case
def separators_with_strides():
    s = of(STEPS.replace('"float32")\n', '"float32", strides=(16, 2))\n', 1))
    s.set_axis_separator(s.get_block("L"), "L", [1])


@case
def block_layout_of_split_loops():
    s = of(ADD)
    s.split(s.get_loops(s.get_block("B"))[0], [2, 4])
    s.transform_block_layout(s.get_block("B"), lambda i, j: (j, i))


@case
def block_layout_with_holes():
    s = of(ADD)
    s.transform_block_layout(s.get_block("B"), lambda i, j: (i // 3, i % 3, j))


@case
def block_layout_of_both_kinds():
    s = of(ROW_SUMS)
    s.transform_block_layout(s.get_block("C"), lambda i, k: (i * 8 + k,))


@case
def block_layout_of_an_opaque_iterator():
    s = of(SCAN)
    s.transform_block_layout(s.get_block("B"), lambda i, j: (j, i))


@case
def block_layout_from_one():
    s = of(
        """
for i in T.serial(7, start=1):
    with T.block("C"):
        vi = T.spatial(7, i, start=1)
        C[vi] = 0.0
"""
    )
    s.transform_block_layout(s.get_block("C"), lambda i: (i,))


@case
def iterators_in_no_order():
    s = of(ADD)
    s.reorder_block_iter_var(s.get_block("B"), [0, 0])


# --- Padding ---


def pad(body: str, *padding: int, block: str = "B") -> None:
    s = of(body)
    s.pad_einsum(s.get_block(block), list(padding))


@case
def pad_with_too_few_numbers():
    pad(ADD, 4)


@case
def pad_what_is_split():
    s = of(ADD)
    s.split(s.get_loops(s.get_block("B"))[0], [2, 4])
    s.pad_einsum(s.get_block("B"), [3, 3])


@case
def pad_an_opaque_iterator():
    pad(SCAN, 1, 3)


@case
def pad_a_sum_of_iterators():
    pad(ADD.replace("T.grid(8, 8)", "T.grid(4, 5)").replace("A[vi, vj]", "A[vi + vj, vj]"), 3, 3)


@case
def pad_what_loads_under_a_condition():
    pad(PAD, 3, 3)


@case
def pad_what_divides():
    s = Schedule(
        te.program(
            [a := te.placeholder((5,), "int32", "A"), b := te.placeholder((5,), "int32", "B")],
            te.compute((5,), lambda i: a[i] // b[i], "C"),
            "quotients",
        )
    )
    s.pad_einsum(s.get_block("C"), [4])


@case
def pad_after_the_init_moved_out():
    s = of(ROW_SUMS)
    decompose(s, 0)
    s.pad_einsum(s.get_block("C"), [3, 3])


@case
def pad_what_holds_a_loop():
    pad(
        """
for i in range(8):
    with T.block("B"):
        vi = T.remap("S", i)
        for j in range(8):
            B[vi, j] = A[vi, j]
""",
        3,
    )


@case
def pad_what_accesses_a_result_twice():
    pad(ADD.replace("A[vi, vj] + 1.0", "B[vj, vi] + 1.0"), 3, 3)


@case
def pad_what_overwrites_itself():
    pad(
        """
for i, j in T.grid(8, 1):
    with T.block("B"):
        vi, vj = T.remap("SS", i, j)
        C[vi] = A[vi, vj]
""",
        1,
        2,
    )


@case
def decompose_padding_of_no_padding():
    s = of(ADD)
    s.decompose_padding(s.get_block("B"), s.get_loops(s.get_block("B"))[0])


@case
def decompose_padding_that_loads():
    s = of(PAD.replace("0.0", "A[0, 0] + A[0, 1]"))
    s.decompose_padding(s.get_block("B"), s.get_loops(s.get_block("B"))[0])


@case
def decompose_padding_in_place():
    s = of(PAD.replace("A[vi, vj]", "B[vi, vj]"))
    s.decompose_padding(s.get_block("B"), s.get_loops(s.get_block("B"))[0])


@case
def decompose_padding_of_an_opaque_iterator():
    s = of(PAD.replace('"SS"', '"SO"'))
    s.decompose_padding(s.get_block("B"), s.get_loops(s.get_block("B"))[0])


@case
def decompose_padding_around_others():
    s = of(
        """
for i in range(8):
    C[i] = 1.0
    for j in range(8):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = T.select(vj < 6, A[vi, vj], 0.0)
"""
    )
    s.decompose_padding(s.get_block("B"), s.get_loops(s.get_block("B"))[0])


# --- Rolling ---


def roll(old: str = "", new: str = "", block: str = "L") -> None:
    s = of(WINDOW.replace(old, new) if old else WINDOW)
    s.rolling_buffer(s.get_block(block))


@case
def roll_a_parameter():
    roll(block="B")


@case
def roll_without_a_window():
    s = of(STEPS)
    s.rolling_buffer(s.get_block("L"))


@case
def roll_a_buffer_with_strides():
    roll('"float32")\n', '"float32", strides=(16, 2))\n')


@case
def roll_in_a_parallel_loop():
    roll("for i in range(6)", "for i in T.parallel(6)")


@case
def roll_windows_apart():
    roll("L[vi + vr, vj]", "L[vi * 3 + vr, vj]")


@case
def roll_other_values():
    roll("= A[vi + vr, vj]", "= A[vi, vj]")


@case
def roll_outside_of_the_window():
    roll("L[vi + 2, vj]", "L[vi + 1, vj] + L[vi - 1, vj]")


@case
def roll_what_is_read_later():
    s = of(WINDOW + "C[0] = L[1, 1]\n")
    s.rolling_buffer(s.get_block("L"))


@case
def roll_what_another_writes():
    roll("    for j in range(8):\n", "    L[0, 0] = 1.0\n    for j in range(8):\n")


@case
def roll_what_the_loop_changes():
    roll("    for j in range(8):\n", "    A[0, 0] = 1.0\n    for j in range(8):\n")


@case
def roll_what_is_passed_on():
    roll("    for j in range(8):\n", '    T.call("extern", L)\n    for j in range(8):\n')


@case
def roll_under_a_predicate():
    roll(
        'vi, vr, vj = T.remap("OSS", i, r, j)\n',
        'vi, vr, vj = T.remap("OSS", i, r, j)\n            T.where(i < 9)\n',
    )


@case
def roll_under_a_condition():
    s = of(
        """
L = T.alloc((8,), "float32")
for i in range(6):
    if i < 5:
        for r in range(3):
            with T.block("L"):
                vi, vr = T.remap("OS", i, r)
                L[vi + vr] = A[vi + vr, 0]
    with T.block("C"):
        vi = T.remap("S", i)
        C[vi] = L[vi] + L[vi + 2]
"""
    )
    s.rolling_buffer(s.get_block("L"))


# --- Blocks of blocks, and intrinsics ---


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
    i, j = s.get_loops(s.get_block("B"))
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


def text_of(function: Callable[[], object]) -> str:
    with pytest.raises(ScheduleError) as caught:
        function()
    text = str(caught.value).replace(str(Path(__file__)), "here.py")
    text = re.sub(r"one of .*, or register_intrinsic", "one of ..., or register_intrinsic", text)
    return re.sub(r"here\.py:\d+:\d+", "here.py", text)


def expected() -> dict[str, str]:
    parts = re.split(r"^=== (\w+)\n", TEXTS.read_text(), flags=re.MULTILINE)[1:]
    return {name: text.rstrip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    assert text_of(CASES[name]) == expected()[name]


def test_every_text_has_its_case():
    assert list(expected()) == list(CASES)


if __name__ == "__main__":
    TEXTS.write_text("\n".join(f"=== {name}\n{text_of(f)}\n" for name, f in CASES.items()))
