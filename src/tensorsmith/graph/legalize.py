"""Operators give way to tensor programs: each group of them becomes a call of one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tensorsmith.errors import TensorsmithError
from tensorsmith.graph.fuse import Group, Step, group_bindings
from tensorsmith.graph.kernel import (
    OPERATIONS,
    Array,
    Composition,
    Kernel,
    Operators,
    kernel_name,
    make_kernel,
)
from tensorsmith.graph.winograd import operations_as_written
from tensorsmith.ir import AttrValue, Buffer, Expr, IRModule, TensorProgram
from tensorsmith.ir.graph import (
    Alias,
    Binding,
    Body,
    Branch,
    CallProgram,
    Check,
    Constant,
    GraphFunction,
    Loop,
    MatchShape,
    Value,
)
from tensorsmith.ir.structural import structural_equal, structural_hash
from tensorsmith.ops import OPERATORS

Checks: TypeAlias = "tuple[tuple[Expr, str], ...]"
Aliases: TypeAlias = "dict[tuple[Buffer, tuple[Expr, ...]], Buffer]"
"""What stands for a value by another shape."""


def legalize(module: IRModule, *, operators: Operators = OPERATORS) -> IRModule:
    """Replace operators by calls of tensor programs, which join the module.

    Before: graph functions of any bindings. After: no `Apply` is left. Results of functions and
    bodies are each the result of a call of its own, or an opaque value.
    """
    legalizer = _Legalizer(operators, dict(module.programs))
    graphs = [legalizer.function(g) for g in module.graphs.values()]
    return IRModule.of(*graphs, *legalizer.programs.values(), attrs=module.attrs)


@dataclass(slots=True)
class _Legalizer:
    """The programs of the module as they come about. Equal ones are one program."""

    operators: Operators
    programs: dict[str, TensorProgram]
    known: dict[str, list[TensorProgram]] = field(default_factory=dict)
    constants: dict[Buffer, Array] = field(default_factory=dict)
    made: dict[Hashable, tuple[list[Buffer], Kernel]] = field(default_factory=dict)
    """Of each group by what it computes: its values, and the kernel."""
    names: dict[TensorProgram, str] = field(default_factory=dict)

    def function(self, graph: GraphFunction) -> GraphFunction:
        body, results = self.bindings(graph.body, graph.results, ())
        return replace(graph, body=body, results=results)

    def bindings(
        self,
        given: Sequence[Binding],
        results: Sequence[Value],
        checks: Checks,
    ) -> tuple[tuple[Binding, ...], tuple[Value, ...]]:
        """The bindings of a function or body, and its results."""
        self.constants.update((b.result, b.data) for b in given if isinstance(b, Constant))
        made: list[Binding] = []
        aliases: Aliases = {}
        for step in group_bindings(given, results, self.operators, self.constants):
            if isinstance(step, Check):
                checks = (*checks, (step.condition, step.message))
            made.extend(self.step(step, checks, aliases))
        own = _Results(self, made)
        owned = tuple(own.result(r) for r in results)
        return tuple(made), owned

    def step(self, step: Step, checks: Checks, aliases: Aliases) -> list[Binding]:
        if isinstance(step, Group):
            return self.call(step, checks, aliases)
        if isinstance(step, Branch):
            then, orelse = (self.body(b, checks) for b in (step.then, step.orelse))
            return [replace(step, then=then, orelse=orelse)]
        if isinstance(step, Loop):
            return self.loop(step, checks)
        return [step]

    def loop(self, loop: Loop, checks: Checks) -> list[Binding]:
        """A loop, whose states begin as copies of their initial values."""
        stmts: list[Binding] = []
        initial: list[Value] = []
        for value in loop.initial:
            if isinstance(value, Buffer):
                made, bindings = self.copy(value)
                stmts.extend(bindings)
                initial.append(made)
            else:
                initial.append(value)
        body = self.body(loop.body, checks)
        return [*stmts, replace(loop, initial=tuple(initial), body=body)]

    def body(self, body: Body, checks: Checks) -> Body:
        bindings, results = self.bindings(body.bindings, body.results, checks)
        return replace(body, bindings=bindings, results=results)

    def call(self, group: Group, checks: Checks, aliases: Aliases) -> list[Binding]:
        """The call of the program that computes a group; groups that compute the same share one."""
        key, values = self.described(group)
        found = self.made.get((key, checks))
        if found is None:
            try:
                kernel = self.kernel(group, checks, own_extents=True)
            except TensorsmithError:  # what is known of the function's dimensions is needed
                kernel = self.kernel(group, checks, own_extents=False)
            self.made[key, checks] = values, kernel
        else:
            kernel = found[1].with_values(dict(zip(found[0], values, strict=True)))
        sources = tuple(dict.fromkeys(s for m in group.members for s in m.sources))
        return self.called(kernel, sources, aliases)

    def described(self, group: Group) -> tuple[Hashable, list[Buffer]]:
        """What a group computes, by the numbers of its values, and the values in that order."""
        numbers: dict[Buffer, int] = {}
        types: list[Hashable] = []

        def number(value: Buffer | None) -> int | None:
            if value is None:
                return None
            if value not in numbers:
                numbers[value] = len(numbers)
                array = self.constants.get(value)
                literal = array.tobytes() if array is not None and array.size == 1 else None
                types.append((value.shape, value.dtype.name, value.layout, literal))
            return numbers[value]

        members = tuple(
            (
                m.op,
                tuple(sorted(m.attrs.items())),
                *map(number, m.operands),
                -1,
                *map(number, m.results),
            )
            for m in group.members
        )
        results = tuple(map(number, group.results))
        return (members, results, tuple(types)), list(numbers)

    def kernel(self, group: Group, checks: Checks, *, own_extents: bool) -> Kernel:
        """The kernel of a group."""
        composition = Composition(
            self.operators, self.constants, group.members, own_extents=own_extents
        )
        for member in group.members:
            composition.add(member)
        name = kernel_name([m.op for m in group.members], self.programs)
        attrs: dict[str, AttrValue] = {"contract": True}
        written = [n for m in group.members if (n := operations_as_written(m)) is not None]
        if written:
            attrs[OPERATIONS] = sum(written)
        return make_kernel(composition, group.results, name, checks=checks, attrs=attrs)

    def copy(self, value: Buffer) -> tuple[Buffer, list[Binding]]:
        """A new value with the elements of another one, and the call that copies them."""
        composition = Composition(self.operators, {})
        made = value.replace(layout=None, strides=None)
        composition.tensors[made] = composition.tensor(value)
        kernel = make_kernel(composition, [made], kernel_name(["copy"], self.programs))
        return made, self.called(kernel, (), {})

    def called(self, kernel: Kernel, sources: Sequence[str], aliases: Aliases) -> list[Binding]:
        """The call of a kernel, between aliases of its operands and results by its shapes."""
        stmts: list[Binding] = []
        operands: list[Buffer | Expr] = []
        for operand in kernel.operands:
            if isinstance(operand, Expr):
                operands.append(operand)
                continue
            key = operand.value, operand.shape
            if operand.shape == operand.value.shape:
                aliases[key] = operand.value
            elif key not in aliases:
                aliases[key] = Buffer(operand.value.name, operand.shape, operand.value.dtype)
                stmts.append(Alias(aliases[key], operand.value))
            operands.append(aliases[key])
        results: list[Buffer] = []
        after: list[Binding] = []
        for result in kernel.results:
            if result.shape == result.value.shape:
                results.append(result.value)
                continue
            results.append(Buffer(result.value.name, result.shape, result.value.dtype))
            aliases[result.value, result.shape] = results[-1]
            after.append(Alias(result.value, results[-1]))
        callee = self.add(kernel.program)
        call = CallProgram(tuple(results), callee, tuple(operands), sources=tuple(sources))
        return [*stmts, call, *after]

    def add(self, program: TensorProgram) -> str:
        """The name of `program`, or of an equal one that is there."""
        if program not in self.names:
            self.names[program] = self._added(program)
        return self.names[program]

    def _added(self, program: TensorProgram) -> str:
        equals = self.known.setdefault(structural_hash(program), [])
        for other in equals:
            if structural_equal(other, program):
                return other.name
        equals.append(program)
        self.programs[program.name] = program
        return program.name


class _Results:
    """Results of a function or body, which get memory of their own."""

    def __init__(self, legalizer: _Legalizer, bindings: list[Binding]) -> None:
        self.legalizer = legalizer
        self.bindings = bindings
        self.roots: dict[Value, Value] = {}
        """Of each value that a call makes, itself; of its aliases, the value."""
        for binding in bindings:
            if isinstance(binding, CallProgram):
                self.roots.update((v, v) for v in binding.results)
            elif isinstance(binding, (Alias, MatchShape)) and binding.operand in self.roots:
                self.roots[binding.result] = self.roots[binding.operand]
        for binding in bindings:  # what control flow makes may lie in held memory: no aliases
            if isinstance(binding, Branch):
                self.roots.update((v, v) for v in binding.results)
            elif isinstance(binding, Loop):
                scans = binding.results[len(binding.initial) :]
                self.roots.update((v, v) for v in scans)
        self.taken: set[Value] = set()

    def result(self, value: Value) -> Value:
        """`value` itself where a call makes it, and for this result alone; else a copy."""
        root = self.roots.get(value)
        if root is not None and root not in self.taken:
            self.taken.add(root)
            return value
        if not isinstance(value, Buffer):
            return value
        made, bindings = self.legalizer.copy(value)
        self.bindings.extend(bindings)
        return made
