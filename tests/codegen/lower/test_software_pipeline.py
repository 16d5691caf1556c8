"""Loops in stages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from codegen.lower.agreement import check_native, check_passes
from strategies.cases import fast_and_slow
from tensorsmith import script as T
from tensorsmith.codegen.lower.blocks import lower_blocks
from tensorsmith.codegen.lower.partition import partition_loops
from tensorsmith.codegen.lower.software_pipeline import pipeline_loops
from tensorsmith.errors import CodegenError
from tensorsmith.ir import IRModule, TensorProgram

n = T.dim("n", min=1)


def chain(stages, order=None) -> TensorProgram:
    attrs = {"software_pipeline_stage": stages}
    if order is not None:
        attrs["software_pipeline_order"] = order

    @T.program
    def main(A: T.Buffer((n, 4), "int32"), B: T.Buffer((n, 4), "int32")):
        for i in T.serial(n, attrs=attrs):
            a = T.alloc((4,), "int32")
            b = T.alloc((4,), "int32")
            for j in range(4):
                a[j] = A[i, j] + 1
            for j in range(4):
                b[j] = a[3 - j] * 2
            for j in range(4):
                B[i, j] = b[j] + a[j]

    return main


def test_two_stages_have_a_first_and_a_last_round() -> None:
    @T.program
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.serial(8, attrs={"software_pipeline_stage": (0, 1)}):
            a = T.alloc((1,), "int32")
            a[0] = A[i]
            B[i] = a[0] * 2

    after = partition_loops(pipeline_loops(lower_blocks(main)))
    assert (
        after.script().split("):\n", 1)[1]
        == """\
    a = T.alloc((2, 1), "int32")
    a[0, 0] = A[0]
    for i in T.serial(7, start=1):
        a[i % 2, 0] = A[i]
        B[i - 1] = a[(i + 1) % 2, 0] * 2
    B[7] = a[1, 0] * 2
"""
    )


def pipelines_survive(data) -> None:
    stages = tuple(data.draw(st.lists(st.integers(0, 3), min_size=3, max_size=3)))
    order = data.draw(st.none() | st.permutations(range(3)).map(tuple))
    program = chain(stages, order)
    size = data.draw(st.integers(1, 6))
    a = np.arange(4 * size, dtype=np.int32).reshape(size, 4)
    args = [a, np.zeros_like(a)]
    module = IRModule.of(program)
    try:
        check_passes(module, args)
    except CodegenError:
        place = order or (0, 1, 2)
        in_order = all(
            (stages[x], place[x]) < (stages[y], place[y]) for x in range(3) for y in range(x + 1, 3)
        )
        assert not in_order
        return
    check_native(module, args, check_bounds=data.draw(st.booleans()))


test_pipelines_survive, test_pipelines_survive_slow = fast_and_slow(pipelines_survive, fast=40)


def test_a_double_buffer_is_filled_one_iteration_ahead() -> None:
    @T.program
    def main(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32")):
        for i in range(8):
            a = T.alloc((4,), "int32")
            for j in range(4):
                with T.block("load"):
                    vi, vj = T.remap("SS", i, j)
                    T.block_attrs({"double_buffer": True})
                    a[vj] = A[vi, vj]
            for j in range(4):
                with T.block("use"):
                    vi, vj = T.remap("SS", i, j)
                    B[vi, vj] = a[3 - vj]

    text = partition_loops(pipeline_loops(lower_blocks(main))).script()
    assert "T.alloc((2, 4)" in text
    assert "double_buffer" not in text
    a = np.arange(32, dtype=np.int32).reshape(8, 4)
    check_passes(IRModule.of(main), [a, np.zeros_like(a)])
    check_native(IRModule.of(main), [a, np.zeros_like(a)])


@pytest.mark.parametrize(
    ("stages", "order", "message"),
    [
        (
            (1, 0, 1),
            None,
            (
                "the stages of loop 'i' would change the order in which 'a' is used\n"
                "  given: stages [1, 0, 1], order [0, 1, 2]\n"
                "  because: statement 1 needs what statement 0 did before it"
            ),
        ),
        (
            (0, 1),
            None,
            (
                "'software_pipeline_stage' of loop 'i' is (0, 1)\n"
                "  because: the loop has 3 statements, and it must have a number for each"
            ),
        ),
        (
            (0, 1, 9),
            None,
            "the stages of loop 'i' are [0, 1, 9]\n  because: stages are from 0 to 7",
        ),
        (
            (0, 1, 1),
            (0, 0, 1),
            (
                "the order of loop 'i' is [0, 0, 1]\n"
                "  because: each of its 3 statements has a place of its own"
            ),
        ),
    ],
)
def test_what_cannot_be_done(stages, order, message) -> None:
    program = chain(stages, order)
    with pytest.raises(CodegenError) as caught:
        pipeline_loops(lower_blocks(program))
    said = str(caught.value).partition(": ")[2].split("\n")
    assert "\n".join(line for line in said if not line.startswith("    ")) == message
