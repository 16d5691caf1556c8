"""What a reduction block combines, and how: its body taken apart.

A body says ``C = combine(C, value)`` for one buffer or several at once. The values are found by
structure, and `combine` is then tried on samples: it must be commutative and associative, and leave
a value as it is that meets the neutral element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Final

import numpy as np

from tensorsmith.evaluate.numpy_domain import NumPyDomain
from tensorsmith.evaluate.walker import Walker
from tensorsmith.ir import (
    Add,
    And,
    Binary,
    Bind,
    BitAnd,
    BitOr,
    BitXor,
    Block,
    Buffer,
    Const,
    DType,
    Expr,
    Load,
    Max,
    Min,
    Mul,
    Or,
    Seq,
    Stmt,
    Store,
    Var,
    const,
    postorder,
    seq,
    substitute,
)
from tensorsmith.ir.rewrite import statements
from tensorsmith.schedule.errors import ScheduleError
from tensorsmith.schedule.nest import describe

Values = tuple[Expr, ...]
SAMPLES: Final = 12
"""Triples of values on which the laws of a reducer are tried."""
MOST_OUTPUTS: Final = 5
"""Values of more outputs are not sought: their orders are tried one by one."""


def _least(type_: DType) -> Const:
    return const(float("-inf") if type_.is_float else type_.min_value, type_)


def _greatest(type_: DType) -> Const:
    return const(float("inf") if type_.is_float else type_.max_value, type_)


NEUTRAL: Final[Mapping[type[Binary], Callable[[DType], Const]]] = {
    Add: lambda t: const(0, t),
    Mul: lambda t: const(1, t),
    Max: _least,
    Min: _greatest,
    And: lambda t: const(1, t),
    Or: lambda t: const(0, t),
    BitAnd: lambda t: const(-1 if t.min_value < 0 else t.max_value, t),
    BitOr: lambda t: const(0, t),
    BitXor: lambda t: const(0, t),
}
"""For each operation that is a reducer, what changes nothing when combined."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """A reduction block taken apart.

    stores: one a result; their values are replaced by `combine`.
    starts: what the init stores, one a result.
    neutral: the neutral elements; those of `starts` unless the operation is known.
    values: what one point contributes, one a result, in terms of the block's iterators.
    combine: from accumulated values and new ones to the values to be accumulated.
    """

    stores: tuple[Store, ...]
    starts: Values
    neutral: Values
    values: Values
    combine: Callable[[Values, Values], Values]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The results."""
        return tuple(s.buffer for s in self.stores)


def reducer_of(block: Block, what: str) -> Reducer:
    """The reduction of `block` taken apart. Raises ScheduleError if it is not of a known form."""
    inits = {s.buffer: s for s in _stores(block.init, block, what)}
    stores = _stores(block.body, block, what)
    if {s.buffer for s in stores} != inits.keys() or len(inits) != len(stores):
        raise _refusal(what, block, "its init and its body store to different buffers")
    for s in stores:
        if inits[s.buffer].indices != s.indices:
            raise _refusal(what, block, f"the init stores to another element of {s.buffer.name!r}")
    old: Values = tuple(Load(s.buffer, s.indices) for s in stores)
    new: Values = tuple(s.value for s in stores)
    starts: Values = tuple(inits[s.buffer].value for s in stores)
    if len(stores) == 1 and (single := _operator(new[0], old[0])) is not None:
        operation, value = single
        neutral = (NEUTRAL[operation](value.dtype),)
        return Reducer(stores, starts, neutral, (value,), partial(_apply, operation))
    values, templates = _sought(old, new, starts, block, what)
    placeholders = _placeholders(old)
    combine = partial(_instance, templates, placeholders)
    _check_laws(combine, starts, block, what)
    return Reducer(stores, starts, starts, values, combine)


def _stores(s: Stmt | None, block: Block, what: str) -> tuple[Store, ...]:
    """The stores of a body or init, with what `Bind`s define written into them."""
    if s is None:
        raise _refusal(what, block, "it has no init")
    known: dict[Expr, Expr] = {}
    found: list[Store] = []
    for part in statements(s):
        if isinstance(part, Seq):
            continue
        if not isinstance(part, (Bind, Store)):
            because = f"it holds {describe(part)}, not stores and bindings alone"
            raise _refusal(what, block, because)
        changed = {x.buffer for x in found}
        if any(isinstance(e, Load) and e.buffer in changed for e in postorder(part.value)):
            raise _refusal(what, block, "it reads a result again that it has just changed")
        value = substitute(part.value, known)
        if isinstance(part, Bind):
            known[part.var] = value
        else:
            indices = tuple(substitute(i, known) for i in part.indices)
            found.append(replace(part, indices=indices, value=value))
    return tuple(found)


def _refusal(what: str, block: Block, because: str) -> ScheduleError:
    return ScheduleError(
        f"{what}: block {block.name!r} is not a reduction of a form that can be taken apart",
        because=because,
        try_="C[...] = C[...] + value, or another commutative and associative operation",
        where=block.span,
    )


def _operator(new: Expr, old: Expr) -> tuple[type[Binary], Expr] | None:
    """The operation and the other operand, where `new` is one on `old` and something else."""
    if not isinstance(new, Binary) or type(new) not in NEUTRAL:
        return None
    for accumulated, value in (new.args, new.args[::-1]):
        if accumulated is old and not _uses(value, (old,)):
            return type(new), value
    return None


def _apply(operation: type[Binary], a: Values, b: Values) -> Values:
    return tuple(operation(x, y) for x, y in zip(a, b, strict=True))


