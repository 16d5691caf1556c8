"""Operators of constants, computed while a model is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorsmith.codegen import build
from tensorsmith.errors import CodegenError
from tensorsmith.evaluate import interpret
from tensorsmith.graph.fold import MOST_WORK, Array
from tensorsmith.ir import TensorProgram
from tensorsmith.ops.interpret import evaluate_operator, work_of
from tensorsmith.ops.operator import Operator
from tensorsmith.schedule.defaults import default

WORTH_COMPILING: Final = 1 << 21
"""Elements read and written beyond which native code is faster, its compilation included."""


def evaluate_natively(
    operator: Operator, operands: Sequence[Array | None], attrs: Mapping[str, Any]
) -> list[Array]:
    """The results of an operator: by the interpreter if that is quick, else by native code."""
    work = work_of(operator, operands, attrs)
    run = interpret if work <= WORTH_COMPILING else _compiled
    try:
        return evaluate_operator(operator, operands, attrs, run=run)
    except CodegenError:
        if work > MOST_WORK:
            raise
        return evaluate_operator(operator, operands, attrs)


def _compiled(program: TensorProgram, *arrays: np.ndarray[Any, Any]) -> None:
    """Run a program natively, on dense copies of arrays that are not dense."""
    build(default(program))(*(np.ascontiguousarray(a).reshape(a.shape) for a in arrays))
