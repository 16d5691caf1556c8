"""The host program: a graph function of calls as one tensor program.

Its parameters are those of the graph function, then the results whose shapes follow from them, then
``weights`` (the constants, see `tensorsmith.graph.weights`) if there are any, then ``token`` if
there are results of other shapes, which are handed over by ``ts_return``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tensorsmith.arith import Analyzer
from tensorsmith.errors import IRError
from tensorsmith.graph import control
from tensorsmith.graph.inplace import pairs_of
from tensorsmith.graph.kernel import CUTS, JOINS
from tensorsmith.graph.lifetimes import Lifetimes, padded, tensor
from tensorsmith.graph.memory import ALIGN, MemoryPlan, Need, bytes_of, plan_memory
from tensorsmith.graph.weights import Arena, Weights
from tensorsmith.ir import (
    Alloc,
    Assert,
    Bind,
    Buffer,
    Expr,
    Invoke,
    Load,
    Param,
    Stmt,
    TensorProgram,
    Var,
    View,
    const,
    equal,
    free_vars,
    seq,
)
from tensorsmith.ir.dtype import int64
from tensorsmith.ir.graph import (
    Alias,
    Binding,
    Branch,
    CallProgram,
    Check,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    bodies,
)

WEIGHTS: Final = "weights"
"""The parameter that holds the constants."""
NO_PROGRAMS: Final[Mapping[str, TensorProgram]] = MappingProxyType({})
RETURN: Final = "ts_return"
"""The runtime's function that takes a result: token, number, region, extents."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host program and what belongs to it.

    results: what it gives, in order. returned: the numbers of those that are handed over by
        `RETURN`.
    """

    program: TensorProgram
    weights: Weights
    plan: MemoryPlan
    results: tuple[Buffer, ...]
    returned: tuple[int, ...]

    @property
    def has_weights(self) -> bool:
        """Whether the constants are a parameter."""
        return any(p.name == WEIGHTS for p in self.program.params)


def make_host(
    graph: GraphFunction,
    programs: Mapping[str, TensorProgram] = NO_PROGRAMS,
    arena: Arena | None = None,
) -> Host:
    """The host program of a function after `legalize`.

    programs: those that it calls, by name. What only joins its operands is not called if these can
        lie in the result from the start, nor what only gives a run of an operand's elements, which
        lies in the operand; what may overwrite an operand does so if nothing else
        needs that.
    arena: where some of the constants lie already.
    Before: no `Apply` is left, and each result has memory of its own. Raises IRError for values
    that are no tensors, which have no place in a tensor program.
    """
    builder = HostBuilder(graph, Weights(arena))
    builder.lifetimes.joins = {
        name: tuple(n for n in places if isinstance(n, int))
        for name, p in programs.items()
        if isinstance(places := p.attrs.get(JOINS), tuple)
    }
    builder.lifetimes.cuts = {
        name: (place, start)
        for name, p in programs.items()
        if isinstance(cut := p.attrs.get(CUTS), tuple)
        for place, start in [cut]
        if isinstance(place, int) and isinstance(start, int)
    }
    builder.lifetimes.inplace = {
        name: pairs for name, p in programs.items() if (pairs := pairs_of(p))
    }
    return builder.make()


@dataclass(slots=True)
class HostBuilder:
    """One host program on its way.

    cells: the cells of the sequence under way, which are dropped at its end.
    """

    graph: GraphFunction
    weights: Weights = field(default_factory=Weights)
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    arenas: dict[int, Buffer] = field(default_factory=dict)
    memory: Buffer | None = None
    """The parameter that holds the constants."""
    facts: Analyzer = field(default_factory=Analyzer)
    cells: list[Buffer] = field(default_factory=list)
    held: dict[Buffer, Buffer] = field(default_factory=dict)
    """The cell of each value that lies in held memory, by the one that stands for all."""
    _sources: dict[Buffer, tuple[Buffer, Expr]] = field(default_factory=dict)
    """Where memory that values share lies, by the one that stands for them."""
    _scope: set[Var] = field(default_factory=set)

    def make(self) -> Host:
        """The program."""
        graph = self.graph
        params = [tensor(p) for p in graph.params]
        results = [tensor(r) for r in graph.results]
        known = {e for p in params for e in p.shape if isinstance(e, Var)}
        self._scope.update(known)
        self.lifetimes.function(graph)
        told = [set(free_vars(*r.shape)) <= known for r in results]
        self._place_constants(graph.body)
        outputs = _named_apart(
            [r for r, is_told in zip(results, told, strict=True) if is_told],
            [*(p.name for p in params), WEIGHTS, "token"],
        )
        for value, own in (*((p, p) for p in params), *outputs.items()):
            self._sources[self.lifetimes.root(value)] = (own, const(0))
        plan = self._plan()
        token = Var("token", int64)
        returned = tuple(n for n, is_told in enumerate(told) if not is_told)

        def hand_over() -> list[Stmt]:
            return [self._handed_over(token, n, results[n]) for n in returned]

        body = self.sequence(graph.body, hand_over, before=self.arena(0))
        extra: list[Param] = []
        if self.memory is not None:
            extra.append(self.memory)
        if returned:
            extra.append(token)
        everything = (*params, *outputs.values(), *extra)
        attrs = MappingProxyType({"host": True})
        program = TensorProgram(graph.name, everything, body, attrs, span=graph.span)
        return Host(program, self.weights, plan, tuple(results), returned)

    # --- Memory ------------------------------------------------------------------------------

    def _place_constants(self, bindings: Sequence[Binding]) -> None:
        """Give the constants that have memory their places in the weights."""
        places: dict[Buffer, int] = {}
        for binding in all_bindings(bindings):
            if isinstance(binding, Constant) and binding.result in self.lifetimes.lives:
                places[binding.result] = self.weights.add(binding.data)
        if places:
            self.memory = Buffer(WEIGHTS, (max(self.weights.size, 1),), "uint8", align=ALIGN)
            for value, place in places.items():
                self._sources[self.lifetimes.root(value)] = (self.memory, const(place))

    def _plan(self) -> MemoryPlan:
        """Give all other values their places in arenas."""
        lives = self.lifetimes.lives
        roots = [root for root in lives if root not in self._sources]
        needs = []
        for root in roots:
            life = lives[root]
            size = bytes_of(root.shape, root.dtype.bytes)
            if life.copies > 1:
                size = padded(root) * life.copies
            needs.append(Need(size, life.start, life.end, life.arena))
        plan = plan_memory(needs, self.lifetimes.arenas)
        for number, size in plan.sizes.items():
            self.arenas[number] = Buffer(f"arena{number}", (size,), "uint8", align=ALIGN)
        for root, place in zip(roots, plan.places, strict=True):
            self._sources[root] = self.arenas[place.arena], place.offset
        return plan

    def arena(self, number: int | None) -> list[Stmt]:
        """The allocation of an arena, if it holds anything."""
        found = None if number is None else self.arenas.get(number)
        return [] if found is None else [Alloc(found)]

    def define(self, value: Buffer) -> list[Stmt]:
        """Give a value its memory."""
        root = self.lifetimes.root(value)
        offset: Expr = const(0)
        while root in self.lifetimes.slots:
            slot = self.lifetimes.slots[root]
            offset = offset + slot.index * slot.bytes
            root = self.lifetimes.root(slot.whole)
        if root in self.held:
            return [View(value, Load(self.held[root], (const(0),)), offset)]
        source, start = self._sources[root]
        return [] if source is value else [View(value, source, self.facts.simplify(start + offset))]

    # --- Bindings ----------------------------------------------------------------------------

    def sequence(
        self,
        given: Sequence[Binding],
        finish: Callable[[], Sequence[Stmt]] = tuple,
        *,
        before: Sequence[Stmt] = (),
    ) -> Stmt:
        """The bindings of a function or body, what `finish` gives, and the end of what is held."""
        outer, self.cells = self.cells, []
        scope = set(self._scope)
        stmts: list[Stmt] = list(before)
        for binding in given:
            stmts.extend(self.binding(binding))
            stmts.extend(self.arena(self.lifetimes.opened.get(binding)))
        stmts.extend(finish())
        stmts.extend(Invoke("ts_drop", (cell.region(),)) for cell in self.cells)
        self.cells, self._scope = outer, scope
        return seq(*stmts)

    def binding(self, b: Binding) -> list[Stmt]:
        """The statements of a binding."""
        match b:
            case Constant():
                return self.define(b.result) if b.result in self.lifetimes.lives else []
            case CallProgram():
                call = [] if b in self.lifetimes.joined else [self._call(b)]
                return [s for r in b.results for s in self.define(r)] + call
            case Alias():
                return self.define(b.result)
            case MatchShape():
                return [*self._matched(b), *self.define(b.result)]
            case Dims():
                pairs = zip(b.variables, b.values, strict=True)
                return [s for v, value in pairs for s in self.bound(v, value, b.sources)]
            case Check():
                return [Assert(b.condition, f"{_place(b)}{b.message}", span=b.span)]
            case Branch():
                return control.branch(self, b)
            case Loop():
                return control.loop(self, b)
        raise IRError(
            f"a {type(b).__name__} has no place in a host program", where=", ".join(b.sources)
        )

    def _call(self, b: CallProgram) -> Stmt:
        """The call of a kernel."""
        operands = [o.region() if isinstance(o, Buffer) else o for o in b.operands]
        return Invoke(b.callee, (*operands, *(r.region() for r in b.results)), span=b.span)

    def is_bound(self, variable: Var) -> bool:
        """Whether a variable has a value here."""
        return variable in self._scope

    def bound(self, variable: Var, value: Expr, sources: Sequence[str] = ()) -> list[Stmt]:
        """A variable from here on, after a check of what its facts say."""
        raw = Var(f"{variable.name}_value", variable.dtype)
        stmts: list[Stmt] = [Bind(raw, value)]
        where = f"{', '.join(sources)}: " if sources else ""
        for condition, what in facts_of(variable, raw):
            if self.facts.prove(condition) is not True:
                stmts.append(Assert(condition, f"{where}{variable.name} must be {what}"))
        self._scope.add(variable)
        return [*stmts, Bind(variable, raw)]

    def _matched(self, b: MatchShape) -> list[Stmt]:
        """The checks and variables of a shape's other view."""
        stmts: list[Stmt] = []
        where = _place(b)
        pairs = zip(b.operand.shape, b.result.shape, strict=True)
        for axis, (given, wanted) in enumerate(pairs):
            if isinstance(wanted, Var) and not self.is_bound(wanted):
                stmts.extend(self.bound(wanted, given, b.sources))
            elif not self.facts.equal(given, wanted):
                message = f"{where}axis {axis} of {b.operand.name} must have extent {wanted!r}"
                stmts.append(Assert(equal(given, wanted), message, span=b.span))
        return stmts

    def _handed_over(self, token: Var, number: int, result: Buffer) -> Stmt:
        """The call that gives a result to the runtime."""
        return Invoke(RETURN, (token, const(number), result.region(), *result.shape))


