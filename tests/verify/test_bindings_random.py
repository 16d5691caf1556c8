"""Blocks whose bindings are accepted take each point of their domain once: by enumeration."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

from hypothesis import strategies as st

from strategies import evaluate_expr
from strategies.cases import fast_and_slow
from tensorsmith import ir
from tensorsmith.ir.stmt import TRUE
from tensorsmith.verify import problems
from tensorsmith.verify.errors import BindingError
from verify.programs import ZERO, program

Point = Mapping[ir.Var, int]
_small = st.integers(1, 6)


@st.composite
def _loops(draw: st.DrawFn) -> list[ir.For]:
    names = "ijk"[: draw(st.integers(1, 3))]
    empty = ir.Seq(())
    return [
        ir.For(ir.Var(n), ir.const(draw(_small)), empty, start=ir.const(draw(st.integers(0, 1))))
        for n in names
    ]


@st.composite
def _binding(draw: st.DrawFn, variables: list[ir.Var]) -> ir.Expr:
    i, j = draw(st.sampled_from(variables)), draw(st.sampled_from(variables))
    c = draw(_small)
    shapes = (i, i, i, i * c + j, (i * c + j) // 2, (i * c + j) % 2, i // c, i % c, c - i, i + j)
    return draw(st.sampled_from(shapes)) + draw(st.sampled_from((0, 0, 0, 1)))


@st.composite
def _condition(draw: st.DrawFn, variables: list[ir.Var]) -> ir.Expr:
    i, j = draw(st.sampled_from(variables)), draw(st.sampled_from(variables))
    c = draw(_small)
    return draw(st.sampled_from((i < c, ir.equal(i, c - 1), i * 4 + j < c * 2, i <= j)))


def _points(loops: list[ir.For]) -> Iterator[Point]:
    ranges = [range(int(f.start.value), int(f.start.value + f.extent.value)) for f in loops]
    for values in itertools.product(*ranges):
        yield dict(zip([f.var for f in loops], values, strict=True))


def _domain(binding: ir.Expr, points: list[Point]) -> tuple[ir.Expr, ir.Expr]:
    """The smallest range that holds all values: the one that a right binding fills."""
    values = [int(evaluate_expr(binding, p)) for p in points]
    return ir.const(min(values)), ir.const(max(values) - min(values) + 1)


def accepted_bindings_are_bijections(data: st.DataObject) -> None:
    """Each point of the spatial iterators is taken once, for each value that the loops take which
    only opaque iterators use; or, where these share loops with them, for each of their values."""
    loops = data.draw(_loops())
    variables = [f.var for f in loops]
    around = data.draw(st.one_of(st.none(), _condition(variables)))
    predicate = data.draw(st.one_of(st.just(TRUE), _condition(variables)))
    everywhere = list(_points(loops))
    points = [
        p for p in everywhere if (around is None or _holds(around, p)) and _holds(predicate, p)
    ]
    iters = []
    for name in "abc"[: data.draw(st.integers(1, 3))]:
        binding = data.draw(_binding(variables))
        start, extent = _domain(
            binding, data.draw(st.sampled_from((points or everywhere, everywhere)))
        )
        kind = data.draw(st.sampled_from((ir.IterKind.SPATIAL,) * 4 + (ir.IterKind.OPAQUE,)))
        iters.append(ir.Iter(ir.Var(name), extent, kind, binding, start))
    target = ir.Buffer("A", ())
    block = ir.Block("B", tuple(iters), ir.Store(target, (), ZERO), predicate=predicate)
    body: ir.Stmt = block if around is None else ir.If(around, block)
    for f in reversed(loops):
        body = ir.For(f.var, f.extent, body, start=f.start)
    found = problems(program(target, body))
    assert all(isinstance(p, BindingError) for p in found)
    if found or not points:
        return
    ordered = [it for it in iters if it.kind is ir.IterKind.SPATIAL]
    _check_each_once(ordered, iters, points)


def _holds(condition: ir.Expr, point: Point) -> bool:
    return bool(evaluate_expr(condition, point))


def _check_each_once(ordered: list[ir.Iter], iters: list[ir.Iter], points: list[Point]) -> None:
    used = set(ir.free_vars(*(it.binding for it in ordered)))
    opaque = [it.binding for it in iters if it not in ordered]
    shared = [e for e in opaque if used.intersection(ir.free_vars(e))]
    free = [v for v in ir.free_vars(*opaque) if v not in used]
    others = [v for v in free if v not in ir.free_vars(*shared)]
    ranges = [range(int(it.start.value), int(it.start.value + it.extent.value)) for it in ordered]
    expected = Counter(itertools.product(*ranges))
    assert any(
        all(counts == expected for counts in _taken(ordered, repeating, points).values())
        for repeating in (free, [*others, *shared])
    )


def _taken(
    ordered: list[ir.Iter], repeating: list[ir.Expr], points: list[Point]
) -> dict[tuple[int, ...], Counter[tuple[int, ...]]]:
    """How often each point is taken, for each of the values of `repeating`."""
    taken: dict[tuple[int, ...], Counter[tuple[int, ...]]] = {}
    for p in points:
        outer = tuple(int(evaluate_expr(e, p)) for e in repeating)
        values = tuple(int(evaluate_expr(it.binding, p)) for it in ordered)
        taken.setdefault(outer, Counter())[values] += 1
    return taken


test_bindings, test_bindings_slow = fast_and_slow(accepted_bindings_are_bijections, fast=400)
