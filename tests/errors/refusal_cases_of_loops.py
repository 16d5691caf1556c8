"""More of `refusal_cases`: primitives that move blocks under loops, or part reductions."""

from __future__ import annotations

from errors.primitive_cases import ADD, PAD, ROW_SUMS, SCAN, STEPS, WINDOW
from errors.refusal_cases import (
    BOTH,
    CHANGED,
    GUARDED,
    OPAQUE_AROUND,
    PRODUCTS,
    ROLLING,
    RUNNING,
    SHARED,
    SUM,
    TRIANGLE,
    VECTOR,
    OwnCase,
    factor,
    not_divided,
    of_blocks,
    on,
    program,
    under,
    vectorised,
)

OF_LOOPS: dict[str, dict[str, OwnCase]] = {
    "compute_at": {
        "the block is neither complete nor a reduction": (
            program(RUNNING),
            under("compute_at", "L", "C"),
        ),
        "it writes a parameter, or is not the only one to write its results": (
            program(SHARED),
            under("compute_at", "B", "C"),
        ),
        "a consumer stands outside of the loop": (program(BOTH), under("compute_at", "L", "C")),
        "what the block reads is written between the old and the new place": (
            program(CHANGED),
            under("compute_at", "L", "C"),
        ),
        "a condition stands between them": (program(GUARDED), under("compute_at", "L", "C")),
        "the loop is vectorised": (program(VECTOR), vectorised),
    },
    "reverse_compute_at": {
        "the block is neither complete nor a reduction": (
            program(
                VECTOR,
                'vj = T.remap("S", j)\n        C[vj] = L[vj]',
                'vj = T.remap("O", j)\n        C[vj] = C[vj] + L[vj]',
            ),
            under("reverse_compute_at", "C", "L"),
        ),
        "the loops around would not take each of its points exactly once, or those of a reduction"
        " not in order": (program(ROLLING), under("reverse_compute_at", "C", "L")),
        "it reads more than one iteration writes, or what an iteration leaves unfinished (inside of"
        " a reduction)": (program(SUM), under("reverse_compute_at", "C", "L", 1)),
        "what it reads is written, or what it writes is used, between the new and the old place": (
            program(CHANGED, "L[vj] * 2.0", "L[vj] * A[vj, 0]"),
            under("reverse_compute_at", "C", "L"),
        ),
        "a condition stands between them": (
            program(GUARDED),
            under("reverse_compute_at", "C", "L"),
        ),
    },
    "fuse_reduction_epilogue": {
        "the reduction is not of the form ``x = x op value``": (
            program(VECTOR),
            of_blocks("fuse_reduction_epilogue", "L", "C"),
        ),
        "the epilogue is of another operation, or reads several elements of the result at a point,"
        " or not all of it": (
            program(SUM, "L[vj] + B[vj, 0]", "T.max(L[vj], B[vj, 0])"),
            of_blocks("fuse_reduction_epilogue", "L", "C"),
        ),
        "the buffer between them is a parameter, or is used by others": (
            program(SUM + "for q in range(8):\n    B[q, 1] = L[q]\n"),
            of_blocks("fuse_reduction_epilogue", "L", "C"),
        ),
        "what the epilogue reads is written in between": (
            program(
                SUM.replace(
                    "for j in",
                    """for x in range(8):
    with T.block("X"):
        vx = T.remap("S", x)
        B[vx, 0] = 0.0
for j in""",
                )
            ),
            of_blocks("fuse_reduction_epilogue", "L", "C"),
        ),
    },
    "decompose_padding": {
        "the block does not say so, or loads anything for its padding or condition": (
            program(PAD, "0.0", "A[0, 0]"),
            under("decompose_padding", "B", "B"),
        ),
        "it reads what it writes": (
            program(PAD, "A[vi, vj]", "B[vi, vj]"),
            under("decompose_padding", "B", "B"),
        ),
        "an iterator is not spatial": (
            program(PAD, '"SS"', '"SO"'),
            under("decompose_padding", "B", "B"),
        ),
        "the loop does not hold the block alone": (
            program(
                """
for i in range(8):
    C[i] = 1.0
    for j in range(8):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = T.select(vj < 6, A[vi, vj], 0.0)
"""
            ),
            under("decompose_padding", "B", "B"),
        ),
    },
    "decompose_reduction": {
        "the block has no init": (program(ADD), under("decompose_reduction", "B", "B")),
        "the loop is not around it, or a loop of the reduction is outside of the loop": (
            program(ROW_SUMS + ADD),
            under("decompose_reduction", "C", "B"),
        ),
        "a loop inside serves spatial and reduce iterators at once, or an opaque one": (
            program(OPAQUE_AROUND),
            under("decompose_reduction", "C", "C"),
        ),
        "a condition ties both": (
            program(
                ROW_SUMS,
                "        with T.init",
                "        T.where(i + k < 15)\n        with T.init",
            ),
            under("decompose_reduction", "C", "C", 1),
        ),
        "the reduction may be over no points": (
            program(ROW_SUMS.replace("T.grid(8, 8)", "T.grid(8, n)").replace("A[vi, vk]", "N[vk]")),
            under("decompose_reduction", "C", "C", 1),
        ),
        "the extents of the init's loops, or the buffers that it uses, are defined inside of the"
        " loop": (program(TRIANGLE), under("decompose_reduction", "C", "C")),
        "something else in the loop uses what the init writes": (
            program(
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
            under("decompose_reduction", "C", "C"),
        ),
    },
    "rfactor": {
        "the loop is not one of the reduction": (program(ROW_SUMS), factor("C", 0)),
        "its loops hold more than the block or have ranges that depend on loops": (
            program(
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
            factor("C", 1),
        ),
        "one serves spatial and reduce iterators at once, or an opaque one": (
            program(ROW_SUMS),
            lambda s: s.rfactor(s.fuse(*s.get_loops(s.get_block("C"))), 0),
        ),
        "a condition ties both": (
            program(
                ROW_SUMS,
                "        with T.init",
                "        T.where(i + k < 15)\n        with T.init",
            ),
            factor("C", 1),
        ),
        "the block has no init or is no reduction of such a form": (
            program(ROW_SUMS, "C[vi] + A[vi, vk]", "C[vi] * 2.0 + A[vi, vk]"),
            factor("C", 1),
        ),
        "`factor_axis` is no place among the dimensions": (program(ROW_SUMS), factor("C", 1, 3)),
    },
    "factor_out": {
        "the block is no sum of products": (program(SUM), on("factor_out", "L")),
        "there is no such factor, or no other one": (
            program(PRODUCTS, "* B[vi, 0]", "* B[vi, vk]"),
            on("factor_out", "L"),
        ),
        "the result is a parameter, or written by another block, too": (
            program(ROW_SUMS, "A[vi, vk]", "A[vi, vk] * B[vi, 0]"),
            on("factor_out", "C"),
        ),
        "a call uses it": (
            program(PRODUCTS + 'T.call("use", L[0:8])\n'),
            on("factor_out", "L"),
        ),
        "what the factor is made of changes before the result is used": (
            program(
                PRODUCTS.replace(
                    "for j in",
                    """for x in range(8):
    with T.block("X"):
        vx = T.remap("S", x)
        B[vx, 0] = 0.0
for j in""",
                )
            ),
            on("factor_out", "L"),
        ),
    },
    "pad_einsum": {
        "unless every iterator has a loop of its own that holds the block alone, from 0": (
            program(
                ADD,
                "    with T.block",
                "    C[i] = 1.0\n    with T.block",
            ),
            on("pad_einsum", "B", [3, 3]),
        ),
        "`padding` is not one positive number an iterator": (
            program(ADD),
            on("pad_einsum", "B", [4]),
        ),
        "for an opaque iterator": (program(SCAN), on("pad_einsum", "B", [1, 3])),
        "the block does more than stores and bindings, divides by what may be 0, or loads under a"
        " condition": (program(PAD), on("pad_einsum", "B", [3, 3])),
        "a padded iterator is no subscript of a result, or stands in a subscript with others and is"
        " not spatial, or not there as a multiple": (
            program(
                ADD.replace("T.grid(8, 8)", "T.grid(4, 5)").replace("A[vi, vj]", "A[vi * vj, vj]")
            ),
            on("pad_einsum", "B", [3, 3]),
        ),
        "the block reads a result that it does not initialise": (
            program(ADD, "A[vi, vj] + 1.0", "B[vi, vj] + 1.0"),
            on("pad_einsum", "B", [3, 3]),
        ),
        "a reduction to be padded is of no form that `rfactor` knows": (
            program(ROW_SUMS, "C[vi] + A[vi, vk]", "C[vi] * 2.0 + A[vi, vk]"),
            on("pad_einsum", "C", [1, 3]),
        ),
    },
    "rolling_buffer": {
        "for a parameter, or for a buffer with strides or a layout, or passed to a call": (
            program(WINDOW),
            on("rolling_buffer", "B"),
        ),
        "no loop around slides a window, as `compute_at` leaves it, or windows do not overlap": (
            program(STEPS),
            on("rolling_buffer", "L"),
        ),
        "the loop is not serial, or more than loops and sequences stand between": (
            program(WINDOW, "for i in range(6)", "for i in T.parallel(6)"),
            on("rolling_buffer", "L"),
        ),
        "the block has a predicate, or computes elements otherwise in other iterations": (
            program(WINDOW, "= A[vi + vr, vj]", "= A[vi, vj]"),
            on("rolling_buffer", "L"),
        ),
        "the buffer is used outside of the loop or allocated inside, written by others, or read"
        " before the block or outside of the window": (
            program(WINDOW + "C[0] = L[1, 1]\n"),
            on("rolling_buffer", "L"),
        ),
        "the loop writes what the block reads": (
            program(
                WINDOW, "    for j in range(8):\n", "    A[0, 0] = 1.0\n    for j in range(8):\n"
            ),
            on("rolling_buffer", "L"),
        ),
    },
    "blockize": {
        "no block stands inside": (program(ADD), lambda s: s.blockize([])),
        "more than loops, sequences and allocations stand around those inside, or other blocks"
        " between those named": (
            program(ADD + ADD.replace('"B"', '"X"') + ADD.replace('"B"', '"Y"')),
            lambda s: s.blockize([s.get_block("B"), s.get_block("Y")]),
        ),
        "an iterator does not start at 0, or cannot be divided in an outer and an inner part": (
            program(ADD),
            lambda s: s.blockize(not_divided(s)),
        ),
        "what is inside depends on loops around in another way than by iterators": (
            program(
                """
for i in range(8):
    for j in T.serial(i + 1):
        with T.block("B"):
            vi = T.remap("S", i)
            vj = T.spatial(8, j)
            B[vi, vj] = A[vi, vj]
"""
            ),
            lambda s: s.blockize(s.get_loops(s.get_block("B"))[1]),
        ),
        "several blocks do not have their outer parts and predicates in common": (
            program(
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
            ),
            lambda s: s.blockize([s.get_block("X"), s.get_block("Y")]),
        ),
    },
    "tensorize": {
        "a loop cannot be made a block": (
            program(ADD),
            lambda s: s.tensorize(not_divided(s), "avx2_dot_u8s8s32_8x2"),
        ),
        "what is inside is not what the intrinsic computes, up to names and order of loops, order"
        " of operands of + and *, and where the operands lie: in any buffers, as boxes, with their"
        " dimensions in any order that has the strides asked for. What is written must be in a"
        " buffer of its own. The init of a reduction is not matched: `decompose_reduction` moves it"
        " out": (program(ADD), on("tensorize", "B", "avx2_dot_u8s8s32_8x2")),
    },
}
