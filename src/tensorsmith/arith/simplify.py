"""Simplification to canonical form.

The walk is iterative. A whole tree of sums is taken at once, its leaves simplified, and put
together as a polynomial; every other operation is rewritten once its operands are canonical. What
each rewriting claims is listed, and proved, in `tensorsmith.arith.rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorsmith.arith.divide import (
    floor_div,
    floor_mod,
    merge_quotients,
    trunc_div,
    trunc_mod,
)
from tensorsmith.arith.order import ORDER
from tensorsmith.arith.polynomial import Polynomial, add_scaled, fits, has_atom, product, to_expr
from tensorsmith.arith.scalar import SCALAR, fold_constants
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import (
    Add,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Mul,
    Neg,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.arith.analyzer import Analyzer

SUM_NODES: Final = 1024
"""Nodes of a sum that are taken at once; longer sums are taken in pieces."""
PRODUCT_TERMS: Final = 64
"""Terms up to which a product of sums is multiplied out."""

Leaves = list[tuple[Expr, int]]


def simplify(facts: Analyzer, root: Expr) -> Expr:
    """`root` in canonical form under `facts`; see `Analyzer.simplify`."""
    memo = facts.memo
    stack = [root]
    sums: dict[Expr, tuple[Leaves, int]] = {}
    while stack:
        e = stack[-1]
        if e in memo:
            stack.pop()
            continue
        kind = type(e)
        if kind in _SUMS and e.dtype is index:
            found = sums.get(e)
            if found is None:
                found = sums[e] = flatten(e)
            pending = [x for x, _ in found[0] if x not in memo]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            memo[e] = result = combine(facts, e, *found)
        else:
            pending = [x for x in e.args if x not in memo]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            memo[e] = result = rewrite(facts, e)
        memo.setdefault(result, result)
    return memo[root]


_SUMS: Final = frozenset((Add, Sub, Neg, Mul))


def flatten(root: Expr) -> tuple[Leaves, int]:
    """A sum of ``index`` expressions as leaves with coefficients, and a constant.

    A product of two variable factors is a leaf; if `root` is one, it has its factors as leaves.
    """
    leaves: Leaves = []
    constant = 0
    budget = SUM_NODES
    stack = [(root, 1)]
    if type(root) is Mul and not _has_constant(root):
        return [(root.args[0], 1), (root.args[1], 1)], 0
    while stack:
        e, k = stack.pop()
        kind = type(e)
        if kind is Const:
            constant += k * e.attr  # type: ignore[operator]  # an index constant is an int
        elif kind is Var or budget <= 0:
            leaves.append((e, k))
        elif kind is Add:
            a, b = e.args
            stack.append((b, k))
            stack.append((a, k))
        elif kind is Sub:
            a, b = e.args
            stack.append((b, -k))
            stack.append((a, k))
        elif kind is Neg:
            stack.append((e.args[0], -k))
        elif kind is Mul and _has_constant(e):
            a, b = e.args
            if type(a) is Const:
                a, b = b, a
            stack.append((a, k * b.attr))  # type: ignore[operator]  # as above
        else:
            leaves.append((e, k))
        budget -= 1
    return leaves, constant


def _has_constant(e: Expr) -> bool:
    return type(e.args[0]) is Const or type(e.args[1]) is Const


def combine(facts: Analyzer, e: Expr, leaves: Leaves, constant: int) -> Expr:
    """The canonical form of a sum or product whose leaves are canonical."""
    memo = facts.memo
    if type(e) is Mul and not _has_constant(e):
        total = _product(facts, memo[e.args[0]], memo[e.args[1]])
    else:
        total = {(): constant} if constant else {}
        for leaf, k in leaves:
            term = memo[leaf]
            if type(term) is Var:  # most leaves are
                coefficient = k + total.pop((term,), 0)
                if coefficient:
                    total[(term,)] = coefficient
            elif k:
                add_scaled(total, polynomial_of(facts, term), k)
    if has_atom(total, FloorMod, FloorDiv):
        merge_quotients(facts, total)
    return build(facts, total, e)


def build(facts: Analyzer, total: Polynomial, origin: Expr) -> Expr:
    """The canonical expression of a polynomial; `origin`, which equals it, where a coefficient does
    not fit a constant."""
    if not fits(total):
        args = tuple([facts.memo.get(a, a) for a in origin.args])
        return origin.with_args(args)
    result = to_expr(total, facts.keys)
    facts.polynomials[result] = total
    return result


def _product(facts: Analyzer, a: Expr, b: Expr) -> Polynomial:
    p, q = polynomial_of(facts, a), polynomial_of(facts, b)
    if len(p) * len(q) <= PRODUCT_TERMS:
        return product(p, q, facts.keys)
    return {tuple(sorted((a, b), key=facts.keys.__getitem__)): 1}


def polynomial_of(facts: Analyzer, e: Expr) -> Polynomial:
    """The polynomial of a canonical ``index`` expression."""
    kind = type(e)
    if kind is Var:
        return {(e,): 1}
    if kind is Const:
        return {(): e.attr} if e.attr else {}  # type: ignore[dict-item]  # an int
    if kind not in _SUMS:
        return {(e,): 1}
    found = facts.polynomials.get(e)
    if found is None:
        found = facts.polynomials[e] = _expand(facts, e)
    return found


def _expand(facts: Analyzer, e: Expr) -> Polynomial:
    """The polynomial of a sum that no `build` has made, such as one too large to fold."""
    if type(e) is Mul and not _has_constant(e):
        return {tuple(sorted(e.args, key=facts.keys.__getitem__)): 1}
    total: Polynomial = {}
    leaves, constant = flatten(e)
    if constant:
        total[()] = constant
    for leaf, k in leaves:
        if k:
            add_scaled(total, {(leaf,): 1}, k)
    return total


def rewrite(facts: Analyzer, e: Expr) -> Expr:
    """The canonical form of an operation whose operands have one."""
    memo = facts.memo
    args = e.args
    if not args:
        return _leaf(facts, e)
    new_args = tuple([memo[a] for a in args])
    if new_args != args:
        e = e.with_args(new_args)
    folded = fold_constants(e)
    if folded is not None:
        return folded
    rule = _INDEX.get(type(e)) if new_args[0].dtype.is_index else None
    if rule is None:
        rule = SCALAR.get(type(e))
        if rule is None:
            return e
    result = rule(facts, e)
    if result.dtype.is_bool and type(result) is not Const:
        known = facts.truths.get(result)
        if known is not None:
            return Const(known, result.dtype)
    return result


def _leaf(facts: Analyzer, e: Expr) -> Expr:
    if type(e) is not Var:
        return e
    value = facts.equalities.get(e)
    if value is not None:
        return value
    if e.dtype.is_index:
        low, high = facts.bounds(e)
        if low is not None and low == high:
            return Const(low, index)
    elif e.dtype.is_bool and e in facts.truths:
        return Const(facts.truths[e], e.dtype)
    return e


_INDEX: Final[dict[type[Expr], Callable[[Analyzer, Expr], Expr]]] = {
    FloorDiv: floor_div,
    FloorMod: floor_mod,
    TruncDiv: trunc_div,
    TruncMod: trunc_mod,
    **ORDER,
}
