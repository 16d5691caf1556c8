"""What kind of computation a definition is, and how it reads each tensor: derived, not stated."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.ir import (
    Call,
    Cast,
    Const,
    Div,
    Expr,
    Load,
    Lt,
    Min,
    Mul,
    Select,
    const,
    free_vars,
    postorder,
)
from tensorsmith.te.compute import Compute
from tensorsmith.te.reduce import Reduction
from tensorsmith.te.tensor import Definition, Tensor


class Kind(enum.IntEnum):
    """Kinds of definitions, those that say less last."""

    ELEMENTWISE = 0
    """Each element is computed from those at its own place."""
    BROADCAST = 1
    """Also from those of tensors that lack some of its axes."""
    INJECTIVE = 2
    """From elements at any places that its indices tell: moved, cut, looked up."""
    REDUCTION = 3
    """Elements are combined along axes."""
    CONTRACTION = 4
    """Products of elements of two tensors, or of one at two places, are summed."""
    OPAQUE = 5
    """Anything else: recurrences, statements, external functions."""


class Access(enum.IntEnum):
    """How a definition reads a tensor; what it reads in several ways counts as the last of them."""

    SAME = 0
    """Each element at the place that it has itself."""
    MOVED = 1
    """Each element once, its axes in another order; axes of extent 1 come and go."""
    REPEATED = 2
    """Each element for all values of the axes that the tensor lacks."""
    OTHER = 3
    """At places that are computed."""


def kind_of(definition: Definition) -> Kind:
    """The kind of a definition."""
    if not isinstance(definition, Compute):
        return Kind.OPAQUE
    if definition.reductions:
        is_sum = len(definition.reductions) == 1 and is_sum_of_products(definition.reductions[0])
        return Kind.CONTRACTION if is_sum else Kind.REDUCTION
    worst = max((access_of(definition, t) for t in definition.inputs), default=Access.SAME)
    if worst is Access.SAME:
        return Kind.ELEMENTWISE
    return Kind.BROADCAST if worst is Access.REPEATED else Kind.INJECTIVE


def is_sum_of_products(reduction: Reduction) -> bool:
    """Whether a reduction sums products of two elements, converted or not."""
    if reduction.reducer.name != "sum" or len(reduction.values) != 1:
        return False
    (value,) = reduction.values
    if not isinstance(value, Mul):
        return False
    factors = [f.args[0] if isinstance(f, Cast) else f for f in value.args]
    loads = [f for f in factors if isinstance(f, Load)]
    return len(loads) == 2 and loads[0] is not loads[1]


def elements_of(definition: Compute) -> tuple[Expr, ...]:
    """The expressions that a definition evaluates at a point."""
    found = list(definition.values)
    for reduction in definition.reductions:
        found.extend(reduction.values)
        if reduction.where is not None:
            found.append(reduction.where)
    return tuple(found)


def places_read(definition: Definition, tensor: Tensor) -> Iterator[tuple[Expr, ...]]:
    """The indices at which a definition reads a tensor, each once."""
    if not isinstance(definition, Compute):
        return
    seen: set[tuple[Expr, ...]] = set()
    for e in postorder(*elements_of(definition)):
        if isinstance(e, Load) and e.buffer is tensor and e.indices not in seen:
            seen.add(e.indices)
            yield e.indices


def access_of(definition: Definition, tensor: Tensor) -> Access:
    """How a definition reads a tensor. Reduced axes count as axes of the definition."""
    if not isinstance(definition, Compute):
        return Access.OTHER
    axes = _axes(definition)
    return max(
        (_access(at, tensor, axes) for at in places_read(definition, tensor)), default=Access.SAME
    )


def _axes(definition: Compute) -> dict[Expr, Expr]:
    """The axes with their extents, reduced ones last; those that start at 0."""
    shape = definition.outputs[0].shape
    found: dict[Expr, Expr] = dict(zip(definition.axes, shape, strict=True))
    for axis in definition.reductions[0].axes if definition.reductions else ():
        if isinstance(axis.start, Const) and axis.start.value == 0:
            found[axis.var] = axis.extent
    return found


def _access(at: Sequence[Expr], tensor: Tensor, axes: dict[Expr, Expr]) -> Access:
    facts = Analyzer()
    if tuple(at) == tuple(axes) and all(
        facts.equal(a, b) for a, b in zip(tensor.shape, axes.values(), strict=True)
    ):
        return Access.SAME
    left = {v: e for v, e in axes.items() if not _is_one(facts.simplify(e))}
    for index, extent in zip(at, tensor.shape, strict=True):
        if index in left:
            if not facts.equal(left.pop(index), extent):
                return Access.OTHER
        elif (index not in axes and not (_is_zero(index))) or not _is_one(facts.simplify(extent)):
            return Access.OTHER
    return Access.REPEATED if left else Access.MOVED


def _is_one(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 1


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def rows_read(definition: Definition, tensor: Tensor) -> int:
    """How many leading axes of the result are leading axes of the tensor in every access to it.

    So the first rows of the result depend on the first rows of the tensor alone, by as many axes.
    """
    if not isinstance(definition, Compute):
        return 0
    facts = Analyzer()
    rows = min(len(definition.axes), tensor.rank)
    shape = definition.outputs[0].shape
    for at in places_read(definition, tensor):
        same = 0
        for axis, index, a, b in zip(definition.axes, at, shape, tensor.shape, strict=False):
            if index is not axis or not facts.equal(a, b):
                break
            same += 1
        rows = min(rows, same)
    return rows


CALL_WORK: Final = 12.0
DIVISION_WORK: Final = 4.0


def work_of(definition: Compute) -> float:
    """What one point of a definition costs, in the time of an addition; transcendental functions
    count as the dozen operations that they take, moving an element as nothing."""
    total = 0.0
    for e in postorder(*elements_of(definition)):
        if isinstance(e, Call):
            total += CALL_WORK
        elif isinstance(e, Div):
            total += DIVISION_WORK
        elif e.args and not isinstance(e, Load) and not e.dtype.is_index:
            total += 1.0
    return total


def is_guarded(definition: Compute) -> bool:
    """Whether what an element is depends on where it stands, as in padding and joining."""
    own = set(definition.axes)
    for e in postorder(*elements_of(definition)):
        if isinstance(e, Select):
            loads = any(isinstance(x, Load) for x in postorder(e.args[0]))
            if not loads and own.intersection(free_vars(e.args[0])):
                return True
    return False


def is_pointwise(definition: Definition, rank: int) -> bool:
    """Whether a definition of tensors of `rank` computes each element from those at its own place
    alone, wherever that is; tensors with fewer axes, or with axes of extent 1, are repeated, also
    where the extent is 1 only in some calls."""
    if not isinstance(definition, Compute) or definition.reductions:
        return False
    axes = definition.axes
    if len(axes) != rank or any(t.rank > rank for t in definition.inputs):
        return False
    for tensor in definition.inputs:
        last = axes[rank - tensor.rank :]
        for at in places_read(definition, tensor):
            for index, axis, extent in zip(at, last, tensor.shape, strict=True):
                is_repeated = (_is_zero(index) and _is_one(extent)) or _is_last(index, axis, extent)
                if index is not axis and not is_repeated:
                    return False
    return not _stands_outside_of_loads(definition.values, frozenset(axes))


def _is_last(index: Expr, axis: Expr, extent: Expr) -> bool:
    """Whether `index` is the axis, or the last position where the axis reaches further."""
    if not isinstance(index, Min) or axis not in index.args:
        return False
    last = next((e for e in index.args if e is not axis), axis)
    return Analyzer().equal(last, extent - 1)


def _stands_outside_of_loads(values: Sequence[Expr], axes: Collection[Expr]) -> bool:
    """Whether an axis is part of what is computed, and not only of where elements are read."""
    pending, seen = list(values), set[Expr]()
    while pending:
        e = pending.pop()
        if e in axes:
            return True
        if e not in seen and not isinstance(e, Load):
            seen.add(e)
            pending.extend(e.args)
    return False


def moved_tensor(definition: Definition) -> tuple[Tensor, tuple[Expr, ...]] | None:
    """The tensor whose elements a definition moves without changing them, and the place that each
    is taken from; None if it does anything else."""
    if not isinstance(definition, Compute) or definition.reductions:
        return None
    if len(definition.values) != 1 or not isinstance(load := definition.values[0], Load):
        return None
    is_plain = not any(isinstance(e, Load) for e in postorder(*load.indices))
    return (load.buffer, load.indices) if isinstance(load.buffer, Tensor) and is_plain else None


def joined_tensors(definition: Definition) -> tuple[Tensor, ...]:
    """The tensors whose elements a definition gives one after the other, in row-major order: it
    joins them along its first axis. () if it does anything else."""
    if not isinstance(definition, Compute) or definition.reductions or not definition.axes:
        return ()
    facts = Analyzer()
    first, *others = definition.axes
    found: list[Tensor] = []
    begin: Expr = const(0)
    rest = definition.values[0] if len(definition.values) == 1 else None
    while rest is not None:
        is_last = not isinstance(rest, Select)
        load = rest if is_last else rest.args[1]
        end = definition.outputs[0].shape[0] if is_last else _bound(rest.args[0], first)
        if not isinstance(load, Load) or not isinstance(load.buffer, Tensor) or end is None:
            return ()
        if load.buffer.rank != len(definition.axes):
            return ()
        fits = facts.equal(load.buffer.shape[0], end - begin)
        if not fits or load.indices[1:] != tuple(others) or load.buffer in found:
            return ()
        if not facts.equal(load.indices[0], first - begin):
            return ()
        found.append(load.buffer)
        begin, rest = end, None if is_last else rest.args[2]
    return tuple(found) if len(found) > 1 else ()


def _bound(condition: Expr, axis: Expr) -> Expr | None:
    """What `condition` says that an axis is below."""
    return condition.args[1] if isinstance(condition, Lt) and condition.args[0] is axis else None


def is_cut(definition: Definition) -> bool:
    """Whether a definition gives a box of the elements of one tensor, its axes in any order."""
    moved = moved_tensor(definition)
    if moved is None:
        return False
    assert isinstance(definition, Compute)
    left = set(definition.axes)
    facts = Analyzer()
    for index in moved[1]:
        used = left.intersection(free_vars(index))
        if len(used) > 1:
            return False
        for axis in used:
            if not used.isdisjoint(free_vars(facts.simplify(index - axis))):
                return False
        left -= used
    return all(_is_one(facts.simplify(e)) for e in _extents(definition, left))


def _extents(definition: Compute, axes: Collection[Expr]) -> Iterator[Expr]:
    shape = definition.outputs[0].shape
    return (e for axis, e in zip(definition.axes, shape, strict=True) if axis in axes)


def cut_tensor(definition: Definition) -> tuple[Tensor, int] | None:
    """The tensor of whose elements a definition gives some that lie one after the other: a run
    along its first axis, and where it begins. None if it does anything else, or gives all."""
    moved = moved_tensor(definition)
    if moved is None:
        return None
    assert isinstance(definition, Compute)
    tensor, at = moved
    facts = Analyzer()
    if not definition.axes or tensor.rank != len(definition.axes):
        return None
    start = facts.simplify(at[0] - definition.axes[0])
    shape = definition.outputs[0].shape
    if not isinstance(start, Const) or at[1:] != definition.axes[1:]:
        return None
    if facts.equal(tensor.shape[0], shape[0]):
        return None
    if not all(map(facts.equal, tensor.shape[1:], shape[1:])):
        return None
    return tensor, int(start.value)


def is_same_order(definition: Definition) -> bool:
    """Whether a definition gives the elements of one tensor, in row-major order, another shape."""
    moved = moved_tensor(definition)
    if moved is None:
        return False
    assert isinstance(definition, Compute)
    tensor, at = moved
    facts = Analyzer()
    shape = definition.outputs[0].shape
    if not facts.equal(_product(tensor.shape), _product(shape)):
        return False
    for axis, extent in zip(definition.axes, shape, strict=True):
        if _is_zero(facts.simplify(extent)):
            return True
        facts.bind(axis, 0, extent)
    return facts.equal(_position(at, tensor.shape), _position(definition.axes, shape))


def _product(shape: Sequence[Expr]) -> Expr:
    total: Expr = const(1)
    for extent in shape:
        total = total * extent
    return total


def _position(at: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The row-major position of an element."""
    position: Expr | None = None
    for index, extent in zip(at, shape, strict=True):
        position = index if position is None else position * extent + index
    return const(0) if position is None else position


__all__ = [
    "Access",
    "Kind",
    "access_of",
    "cut_tensor",
    "elements_of",
    "is_cut",
    "is_guarded",
    "is_pointwise",
    "is_same_order",
    "is_sum_of_products",
    "joined_tensors",
    "kind_of",
    "moved_tensor",
    "places_read",
    "rows_read",
    "work_of",
]
