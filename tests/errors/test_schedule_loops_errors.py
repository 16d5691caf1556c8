"""What loop primitives say when they are refused, word for word."""

import pytest

from schedule.scripts import schedule_of
from tensorsmith.schedule import ScheduleError

TEXT = """
n = T.dim("n")
@T.program
def f(
    A: T.Buffer((n, 30), "float32"), B: T.Buffer((n, 30), "float32"), C: T.Buffer((n,), "float32")
):
    for i, j in T.grid(n, 30):
        with T.block("B"):
            vi, vj = T.remap("SS", i, j)
            B[vi, vj] = A[vi, vj]
    for k in range(n):
        for l in range(30):
            with T.block("C"):
                vk, vl = T.remap("SR", k, l)
                with T.init():
                    C[vk] = 0.0
                C[vk] = C[vk] + B[vk, vl]
        with T.block("D"):
            vk = T.remap("S", k)
            C[vk] = C[vk] + 1.0
    for t, u in T.grid(4, 4):
        with T.block("E"):
            vt, vu = T.remap("OO", t, u)
            C[0] = C[0] + T.float32(vt * vu)
    for a in range(4):
        for b in range(a + 1):
            C[0] = 0.0
            with T.block("F"):
                va = T.remap("O", a)
                vb = T.opaque(4, b)
                C[0] = C[0] + T.float32(va * vb)
"""


def names():
    s = schedule_of(TEXT)
    found = {}
    for block in s.find_blocks():
        for loop in s.get_loops(block):
            found[loop.var.name] = loop
    return s, found


def refused(call):
    s, loops = names()
    module = s.module
    with pytest.raises(ScheduleError) as caught:
        call(s, loops)
    assert s.module is module
    return str(caught.value)


