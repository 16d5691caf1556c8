"""Branches and loops over values, with the types of their results inferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tensorsmith.errors import DTypeError, ShapeError
from tensorsmith.ir import Body, Branch, Buffer, Expr, Loop, Opaque, Var, free_vars
from tensorsmith.ir.graph import Value
from tensorsmith.ops.builder import GraphBuilder

Iteration: TypeAlias = "tuple[Buffer | None, Sequence[Value], Sequence[Value]]"
"""Whether to go on (None: always), the states after an iteration, and what the scans collect."""


def branch(
    builder: GraphBuilder,
    condition: Buffer,
    then: Callable[[], Sequence[Value]],
    orelse: Callable[[], Sequence[Value]],
) -> tuple[Value, ...]:
    """The results of either of two bodies, which `then` and `orelse` emit.

    An extent in which the bodies' results differ is a fresh variable. Raises ShapeError or
    DTypeError if they differ in number, rank or type.
    """
    bodies = [builder.body(make) for make in (then, orelse)]
    if len(bodies[0].results) != len(bodies[1].results):
        raise ShapeError(
            "the two sides of a branch have as many results",
            given=f"{len(bodies[0].results)} and {len(bodies[1].results)}",
        )
    pairs = zip(bodies[0].results, bodies[1].results, strict=True)
    results = tuple(_common(builder, a, b) for a, b in pairs)
    builder.emit(Branch(results, condition, bodies[0], bodies[1], sources=builder.sources))
    return results


def _common(builder: GraphBuilder, a: Value, b: Value) -> Value:
    """A new value of the type that two have in common."""
    _same_kind(a, b, "the two sides of a branch")
    shape = [
        x if _agree(builder, x, y) else Var(f"{a.name}_{axis}", low=0)
        for axis, (x, y) in enumerate(zip(a.shape, b.shape, strict=True))
    ]
    return _like(a, shape)


def _agree(builder: GraphBuilder, a: Expr, b: Expr) -> bool:
    """Whether two extents are one that has a meaning here."""
    return _is_visible(builder, a) and builder.facts.equal(a, b)


def _is_visible(builder: GraphBuilder, extent: Expr) -> bool:
    return all(v in builder.variables for v in free_vars(extent))


def _like(value: Value, shape: Sequence[Expr]) -> Value:
    """A new value that differs in its shape."""
    if isinstance(value, Opaque):
        return Opaque(value.name, value.kind, tuple(shape))
    return Buffer(value.name, shape, value.dtype)


def _same_kind(a: Value, b: Value, what: str) -> None:
    """Raise DTypeError or ShapeError unless the values differ in nothing but extents."""
    if isinstance(a, Buffer) and isinstance(b, Buffer):
        same = a.dtype is b.dtype
    else:
        same = isinstance(a, Opaque) and isinstance(b, Opaque) and a.kind == b.kind
    if not same:
        raise DTypeError(f"{what} have one element type", given=f"{a!r} and {b!r}")
    if len(a.shape) != len(b.shape):
        raise ShapeError(f"{what} have one rank", given=f"{a!r} and {b!r}")


def loop(
    builder: GraphBuilder,
    trip: Expr | None,
    condition: Buffer | None,
    initial: Sequence[Value],
    make: Callable[[Var, Sequence[Value]], Iteration],
) -> tuple[Value, ...]:
    """The results of a loop: its states at the end, then what its scans have collected.

    trip: how often at most, None for no bound. condition: whether to begin, None for yes.
    make: emits the body for the number of the iteration and the states at its start. It may be
        called several times: until the extents of the states that iterations change are known,
        which are then variables.
    Raises ShapeError or DTypeError if an iteration changes a state's rank or type.
    """
    params = [_like(v, v.shape) for v in initial]
    while True:
        body, goes_on, scans = _body(builder, params, make)
        states = body.results[goes_on : goes_on + len(params)]
        widened = [_widened(builder, p, s) for p, s in zip(params, states, strict=True)]
        if all(a is b for a, b in zip(widened, params, strict=True)):
            break
        params = widened
    counted = trip is not None and condition is None and not goes_on
    count = trip if counted and trip is not None else Var("iterations", low=0)
    results = (
        *(_after(builder, i, p) for i, p in zip(initial, params, strict=True)),
        *(_like(s, (count, *_outside(builder, s))) for s in scans),
    )
    builder.emit(
        Loop(
            results,
            trip,
            condition,
            tuple(initial),
            body,
            has_condition=bool(goes_on),
            sources=builder.sources,
        )
    )
    return results


def _body(
    builder: GraphBuilder,
    params: Sequence[Value],
    make: Callable[[Var, Sequence[Value]], Iteration],
) -> tuple[Body, int, Sequence[Value]]:
    """The body of a loop, how many conditions are among its results, and what its scans collect."""
    number = Var("iteration", low=0)
    scans: list[Value] = []
    conditions: list[Buffer] = []

    def emit() -> Sequence[Value]:
        on, states, collected = make(number, params)
        if len(states) != len(params):
            raise ShapeError(
                "a loop ends an iteration with the states that it began with",
                given=f"{len(params)} before, {len(states)} after",
            )
        conditions.extend(() if on is None else (on,))
        scans.extend(collected)
        return (*conditions, *states, *collected)

    body = builder.body(emit, params, (number,))
    return body, len(conditions), scans


def _widened(builder: GraphBuilder, param: Value, state: Value) -> Value:
    """`param`, or one with a variable for each extent that an iteration changes."""
    _same_kind(param, state, "a state before and after an iteration")
    shape: list[Expr] = []
    changed = False
    for axis, (before, after) in enumerate(zip(param.shape, state.shape, strict=True)):
        if not _is_visible(builder, before) or _agree(builder, before, after):
            shape.append(before)  # a variable already, or what stays as it is
        else:
            shape.append(Var(f"{param.name}_{axis}", low=0))
            changed = True
    return _like(param, shape) if changed else param


def _after(builder: GraphBuilder, initial: Value, param: Value) -> Value:
    """A new value for a state at the end."""
    pairs = zip(initial.shape, param.shape, strict=True)
    return _like(
        initial,
        [
            b if _is_visible(builder, b) else Var(f"{initial.name}_{axis}", low=0)
            for axis, (_, b) in enumerate(pairs)
        ],
    )


def _outside(builder: GraphBuilder, value: Value) -> list[Expr]:
    """The extents of what a scan collects, with variables for those that only the body knows."""
    return [
        e if _is_visible(builder, e) else Var(f"{value.name}_{axis}", low=0)
        for axis, e in enumerate(value.shape)
    ]