def _uses(e: Expr, nodes: Sequence[Expr]) -> bool:
    return any(x in nodes for x in postorder(e))


def update(
    buffers: Sequence[Buffer],
    indices: Sequence[tuple[Expr, ...]],
    reducer: Reducer,
    new: Values,
) -> Stmt:
    """Combine new values with what lies at `indices`; all values are computed before a store."""
    old: Values = tuple(map(Load, buffers, indices))
    combined = reducer.combine(old, new)
    if len(combined) == 1:
        return Store(buffers[0], indices[0], combined[0])
    names = [Var(f"new_{b.name}", e.dtype) for b, e in zip(buffers, combined, strict=True)]
    return seq(*map(Bind, names, combined), *map(Store, buffers, indices, names))


# --- Reducers of several values --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Placeholders:
    """Variables that stand for accumulated and for new values in a template."""

    old: tuple[Var, ...]
    new: tuple[Var, ...]


_made: Final[dict[tuple[DType, ...], _Placeholders]] = {}


def _placeholders(values: Values) -> _Placeholders:
    types = tuple(v.dtype for v in values)
    if types not in _made:
        _made[types] = _Placeholders(
            tuple(Var(f"a{k}", t) for k, t in enumerate(types)),
            tuple(Var(f"b{k}", t) for k, t in enumerate(types)),
        )
    return _made[types]


def _instance(templates: Values, names: _Placeholders, a: Values, b: Values) -> Values:
    values: dict[Expr, Expr] = dict(zip((*names.old, *names.new), (*a, *b), strict=True))
    return tuple(substitute(t, values) for t in templates)


def _sought(
    old: Values, new: Values, starts: Values, block: Block, what: str
) -> tuple[Values, Values]:
    """The values of a point, and what combines them in terms of placeholders.

    The values are the largest parts that do not depend on what is accumulated; which belongs to
    which result shows when each is combined with the neutral elements.
    """
    candidates = _candidates(old, new)
    names = _placeholders(old)
    if len(candidates) == len(old) <= MOST_OUTPUTS:
        for values in permutations(candidates):
            if any(v.dtype is not o.dtype for v, o in zip(values, old, strict=True)):
                continue
            replaced: dict[Expr, Expr] = dict(zip(values, names.new, strict=True))
            replaced.update(zip(old, names.old, strict=True))
            templates = tuple(substitute(e, replaced) for e in new)
            combine = partial(_instance, templates, names)
            if _is_closed(templates, names) and _is_neutral(combine, starts):
                return values, templates
    raise _refusal(
        what, block, "no values were found that it combines with what it has, from the neutral ones"
    )


def _candidates(old: Values, new: Values) -> list[Expr]:
    """The largest parts of `new` without `old`; not those that are made of others of them."""
    depends: set[Expr] = set()
    for e in postorder(*new):
        if e in old or any(a in depends for a in e.args):
            depends.add(e)
    largest: dict[Expr, None] = {}
    for e in postorder(*new):
        if e in depends and e not in old:
            largest.update((a, None) for a in e.args if a not in depends and type(a) is not Const)
    kept: list[Expr] = []
    for e in largest:
        others: dict[Expr, Expr] = {o: const(0, o.dtype) for o in largest if o is not e}
        rest = substitute(e, others)
        if any(isinstance(x, (Load, Var)) for x in postorder(rest)):
            kept.append(e)
    return kept


def _is_closed(templates: Values, names: _Placeholders) -> bool:
    allowed = {*names.old, *names.new}
    return not any(
        isinstance(e, Load) or (isinstance(e, Var) and e not in allowed)
        for e in postorder(*templates)
    )


def _samples(types: Sequence[DType], count: int) -> Iterator[Values]:
    """Small values: few, so that some are equal, on which results may depend."""
    random = np.random.default_rng(0)
    for _ in range(count):
        yield tuple(const(int(random.integers(2 if t.is_bool else 4)), t) for t in types)


def _evaluate(values: Values) -> Values:
    """Constants for expressions of constants, as the reference interpreter computes them."""
    walker = Walker(NumPyDomain(), {})
    with np.errstate(all="ignore"):
        found = [np.asarray(walker.evaluate(v)).item() for v in values]
    return tuple(const(x, v.dtype) for x, v in zip(found, values, strict=True))


def _same(a: Values, b: Values) -> bool:
    """Whether these constants are equal numbers; zeros of both signs are."""
    pairs = [x == y for x, y in zip(_numbers(a), _numbers(b), strict=True)]
    return all(pairs)


def _numbers(values: Values) -> list[float]:
    return [v.value for v in values if isinstance(v, Const)]


def _is_neutral(combine: Callable[[Values, Values], Values], neutral: Values) -> bool:
    if not all(isinstance(v, Const) for v in neutral):
        return False
    types = [v.dtype for v in neutral]
    return all(_same(_evaluate(combine(neutral, x)), x) for x in _samples(types, SAMPLES))


def _check_laws(
    combine: Callable[[Values, Values], Values], neutral: Values, block: Block, what: str
) -> None:
    samples = list(_samples([v.dtype for v in neutral], 3 * SAMPLES))
    for a, b, c in zip(samples[::3], samples[1::3], samples[2::3], strict=True):
        ab, ba = _evaluate(combine(a, b)), _evaluate(combine(b, a))
        left = _evaluate(combine(ab, c))
        right = _evaluate(combine(a, _evaluate(combine(b, c))))
        if not (_same(ab, ba) and _same(left, right)):
            law = "associative" if _same(ab, ba) else "commutative"
            raise _refusal(what, block, f"what it combines with is not {law}")