CASES = {
    "split of no factors": (
        lambda s, x: s.split(x["j"], []),
        "split(j) takes one or more factors, of which one may be None\n  given: factors=[]",
    ),
    "split of a negative factor": (
        lambda s, x: s.split(x["j"], [None, -2]),
        "split(j): the factor -2 is not known to be positive",
    ),
    "split that leaves iterations out": (
        lambda s, x: s.split(x["j"], [2, 8]),
        (
            "split(j): the factors cover 16 of 30 iterations\n"
            "  because: all iterations must be kept\n"
            "  try: None for one of the factors"
        ),
    ),
    "split without predicate": (
        lambda s, x: s.split(x["j"], [None, 8], disable_predication=True),
        (
            "split(j) needs a predicate: 32 is not the extent 30\n"
            "  try: factors whose product is the extent"
        ),
    ),
    "fuse of what is not nested": (
        lambda s, x: s.fuse(x["k"], x["l"]),
        (
            "fuse: 'l' is not the only thing inside of 'k'\n"
            "  because: only loops that are perfectly nested become one"
        ),
    ),
    "fuse of nothing": (
        lambda s, x: s.fuse(),
        "the loops must be of one program, and there must be some\n  given: no loops",
    ),
    "reorder of a loop with itself": (
        lambda s, x: s.reorder(x["i"], x["i"]),
        "reorder names a loop twice\n  given: i, i",
    ),
    "reorder of loops with something between": (
        lambda s, x: s.reorder(x["l"], x["k"]),
        (
            "reorder(l, k): the loops are not one nest\n"
            "  because: something else stands between them\n"
            "  try: move it out first (compute_at, decompose_reduction, loop_partition)"
        ),
    ),
    "reorder of loops of two nests": (
        lambda s, x: s.reorder(x["i"], x["u"]),
        (
            "reorder(i, u): the loops are not one nest\n"
            "  because: something else stands between them\n"
            "  try: move it out first (compute_at, decompose_reduction, loop_partition)"
        ),
    ),
    "reorder of what is in order": (
        lambda s, x: s.reorder(x["u"], x["t"]),
        (
            "reorder(u, t) would change the order of t, u\n"
            "  because: opaque iterators of block 'E' depend on it"
        ),
    ),
    "partition at no points": (
        lambda s, x: s.loop_partition(x["j"], []),
        "loop_partition(j) needs points at which to cut",
    ),
    "merge of one": (
        lambda s, x: s.merge(x["j"]),
        "merge takes two or more loops",
    ),
    "merge of nested loops": (
        lambda s, x: s.merge(x["i"], x["j"]),
        (
            "merge(i, j): one of the loops stands in the other\n"
            "  because: loops that follow each other become one\n"
            "  try: fuse, for loops that are nested"
        ),
    ),
    "merge of loops that are not equally deep": (
        lambda s, x: s.merge(x["j"], x["k"]),
        (
            "merge(j, k): the loops are not equally deep in nests of their own\n"
            "  because: from where both nests begin, each loop must be the only thing in the one"
            " around it"
        ),
    ),
    "annotation that says what a block computes": (
        lambda s, x: s.unannotate(x["i"], "accumulate"),
        (
            "unannotate: 'accumulate' says what a block computes\n"
            "  because: a schedule keeps the meaning of the program"
        ),
    ),
    "annotation that is not there": (
        lambda s, x: s.unannotate(x["i"], "prefetch"),
        "unannotate: there is no annotation 'prefetch'\n  given: annotations: none",
    ),
    "annotation of no value": (
        lambda s, x: s.annotate(x["i"], "prefetch", {}),
        (
            "annotate: {} is no value of an annotation\n"
            "  try: a bool, a number, a string, an expression of dimensions, or a tuple of these"
        ),
    ),
    "region of a buffer that is not read": (
        lambda s, x: s.annotate_buffer_access(s.get_block("B"), "C", "read", lambda i, j: (i,)),
        "annotate_buffer_access: block 'B' has 0 reads of 'C'\n  given: it reads 'A'",
    ),
    "region by a map of other rank": (
        lambda s, x: s.annotate_buffer_access(s.get_block("B"), "A", "read", lambda i, j: (i,)),
        (
            "annotate_buffer_access: the map is not from the 2 iterators of block 'B' to the 2"
            " axes of 'A'\n"
            "  given: 2 inputs, 1 outputs\n"
            "  try: 2 outputs for an element, 4 for a start and an extent an axis"
        ),
    ),
    "region that does not cover": (
        lambda s, x: s.annotate_buffer_access(s.get_block("B"), "A", "read", lambda i, j: (i, 0)),
        (
            "annotate_buffer_access: A[vi, 0] does not cover A[vi, vj], or this cannot be proven\n"
            "  because: block 'B' accesses A[vi, vj]"
        ),
    ),
    "axis without a name": (
        lambda s, x: s.bind(x["i"], ""),
        (
            "loop 'i' cannot be bound to '': that is no name of an axis\n"
            "  try: 'blockIdx.x', 'threadIdx.y', 'vthread'"
        ),
    ),
    "vector of a symbolic extent": (
        lambda s, x: s.vectorize(x["i"]),
        (
            "loop 'i' cannot be vectorized: its extent n is no constant\n"
            "  because: the lanes of a vector are counted when the code is made\n"
            "  try: split it, and vectorise an inner loop of constant extent"
        ),
    ),
    "parallel reduction": (
        lambda s, x: s.parallel(x["l"]),
        (
            "loop 'l' cannot be parallel: the reduce iterator 'vl' of block 'C' depends on it\n"
            "  because: its iterations would write the same element at once\n"
            "  try: rfactor, to reduce parts of it apart"
        ),
    ),
    "parallel loop over one element": (
        lambda s, x: s.parallel(x["t"]),
        (
            "loop 't' cannot be parallel: its iterations meet in 'C'\n"
            "  given: an iteration touches C[0]\n"
            "  because: every iteration writes the same part of 'C'\n"
            "  try: a loop whose iterations write different elements, or a buffer for each"
            " iteration"
        ),
    ),
    "tile of no factors": (
        lambda s, x: s.sample_perfect_tile(x["j"], 0),
        "sample_perfect_tile takes positive numbers\n  given: 0, 16",
    ),
    "tile that does not divide": (
        lambda s, x: s.sample_partitioned_tile(x["j"], 2, 1, 4),
        (
            "sample_partitioned_tile: the inner extent 4 does not divide the extent 30\n"
            "  try: one of 1, 2, 3, 5, 6, 10, 15, 30"
        ),
    ),
    "tile without a part": (
        lambda s, x: s.sample_partitioned_tile(x["j"], 2, 2, 5),
        (
            "sample_partitioned_tile needs a factor on each side of the partition, and a positive"
            " inner extent\n  given: 2 and 0 factors, inner extent 5"
        ),
    ),
    "decision that is no tile": (
        lambda s, x: s.sample_perfect_tile(x["j"], 2, decision=[4, 8]),
        "sample_perfect_tile: the factors [4, 8] are no perfect tile of 30 iterations",
    ),
    "decision that is no list": (
        lambda s, x: s.sample_perfect_tile(x["i"], 2, decision=[4, 8]),
        (
            "sample_perfect_tile: the decision is not 2 factors: None, then positive numbers\n"
            "  given: [4, 8]"
        ),
    ),
    "choice of nothing": (
        lambda s, x: s.sample_categorical([]),
        "sample_categorical needs candidates",
    ),
    "choice with other weights": (
        lambda s, x: s.sample_categorical([1, 2], [1.0]),
        (
            "sample_categorical needs one probability, 0 or more, for each of 2 candidates\n"
            "  given: [1.0]"
        ),
    ),
    "choice with no weight": (
        lambda s, x: s.sample_categorical([1, 2], [0.0, 0.0]),
        "sample_categorical: no candidate has a probability above 0",
    ),
    "decision out of range": (
        lambda s, x: s.sample_categorical([1, 2], decision=2),
        "sample_categorical: the decision '2' is not a number from 0 to 1",
    ),
    "dimension that is not there": (
        lambda s, x: s.dim("m"),
        "there is no dimension 'm'\n  try: one of 'n'",
    ),
    "block that is not there": (
        lambda s, x: s.get_block("X"),
        "'f' has no block 'X'\n  try: one of 'B', 'C', 'D', 'E', 'F'",
    ),
    "pattern of many": (
        lambda s, x: s.get_block("*"),
        (
            "5 blocks of 'f' fit '*'\n  given: 'B', 'C', 'D', 'E', 'F'\n"
            "  try: find_blocks, which gives all of them"
        ),
    ),
    "block around a block": (
        lambda s, x: s.get_parent_block(s.get_block("B")),
        "block 'B' stands in no other block",
    ),
    "loop in place of a block": (
        lambda s, x: s.get_loops(x["i"]),
        (
            "get_loops takes a block for 'block', not loop 'i'\n"
            "  try: get_block(name), get_loops(block)"
        ),
    ),
}


