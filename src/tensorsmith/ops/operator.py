"""What an operator is: a name and a computation. Everything else is derived.

The shapes and dtypes of the results, the kind (elementwise, reduction, ...), the cost and the
reference semantics all follow from the computation, which is a function of `te` tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import IRError
from tensorsmith.ir import Buffer
from tensorsmith.te import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator, by its computation.

    compute: a function whose positional parameters are the operands (tensors; one with the default
        None may be left out; ``*xs`` takes any number) and whose keyword-only parameters are the
        attributes. It gives a tensor or a tuple of tensors, and raises ShapeError or DTypeError
        for operands that do not fit.
    """

    name: str
    compute: Callable[..., Any]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return _keywords(self.compute)

    def __call__(
        self, operands: Sequence[Tensor | None], attrs: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        """The results of these operands, as definitions. Raises IRError for unknown attributes."""
        if unknown := sorted(set(attrs) - set(self.attributes)):
            raise IRError(
                f"the operator {self.name!r} has no attribute {unknown[0]!r}",
                try_=f"one of {', '.join(self.attributes) or 'none'}",
            )
        results = self.compute(*operands, **attrs)
        return results if isinstance(results, tuple) else (results,)


@cache
def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def operators(*functions: Callable[..., Any]) -> tuple[Operator, ...]:
    """An operator for each of the computations, called as the function is without a last '_'."""
    return tuple(Operator(f.__name__.rstrip("_"), f) for f in functions)


def table(*families: Iterable[Operator]) -> Mapping[str, Operator]:
    """The operators of the families by name. Raises IRError if two have one name."""
    found: dict[str, Operator] = {}
    for family in families:
        for operator in family:
            if operator.name in found:
                raise IRError(f"two operators are called {operator.name!r}")
            found[operator.name] = operator
    return MappingProxyType(found)


def placeholders(operands: Sequence[Buffer | None]) -> tuple[Tensor | None, ...]:
    """A `te` placeholder for each operand, of its shape and dtype."""
    return tuple(None if o is None else te.placeholder(o.shape, o.dtype, o.name) for o in operands)


def result_types(
    results: Sequence[Tensor], names: Sequence[str], facts: Analyzer
) -> tuple[Buffer, ...]:
    """A graph value for each result of a computation, with its shape simplified."""
    return tuple(
        Buffer(name, [facts.simplify(e) for e in r.shape], r.dtype)
        for r, name in zip(results, names, strict=True)
    )
