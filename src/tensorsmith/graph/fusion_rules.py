"""When operators are computed together: rules that ask for what computations tell, not for names.

Each rule gives the reason why not, '' if there is none: `tensorsmith.graph.report` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorsmith.graph.analysis import Node
from tensorsmith.graph.dependences import Dependences
from tensorsmith.ir import Buffer, Const, Expr
from tensorsmith.te.kind import Access, Kind

MOST_BUFFERS: Final = 24
"""Operands and results of a kernel."""
MOST_RESULTS: Final = 6
"""Results of a kernel that is elementwise."""
MOST_ROW: Final = 1 << 16
"""Elements of a row that several reductions of one kernel run over: they stay in cache."""
MOST_GROWN: Final = 1 << 24
"""Bytes of an operand that is computed of smaller constants when a model is compiled."""
REPEATED_WORK: Final = 4.0
"""Work of an element that may be computed for each of its uses."""
USUAL: Final = 128
"""What an extent that is not known is taken to be."""

JOINED: Final = ""
OPAQUE: Final = "one of them is no computation of elements: it is called as it stands"
FREE: Final = "a change of shape alone costs nothing"
GUARDED: Final = "elements are chosen by where they stand, which is slow inside of other loops"
CONTRACTIONS: Final = "a kernel has one product at most"
OPERAND: Final = "a product reads each element of its operands many times"
OTHER_DOMAIN: Final = "it does not run over the elements of the product, each once"
SECOND_RESULT: Final = "the value is used elsewhere, too, and a product has one result"
TAKEN: Final = "all that use it read through it"
ROWS: Final = "they do not share rows that fit in a cache"
REPEATED: Final = "elements would be computed again for each use"
USED_ELSEWHERE: Final = "the value is used elsewhere, too, and is not read in the same order"
CYCLE: Final = "something in between needs the one and is needed by the other"
BUFFERS: Final = f"the kernel would have more than {MOST_BUFFERS} operands and results"


@dataclass(slots=True, eq=False)
class Part:
    """A group under way. copies: members that others have, too, and that compute nothing."""

    nodes: list[Node]
    kind: Kind
    copies: set[Node] = field(default_factory=set)

    @property
    def positions(self) -> set[int]:
        """The places of its own members."""
        return {n.position for n in self.nodes if n not in self.copies}

    @property
    def everything(self) -> set[int]:
        """The places of all its members."""
        return {n.position for n in self.nodes}

    def made(self) -> set[Buffer]:
        """The values that its members compute."""
        return {r for n in self.nodes for r in n.apply.results}

    def read(self) -> set[Buffer]:
        """The values that it reads from outside."""
        return {o for n in self.nodes for o in n.access} - self.made()


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules over the operators of one body.

    nodes: by position. parts: of each position the group that it is in by now. constants: the
        values that are known.
    """

    dependences: Dependences
    nodes: Mapping[int, Node]
    parts: Mapping[int, Part]
    constants: frozenset[Buffer] = frozenset()

    def escaping(self, part: Part) -> list[Buffer]:
        """The values of a group that are used outside of it, in order."""
        own = part.positions
        return [
            r
            for n in part.nodes
            if n not in part.copies
            for r in n.apply.results
            if not self.dependences.users(r) <= own
        ]

    def takes(self, node: Node, mover: Node, value: Buffer) -> bool:
        """Whether a node computes as well from what `mover` moves as from its result."""
        if node.is_injective:
            return not node.moves
        if node.kind is Kind.CONTRACTION:
            plain = mover.cuts or max(mover.access.values()) <= Access.REPEATED
            return plain and node.contractions == 1
        return node.access.get(value, Access.SAME) <= Access.MOVED

    def refusal(self, producer: Part, consumer: Part, node: Node, shared: Sequence[Buffer]) -> str:
        """Why the groups are not joined at `node`, which reads the values `shared`."""
        if Kind.OPAQUE in (producer.kind, consumer.kind):
            return OPAQUE
        if any(is_plain_view(n) for n in (node, *producer.nodes)):
            return FREE
        if any(n.is_guarded and n.is_injective for n in (node, *producer.nodes)):
            return GUARDED
        if producer.kind is Kind.CONTRACTION:
            return self._follows(consumer, node, shared)
        if consumer.kind is Kind.CONTRACTION and node.kind is Kind.CONTRACTION:
            return JOINED if self._is_of_constants(producer, node, shared) else OPERAND
        if consumer.kind is Kind.CONTRACTION and producer.kind is Kind.REDUCTION:
            return ROWS
        if producer.kind is Kind.REDUCTION or node.kind is Kind.REDUCTION:
            return self._shares_rows(producer, consumer, node, shared)
        return self._is_chain(producer, consumer, node, shared)

    def chained(self, node: Node) -> list[Part]:
        """The groups of two products, the second of which is `node`, and of what is done between
        them row by row, if nothing else needs what they hand on; the first comes first."""
        last = self.parts[node.position]
        if node.kind is not Kind.CONTRACTION or node.contractions != 1 or self._has_weight(last):
            return []
        for value, rows in node.operand_rows.items():
            if rows < value.rank - 1 or rows < 1:
                continue
            found = self._chain(value, last)
            if found:
                return found
        return []

    def _chain(self, value: Buffer, last: Part) -> list[Part]:
        groups = [last]
        reduces = any(n.rows < min(r.rank for r in n.apply.results) for n in last.nodes)
        while True:
            at = self.dependences.maker(value)
            part = self.parts.get(-1 if at is None else at)
            if part is None or part in groups or not self._hands_on(part, value, groups[0]):
                return []
            groups.insert(0, part)
            if part.kind is Kind.CONTRACTION:
                single = sum(n.contractions for n in part.nodes) == 1
                return groups if single and reduces and not self._has_weight(part) else []
            if part.kind is not Kind.REDUCTION or self._keeps_rows(part, part):
                return []
            reduces = True
            rank = value.rank
            large = [v for v in part.read() if v.rank == rank and v not in self.constants]
            if len(large) != 1:
                return []
            (value,) = large

    def _has_weight(self, part: Part) -> bool:
        """Whether a product of the group has an operand that is made of constants alone: it is
        packed once, and products with few rows read it as fast as memory gives it."""
        fixed: set[Buffer] = set(self.constants)
        for n in sorted(part.nodes, key=lambda n: n.position):
            if n.kind is Kind.CONTRACTION and not fixed.isdisjoint(n.access):
                return True
            if fixed.issuperset(n.access):
                fixed.update(n.apply.results)
        return False

    def _hands_on(self, part: Part, value: Buffer, to: Part) -> bool:
        """Whether a group makes this value alone, for another group alone."""
        return self.escaping(part) == [value] and self.dependences.users(value) <= to.positions

    def _is_of_constants(self, producer: Part, node: Node, shared: Sequence[Buffer]) -> bool:
        """Whether an operand is computed of constants for one product alone, element by element: it
        is computed once and for all as it is packed."""
        if producer.kind > Kind.INJECTIVE or not self._is_used_by(node, shared):
            return False
        read = producer.read()
        if not self.constants.issuperset(read):
            return False
        size, before = (sum(map(_bytes, values)) for values in (shared, read))
        return size <= max(before, MOST_GROWN)

    def _follows(self, consumer: Part, node: Node, shared: Sequence[Buffer]) -> str:
        """Elementwise operators after a contraction, in its domain."""
        if consumer.kind is Kind.CONTRACTION:
            return CONTRACTIONS
        if consumer.kind is Kind.REDUCTION or max(node.access[v] for v in shared) > Access.MOVED:
            return OTHER_DOMAIN
        return TAKEN if self._is_taken(node) else JOINED

    def _is_taken(self, node: Node) -> bool:
        """Whether a node only moves elements, and all its users may take copies of it."""
        if not node.moves or node.is_view:
            return False
        for result in node.apply.results:
            users = self.dependences.users(result)
            if not users <= self.nodes.keys():
                return False
            for user in (self.nodes[at] for at in users):
                is_closed = user.is_guarded or user.kind is Kind.OPAQUE or user.is_view
                if is_closed or not self.takes(user, node, result):
                    return False
        return True

    def _is_used_by(self, node: Node, shared: Sequence[Buffer]) -> bool:
        """Whether nothing but `node` uses the values."""
        return all(self.dependences.users(v) <= {node.position} for v in shared)

    def _shares_rows(
        self, producer: Part, consumer: Part, node: Node, shared: Sequence[Buffer]
    ) -> str:
        """Reductions, and what is computed from the same rows before and after."""
        access = max(node.access[v] for v in shared)
        if producer.kind <= Kind.INJECTIVE and node.kind is Kind.REDUCTION:
            once = access <= Access.MOVED or all(n.work <= 1.0 for n in producer.nodes)
            if once and self._is_used_by(node, shared):
                return JOINED
        if producer.kind is Kind.REDUCTION and node.is_injective and access is Access.SAME:
            return JOINED
        return self._keeps_rows(producer, consumer)

    def _keeps_rows(self, producer: Part, consumer: Part) -> str:
        """All of both can be computed row by row, over rows that stay in cache."""
        nodes = [*producer.nodes, *consumer.nodes]
        made = producer.made() | consumer.made()
        rows = min(n.rows for n in nodes)
        for n in nodes:
            rows = min(rows, *(r for v, r in n.operand_rows.items() if v in made), rows)
        return JOINED if rows >= 1 and row_size(nodes, rows) <= MOST_ROW else ROWS

    def _is_chain(
        self, producer: Part, consumer: Part, node: Node, shared: Sequence[Buffer]
    ) -> str:
        """Elementwise and injective operators one after the other."""
        if self._is_taken(node):
            return TAKEN
        access = max(node.access[v] for v in shared)
        if not self._is_used_by(node, shared):
            if consumer.kind is Kind.CONTRACTION:
                return SECOND_RESULT
            if consumer.kind is Kind.REDUCTION:
                return self._keeps_rows(producer, consumer)
            same = access is Access.SAME and len(self.escaping(producer)) <= MOST_RESULTS
            return JOINED if same else USED_ELSEWHERE
        if access <= Access.MOVED:
            return JOINED
        cheap = sum(n.work for n in producer.nodes) <= REPEATED_WORK
        return JOINED if cheap and consumer.kind is not Kind.CONTRACTION else REPEATED


def _bytes(value: Buffer) -> float:
    """Bytes of a tensor; extents that are not known count as usual ones."""
    return value.dtype.bytes * _elements(value.shape)


def _elements(shape: Sequence[Expr]) -> float:
    size = 1.0
    for extent in shape:
        size *= float(extent.value) if isinstance(extent, Const) else USUAL
    return size


def is_plain_view(node: Node) -> bool:
    """Whether a node costs nothing by itself: it is a view that splits or merges axes."""
    return node.is_view and max(node.access.values(), default=Access.SAME) > Access.MOVED


def row_size(nodes: Sequence[Node], rows: int) -> float:
    """Elements of the largest row, of as many leading axes, that the nodes read or make."""
    largest = 0.0
    for node in nodes:
        values = (*node.apply.results, *(v for v, r in node.operand_rows.items() if r >= rows))
        for value in values:
            largest = max(largest, _elements(value.shape[rows:]))
    return largest
