"""The whole text of every error of pad_einsum, decompose_padding and rolling_buffer."""

from __future__ import annotations

import pytest

from errors.primitive_cases import ADD, PAD, ROW_SUMS, SCAN, STEPS, WINDOW, Texts, decompose, of
from tensorsmith import te
from tensorsmith.schedule import Schedule

TEXTS = Texts(__file__)
case = TEXTS.case


def pad(body: str, *padding: int, block: str = "B") -> None:
    s = of(body)
    s.pad_einsum(s.get_block(block), list(padding))


def roll(old: str = "", new: str = "", block: str = "L") -> None:
    s = of(WINDOW.replace(old, new) if old else WINDOW)
    s.rolling_buffer(s.get_block(block))


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
def pad_a_product_of_iterators():
    pad(ADD.replace("T.grid(8, 8)", "T.grid(4, 5)").replace("A[vi, vj]", "A[vi * vj, vj]"), 3, 3)


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


@case
def pad_from_one():
    pad(
        """
for i in T.serial(7, start=1):
    with T.block("B"):
        vi = T.spatial(7, i, start=1)
        C[vi] = A[vi, 0]
""",
        4,
    )


@case
def pad_a_reduction_without_init():
    pad(
        ROW_SUMS.replace("        with T.init():\n            C[vi] = 0.0\n", "").replace(
            "C[vi] + ", ""
        ),
        1,
        3,
        block="C",
    )


@case
def roll_what_is_allocated_in_the_loop():
    alloc = 'L = T.alloc((8, 8), "float32")\n'
    s = of(WINDOW.replace(alloc, "").replace("range(6):\n", f"range(6):\n    {alloc}"))
    s.rolling_buffer(s.get_block("L"))


@case
def roll_a_reader_between():
    s = of(
        """
L = T.alloc((8, 8), "float32")
for i in range(6):
    for j in range(8):
        for r in range(3):
            with T.block("L"):
                vi, vr, vj = T.remap("OSS", i, r, j)
                L[vi + vr, vj] = A[vi + vr, vj]
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = L[vi, vj] + L[vi + 2, vj]
"""
    )
    s.rolling_buffer(s.get_block("L"))


@pytest.mark.parametrize("name", TEXTS.cases)
def test_text(name):
    assert TEXTS.found(name) == TEXTS.expected()[name]


def test_every_text_has_its_case():
    assert list(TEXTS.expected()) == list(TEXTS.cases)


if __name__ == "__main__":
    TEXTS.write()
