"""What the bindings of a body depend on."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence

from tensorsmith.graph.lifetimes import introduced
from tensorsmith.ir import Buffer, Var, free_vars
from tensorsmith.ir.expr import Expr
from tensorsmith.ir.graph import (
    Apply,
    Binding,
    CallExtern,
    CallProgram,
    Check,
    Dims,
    Loop,
    Value,
    bodies,
    captured,
)

RESULT = -1
"""The position that stands for the end of the body, where its results are used."""


class Dependences:
    """Which bindings a binding needs: those that make what it reads, those that introduce the
    dimensions that it uses, and the checks of these."""

    def __init__(self, bindings: Sequence[Binding], results: Sequence[Value]) -> None:
        self.bindings = bindings
        self._makers: dict[Value, int] = {}
        self._users: dict[Value, set[int]] = {}
        self.needs: list[set[int]] = []
        introducers: dict[Var, int] = {}
        checks: dict[Var, list[int]] = {}
        for at, binding in enumerate(bindings):
            needs: set[int] = set()
            for value in values_read(binding):
                self._users.setdefault(value, set()).add(at)
                if value in self._makers:
                    needs.add(self._makers[value])
            for v in variables_used(binding):
                if v in introducers:
                    needs.add(introducers[v])
                needs.update(checks.get(v, ()))
            self.needs.append(needs)
            self._makers.update(dict.fromkeys(binding.outputs, at))
            for v in introduced(binding):
                introducers.setdefault(v, at)
            if isinstance(binding, Check):
                for v in free_vars(binding.condition):
                    checks.setdefault(v, []).append(at)
        for value in results:
            self._users.setdefault(value, set()).add(RESULT)
        self._live = self._find_live(results)

    def _find_live(self, results: Sequence[Value]) -> set[int]:
        roots = [self._makers[v] for v in results if v in self._makers]
        roots += [at for at, b in enumerate(self.bindings) if has_effect(b)]
        live: set[int] = set()
        while roots:
            at = roots.pop()
            if at not in live:
                live.add(at)
                roots.extend(self.needs[at])
        for users in self._users.values():
            users.intersection_update({*live, RESULT})
        return live

    def is_live(self, at: int) -> bool:
        """Whether the results depend on a binding, or it has an effect."""
        return at in self._live

    def maker(self, value: Value) -> int | None:
        """The place of the binding that makes a value; None if it comes from outside."""
        return self._makers.get(value)

    def users(self, value: Buffer) -> set[int]:
        """The places of the live bindings that use a value; `RESULT` if it is a result."""
        return self._users.get(value, set())

    def between(
        self, first: Collection[int], last: Collection[int], members: Callable[[int], set[int]]
    ) -> bool:
        """Whether something outside of both sets depends on the first and is needed by the last.

        members: the positions that are computed together with one.
        """
        start = min(first)
        seen = {*first, *last}
        stack = [n for at in last for n in self.needs[at] if n not in seen]
        while stack:
            together = members(stack.pop())
            if not together.isdisjoint(seen):
                continue
            seen.update(together)
            if max(together) < start:
                continue
            for at in together:
                for needed in self.needs[at]:
                    if needed in first:
                        return True
                    if needed not in seen:
                        stack.append(needed)
        return False

    def order(
        self, members: Callable[[int], set[int]], operators: Collection[int]
    ) -> Iterator[list[int]]:
        """The live bindings in an order that keeps the dependences, those that are computed
        together in one step; as close to the given order as that allows.

        operators: those among the operators that are computed at all.
        """
        kept = [
            at
            for at in sorted(self._live)
            if at in operators or not isinstance(self.bindings[at], Apply)
        ]
        steps: dict[int, list[int]] = {}
        for at in kept:
            steps.setdefault(max(members(at)), []).append(at)
        key = {at: last for last, part in steps.items() for at in part}
        waiting: dict[int, set[int]] = {}
        for last, part in steps.items():
            needed = {key[n] for at in part for n in self._needed(at, key)}
            waiting[last] = needed - {last}
        ready = [last for last, needed in waiting.items() if not needed]
        heapq.heapify(ready)
        dependants: dict[int, list[int]] = {}
        for last, needed in waiting.items():
            for n in needed:
                dependants.setdefault(n, []).append(last)
        while ready:
            last = heapq.heappop(ready)
            yield steps[last]
            for other in dependants.get(last, ()):
                waiting[other].discard(last)
                if not waiting[other]:
                    heapq.heappush(ready, other)

    def _needed(self, at: int, key: dict[int, int]) -> Iterator[int]:
        """The computed bindings that one needs, through those that are not computed."""
        stack = list(self.needs[at])
        seen: set[int] = set()
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            if n in key:
                yield n
            else:
                stack.extend(self.needs[n])


def has_effect(binding: Binding) -> bool:
    """Whether a binding does something beyond giving values."""
    return isinstance(binding, Check) or (isinstance(binding, CallExtern) and not binding.is_pure)


def values_read(binding: Binding) -> list[Value]:
    """The values that a binding reads, those of its bodies included."""
    found = dict.fromkeys(binding.inputs)
    for body in bodies(binding):
        found.update(dict.fromkeys(captured(body)))
    return list(found)


def variables_used(binding: Binding) -> set[Var]:
    """The variables that a binding needs, those in its bodies included."""
    exprs: list[Expr] = [e for v in (*binding.inputs, *binding.outputs) for e in v.shape]
    if isinstance(binding, Apply):
        exprs.extend(_exprs(tuple(binding.attrs.values())))
    elif isinstance(binding, (CallProgram, CallExtern)):
        exprs.extend(o for o in binding.operands if isinstance(o, Expr))
    elif isinstance(binding, Dims):
        exprs.extend(binding.values)
    elif isinstance(binding, Check):
        exprs.append(binding.condition)
    elif isinstance(binding, Loop) and binding.trip is not None:
        exprs.append(binding.trip)
    found = set(free_vars(*exprs))
    for body in bodies(binding):
        for inner in body.bindings:
            found |= variables_used(inner)
        found.update(free_vars(*(e for v in body.results for e in v.shape)))
    return found


def _exprs(value: object) -> list[Expr]:
    """The expressions in an attribute."""
    if isinstance(value, Expr):
        return [value]
    return [e for v in value for e in _exprs(v)] if isinstance(value, tuple) else []
