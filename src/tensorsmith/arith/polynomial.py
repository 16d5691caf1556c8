"""Integer polynomials over atoms: the normal form of sums and products of ``index`` expressions.

An *atom* is an expression that is not a sum or product (a variable, a quotient, a minimum, ...). A
*monomial* is a tuple of atoms in a fixed order, () for the constant; a polynomial maps monomials to
non-zero coefficients. Two index expressions with equal polynomials are equal.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, TypeAlias

from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import Add, Const, Expr, Mul, Sub, Var

Monomial: TypeAlias = tuple[Expr, ...]
Polynomial: TypeAlias = dict[Monomial, int]
Key: TypeAlias = tuple[str, int]

LONGEST_KEY = 96
"""Characters of an ordering key beyond which its digest stands for it."""


_LARGEST: Final = index.max_value


class OrderKeys(dict[Expr, Key]):
    """``keys[e]``: what expressions are ordered by. It depends on names, not on memory addresses or
    on what else the process built; variables of one name are ordered by creation."""

    def __missing__(self, root: Expr) -> Key:
        stack = [root]
        while stack:
            e = stack[-1]
            if e in self:
                stack.pop()
                continue
            pending = [a for a in e.args if a not in self]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            self[e] = self._key(e)
        return self[root]

    def _key(self, e: Expr) -> Key:
        if isinstance(e, Var):
            return f"0{e.name}", e.serial
        name = getattr(e.attr, "name", e.attr)
        inner = ",".join([self[a][0] for a in e.args])
        text = f"1{type(e).__name__}{'' if name is None else name}({inner}){e.dtype}"
        if len(text) > LONGEST_KEY:
            text = "2" + blake2b(text.encode(), digest_size=16).hexdigest()
        return text, 0


def add_scaled(into: Polynomial, other: Polynomial, k: int) -> None:
    """Add ``k * other`` to `into`, in place."""
    for m, c in other.items():
        total = into.get(m, 0) + k * c
        if total:
            into[m] = total
        else:
            into.pop(m, None)


def difference(a: Polynomial, b: Polynomial) -> Polynomial:
    """``a - b``."""
    result = dict(a)
    add_scaled(result, b, -1)
    return result


def scaled(a: Polynomial, k: int) -> Polynomial:
    """``k * a``."""
    return {m: c * k for m, c in a.items()} if k else {}


def product(a: Polynomial, b: Polynomial, keys: OrderKeys) -> Polynomial:
    """``a * b``."""
    result: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            both = m + n
            if m and n:
                both = tuple(sorted(both, key=keys.__getitem__))
            total = result.get(both, 0) + c * d
            if total:
                result[both] = total
            else:
                del result[both]
    return result


def divide_monomial(m: Monomial, by: Monomial) -> Monomial | None:
    """``m / by`` where `by` divides `m`."""
    rest = list(m)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def constant(a: Polynomial) -> int | None:
    """The value of a polynomial without variables, else None."""
    if not a:
        return 0
    return a.get(()) if len(a) == 1 else None


def fits(a: Polynomial) -> bool:
    """Whether the coefficients can stand as ``index`` constants."""
    return all(-_LARGEST <= c <= _LARGEST for c in a.values())


def has_atom(a: Polynomial, *kinds: type[Expr]) -> bool:
    """Whether an atom of one of these classes stands in it."""
    for m in a:
        for x in m:
            if type(x) in kinds:
                return True
    return False


def to_expr(a: Polynomial, keys: OrderKeys) -> Expr:
    """The canonical expression: positive terms in order, then negative ones, the constant last
    (first where nothing else is positive)."""
    if not a:
        return Const(0, index)
    if len(a) == 1:
        ((m, c),) = a.items()
        return _term(m, c) if m else Const(c, index)
    terms = [(m, c) for m, c in a.items() if m]
    if len(terms) > 1:
        terms.sort(key=lambda t: [keys[x] for x in t[0]])
    offset = a.get((), 0)
    result: Expr | None = None
    for m, c in terms:
        if c > 0:
            term = _term(m, c)
            result = term if result is None else Add(result, term)
    if offset and result is None:
        result, offset = Const(offset, index), 0
    for m, c in terms:
        if c < 0:
            result = _term(m, c) if result is None else Sub(result, _term(m, -c))
    assert result is not None
    if offset > 0:
        return Add(result, Const(offset, index))
    return Sub(result, Const(-offset, index)) if offset else result


def _term(m: Monomial, c: int) -> Expr:
    result = m[0]
    for atom in m[1:]:
        result = Mul(result, atom)
    return result if c == 1 else Mul(result, Const(c, index))
