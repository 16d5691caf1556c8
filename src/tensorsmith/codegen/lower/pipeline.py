"""What happens to a program between its verification and its printing, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from tensorsmith.codegen.lower.blocks import lower_blocks
from tensorsmith.codegen.lower.calls import MOST_STATEMENTS, inline_calls, prepare_calls
from tensorsmith.codegen.lower.compact import compact_buffers
from tensorsmith.codegen.lower.hoist import hoist_loads
from tensorsmith.codegen.lower.instructions import select_instructions
from tensorsmith.codegen.lower.partition import partition_loops
from tensorsmith.codegen.lower.scheduled import mark_scheduled
from tensorsmith.codegen.lower.software_pipeline import pipeline_loops
from tensorsmith.codegen.lower.unroll import unroll_loops
from tensorsmith.codegen.lower.unswitch import unswitch_loops
from tensorsmith.codegen.lower.vectors import strip_vectors
from tensorsmith.ir import Block, TensorProgram, View
from tensorsmith.ir.rewrite import statements
from tensorsmith.target import Target

Pass: TypeAlias = Callable[[TensorProgram], TensorProgram]
Functions: TypeAlias = Mapping[str, TensorProgram]


def pipeline(
    functions: Functions, target: Target, *, check_bounds: bool = False
) -> tuple[Pass, ...]:
    """The passes for a program of a module with these functions, for this machine.

    check_bounds: callees are called and never written in, so that their accesses are checked
    against the region that they were given.
    """
    most = 0 if check_bounds else MOST_STATEMENTS
    return (
        partial(inline_calls, functions=functions, most=most),
        partial(select_instructions, target=target),
        lower_blocks,
        compact_buffers,
        pipeline_loops,
        partition_loops,
        unswitch_loops,
        hoist_loads,
        partial(strip_vectors, vector_bytes=target.vector_bytes),
        partial(prepare_calls, functions=functions),
        mark_scheduled,
        unroll_loops,
    )


def shared_memory_pipeline(
    functions: Functions, target: Target, *, check_bounds: bool = False
) -> tuple[Pass, ...]:
    """The passes for a program with views, of which several may lie in the same memory: those that
    take each buffer for memory of its own are left out."""
    most = 0 if check_bounds else MOST_STATEMENTS
    return (
        partial(inline_calls, functions=functions, most=most),
        partial(select_instructions, target=target),
        lower_blocks,
        partial(strip_vectors, vector_bytes=target.vector_bytes),
        partial(prepare_calls, functions=functions),
        unroll_loops,
    )


def host_pipeline(functions: Functions) -> tuple[Pass, ...]:
    """The passes for a host: it calls, and does little else, so nothing is written in and nothing
    is reasoned about."""
    return (_without_blocks, partial(prepare_calls, functions=functions))


def _without_blocks(program: TensorProgram) -> TensorProgram:
    has_blocks = any(isinstance(s, Block) for s in statements(program.body))
    return lower_blocks(program) if has_blocks else program


def lower(
    program: TensorProgram, functions: Functions, target: Target, *, check_bounds: bool = False
) -> TensorProgram:
    """The program as the code generator takes it: no blocks, flat loops."""
    has_views = any(isinstance(s, View) for s in statements(program.body))
    make = shared_memory_pipeline if has_views else pipeline
    passes = make(functions, target, check_bounds=check_bounds)
    if program.attrs.get("host"):
        passes = host_pipeline(functions)
    for apply in passes:
        program = apply(program)
    return program
