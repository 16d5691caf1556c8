"""When the memory of each value is needed, and which values share memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorsmith.arith import Analyzer
from tensorsmith.errors import IRError
from tensorsmith.graph.memory import ALIGN, bytes_of
from tensorsmith.ir import Buffer, Expr, Var, const, free_vars
from tensorsmith.ir.graph import (
    Alias,
    Binding,
    Body,
    Branch,
    CallProgram,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
    bodies,
    captured,
)


@dataclass(slots=True)
class Lifetime:
    """From the first to the last binding that touches a value, both included.

    arena: the innermost scope of dimensions that its size needs.
    copies: pieces of memory of its size; 2 for a loop's state, which is read from one and written
        to the other.
    """

    start: int
    end: int
    arena: int
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Slot:
    """The memory of a value as a part of another's: piece `index`, each of `bytes`."""

    whole: Buffer
    index: Expr
    bytes: Expr


@dataclass(slots=True)
class Lifetimes:
    """The lifetimes of a function's values, one for all that share memory.

    arenas: of each scope of dimensions, the one around it. Scope 0 knows the dimensions of the
        parameters; each binding or body that introduces dimensions opens one.
    opened: the scope that a binding or body opens.
    slots: of values that lie inside of others.
    held: results and states of control flow whose sizes are known late: they lie in memory that
        cells hold (see `tensorsmith.graph.control`).
    turns: of each loop, what stands for the number of the iteration, and for how many there were.
    joins: of programs by name that only join their operands, the places of these in order.
    cuts: of programs by name that only give a run of an operand's elements, the place of the
        operand, and where the run begins along its first axis.
    joined: calls of such programs that need not be made, as one lies in the other.
    inplace: of programs by name that may overwrite operands, pairs of the numbers of such a
        parameter and of the result's.
    """

    lives: dict[Buffer, Lifetime] = field(default_factory=dict)
    arenas: dict[int, int] = field(default_factory=dict)
    opened: dict[Binding | Body, int] = field(default_factory=dict)
    slots: dict[Buffer, Slot] = field(default_factory=dict)
    held: set[Value] = field(default_factory=set)
    turns: dict[Loop, tuple[Var, Var]] = field(default_factory=dict)
    joins: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    cuts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    joined: set[CallProgram] = field(default_factory=set)
    inplace: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    constants: set[Buffer] = field(default_factory=set)
    _calls: list[tuple[int, CallProgram]] = field(default_factory=list)
    _roots: dict[Buffer, Buffer] = field(default_factory=dict)
    _known: dict[Var, int] = field(default_factory=dict)
    _arena: int = 0
    _time: int = 0

    def root(self, value: Buffer) -> Buffer:
        """The one of the values that share memory with `value` that stands for all."""
        path = []
        while value in self._roots:
            path.append(value)
            value = self._roots[value]
        self._roots.update(dict.fromkeys(path, value))
        return value

    def share(self, value: Buffer, other: Buffer) -> None:
        """Let two values have the same memory; `other` stands for both."""
        value, other = self.root(value), self.root(other)
        if value is other:
            return
        self._roots[value] = other
        life = self.lives.pop(value, None)
        if life is not None:
            self.touch(other, life.start)
            self.touch(other, life.end)

    def put(self, value: Buffer, slot: Slot) -> None:
        """Let a value, and what shares its memory, lie inside of another."""
        root = self.root(value)
        life = self.lives.pop(root, None)
        self.slots[root] = slot
        if life is not None:
            self.touch(slot.whole, life.start)
            self.touch(slot.whole, life.end)

    def hold(self, value: Buffer) -> None:
        """Let a value lie in memory that a cell holds."""
        root = self.root(value)
        self.lives.pop(root, None)
        self.held.add(root)

    def arena_of(self, shape: Iterable[Expr]) -> int:
        """The outermost scope that knows the dimensions of a shape."""
        return max((self._known.get(v, 0) for v in free_vars(*shape)), default=0)

    def is_known(self, shape: Iterable[Expr]) -> bool:
        """Whether the dimensions of a shape are known by now."""
        return all(v in self._known for v in free_vars(*shape))

    def touch(self, value: Value, time: int) -> None:
        """Have the memory of `value` be needed at `time`."""
        if not isinstance(value, Buffer):
            return
        root = self.root(value)
        while root in self.slots:
            root = self.root(self.slots[root].whole)
        if root in self.held:
            return
        life = self.lives.get(root)
        if life is None:
            self.lives[root] = Lifetime(time, time, self.arena_of(root.shape))
        else:
            life.start, life.end = min(life.start, time), max(life.end, time)

    # --- Walking -----------------------------------------------------------------------------

    def function(self, graph: GraphFunction) -> None:
        """Find the lifetimes of all values of a function."""
        shapes = [e for p in graph.params for e in p.shape]
        self._known.update(dict.fromkeys(free_vars(*shapes), 0))
        for param in graph.params:
            self.touch(param, 0)
        self.walk(graph.body, graph.results)
        self._time += 1
        for result in graph.results:
            self.touch(result, self._time)
        kept = {self.root(v) for v in (*graph.params, *graph.results) if isinstance(v, Buffer)}
        for time, call in self._calls:
            self.overwrite(time, call, kept)

    def overwrite(self, time: int, call: CallProgram, kept: Collection[Buffer]) -> None:
        """Let the result of a call take the memory of an operand that nothing needs any more.

        kept: what lies in memory of the caller, which is neither overwritten nor written early.
        """
        arguments = (*call.operands, *call.results)
        for given, made in self.inplace.get(call.callee, ()):
            operand, result = arguments[given], arguments[made]
            if not isinstance(operand, Buffer) or not isinstance(result, Buffer):
                continue
            old, new = self.root(operand), self.root(result)
            lives = [self.lives.get(x) for x in (old, new)]
            if old is new or old in kept or new in kept or old in self.constants:
                continue
            before, after = lives
            if before is None or after is None or before.copies + after.copies > 2:
                continue
            dies = before.end == time and before.start < time and after.start == time
            sizes = [bytes_of(x.shape, x.dtype.bytes) for x in (old, new)]
            if dies and before.arena == after.arena and Analyzer().equal(*sizes):
                self.share(result, operand)
                return

    def walk(self, bindings: Sequence[Binding], results: Sequence[Value]) -> None:
        """Take the bindings in order, those of bodies where they stand."""
        pinned = _with_memory_of(results, bindings)
        movable = {
            r for b in bindings if isinstance(b, CallProgram) for r in b.results if r not in pinned
        }
        for binding in bindings:
            self._time += 1
            made = () if isinstance(binding, Constant) else binding.outputs
            if isinstance(binding, Branch):
                self.branch(binding)
            elif isinstance(binding, Loop):
                self.loop(binding)
            else:
                for value in (*binding.inputs, *made):
                    self.touch(value, self._time)
            if isinstance(binding, (Alias, MatchShape)):
                self.share(binding.result, binding.operand)
            elif isinstance(binding, CallProgram) and binding.callee in self.joins:
                self.join(binding, movable)
            elif isinstance(binding, CallProgram) and binding.callee in self.cuts:
                self.cut(binding, movable)
            elif isinstance(binding, CallProgram) and binding.callee in self.inplace:
                self._calls.append((self._time, binding))
            elif isinstance(binding, Constant):
                self.constants.add(binding.result)
            self.introduce(binding, introduced(binding))

    def join(self, call: CallProgram, movable: Collection[Value]) -> None:
        """Let the operands of a call that joins them lie in its result, if all of them may."""
        operands = [call.operands[n] for n in self.joins[call.callee]]
        parts = [self.root(o) for o in operands if isinstance(o, Buffer)]
        (result,) = call.results
        arena = self.arena_of(result.shape)
        if len(set(parts)) < len(operands) or not all(
            p in movable and p in self.lives and self.lives[p].arena >= arena for p in parts
        ):
            return
        begin: Expr = const(0)
        for part in parts:
            self.put(part, Slot(result, begin, const(1)))
            begin = begin + bytes_of(part.shape, part.dtype.bytes)
        self.joined.add(call)

    def cut(self, call: CallProgram, movable: Collection[Value]) -> None:
        """Let the result of a call that gives a run of an operand's elements lie in the operand, if
        it needs no memory of its own."""
        place, start = self.cuts[call.callee]
        operand, (result,) = call.operands[place], call.results
        assert isinstance(operand, Buffer)
        part = self.root(result)
        if part not in movable or part not in self.lives or self.root(operand) is part:
            return
        row = bytes_of(operand.shape[1:], operand.dtype.bytes)
        self.put(part, Slot(operand, const(start), row))
        self.joined.add(call)

    def introduce(self, where: Binding | Body, variables: Iterable[Var]) -> None:
        """Open a scope if there are variables that are not known yet."""
        fresh = [v for v in variables if v not in self._known]
        if fresh:
            inner = len(self.arenas) + 1
            self.arenas[inner] = self._arena
            self.opened[where] = inner
            self._arena = inner
            self._known.update(dict.fromkeys(fresh, inner))

    def branch(self, branch: Branch) -> None:
        """Results of the bodies are the results of the branch, where sizes are known before."""
        self.touch(branch.condition, self._time)
        for result in branch.results:
            if isinstance(result, Buffer):
                if self.is_known(result.shape):
                    self.touch(result, self._time)
                else:
                    self.hold(result)
        for body in bodies(branch):
            self.inside(body, ())
            for inner, result in zip(body.results, branch.results, strict=True):
                self.touch(inner, self._time)
                are_tensors = isinstance(inner, Buffer) and isinstance(result, Buffer)
                if are_tensors and result not in self.held:
                    self.share(tensor(inner), tensor(result))

    def inside(self, body: Body, variables: Iterable[Var]) -> None:
        """Walk a body, which knows these variables besides."""
        outer = self._arena
        self.introduce(body, variables)
        self.walk(body.bindings, body.results)
        self._time += 1
        self._arena = outer

    def loop(self, loop: Loop) -> None:
        """States take turns in two pieces of memory; scans write their results in place. Where
        sizes are known late, they are held."""
        start, body, count = self._time, loop.body, len(loop.initial)
        turn, turns = self.turns[loop] = Var("turn", low=0), Var("turns", low=0)
        for value in loop.inputs:
            self.touch(value, start)
        states: dict[int, Buffer] = {}
        first = int(loop.has_condition)
        made = body.results[first:]
        for n, result in enumerate(loop.results):
            shape = result.shape[1:] if n >= count else result.shape
            fixed = self.is_known(shape)
            if n < count:
                fixed = fixed and self.is_known(body.params[n].shape)
            else:
                fixed = fixed and is_counted(loop) and self.is_known(made[n].shape)
            if not isinstance(result, Buffer):
                continue
            if not fixed:
                self.hold(result)
                if n < count:
                    self.hold(tensor(body.params[n]))
                continue
            if n < count:
                states[n] = self.state(loop, n, (turn, turns))
            self.touch(result, start)
        fresh = (*body.variables, *free_vars(*(e for p in body.params for e in p.shape)))
        self.inside(body, fresh)
        for value in (*body.results, *captured(body), *loop.results):
            self.touch(value, self._time)
        for n, result in enumerate(loop.results):
            inner = made[n]
            if not isinstance(result, Buffer) or not isinstance(inner, Buffer):
                continue
            if result in self.held:
                continue
            if n < count:
                self.put(inner, piece(states[n], 1 - turn % 2))
            else:
                size = bytes_of(inner.shape, inner.dtype.bytes)
                self.put(inner, Slot(result, turn, size))

    def state(self, loop: Loop, number: int, turns: tuple[Var, Var]) -> Buffer:
        """What stands for the memory of a state: two pieces, in the first of which the initial
        value lies. turns: the number of the iteration, and how many there were."""
        result, initial = tensor(loop.results[number]), tensor(loop.initial[number])
        whole = Buffer(f"{result.name}_states", result.shape, result.dtype)
        self.touch(whole, self._time)
        self.lives[whole].copies = 2
        self.put(initial, piece(whole, const(0)))
        self.put(tensor(loop.body.params[number]), piece(whole, turns[0] % 2))
        self.put(result, piece(whole, turns[1] % 2))
        return whole


