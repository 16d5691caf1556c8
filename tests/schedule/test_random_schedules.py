"""Random schedules of random programs, and of the kernels, do what the programs do."""

import numpy as np
from hypothesis import strategies as st

from kernels import ALL
from schedule.harness import check_schedule, check_trace, draw_schedule
from strategies import programs
from strategies.cases import fast_and_slow
from tensorsmith.codegen import build
from tensorsmith.evaluate import equivalent
from tensorsmith.ir import For
from tensorsmith.ir.rewrite import statements
from tensorsmith.verify import verify

LOOPS_ONLY = ("split", "fuse", "reorder", "parallel", "vectorize", "loop_partition", "merge")


def schedules_keep_the_meaning(data):
    program = data.draw(programs(max_stages=3))
    check_schedule(data.draw, program, draw_schedule(data.draw, program))


test_schedules_keep_the_meaning, test_schedules_keep_the_meaning_slow = fast_and_slow(
    schedules_keep_the_meaning, fast=15
)


def schedules_of_loops_keep_the_meaning(data):
    program = data.draw(programs(max_stages=2))
    check_schedule(data.draw, program, draw_schedule(data.draw, program, names=LOOPS_ONLY))


(
    test_schedules_of_loops_keep_the_meaning,
    test_schedules_of_loops_keep_the_meaning_slow,
) = fast_and_slow(schedules_of_loops_keep_the_meaning, fast=15, slow=2_000)


def schedules_of_kernels_keep_the_meaning(data):
    """Floats are compared in a prime field, where order does not matter, and with the kernel's
    reference within its tolerance, which holds for any order of sums."""
    kernel = data.draw(st.sampled_from(ALL))
    s = draw_schedule(data.draw, kernel.te)
    try:
        verify(s.program)
        check_trace(kernel.te, s)
        assert equivalent(kernel.te, s.program, trials=1)
        if not any(isinstance(x, For) and x.thread for x in statements(s.program.body)):
            _check_native(kernel, s.program)
    except Exception as error:
        error.add_note(f"{kernel.te.script()}\n{s.trace}\n{s.program.script()}")
        raise


def _check_native(kernel, program):
    rng = np.random.default_rng(5)
    inputs = kernel.inputs(rng, kernel.draw_sizes(rng))
    expected = kernel.reference(*inputs)
    outputs = [np.full(e.value.shape, 99, d) for e, d in zip(expected, kernel.dtypes, strict=True)]
    build(program, threads=2)(*inputs, *outputs)
    for wanted, got in zip(expected, outputs, strict=True):
        near = np.abs(got - wanted.value) <= wanted.tolerance
        if got.dtype.kind == "f":
            near |= np.isnan(got) & np.isnan(wanted.value)
        assert np.all(near)


(
    test_schedules_of_kernels_keep_the_meaning,
    test_schedules_of_kernels_keep_the_meaning_slow,
) = fast_and_slow(schedules_of_kernels_keep_the_meaning, fast=8, slow=2_000)
