"""What is known about variables, and what follows: simplification, bounds, congruences, proofs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tensorsmith.arith import congruence as congruences
from tensorsmith.arith import interval as intervals
from tensorsmith.arith.congruence import Congruence
from tensorsmith.arith.interval import Interval
from tensorsmith.arith.polynomial import (
    Monomial,
    OrderKeys,
    Polynomial,
    add_scaled,
    constant,
    difference,
    to_expr,
)
from tensorsmith.arith.prove import prove_nonnegative
from tensorsmith.arith.simplify import polynomial_of, simplify
from tensorsmith.errors import ArithError
from tensorsmith.ir.expr import (
    And,
    Const,
    Eq,
    Expr,
    ExprLike,
    FloorDiv,
    FloorMod,
    Le,
    Lt,
    Ne,
    Not,
    Or,
    Var,
    as_expr,
    free_vars,
)
from tensorsmith.ir.fold import fold

if TYPE_CHECKING:
    from typing import Any


class Range:
    """The symbolic bounds of a bound variable, as polynomials: ``low <= var <= high``."""

    __slots__ = ("high", "low")

    def __init__(self, low: Polynomial, high: Polynomial) -> None:
        self.low = low
        self.high = high


class Analyzer:
    """Facts about variables, and what follows from them.

    Facts are added by `bind` and `assume`, and dropped on leaving the `scope` they were added in.
    What is asked is answered for the values that satisfy all facts. Facts on the variables
    themselves (`Var.low`, ...) always count.
    Where a fact is added again to what it was added to before, all that was found then is known.
    """

    def __init__(self) -> None:
        self.ranges: dict[Var, Range] = {}
        self.intervals: dict[Var, Interval] = {}
        self.congruences: dict[Var, Congruence] = {}
        self.equalities: dict[Expr, Expr] = {}
        self.constraints: tuple[Polynomial, ...] = ()
        """Polynomials known not to be negative."""
        self.truths: dict[Expr, bool] = {}
        """Conditions, simplified, that are known to hold or not to."""
        self.keys = OrderKeys()
        self.polynomials: dict[Expr, Polynomial] = {}
        """Of canonical expressions; true under any facts."""
        self.memo: dict[Expr, Expr] = {}
        self.proofs: dict[object, bool] = {}
        """Whether polynomials are never negative, as far as that was asked."""
        self._added: dict[object, tuple[Any, ...]] = {}
        """The states that facts have led to from this one."""
        self._intervals = {**intervals.TABLE, Var: self._var_interval}
        self._congruences = {**congruences.TABLE, Var: self._var_congruence}
        self._interval_cache: dict[Expr, Any] = {}
        self._congruence_cache: dict[Expr, Any] = {}
        self.is_at_an_end = False
        """Whether a proof simplifies the end of a quotient's range."""

    # --- Facts -------------------------------------------------------------------------------

    def bind(self, var: Var, start: ExprLike, extent: ExprLike) -> None:
        """Let ``start <= var < start + extent``; so the extent is positive, where this counts."""
        with self._adding((var, start, extent)) as is_known:
            if not is_known:
                self._bind(var, start, extent)

    def _bind(self, var: Var, start: ExprLike, extent: ExprLike) -> None:
        low = self.simplify(as_expr(start))
        size = self.simplify(as_expr(extent))
        high = self.simplify(low + size - 1)
        bounds = Interval(self.bounds(low).low, self.bounds(high).high)
        # Facts about other variables stay as they are; results that used `var` do not.
        is_new = not any(var in known for known in (self.memo, *self._caches()))
        self.ranges = {**self.ranges, var: Range(self.polynomial(low), self.polynomial(high))}
        self.intervals = {**self.intervals, var: bounds}
        if is_new:
            self._keep()
        else:
            self._forget()
        if not isinstance(size, Const):
            positive = dict(self.polynomial(size))
            add_scaled(positive, {(): 1}, -1)
            self._add_constraint(positive)
            self._forget()

    def assume(self, condition: Expr) -> None:
        """Let the bool expression `condition` hold.

        Raises ArithError if the facts show that it does not.
        """
        for part in conjuncts(condition):
            fact = self.simplify(part)
            if isinstance(fact, Const):
                if not fact.value:
                    raise ArithError(f"{part!r} contradicts what is known", given=f"{condition!r}")
                continue
            self._assume_one(fact)
            self._forget()

    def learn(self, condition: Expr) -> None:
        """As `assume`, for code that may be dead: what contradicts the facts tells nothing."""
        with self._adding(condition) as is_known:
            for part in () if is_known else conjuncts(condition):
                fact = self.simplify(part)
                if not isinstance(fact, Const):
                    self._assume_one(fact)
                    self._forget()

    @contextmanager
    def _adding(self, fact: object) -> Iterator[bool]:
        """Whether the fact has been added to this state before: then that is the state again."""
        added = self._added
        known = added.get(fact)
        if known is not None:
            self._restore(known)
            yield True
            return
        yield False
        added[fact] = self._state()

    def _assume_one(self, fact: Expr) -> None:
        self.truths = {**self.truths, fact: True, self.simplify(Not(fact)): False}
        if isinstance(fact, And):
            for part in conjuncts(fact):
                self._assume_one(part)
            return
        if not isinstance(fact, (Le, Lt, Eq, Ne)) or not fact.args[0].dtype.is_index:
            return
        a, b = fact.args
        gap = difference(self.polynomial(b), self.polynomial(a))
        if isinstance(fact, Ne):
            self._assume_different(gap)
            return
        if isinstance(fact, Eq):
            self._assume_equal(a, b, gap)
            return
        if isinstance(fact, Lt):
            add_scaled(gap, {(): 1}, -1)
        self._add_constraint(gap)

    def _assume_equal(self, a: Expr, b: Expr, gap: Polynomial) -> None:
        self._add_constraint(gap)
        self._add_constraint({m: -c for m, c in gap.items()})
        for x, y in ((a, b), (b, a)):
            if isinstance(x, FloorMod) and isinstance(y, Const) and isinstance(x.args[1], Const):
                if isinstance(v := x.args[0], Var):
                    fact = congruences.make(int(x.args[1].value), int(y.value))
                    known = self.congruence(v)
                    self.congruences = {**self.congruences, v: congruences.meet(known, fact)}
                return
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Var) and x not in self.equalities and x not in free_vars(y):
                resolved = {k: _replace(v, x, y) for k, v in self.equalities.items()}
                self.equalities = {**resolved, x: y}
                return

    def _assume_different(self, gap: Polynomial) -> None:
        """Learn ``gap != 0``: where one sign is excluded, the other is at least 1."""
        for side in (gap, {m: -c for m, c in gap.items()}):
            if prove_nonnegative(self, side):
                add_scaled(side, {(): 1}, -1)
                self._add_constraint(side)
                return

    def _add_constraint(self, gap: Polynomial) -> None:
        """Learn ``gap >= 0``; a constant bound of one variable narrows its interval too."""
        self.constraints = (*self.constraints, gap)
        terms = [(m, c) for m, c in gap.items() if m]
        if len(terms) != 1:
            return
        (atoms, c), k = terms[0], gap.get((), 0)
        if len(atoms) > 1:
            if c > 0 > k:
                self._add_factors(atoms)
        elif isinstance(atom := atoms[0], Var):
            fact = Interval(-(k // c), None) if c > 0 else Interval(None, k // -c)
            self.intervals = {**self.intervals, atom: self.bounds(atom).intersect(fact)}
        elif isinstance(atom, FloorDiv) and isinstance(d := atom.args[1], Const) and c > 0:
            self._add_quotient(atom.args[0], int(d.value), -(k // c))

    def _add_quotient(self, x: Expr, d: int, least: int) -> None:
        """Learn ``x // d >= least``, where that tells something about x."""
        gap = dict(self.polynomial(x))
        add_scaled(gap, {(): 1}, -d * least)
        low = self.interval(gap).low
        if d > 0 and (low is None or low < 0):
            self._add_constraint(gap)

    def _add_factors(self, factors: Monomial) -> None:
        """Learn of a product that is positive: if no factor is negative, none is 0."""
        lows = [self.bounds(x).low for x in factors]
        if all(low is not None and low >= 0 for low in lows):
            for x, low in zip(factors, lows, strict=True):
                if low == 0:
                    self._add_constraint({(x,): 1, (): -1})

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Facts added inside the ``with`` are dropped on leaving it."""
        kept = self._state()
        try:
            yield
        finally:
            self._restore(kept)

    def _state(self) -> tuple[Any, ...]:
        return (
            *(self.ranges, self.intervals, self.congruences, self.equalities),
            *(self.constraints, self.truths, self.memo, self.proofs),
            *(self._interval_cache, self._congruence_cache, self._added),
        )

    def _restore(self, state: tuple[Any, ...]) -> None:
        (self.ranges, self.intervals, self.congruences, self.equalities) = state[:4]
        (self.constraints, self.truths, self.memo, self.proofs) = state[4:8]
        (self._interval_cache, self._congruence_cache, self._added) = state[8:]

    def _caches(self) -> tuple[dict[Expr, Any], dict[Expr, Any]]:
        return self._interval_cache, self._congruence_cache

    def _forget(self) -> None:
        """After a fact that may change any answer."""
        self.memo = {}
        self.proofs = {}
        self._interval_cache = {}
        self._congruence_cache = {}
        self._added = {}

    def _keep(self) -> None:
        """After a fact that changes no answer so far, but those to come."""
        self.memo = dict(self.memo)
        self.proofs = dict(self.proofs)
        self._interval_cache = dict(self._interval_cache)
        self._congruence_cache = dict(self._congruence_cache)
        self._added = {}

    # --- Questions ---------------------------------------------------------------------------

    def simplify(self, e: Expr) -> Expr:
        """`e` in canonical form: equal to `e` for all values that satisfy the facts.

        Sums and products of ``index`` expressions become sums of ordered terms; quotients and
        remainders take out what divides; comparisons gather their terms; constants fold. Floats are
        changed only where IEEE 754 gives the same result, bit for bit.
        """
        found = self.memo.get(e)
        return simplify(self, e) if found is None else found

    def polynomial(self, e: Expr) -> Polynomial:
        """The polynomial of a simplified ``index`` expression. Not to be changed."""
        return polynomial_of(self, e)

    def from_polynomial(self, p: Polynomial) -> Expr:
        """The canonical expression of a polynomial whose coefficients fit constants."""
        result = to_expr(p, self.keys)
        self.polynomials[result] = p
        return result

    def bounds(self, e: Expr) -> Interval:
        """An interval around the values of `e`, an integer or bool expression."""
        found = self._interval_cache.get(e)
        if found is None:
            found = fold(e, self._intervals, self._interval_cache)
        return found  # type: ignore[no-any-return]  # the fold's values are the table's

    def interval(self, p: Polynomial) -> Interval:
        """An interval around the values of a polynomial."""
        low: int | None = 0
        high: int | None = 0
        for m, c in p.items():
            if not m:
                term = Interval(c, c)
            else:
                part = self.bounds(m[0])
                for atom in m[1:]:
                    part = intervals.multiply(part, self.bounds(atom))
                term = part if c == 1 else intervals.scale(part, c)
            low = None if low is None or term[0] is None else low + term[0]
            high = None if high is None or term[1] is None else high + term[1]
        return Interval(low, high)

    def _var_interval(self, v: Var) -> Interval:
        own = Interval(v.low, v.high).intersect(intervals.of_dtype(v.dtype))
        fact = self.intervals.get(v)
        return own if fact is None else own.intersect(fact)

    def congruence(self, e: Expr) -> Congruence:
        """A modulus and the residue of the values of `e`, an integer expression."""
        found = self._congruence_cache.get(e)
        if found is None:
            found = fold(e, self._congruences, self._congruence_cache)
        return found  # type: ignore[no-any-return]  # the fold's values are the table's

    def _var_congruence(self, v: Var) -> Congruence:
        own = congruences.make(v.multiple_of, 0)
        fact = self.congruences.get(v)
        return own if fact is None else congruences.meet(own, fact)

    def prove(self, condition: Expr) -> bool | None:
        """Whether `condition` holds for all values that satisfy the facts (True), for none
        (False), or may do either for all that is known (None)."""
        simple = self.simplify(condition)
        if isinstance(simple, Const):
            return bool(simple.value)
        if isinstance(simple, And):
            return _all(self.prove(part) for part in conjuncts(simple))
        if isinstance(simple, Or):
            negated = _all(_opposite(self.prove(part)) for part in disjuncts(simple))
            return _opposite(negated)
        if isinstance(simple, Not):
            return _opposite(self.prove(simple.args[0]))
        if not isinstance(simple, (Le, Lt, Eq)) or not simple.args[0].dtype.is_index:
            return None
        a, b = simple.args
        gap = difference(self.polynomial(b), self.polynomial(a))
        return self._prove_equal(gap) if isinstance(simple, Eq) else self._prove_order(simple, gap)

    def _prove_order(self, e: Expr, gap: Polynomial) -> bool | None:
        if isinstance(e, Lt):
            add_scaled(gap, {(): 1}, -1)
        if prove_nonnegative(self, gap):
            return True
        opposite = {m: -c for m, c in gap.items()}
        add_scaled(opposite, {(): 1}, -1)
        return False if prove_nonnegative(self, opposite) else None

    def _prove_equal(self, gap: Polynomial) -> bool | None:
        negative = {m: -c for m, c in gap.items()}
        if prove_nonnegative(self, gap) and prove_nonnegative(self, negative):
            return True
        for side in (gap, negative):
            above = dict(side)
            add_scaled(above, {(): 1}, -1)
            if prove_nonnegative(self, above):
                return False
        return None

    def equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether two ``index`` expressions are proved equal."""
        gap = self.simplify(as_expr(a) - as_expr(b))
        return (
            constant(self.polynomial(gap)) == 0 or self._prove_equal(self.polynomial(gap)) is True
        )


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that `condition` joins by ``and``, in order."""
    return _parts(condition, And)


def disjuncts(condition: Expr) -> list[Expr]:
    """The conditions that `condition` joins by ``or``, in order."""
    return _parts(condition, Or)


def _parts(condition: Expr, joint: type[Expr]) -> list[Expr]:
    parts: list[Expr] = []
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, joint):
            stack.extend(reversed(e.args))
        else:
            parts.append(e)
    return parts


def _replace(e: Expr, var: Var, value: Expr) -> Expr:
    from tensorsmith.ir.expr import substitute

    return substitute(e, {var: value})


def _all(answers: Iterator[bool | None]) -> bool | None:
    result: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            result = None
    return result


def _opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer
