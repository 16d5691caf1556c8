"""Division by zero is an error, interpreted and compiled, and simplification gives it no value."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.arith import Analyzer
from tensorsmith.codegen import build
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate import interpret
from tensorsmith.ir import (
    Buffer,
    Cast,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    For,
    Load,
    LoopKind,
    Max,
    Min,
    Store,
    TensorProgram,
    TruncDiv,
    TruncMod,
    Var,
    const,
    dtype,
    postorder,
)

i = Var("i")
DIVISIONS = (FloorDiv, FloorMod, TruncDiv, TruncMod)
AROUND = {
    "alone": lambda e: e,
    "quotient": lambda e: e // 2,
    "remainder": lambda e: e % 3,
    "sum": lambda e: e * 4 + i,
    "least": lambda e: Min(e, const(3)),
    "clamped": lambda e: Max(Min(e, const(3)), const(1)),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("kind", DIVISIONS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dividend", [const(0), const(7), i, i * 4], ids=str)
def test_simplification_gives_it_no_value(dividend: Expr, kind, around) -> None:
    facts = Analyzer()
    facts.bind(i, 0, 8)
    simple = facts.simplify(around(kind(dividend, const(0))))
    assert any(type(e) in DIVISIONS and _is_zero(e.args[1]) for e in postorder(simple))
    assert not isinstance(simple, Const)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


@pytest.mark.parametrize("loop", [LoopKind.SERIAL, LoopKind.VECTORIZED], ids=lambda k: k.value)
@pytest.mark.parametrize("kind", DIVISIONS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", ["index", "int32", "uint8"])
def test_it_is_an_error_wherever_it_is_evaluated(name: str, known, kind, loop) -> None:
    type_ = dtype(name)
    element = "int64" if type_.is_index else name
    given, out = (Buffer(b, (8,), element) for b in ("given", "out"))
    loaded = Load(given, (i,))
    divisor = Const(0, type_) if known else Cast(loaded, type_)
    value = Cast(kind(Cast(i, type_), divisor), dtype(element))
    program = TensorProgram("f", (given, out), For(i, const(8), Store(out, (i,), value), kind=loop))
    args = np.array([1, 2, 3, 4, 0, 6, 7, 8], element), np.zeros(8, element)
    for run in (lambda: interpret(program, *args), lambda: build(program, threads=1)(*args)):
        with pytest.raises(EvaluationError, match="division by zero"):
            run()