def _with_memory_of(values: Iterable[Value], bindings: Sequence[Binding]) -> set[Value]:
    """The values, and those that they are aliases of."""
    found = set(values)
    for binding in reversed(bindings):
        if isinstance(binding, (Alias, MatchShape)) and binding.result in found:
            found.add(binding.operand)
    return found


def piece(state: Buffer, index: Expr) -> Slot:
    """One of the pieces of a state."""
    return Slot(state, index, padded(state))


def is_counted(loop: Loop) -> bool:
    """Whether a loop's number of iterations is known before it."""
    return loop.trip is not None and loop.condition is None and not loop.has_condition


def padded(value: Buffer) -> Expr:
    """Bytes of a value, up to where the next piece of memory may start."""
    return (bytes_of(value.shape, value.dtype.bytes) + (ALIGN - 1)) // ALIGN * ALIGN


def introduced(binding: Binding) -> tuple[Var, ...]:
    """The variables that hold from a binding on, among those of outer scopes."""
    if isinstance(binding, Dims):
        return binding.variables
    if isinstance(binding, MatchShape):
        return free_vars(*binding.result.shape)
    if isinstance(binding, (Branch, Loop)):
        shapes = [e for r in binding.outputs for e in r.shape]
        return free_vars(*shapes)
    return ()


def tensor(value: Value) -> Buffer:
    """`value`, if it is a tensor. Raises IRError."""
    if isinstance(value, Buffer):
        return value
    raise IRError(f"{value.name!r} is no tensor, and a host program holds nothing else")