def _place(b: Binding) -> str:
    """What messages begin with: the nodes that a binding comes from."""
    return f"{', '.join(b.sources)}: " if b.sources else ""


def facts_of(variable: Var, value: Expr) -> list[tuple[Expr, str]]:
    """What the facts on a variable say of its value, with words for it."""
    facts: list[tuple[Expr, str]] = []
    if variable.low is not None:
        facts.append((value >= variable.low, f"at least {variable.low}"))
    if variable.high is not None:
        facts.append((value <= variable.high, f"at most {variable.high}"))
    if variable.multiple_of != 1:
        condition = equal(value % variable.multiple_of, 0)
        facts.append((condition, f"a multiple of {variable.multiple_of}"))
    return facts


def _named_apart(results: Sequence[Buffer], names: Sequence[str]) -> dict[Buffer, Buffer]:
    """A parameter for each result: itself, or one of its type where its name is taken."""
    taken = set(names)
    made: dict[Buffer, Buffer] = {}
    for result in results:
        name, number = result.name, 0
        while name in taken:
            number += 1
            name = f"{result.name}_{number}"
        taken.add(name)
        made[result] = result if name == result.name else result.replace(name=name)
    return made


def all_bindings(bindings: Sequence[Binding]) -> list[Binding]:
    """The bindings, and those in bodies inside of them."""
    found: list[Binding] = []
    for binding in bindings:
        found.append(binding)
        for body in bodies(binding):
            found.extend(all_bindings(body.bindings))
    return found