def without_place(text):
    """The message without the place in the script and the lines that show it."""
    first, *rest = text.split("\n")
    if first.startswith("<string>:"):
        first = first.split(": ", 1)[1]
        rest = rest[2:]
    return "\n".join([first, *rest])


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, text = CASES[name]
    assert without_place(refused(call)) == text


def refused_after(s, call, *args):
    module = s.module
    with pytest.raises(ScheduleError) as caught:
        call(*args)
    assert s.module is module
    return without_place(str(caught.value))


def test_a_parallel_loop_is_not_split():
    s, x = names()
    s.parallel(x["i"])
    assert refused_after(s, s.split, x["i"], [None, 4]) == (
        "split: loop 'i' is parallel\n"
        "  because: its parts would not all be that\n"
        "  try: split first, then make the new loops parallel"
    )


def test_a_parallel_loop_is_not_unrolled():
    s, x = names()
    s.parallel(x["i"])
    assert refused_after(s, s.unroll, x["i"]) == (
        "loop 'i' is parallel already\n"
        "  try: split it first, to carry out its parts in different ways"
    )


def test_a_loop_that_is_gone():
    s, x = names()
    s.split(x["j"], [None, 5])
    assert refused_after(s, s.unroll, x["j"]) == (
        "'f' has no loop 'j'\n"
        "  because: it was split, fused, or became part of an intrinsic\n"
        "  try: the loops that the primitive returned"
    )


def test_points_that_do_not_ascend():
    s, x = names()
    for points in ([8, 4], [0], [40], [30]):
        assert refused_after(s, s.loop_partition, x["j"], points).startswith("loop_partition(j): ")


def test_ranges_that_differ():
    s, x = names()
    s.loop_partition(x["j"], [16])
    first, second = (s.get_loops(s.get_block(b))[1] for b in ("B", "B_1"))
    assert refused_after(s, s.merge, first, second) == (
        "merge(j_0, j_1): 'j_0' takes 16 values and 'j_1' 14\n"
        "  because: each iteration of one needs one of the other\n"
        "  try: loop_partition, to make pieces of the same extent"
    )


def test_half_of_a_fused_loop_takes_no_box():
    s, x = names()
    fused = s.fuse(x["i"], x["j"])
    text = refused_after(s, s.loop_partition, fused, [7])
    assert text.startswith(
        "loop_partition: a piece would not take a box of the points of block 'B'\n  because: "
    )
