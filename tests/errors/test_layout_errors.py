"""The whole text of every error of the primitives on layouts."""

from __future__ import annotations

import pytest

from errors.primitive_cases import ADD, ROW_SUMS, SCAN, STEPS, Texts, of
from tensorsmith.ir import IndexMap

TEXTS = Texts(__file__)
case = TEXTS.case


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


@case
def layout_map_of_another_rank():
    s = of(STEPS)
    s.transform_layout(s.get_block("L"), "L", IndexMap.of(lambda i: (i,), 1))


@pytest.mark.parametrize("name", TEXTS.cases)
def test_text(name):
    assert TEXTS.found(name) == TEXTS.expected()[name]


def test_every_text_has_its_case():
    assert list(TEXTS.expected()) == list(TEXTS.cases)


if __name__ == "__main__":
    TEXTS.write()
