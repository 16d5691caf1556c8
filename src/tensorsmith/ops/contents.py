"""What small integer tensors hold, as expressions: shape arithmetic over symbolic dimensions.

Nothing is said here of any operator. A result's elements follow from its computation, by putting
the elements of the operands in place of the loads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, EvaluationError, TensorsmithError
from tensorsmith.evaluate import NumPyDomain
from tensorsmith.evaluate.expressions import evaluate_expr
from tensorsmith.ir import Buffer, Cast, Const, Expr, Load, Select, as_expr, const, transform
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import substitute
from tensorsmith.te import Tensor
from tensorsmith.te.compute import Compute

MOST_ELEMENTS: Final = 64
"""Elements of a tensor whose content is followed. Shapes are shorter; data is not worth it."""

Contents: TypeAlias = "np.ndarray[Any, Any]"
"""Expressions of the tensor's dtype, as an object array of its shape."""


def constant_shape(tensor: Buffer) -> tuple[int, ...] | None:
    """The shape if it is constant and small enough to follow, else None."""
    facts = Analyzer()
    simple = [facts.simplify(e) for e in tensor.shape]
    extents = tuple(int(e.value) for e in simple if isinstance(e, Const))
    if len(extents) < len(simple) or int(np.prod(extents, dtype=object)) > MOST_ELEMENTS:
        return None
    return extents


def contents_of_array(array: np.ndarray[Any, Any], tensor: Buffer) -> Contents | None:
    """The elements of a known tensor, if it is small and of numbers or booleans."""
    if array.size > MOST_ELEMENTS or (tensor.dtype.bits < 8 and not tensor.dtype.is_bool):
        return None
    if not (tensor.dtype.is_integer or tensor.dtype.is_bool or tensor.dtype.is_float):
        return None
    found = np.empty(array.shape, object)
    for at in np.ndindex(array.shape):
        found[at] = const(array[at].item(), tensor.dtype)
    return found


def derive(result: Tensor, known: Mapping[Tensor, Contents]) -> Contents | None:
    """The elements of `result`, given those of the placeholders it is computed from.

    None where they do not follow: the shape is not constant, an operand is unknown, or the
    computation is no function of indices.
    """
    shape = constant_shape(result)
    if shape is None:
        return None
    reader = _Reader(known)
    try:
        found = np.empty(shape, object)
        for at in np.ndindex(shape if found.size else (0,)):
            found[at] = reader.element(result, at)
    except (_UnknownError, TensorsmithError):
        return None
    return found


class _UnknownError(Exception):
    """An element does not follow."""


class _Reader:
    """The elements of definitions, each derived once."""

    def __init__(self, known: Mapping[Tensor, Contents]) -> None:
        self.known = known
        self.facts = Analyzer()
        self.domain = NumPyDomain()
        self.done: dict[tuple[Tensor, tuple[int, ...]], Expr] = {}

    def element(self, tensor: Tensor, at: tuple[int, ...]) -> Expr:
        """The element of `tensor` at `at`. Raises _UnknownError."""
        if tensor in self.known:
            value = self.known[tensor][at]
            assert isinstance(value, Expr)
            return value
        key = (tensor, at)
        if key not in self.done:
            self.done[key] = self._computed(tensor, at)
        return self.done[key]

    def _computed(self, tensor: Tensor, at: tuple[int, ...]) -> Expr:
        definition = tensor.definition
        if not isinstance(definition, Compute):
            raise _UnknownError
        axes: dict[Expr, Expr] = {v: const(i) for v, i in zip(definition.axes, at, strict=True)}
        number = definition.outputs.index(tensor)
        if not definition.reductions:
            return self._value(definition.values[number], axes)
        for reduction in definition.reductions:
            if number >= len(reduction.values):
                number -= len(reduction.values)
                continue
            results = tuple(as_expr(i) for i in reduction.identities)
            ranges: list[range] = []
            for axis in reduction.axes:
                start, extent = (self.facts.simplify(e) for e in (axis.start, axis.extent))
                if not (isinstance(start, Const) and isinstance(extent, Const)):
                    raise _UnknownError
                ranges.append(range(int(start.value), int(start.value) + int(extent.value)))
            if int(np.prod([len(r) for r in ranges], dtype=object)) > MOST_ELEMENTS:
                raise _UnknownError
            for point in itertools.product(*ranges):
                inside: dict[Expr, Expr] = dict(axes)
                for over, i in zip(reduction.axes, point, strict=True):
                    inside[over.var] = const(i)
                results = tuple(self._value(e, inside) for e in reduction.step(results))
            return results[number]
        raise _UnknownError

    def _value(self, expr: Expr, axes: Mapping[Expr, Expr]) -> Expr:
        """`expr` at a point, loads replaced by the elements that they load."""
        return self._loaded(self.facts.simplify(substitute(expr, axes)))

    def _loaded(self, expr: Expr) -> Expr:
        if isinstance(expr, Select):  # the side not taken may be outside of its tensor
            condition = self.facts.simplify(self._loaded(expr.condition))
            if isinstance(condition, Const):
                return self._loaded(expr.args[1] if condition.value else expr.args[2])

        def change(e: Expr) -> Expr | None:
            if not isinstance(e, Load):
                return self._computed_now(e)
            at = []
            for i in e.indices:
                position = exact(i)
                position = None if position is None else self.facts.simplify(position)
                if not isinstance(position, Const):
                    raise _UnknownError
                at.append(int(position.value))
            assert isinstance(e.buffer, Tensor)
            for place, extent in zip(at, e.buffer.shape, strict=True):
                if place < 0 or (isinstance(extent, Const) and place >= int(extent.value)):
                    raise _UnknownError
            return self.element(e.buffer, tuple(at))

        return self.facts.simplify(transform(expr, change))

    def _computed_now(self, e: Expr) -> Expr | None:
        """The constant that an operation on constants gives; None for other expressions."""
        if not e.args or not all(isinstance(a, Const) for a in e.args):
            return None
        try:
            with np.errstate(all="ignore"):  # integers wrap, floats overflow
                value = evaluate_expr(e, self.domain, self.domain.operations, {})
        except EvaluationError:  # such as a division by 0
            return None
        plain = int if e.dtype.is_integer or e.dtype.is_bool else float
        return Const(plain(value), e.dtype)


def exact(expr: Expr) -> Expr | None:
    """An integer element as an ``index`` expression, its arithmetic taken not to wrap.

    Numbers in shape arithmetic are sizes and positions, far from where 32 or 64 bits wrap. None
    for what has no such form, as bit operations.
    """

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Const) and e.dtype.is_integer:
            return const(int(e.value))
        if isinstance(e, Cast) and e.dtype.is_bits and e.args[0].dtype.is_index:
            return e.args[0]
        if e.dtype.is_bits:
            return Cast(e, index)
        return None

    try:
        found = transform(expr, change)
    except DTypeError:
        return None
    return found if found.dtype.is_index else None
