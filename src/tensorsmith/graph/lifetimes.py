"""When the memory of each value is needed, and which values share memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tensorsmith.ir import Buffer, Expr, Var, free_vars
from tensorsmith.ir.graph import (
    Alias,
    Binding,
    Body,
    Branch,
    Constant,
    Dims,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
    bodies,
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


@dataclass(slots=True)
class Lifetimes:
    """The lifetimes of a function's values, one for all that share memory.

    arenas: of each scope of dimensions, the one around it. Scope 0 knows the dimensions of the
        parameters; each binding that introduces dimensions opens one.
    opened: the scope that a binding opens.
    """

    lives: dict[Buffer, Lifetime] = field(default_factory=dict)
    arenas: dict[int, int] = field(default_factory=dict)
    opened: dict[Binding, int] = field(default_factory=dict)
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
            mine = self.lives[other]
            mine.end = max(mine.end, life.end)
            mine.start = min(mine.start, life.start)
            mine.copies = max(mine.copies, life.copies)

    def arena_of(self, shape: Iterable[Expr]) -> int:
        """The outermost scope that knows the dimensions of a shape."""
        return max((self._known.get(v, 0) for v in free_vars(*shape)), default=0)

    def touch(self, value: Value, time: int) -> None:
        """Have the memory of `value` be needed at `time`."""
        if not isinstance(value, Buffer):
            return
        root = self.root(value)
        life = self.lives.get(root)
        if life is None:
            self.lives[root] = Lifetime(time, time, self.arena_of(root.shape))
        else:
            life.start, life.end = min(life.start, time), max(life.end, time)

    # --- Walking -----------------------------------------------------------------------------

    def function(self, graph: GraphFunction) -> None:
        """Find the lifetimes of all values of a function."""
        for param in graph.params:
            self.touch(param, 0)
        self.walk(graph.body)
        self._time += 1
        for result in graph.results:
            self.touch(result, self._time)

    def walk(self, bindings: Sequence[Binding]) -> None:
        """Take the bindings in order, those of bodies where they stand."""
        for binding in bindings:
            self._time += 1
            made = () if isinstance(binding, Constant) else binding.outputs
            for value in (*binding.inputs, *made):
                self.touch(value, self._time)
            if isinstance(binding, (Alias, MatchShape)):
                self.share(binding.result, binding.operand)
            elif isinstance(binding, Branch):
                self.branch(binding)
            elif isinstance(binding, Loop):
                self.loop(binding)
            self.introduce(binding)

    def introduce(self, binding: Binding) -> None:
        """Open a scope if the binding introduces dimensions."""
        fresh = [v for v in introduced(binding) if v not in self._known]
        if fresh:
            inner = len(self.arenas) + 1
            self.arenas[inner] = self._arena
            self.opened[binding] = inner
            self._arena = inner
            self._known.update(dict.fromkeys(fresh, inner))

    def branch(self, branch: Branch) -> None:
        """Results of the bodies are the results of the branch, where sizes are known before."""
        outer = self._arena
        for body in bodies(branch):
            self.walk(body.bindings)
            self._time += 1
            for inner, result in zip(body.results, branch.results, strict=True):
                self.touch(inner, self._time)
                if isinstance(inner, Buffer) and isinstance(result, Buffer):
                    self.share(inner, result)
            self._arena = outer

    def loop(self, loop: Loop) -> None:
        raise NotImplementedError

    def scope_of(self, known: Iterable[Var]) -> None:
        """Let the parameters' dimensions be known from the start."""
        self._known.update(dict.fromkeys(known, 0))


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


def body_values(body: Body) -> Iterable[Value]:
    """The values that a body defines itself."""
    for binding in body.bindings:
        yield from binding.outputs
