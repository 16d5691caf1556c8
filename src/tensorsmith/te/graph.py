"""The definitions that tensors depend on, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tensorsmith.te.tensor import Definition, Tensor


def definitions_under(
    tensors: Iterable[Tensor], given: Collection[Tensor] = ()
) -> tuple[Definition, ...]:
    """The definitions that `tensors` depend on, each after those of its inputs.

    given: tensors whose definitions are not looked at. Iterative, at any depth; the order is that
    of a depth-first walk, so that a definition stands close to its first use.
    """
    done: dict[Definition, None] = {}
    stack = [t.definition for t in reversed(tuple(tensors)) if t not in given]
    while stack:
        definition = stack[-1]
        if definition is None or definition in done:
            stack.pop()
            continue
        pending = [
            t.definition
            for t in definition.inputs
            if t not in given and t.definition is not None and t.definition not in done
        ]
        if pending:
            stack.extend(reversed(pending))
        else:
            done[definition] = None
            stack.pop()
    return tuple(done)
