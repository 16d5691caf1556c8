"""Which definitions of a kernel are computed where they are read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tensorsmith.te import Definition, Tensor
from tensorsmith.te.compute import Compute
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.kind import (
    Access,
    Kind,
    access_of,
    is_guarded,
    kind_of,
    moved_tensor,
    places_read,
    work_of,
)

CHEAP: Final = 2.0
"""Work of a point up to which it may be computed several times."""
MOST_WORK: Final = 200.0
"""Work of an expression that grows by what is put into it."""
MOST_REPEATED: Final = 8.0
"""Work of a point that may be computed by two readers instead of kept."""


def inlined(outputs: Sequence[Tensor], given: Collection[Tensor]) -> set[Tensor]:
    """The tensors under `outputs` to compute where they are read.

    Those that are read once a point, or that cost little. What a contraction reads stays apart,
    unless it only takes the axes of a tensor in another order: its operands are computed as they
    are packed.
    """
    definitions = definitions_under(outputs, given)
    readers: dict[Tensor, list[Definition]] = {}
    for definition in definitions:
        for tensor in definition.inputs:
            readers.setdefault(tensor, []).append(definition)
    work: dict[Definition, float] = {}
    found: set[Tensor] = set()
    for definition in definitions:
        if not isinstance(definition, Compute):
            continue
        put_in = [t for t in definition.inputs if t in found]
        work[definition] = work_of(definition) + sum(
            work[t.definition] * len(list(places_read(definition, t)))
            for t in put_in
            if t.definition is not None
        )
        if definition.reductions or any(o in outputs for o in definition.outputs):
            continue
        users = [r for o in definition.outputs for r in readers.get(o, [])]
        if users and _pays(definition, users, work[definition]):
            found.update(definition.outputs)
    return found


def _pays(definition: Compute, users: Sequence[Definition], work: float) -> bool:
    """Whether to compute a definition where its users read it."""
    if any(kind_of(u) is Kind.OPAQUE for u in users) or work > MOST_WORK:
        return False
    if any(kind_of(u) is Kind.CONTRACTION for u in users):
        return len(users) == 1 and _keeps_plain(definition)
    if is_guarded(definition) and work > CHEAP:
        return False
    accesses = [access_of(u, o) for u in users for o in definition.outputs if o in u.inputs]
    if work <= CHEAP:
        return True
    if max(accesses) > Access.MOVED:
        return False
    return len(users) == 1 or work <= MOST_REPEATED


def _keeps_plain(definition: Compute) -> bool:
    """Whether it only takes the axes of a tensor in another order, or repeats it along some."""
    moved = moved_tensor(definition)
    return moved is not None and access_of(definition, moved[0]) <= Access.REPEATED
