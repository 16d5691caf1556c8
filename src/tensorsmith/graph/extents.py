"""The dimensions of a kernel: one for each extent of what it reads.

In a function, extents are expressions of its dimensions, such as ``(height + 3) // 4``. To a kernel
that reads a tensor of this extent it is just a number. So a variable stands for it, and what is
computed from the extent is computed from the variable: proofs are easier, and kernels for tensors
of different sizes are the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tensorsmith.arith import Analyzer
from tensorsmith.ir import Buffer, Const, Expr, Var, free_vars, substitute
from tensorsmith.ir.graph import Apply
from tensorsmith.ir.stmt import AttrValue


def kernel_extents(members: Sequence[Apply]) -> dict[Expr, Expr]:
    """What stands for the extents of what operators read together.

    An expression keeps its form if the operators need the dimensions in it for anything else.
    """
    renamed = not_negative(members)
    facts = Analyzer()
    extents = list(dict.fromkeys(e for v in _read(members) for e in v.shape))
    compound = [e for e in extents if not isinstance(e, (Var, Const))]
    attrs = [e for m in members for v in m.attrs.values() for e in _exprs(v)]
    while True:
        chosen: dict[Expr, Expr] = {**renamed, **{e: _variable(e, facts) for e in compound}}
        left = [substitute(e, chosen) for e in (*extents, *attrs)]
        new = set(chosen.values())
        old = {v for v in free_vars(*left) if v not in new}
        kept = [e for e in compound if old.isdisjoint(free_vars(e))]
        if len(kept) == len(compound):
            return chosen
        compound = kept


def not_negative(members: Sequence[Apply]) -> dict[Expr, Expr]:
    """What stands for dimensions that are extents, and so not negative, where that is not known."""
    values = [v for m in members for v in (*m.operands, *m.results) if v is not None]
    extents = dict.fromkeys(e for v in values for e in v.shape if isinstance(e, Var))
    return {
        v: Var(v.name, low=0, high=v.high, multiple_of=v.multiple_of)
        for v in extents
        if v.low is None or v.low < 0
    }


def _read(members: Sequence[Apply]) -> Iterator[Buffer]:
    """What the operators read that they do not make."""
    made = {r for m in members for r in m.results}
    return (o for m in members for o in m.operands if o is not None and o not in made)


def _variable(e: Expr, facts: Analyzer) -> Var:
    """A variable for an extent, with what is known of it."""
    bounds, congruence = facts.bounds(e), facts.congruence(e)
    multiple = congruence.modulus if congruence.residue == 0 else 1
    low = max(bounds.low or 0, 0)
    return Var("extent", low=low, high=bounds.high, multiple_of=max(multiple, 1))


def _exprs(value: AttrValue) -> Iterator[Expr]:
    """The expressions in an attribute."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _exprs(v)


def renamed_attribute(value: AttrValue, renamed: Mapping[Expr, Expr]) -> AttrValue:
    """An attribute in terms of what stands for dimensions."""
    if isinstance(value, Expr):
        return substitute(value, renamed)
    if isinstance(value, tuple) and renamed:
        return tuple(renamed_attribute(v, renamed) for v in value)
    return value
