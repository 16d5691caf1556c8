"""Which operators are computed together.

Operators are taken in order, and each joins the groups of what it reads where a rule allows it. The
rules ask for what the computations tell (`tensorsmith.graph.analysis`), never for names. A group is
built around at most one contraction, or around reductions over the rows of one domain, or it is
elementwise. Nothing joins what is opaque.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tensorsmith.arith import Analyzer
from tensorsmith.graph.analysis import Node, analyse
from tensorsmith.graph.dependences import Dependences, values_read
from tensorsmith.graph.kernel import Array, Operators
from tensorsmith.ir import Buffer, Const
from tensorsmith.ir.graph import Alias, Apply, Binding, Value
from tensorsmith.te.kind import Access, Kind

MOST_BUFFERS: Final = 24
"""Operands and results of a kernel."""
MOST_RESULTS: Final = 6
"""Results of a kernel that is elementwise."""
MOST_ROW: Final = 1 << 16
"""Elements of a row that several reductions of one kernel run over: they stay in cache."""
REPEATED_WORK: Final = 4.0
"""Work of an element that may be computed for each of its uses."""
USUAL: Final = 128
"""What an extent that is not known is taken to be."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Operators that become one kernel, in order; `results` are those used outside of it."""

    members: tuple[Apply, ...]
    results: tuple[Buffer, ...]


Step: TypeAlias = "Binding | Group"


def group_bindings(
    bindings: Sequence[Binding],
    results: Sequence[Value],
    operators: Operators,
    constants: Mapping[Buffer, Array],
) -> list[Step]:
    """The bindings in an order in which they can be carried out, operators in groups.

    What nothing uses is left out. Operators that keep the order of elements become aliases where
    they stand alone.
    """
    return _Grouping(bindings, results, operators, constants).steps()


@dataclass(slots=True, eq=False)
class _Part:
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


