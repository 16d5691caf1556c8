"""What was computed together and what was not, and why: data for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tensorsmith.graph.fuse import Group, Grouping
from tensorsmith.graph.kernel import Operators
from tensorsmith.ir import Buffer
from tensorsmith.ir.graph import Apply, Binding, Constant, GraphFunction, Value, bodies
from tensorsmith.ops import OPERATORS

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Operators that are computed together.

    operators: their names, in order. sources: the model's nodes that they come from.
    reads, makes: the values that go in and out.
    """

    operators: tuple[str, ...]
    sources: tuple[str, ...]
    reads: tuple[Buffer, ...]
    makes: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A value that one kernel writes and another reads, and why they are two."""

    value: Buffer
    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class FusionReport:
    """The kernels of a function and its bodies, and what lies between them."""

    kernels: tuple[KernelReport, ...]
    boundaries: tuple[Boundary, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.kernels)} kernels"]
        for kernel in self.kernels:
            made = ", ".join(map(repr, kernel.makes))
            lines.append(f"  {' + '.join(kernel.operators)} -> {made}")
        lines.append(f"{len(self.boundaries)} values between them")
        lines += [f"  {b.value.name} -> {b.user}: {b.reason}" for b in self.boundaries]
        return "\n".join(lines)


def fusion_report(graph: GraphFunction, operators: Operators = OPERATORS) -> FusionReport:
    """What `tensorsmith.graph.legalize` makes of a function of operators, with reasons."""
    kernels: list[KernelReport] = []
    boundaries: list[Boundary] = []
    constants: dict[Buffer, Array] = {}
    for bindings, results in _sequences(graph.body, graph.results):
        constants.update((b.result, b.data) for b in bindings if isinstance(b, Constant))
        grouping = Grouping(bindings, results, operators, constants)
        groups = [s for s in grouping.steps() if isinstance(s, Group)]
        kernels.extend(map(_kernel, groups))
        boundaries.extend(_boundaries(grouping, groups))
    return FusionReport(tuple(kernels), tuple(boundaries))


def _sequences(
    bindings: Sequence[Binding], results: Sequence[Value]
) -> Iterator[tuple[Sequence[Binding], Sequence[Value]]]:
    """The bindings of a function and of all bodies inside, with what they give."""
    yield bindings, results
    for binding in bindings:
        for body in bodies(binding):
            yield from _sequences(body.bindings, body.results)


def _kernel(group: Group) -> KernelReport:
    made = {r for m in group.members for r in m.results}
    read = dict.fromkeys(o for m in group.members for o in m.operands if o is not None)
    return KernelReport(
        tuple(m.op for m in group.members),
        tuple(dict.fromkeys(s for m in group.members for s in m.sources)),
        tuple(v for v in read if v not in made),
        group.results,
    )


def _boundaries(grouping: Grouping, groups: Sequence[Group]) -> Iterator[Boundary]:
    """The values between kernels for which something was decided; the last word counts."""
    reasons: Mapping[tuple[Buffer, Apply], str] = {
        (d.value, d.user): d.reason for d in grouping.decisions
    }
    makers = {r: g for g in groups for r in g.results}
    for group in groups:
        for member in group.members:
            for value in dict.fromkeys(o for o in member.operands if o is not None):
                reason = reasons.get((value, member), "")
                if reason and makers.get(value, group) is not group:
                    yield Boundary(value, member.op, reason)


__all__ = ["Boundary", "FusionReport", "KernelReport", "fusion_report"]
