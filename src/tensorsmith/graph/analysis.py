"""What the computation of an operator tells about fusing it with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorsmith.errors import TensorsmithError
from tensorsmith.graph.kernel import Array, Composition, Operators
from tensorsmith.ir import Buffer
from tensorsmith.ir.graph import Apply
from tensorsmith.te import Definition
from tensorsmith.te.compute import Compute
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.kind import (
    Access,
    Kind,
    access_of,
    is_cut,
    is_guarded,
    is_same_order,
    kind_of,
    moved_tensor,
    rows_read,
    work_of,
)


@dataclass(slots=True, eq=False)
class Node:
    """An operator of a body.

    position: its place among the bindings.
    kind: the last of the kinds of its definitions.
    rows: how many leading axes its definitions keep among themselves: so many axes of each depend
        only on the same rows of the others.
    access: how it reads each operand. operand_rows: how many leading axes of its definitions are
        those of the operand.
    work: what one element costs, of the most costly definition.
    moves: whether it only moves the elements of one tensor. is_view: whether it keeps their order,
        too. cuts: whether these are a box of them.
    is_guarded: whether what an element is depends on where it stands.
    """

    apply: Apply
    position: int
    kind: Kind = Kind.ELEMENTWISE
    rows: int = 0
    access: dict[Buffer, Access] = field(default_factory=dict)
    operand_rows: dict[Buffer, int] = field(default_factory=dict)
    work: float = 0.0
    moves: bool = False
    is_view: bool = False
    cuts: bool = False
    is_guarded: bool = False
    contractions: int = 0

    @property
    def is_injective(self) -> bool:
        """Whether it combines nothing."""
        return self.kind <= Kind.INJECTIVE


def analyse(
    apply: Apply, position: int, operators: Operators, constants: Mapping[Buffer, Array]
) -> Node:
    """What the computation of an operator tells."""
    try:
        composition = Composition(operators, constants, [apply])
        results = composition.add(apply)
    except TensorsmithError:  # what is known of the function's dimensions is needed
        composition = Composition(operators, constants, [apply], own_extents=False)
        results = composition.add(apply)
    known = composition.literals.union(composition.given)
    definitions = definitions_under(results, known)
    node = Node(apply, position)
    if not definitions:  # a result is an operand
        node.moves = node.is_view = True
        for value in apply.operands:
            if value is not None:
                node.access[value] = Access.SAME
                node.operand_rows[value] = value.rank
        node.rows = min(r.rank for r in apply.results)
        return node
    node.rows = min(o.rank for d in definitions for o in d.outputs)
    for definition in definitions:
        _add(node, definition, composition)
    if len(definitions) == 1 and len(results) == 1:
        (only,) = definitions
        moved = moved_tensor(only)
        node.moves = moved is not None and moved[0] in composition.given
        node.is_view = node.moves and is_same_order(only)
        node.cuts = node.moves and is_cut(only)
    return node


def _add(node: Node, definition: Definition, composition: Composition) -> None:
    kind = kind_of(definition)
    node.kind = max(node.kind, kind)
    node.contractions += kind is Kind.CONTRACTION
    if isinstance(definition, Compute):
        node.work = max(node.work, work_of(definition))
        node.is_guarded = node.is_guarded or (kind <= Kind.INJECTIVE and is_guarded(definition))
    for tensor in definition.inputs:
        rows = rows_read(definition, tensor)
        value = composition.given.get(tensor)
        if value is None:
            if tensor not in composition.literals:
                node.rows = min(node.rows, rows)
            continue
        access = access_of(definition, tensor)
        node.access[value] = max(node.access.get(value, Access.SAME), access)
        node.operand_rows[value] = min(node.operand_rows.get(value, rows), rows)