class _Grouping:
    def __init__(
        self,
        bindings: Sequence[Binding],
        results: Sequence[Value],
        operators: Operators,
        constants: Mapping[Buffer, Array],
    ) -> None:
        self.bindings = bindings
        self.results = results
        self.dependences = Dependences(bindings, results)
        self.facts = Analyzer()
        self.parts: dict[int, _Part] = {}
        """Of each operator's position the group that it is a member of."""
        self.nodes: dict[int, Node] = {}
        known = dict(constants)
        for at, b in enumerate(bindings):
            if isinstance(b, Apply) and self.dependences.is_live(at):
                self.nodes[at] = analyse(b, at, operators, known)

    def steps(self) -> list[Step]:
        """The whole: groups formed, put in order, and those that compute nothing made aliases."""
        for at, node in self.nodes.items():
            self.parts[at] = _Part([node], node.kind)
            self.absorb(node)
            for producer in self.producers(node):
                self.join(producer, node)
        self.divide()
        return self.ordered()

    # --- Joining -----------------------------------------------------------------------------

    def producers(self, node: Node) -> list[_Part]:
        """The groups that make what a node reads, contractions first, then the nearest."""
        made = (self.dependences.maker(v) for v in node.access)
        found = dict.fromkeys(self.parts[at] for at in made if at in self.parts)
        found.pop(self.parts[node.position], None)
        return sorted(found, key=lambda p: (-p.kind, -max(n.position for n in p.nodes)))

    def absorb(self, node: Node) -> None:
        """Give a node copies of what only moves elements of its operands."""
        if node.is_guarded or node.kind is Kind.OPAQUE:
            return
        part = self.parts[node.position]
        values = list(node.access)
        while values:
            value = values.pop()
            at = self.dependences.maker(value)
            mover = self.nodes.get(-1 if at is None else at)
            if mover is None or not self.moves_freely(mover) or mover in part.copies:
                continue
            if not self.takes(node, mover, value):
                continue
            if self.dependences.between({mover.position}, part.everything, self.members_of):
                continue
            part.nodes.insert(0, mover)
            part.copies.add(mover)
            values.extend(mover.access)

    def moves_freely(self, node: Node) -> bool:
        """Whether a node only moves elements, and stands alone."""
        alone = len(self.parts[node.position].nodes) == 1
        return node.moves and not node.is_view and not node.is_guarded and alone

    def takes(self, node: Node, mover: Node, value: Buffer) -> bool:
        """Whether a node computes as well from what `mover` moves as from its result."""
        if node.is_injective:
            return not node.moves
        if node.kind is Kind.CONTRACTION:
            plain = max(mover.access.values()) <= Access.REPEATED
            return plain and node.contractions == 1
        return node.access.get(value, Access.SAME) <= Access.MOVED

    def join(self, producer: _Part, node: Node) -> None:
        """Let the group of a node join that of something that it reads, where that pays."""
        consumer = self.parts[node.position]
        if consumer is producer:
            return
        shared = [v for v in node.access if v in producer.made()]
        if not shared or not self.fits(producer, consumer, node, shared):
            return
        copied = {n.position for n in producer.copies}
        last = consumer.everything | copied
        if self.dependences.between(producer.positions, last, self.members_of):
            return
        nodes = [*producer.nodes, *(n for n in consumer.nodes if n not in producer.nodes)]
        merged = _Part(nodes, max(producer.kind, consumer.kind))
        merged.copies = producer.copies | consumer.copies
        if len(merged.read()) + len(self.escaping(merged)) > MOST_BUFFERS:
            return
        for at in merged.positions:
            self.parts[at] = merged

    def members_of(self, position: int) -> set[int]:
        """The positions that are computed together with one."""
        part = self.parts.get(position)
        return {position} if part is None else part.positions

    def escaping(self, part: _Part) -> list[Buffer]:
        """The values of a group that are used outside of it, in order."""
        own = part.positions
        return [
            r
            for n in part.nodes
            if n not in part.copies
            for r in n.apply.results
            if not self.dependences.users(r) <= own
        ]

    # --- Rules -------------------------------------------------------------------------------

    def fits(self, producer: _Part, consumer: _Part, node: Node, shared: Sequence[Buffer]) -> bool:
        """Whether a rule lets the groups join at `node`, which reads the values `shared`."""
        if Kind.OPAQUE in (producer.kind, consumer.kind):
            return False
        if any(self.is_plain_view(n) for n in (node, *producer.nodes)):
            return False
        if any(n.is_guarded and n.is_injective for n in (node, *producer.nodes)):
            return False
        if producer.kind is Kind.CONTRACTION:
            return self.follows(consumer, node, shared)
        if consumer.kind is Kind.CONTRACTION and node.kind is Kind.CONTRACTION:
            return False
        if consumer.kind is Kind.CONTRACTION and producer.kind is Kind.REDUCTION:
            return False
        if producer.kind is Kind.REDUCTION or node.kind is Kind.REDUCTION:
            return self.shares_rows(producer, consumer, node, shared)
        return self.is_chain(producer, node, shared)

    def is_plain_view(self, node: Node) -> bool:
        """Whether a node costs nothing by itself: it is a view that splits or merges axes."""
        return node.is_view and max(node.access.values(), default=Access.SAME) > Access.MOVED

    def follows(self, consumer: _Part, node: Node, shared: Sequence[Buffer]) -> bool:
        """Elementwise operators after a contraction, in its domain."""
        if consumer.kind >= Kind.REDUCTION or max(node.access[v] for v in shared) > Access.MOVED:
            return False
        return not (node.moves and not node.is_view and self.is_absorbed(node))

    def is_absorbed(self, node: Node) -> bool:
        """Whether all users of what a node moves may take copies of it."""
        for result in node.apply.results:
            users = self.dependences.users(result)
            if not users <= self.nodes.keys():
                return False
            for at in users:
                user = self.nodes[at]
                if user.is_guarded or user.kind is Kind.OPAQUE or user.is_view:
                    return False
                if not self.takes(user, node, result):
                    return False
        return True

    def shares_rows(
        self, producer: _Part, consumer: _Part, node: Node, shared: Sequence[Buffer]
    ) -> bool:
        """Reductions, and what is computed from the same rows before and after."""
        access = max(node.access[v] for v in shared)
        only_here = all(self.dependences.users(v) <= {node.position} for v in shared)
        if producer.kind <= Kind.INJECTIVE and node.kind is Kind.REDUCTION:
            once = access <= Access.MOVED or all(n.work <= 1.0 for n in producer.nodes)
            if only_here and once:
                return True
        if producer.kind is Kind.REDUCTION and node.is_injective and access is Access.SAME:
            return True
        return self.keeps_rows(producer, consumer)

    def keeps_rows(self, producer: _Part, consumer: _Part) -> bool:
        """Whether all of both can be computed row by row, over rows that stay in cache."""
        nodes = [*producer.nodes, *consumer.nodes]
        made = producer.made() | consumer.made()
        rows = min(n.rows for n in nodes)
        for n in nodes:
            rows = min(rows, *(r for v, r in n.operand_rows.items() if v in made), rows)
        return rows >= 1 and self.row_size(nodes, rows) <= MOST_ROW

    def row_size(self, nodes: Sequence[Node], rows: int) -> float:
        """Elements of the largest row, of as many leading axes, that the nodes read or make."""
        largest = 0.0
        for node in nodes:
            values = (*node.apply.results, *(v for v, r in node.operand_rows.items() if r >= rows))
            for value in values:
                size = 1.0
                for extent in value.shape[rows:]:
                    size *= float(extent.value) if isinstance(extent, Const) else USUAL
                largest = max(largest, size)
        return largest

    def is_chain(self, producer: _Part, node: Node, shared: Sequence[Buffer]) -> bool:
        """Elementwise and injective operators one after the other."""
        access = max(node.access[v] for v in shared)
        if node.moves and not node.is_view and self.is_absorbed(node):
            return False
        only_here = all(self.dependences.users(v) <= {node.position} for v in shared)
        consumer = self.parts[node.position]
        if consumer.kind is Kind.CONTRACTION:
            return only_here and access <= Access.MOVED
        if consumer.kind is Kind.REDUCTION and not only_here:
            return self.keeps_rows(producer, consumer)
        if only_here:
            if access <= Access.MOVED:
                return True
            return sum(n.work for n in producer.nodes) <= REPEATED_WORK
        return access is Access.SAME and len(self.escaping(producer)) <= MOST_RESULTS

    # --- Dividing ----------------------------------------------------------------------------

    def divide(self) -> None:
        """Cut groups of contractions where more than their last value is used outside: only one
        result of a contraction is computed with what follows it."""
        for part in dict.fromkeys(self.parts.values()):
            if part.kind is not Kind.CONTRACTION or len(self.escaping(part)) <= 1:
                continue
            nodes = sorted(part.nodes, key=lambda n: n.position)
            first = next(n for n, x in enumerate(nodes) if x.kind is Kind.CONTRACTION)
            for end in range(len(nodes) - 1, first, -1):
                kept = _Part(nodes[:end], part.kind)
                kept.copies = part.copies.intersection(kept.nodes)
                for n in kept.nodes:
                    self.parts[n.position] = kept
                if len(self.escaping(kept)) <= 1:
                    break
            self.rest(part, [n for n in nodes if n not in kept.nodes])

    def rest(self, part: _Part, nodes: Sequence[Node]) -> None:
        """Groups of the nodes that were cut off, joined again where they are connected."""
        for node in nodes:
            made = _Part([node], node.kind)
            if node in part.copies:
                continue
            movers = [n for n in part.copies if any(r in node.access for r in n.apply.results)]
            made.nodes = [*movers, node]
            made.copies = set(movers)
            self.parts[node.position] = made
            for producer in self.producers(node):
                if producer.kind is not Kind.CONTRACTION:
                    self.join(producer, node)

    # --- The order ---------------------------------------------------------------------------

    def ordered(self) -> list[Step]:
        """All steps, each after those that it depends on."""
        needed = self.needed()
        steps: list[Step] = []
        for positions in self.dependences.order(self.members_of, needed):
            part = self.parts.get(positions[0])
            if part is None:
                steps.append(self.bindings[positions[0]])
            else:
                steps.extend(self.finished(part))
        return steps

    def needed(self) -> set[int]:
        """The operators that are still computed: copies may have taken all users of some."""
        needed: set[int] = set()
        read: set[Value] = set(self.results)
        for at in range(len(self.bindings) - 1, -1, -1):
            if at not in self.nodes:
                if self.dependences.is_live(at):
                    read.update(values_read(self.bindings[at]))
                continue
            part = self.parts[at]
            results = self.nodes[at].apply.results
            if part.positions != {at} or not read.isdisjoint(results):
                needed.add(at)
                read.update(part.read())
        return needed

    def finished(self, part: _Part) -> Iterator[Step]:
        """The group; views at its end and alone become aliases."""
        nodes = sorted(part.nodes, key=lambda n: n.position)
        results = self.escaping(part)
        aliases: list[Alias] = []
        while nodes and nodes[-1].is_view and results == list(nodes[-1].apply.results):
            view = nodes[-1]
            (operand,) = view.access
            if len(nodes) > 1 and self.dependences.users(operand) != {view.position}:
                break
            nodes.pop()
            aliases.insert(0, Alias(view.apply.results[0], operand, sources=view.apply.sources))
            results = [operand]
        if nodes:
            yield Group(tuple(n.apply for n in nodes), tuple(results))
        yield from aliases
