"""What holds of every operator."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from ops.evaluation import compute, random, shape_of
from ops.examples import EXAMPLES, Example
from tensorsmith import te
from tensorsmith.errors import DTypeError, IRError, ShapeError
from tensorsmith.evaluate import Traffic, cost
from tensorsmith.ir import Const, Var, as_expr
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.requirements import collecting
from tensorsmith.script import parse_program
from tensorsmith.verify import verify

CASES = [
    pytest.param(name, example, id=f"{name}-{k}" if k else name)
    for name, examples in EXAMPLES.items()
    for k, example in enumerate(examples)
]


def test_every_operator_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_documented(name: str) -> None:
    operator = OPERATORS[name]
    assert operator.name == name
    assert (operator.compute.__doc__ or "").strip()
    kinds = {p.kind for p in inspect.signature(operator.compute).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize(("name", "example"), CASES)
def test_programs(name: str, example: Example) -> None:
    """The computation is a program whose text parses back, of a cost that is not negative."""
    tensors = example.placeholders()
    results = OPERATORS[name](tensors, example.attrs)
    program = te.program([t for t in tensors if t is not None], results, "operator")
    again = parse_program(program.script())
    assert again.script() == program.script()
    verify(again)
    counted = cost(program)
    for traffic in counted.traffic.values():
        assert all(e.value >= 0 for e in numbers(traffic))


def numbers(traffic: Traffic) -> list[Const]:
    return [e for e in (traffic.loads, traffic.stores) if isinstance(e, Const)]


@pytest.mark.parametrize(("name", "example"), CASES)
def test_symbolic_shapes(name: str, example: Example) -> None:
    """The rule for any extents gives, for those of the example, what it gives for them alone.

    Operators that need to know some extents say so.
    """
    constant = OPERATORS[name](example.placeholders(), example.attrs)
    sizes = sorted({n for s in example.shapes() for n in s or () if n > 1})
    for chosen in (sizes, *([n] for n in sizes)):
        dims = {n: Var(f"n{n}", low=1) for n in chosen}
        values = {dims[n]: as_expr(n) for n in chosen}
        try:
            with collecting():
                results = OPERATORS[name](example.placeholders(dims), example.attrs)
        except (ShapeError, IRError):
            continue
        assert [r.dtype for r in results] == [c.dtype for c in constant]
        assert [shape_of(r, values) for r in results] == [shape_of(c, {}) for c in constant]


@pytest.mark.parametrize(("name", "example"), CASES)
def test_graphs(name: str, example: Example) -> None:
    """A graph builder infers the types that the computation has."""
    builder = GraphBuilder(OPERATORS)
    pairs = zip(example.shapes(), example.dtypes(), strict=True)
    params = [
        None if s is None or d is None else builder.param(f"x{k}", s, d)
        for k, (s, d) in enumerate(pairs)
    ]
    values = builder.apply(name, params, example.attrs)
    results = OPERATORS[name](example.placeholders(), example.attrs)
    assert [(v.dtype, shape_of(v, {})) for v in values] == [
        (r.dtype, shape_of(r, {})) for r in results
    ]
    verify(builder.function("main", values))


@pytest.mark.parametrize(("name", "example"), CASES)
def test_wrong_operands_are_our_errors(name: str, example: Example) -> None:
    """Operands of a type or rank that does not fit are refused, or taken; nothing else happens."""
    with pytest.raises(IRError):
        OPERATORS[name](example.placeholders(), {**example.attrs, "no_such_attribute": 1})
    for at, operand in enumerate(example.operands):
        if operand is None:
            continue
        for other in ("float32", "bool 2", "float8_e5m2 2 3", "uint16 2 3 1 1 2"):
            operands = (*example.operands[:at], other, *example.operands[at + 1 :])
            changed = Example(operands, example.attrs)
            try:
                with collecting():
                    OPERATORS[name](changed.placeholders(), example.attrs)
            except (ShapeError, DTypeError, IRError):
                pass


@pytest.mark.slow
@pytest.mark.parametrize(("name", "example"), CASES)
def test_native_code_agrees(name: str, example: Example) -> None:
    """Native code of the default schedule gives what the interpreter gives."""
    rng = np.random.default_rng(0)
    pairs = list(zip(example.shapes(), example.dtypes(), strict=True))
    arrays = [None if s is None or d is None else random(rng, s, d, 0, 2) for s, d in pairs]
    expected = compute(name, *arrays, **example.attrs)
    got = compute(name, *arrays, native=True, **example.attrs)
    both = zip(as_tuple(got), as_tuple(expected), strict=True)
    for native, interpreted in both:
        wide = [x.astype(np.float64) for x in (native, interpreted)]
        np.testing.assert_allclose(*wide, rtol=1e-2 if native.itemsize == 2 else 1e-4, atol=1e-5)


def as_tuple(results: object) -> tuple[np.ndarray, ...]:
    """The results as a tuple, also if there is one."""
    return results if isinstance(results, tuple) else (results,)
