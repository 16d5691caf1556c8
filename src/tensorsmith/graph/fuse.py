"""Which operators are computed together.

Operators are taken in order, and each joins the groups of what it reads where a rule allows it. The
rules ask for what the computations tell (`tensorsmith.graph.analysis`), never for names. A group is
built around at most one contraction, or around reductions over the rows of one domain, or it is
elementwise. Nothing joins what is opaque.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensorsmith.graph.analysis import Node, analyse
from tensorsmith.graph.dependences import Dependences, values_read
from tensorsmith.graph.fusion_rules import (
    BUFFERS,
    CYCLE,
    MOST_BUFFERS,
    SECOND_RESULT,
    Part,
    Rules,
)
from tensorsmith.graph.kernel import Array, Operators
from tensorsmith.ir import Buffer
from tensorsmith.ir.graph import Alias, Apply, Binding, Value
from tensorsmith.te.kind import Kind


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
    return Grouping(bindings, results, operators, constants).steps()


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the operator that makes `value` and `user`, which reads it, are computed together.

    reason: why not; '' if they are.
    """

    value: Buffer
    user: Apply
    reason: str


class Grouping:
    """Groups of the operators of one body under way.

    decisions: what was decided for values that one operator makes and another reads, in order;
        the last word on a value counts.
    """

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
        self.decisions: list[Decision] = []
        self.parts: dict[int, Part] = {}
        """Of each operator's position the group that it is a member of."""
        self.nodes: dict[int, Node] = {}
        self.rules = Rules(self.dependences, self.nodes, self.parts, frozenset(constants))
        known = dict(constants)
        for at, b in enumerate(bindings):
            if isinstance(b, Apply) and self.dependences.is_live(at):
                self.nodes[at] = analyse(b, at, operators, known)

    def steps(self) -> list[Step]:
        """The whole: groups formed, put in order, and those that compute nothing made aliases."""
        for at, node in self.nodes.items():
            self.parts[at] = Part([node], node.kind)
            self.absorb(node)
            for producer in self.producers(node):
                self.join(producer, node)
        for node in self.nodes.values():
            self.chain(node)
        self.divide()
        return self.ordered()

    # --- Joining -----------------------------------------------------------------------------

    def producers(self, node: Node) -> list[Part]:
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
            if not self.rules.takes(node, mover, value):
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

    def join(self, producer: Part, node: Node) -> None:
        """Let the group of a node join that of something that it reads, where that pays."""
        consumer = self.parts[node.position]
        shared = [v for v in node.access if v in producer.made()]
        if consumer is producer or not shared:
            return
        reason = self.rules.refusal(producer, consumer, node, shared)
        merged = Part(
            [*producer.nodes, *(n for n in consumer.nodes if n not in producer.nodes)],
            max(producer.kind, consumer.kind),
            producer.copies | consumer.copies,
        )
        last = consumer.everything | {n.position for n in producer.copies}
        if not reason and self.dependences.between(producer.positions, last, self.members_of):
            reason = CYCLE
        buffers = len(merged.read()) + len(self.rules.escaping(merged))
        if not reason and buffers > MOST_BUFFERS:
            reason = BUFFERS
        self.decisions.extend(Decision(v, node.apply, reason) for v in shared)
        if not reason:
            for at in merged.positions:
                self.parts[at] = merged

    def chain(self, node: Node) -> None:
        """Let a product join the group of another one that gives the rows which it reads, and what
        is done with these in between."""
        groups = self.rules.chained(node)
        if len(groups) < 2:
            return
        nodes = dict.fromkeys(n for part in groups for n in part.nodes)
        copies = {n for part in groups for n in part.copies}
        merged = Part(sorted(nodes, key=lambda n: n.position), Kind.CONTRACTION, copies)
        own = merged.positions
        if self.dependences.between(own, merged.everything, self.members_of):
            return
        if len(merged.read()) + len(self.rules.escaping(merged)) > MOST_BUFFERS:
            return
        made = {r for n in groups[0].nodes for r in n.apply.results}
        self.decisions.extend(
            Decision(v, n.apply, "") for n in nodes for v in n.access if v in made
        )
        for at in own:
            self.parts[at] = merged

    def members_of(self, position: int) -> set[int]:
        """The positions that are computed together with one."""
        part = self.parts.get(position)
        return {position} if part is None else part.positions

    # --- Dividing ----------------------------------------------------------------------------

    def divide(self) -> None:
        """Cut groups of contractions where more than their last value is used outside: only one
        result of a contraction is computed with what follows it."""
        for part in dict.fromkeys(self.parts.values()):
            if part.kind is not Kind.CONTRACTION or len(self.rules.escaping(part)) <= 1:
                continue
            nodes = sorted(part.nodes, key=lambda n: n.position)
            first = next(n for n, x in enumerate(nodes) if x.kind is Kind.CONTRACTION)
            for end in range(len(nodes) - 1, first, -1):
                kept = Part(nodes[:end], part.kind)
                kept.copies = part.copies.intersection(kept.nodes)
                for at in kept.positions:
                    self.parts[at] = kept
                if len(self.rules.escaping(kept)) <= 1:
                    break
            cut = [n for n in nodes if n not in kept.nodes]
            made = kept.made()
            self.decisions.extend(
                Decision(v, n.apply, SECOND_RESULT) for n in cut for v in n.access if v in made
            )
            self.rest(part, cut)

    def rest(self, part: Part, nodes: Sequence[Node]) -> None:
        """Groups of the nodes that were cut off, joined again where they are connected."""
        for node in nodes:
            made = Part([node], node.kind)
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

    def finished(self, part: Part) -> Iterator[Step]:
        """The group; views at its end and alone become aliases."""
        nodes = sorted(part.nodes, key=lambda n: n.position)
        results = self.rules.escaping(part)
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
