"""What must hold of every pass: the program that comes out computes what the one put in does."""

from __future__ import annotations

import numpy as np

from strategies import copied
from tensorsmith.codegen import build
from tensorsmith.codegen.lower.pipeline import pipeline
from tensorsmith.evaluate import interpret
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.target import Target

HOST = Target.host()


def assert_equal(program: TensorProgram, expected: list[object], got: list[object]) -> None:
    for parameter, a, b in zip(program.params, expected, got, strict=True):
        if isinstance(a, np.ndarray) and a.tobytes() != b.tobytes():
            np.testing.assert_array_equal(
                a.astype(np.float64), b.astype(np.float64), err_msg=f"{parameter}\n{program}"
            )


def check_passes(
    module: IRModule, args: list[object], *, name: str = "main", target: Target = HOST
) -> TensorProgram:
    """Each pass of the pipeline keeps what the program computes. Gives what comes out of it."""
    before = module[name]
    expected = copied(args)
    interpret(module, *expected, entry=name)
    for apply in pipeline(module.functions, target):
        after = apply(before)
        if after is before:
            continue
        got = copied(args)
        interpret(module.with_function(after), *got, entry=name)
        assert_equal(after, expected, got)
        before = after
    return before


def check_native(
    module: IRModule, args: list[object], *, name: str = "main", check_bounds: bool = False
) -> None:
    """The compiled program computes what the interpreter does."""
    expected, got = copied(args), copied(args)
    interpret(module, *expected, entry=name)
    build(module, threads=1, check_bounds=check_bounds)[name](*got)
    assert_equal(module[name], expected, got)
