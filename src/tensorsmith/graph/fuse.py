"""Which operators are computed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensorsmith.graph.kernel import Array, Composition, Operators
from tensorsmith.ir import Buffer
from tensorsmith.ir.graph import Apply, Binding, Value, bodies, captured
from tensorsmith.te import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Operators that become one kernel, in order; `results` are those used outside of it."""

    members: tuple[Apply, ...]
    results: tuple[Buffer, ...]

    def inlined(self, composition: Composition) -> set[Tensor]:
        """The definitions to compute where they are read."""
        return set()


Step: TypeAlias = "Binding | Group"


def group_bindings(
    bindings: Sequence[Binding],
    results: Sequence[Value],
    operators: Operators,
    constants: Mapping[Buffer, Array],
) -> list[Step]:
    """The bindings in an order in which they can be carried out, operators in groups.

    What nothing uses is left out.
    """
    used: set[Value] = set(results)
    steps: list[Step] = []
    for binding in reversed(bindings):
        if isinstance(binding, Apply):
            live = tuple(r for r in binding.results if r in used)
            if not live:
                continue
            steps.append(Group((binding,), live))
        else:
            steps.append(binding)
        used.update(binding.inputs)
        used.update(v for body in bodies(binding) for v in captured(body))
    return steps[::-1]
