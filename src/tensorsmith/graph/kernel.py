"""From a group of operators to the tensor program that computes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import IRError
from tensorsmith.graph.extents import kernel_extents, not_negative, renamed_attribute
from tensorsmith.graph.inlining import inlined
from tensorsmith.graph.inplace import with_inplace
from tensorsmith.ir import (
    Attrs,
    Buffer,
    Expr,
    TensorProgram,
    Var,
    const,
    free_vars,
    substitute,
)
from tensorsmith.ir.graph import Apply
from tensorsmith.ir.stmt import NO_ATTRS
from tensorsmith.ops.operator import Operator
from tensorsmith.te import Definition, Tensor
from tensorsmith.te.collapse import collapse
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.kind import cut_tensor, joined_tensors

Array: TypeAlias = "np.ndarray[Any, Any]"
Operators: TypeAlias = Mapping[str, Operator]

JOINS: Final = "joins"
"""The attribute of a program that only joins its operands, one after the other in memory: their
places, in order."""
CUTS: Final = "cuts"
"""The attribute of a program that only gives some elements of an operand, which lie one after the
other: the operand's place, and where they begin along its first axis."""
OPERATIONS: Final = "operations"
"""The attribute of a program that computes sums with fewer operations than they are written with:
how many those are, for each element of the result."""
MOST_NAMES: Final = 5
"""Operators that the name of a kernel tells."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A value that a kernel takes or makes, by the shape by which the kernel knows it: that of as
    many elements in the same order."""

    value: Buffer
    shape: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A program, and what it is called with: `operands` (tensors and scalars), then `results`."""

    program: TensorProgram
    operands: tuple[Argument | Expr, ...]
    results: tuple[Argument, ...]

    def with_values(self, values: Mapping[Buffer, Buffer]) -> Kernel:
        """The same kernel on other values."""

        def other(argument: Argument) -> Argument:
            return Argument(values[argument.value], argument.shape)

        operands = (o if isinstance(o, Expr) else other(o) for o in self.operands)
        return Kernel(self.program, tuple(operands), tuple(map(other, self.results)))


class Composition:
    """Operators composed to definitions: what stands for each value of a graph function.

    operators: by name.
    constants: the values that are known; those of one element stand in the definitions themselves.
    members: operators that will be added.
    own_extents: whether the dimensions are those of a kernel, not of the function: see
        `tensorsmith.graph.extents`.
    renamed: what stands for dimensions of the function, and for expressions of them.
    """

    def __init__(
        self,
        operators: Operators,
        constants: Mapping[Buffer, Array],
        members: Sequence[Apply] = (),
        *,
        own_extents: bool = True,
    ) -> None:
        self.operators = operators
        self.constants = constants
        self.renamed: dict[Expr, Expr] = dict(
            kernel_extents(members) if own_extents else not_negative(members)
        )
        self.tensors: dict[Buffer, Tensor] = {}
        self.given: dict[Tensor, Buffer] = {}
        """The placeholders, and the values that they stand for."""
        self.literals: set[Tensor] = set()
        """The definitions of constants of one element."""

    def tensor(self, value: Buffer) -> Tensor:
        """What stands for `value`: a definition if it has been added, else a placeholder."""
        found = self.tensors.get(value)
        if found is None:
            found = self._literal(value)
            if found is None:
                shape = [substitute(e, self.renamed) for e in value.shape]
                found = te.placeholder(shape, value.dtype, value.name)
                self.given[found] = value
            self.tensors[value] = found
        return found

    def _literal(self, value: Buffer) -> Tensor | None:
        """The definition of a constant of one element."""
        array = self.constants.get(value)
        type_ = value.dtype
        if array is None or array.size != 1 or value.layout is not None:
            return None
        if not (type_.is_float or type_.is_bool or (type_.is_integer and type_.bits >= 8)):
            return None
        element = const(array.reshape(-1)[0].item(), type_)
        made = te.compute(value.shape, lambda *_: element, value.name)
        self.literals.add(made)
        return made

    def add(self, apply: Apply) -> tuple[Tensor, ...]:
        """The definitions of an operator's results."""
        operands = [None if o is None else self.tensor(o) for o in apply.operands]
        attrs = {k: renamed_attribute(v, self.renamed) for k, v in apply.attrs.items()}
        results = self.operators[apply.op](operands, attrs)
        self.tensors.update(zip(apply.results, results, strict=True))
        return results


def make_kernel(
    composition: Composition,
    results: Sequence[Buffer],
    name: str,
    *,
    checks: Sequence[tuple[Expr, str]] = (),
    attrs: Attrs = NO_ATTRS,
) -> Kernel:
    """The program that computes `results` of a composition, over as few axes as possible.

    checks: conditions on dimensions that hold, with messages; those are kept that the program's
        dimensions tell.
    """
    given = composition.given
    small = collapse(_distinct(composition, results), given)
    outputs = small.outputs
    values = {t: given[old] for old, t in small.inputs.items()}
    definitions = definitions_under(outputs, values)
    inputs = [t for t in values if any(t in d.inputs for d in definitions)]
    scalars = _scalars([*inputs, *outputs], definitions)
    known = {*scalars, *(e for t in (*inputs, *outputs) for e in t.shape if isinstance(e, Var))}
    stated = [(substitute(c, composition.renamed), message) for c, message in checks]
    holding = [c for c in stated if known.issuperset(free_vars(c[0]))]

    def made(inline: Collection[Tensor]) -> TensorProgram:
        return te.program(
            [*inputs, *scalars], outputs, name, attrs=attrs, inline=inline, checks=holding
        )

    if len(outputs) == 1 and outputs[0].definition in definitions:
        parts = joined_tensors(outputs[0].definition)
        if parts and len(definitions) == 1 and set(parts) == set(inputs):
            attrs = {**attrs, JOINS: tuple(map(inputs.index, parts))}
        cut = cut_tensor(outputs[0].definition)
        if cut is not None and len(definitions) == 1 and cut[0] in inputs:
            attrs = {**attrs, CUTS: (inputs.index(cut[0]), cut[1])}

    try:
        program = made(inlined(outputs, values))
    except IRError:  # it cannot be shown to stay inside of what it reads
        program = made(())
    program = with_inplace(program)
    own = {new: old for old, new in composition.renamed.items()}
    extents: dict[Expr, Expr] = {v: substitute(e, own) for v, e in small.extents.items()}
    extents.update(own)

    facts = Analyzer()

    def argument(value: Buffer, tensor: Tensor) -> Argument:
        shape = tuple(facts.simplify(substitute(e, extents)) for e in tensor.shape)
        return Argument(value, value.shape if _are_equal(shape, value.shape, facts) else shape)

    operands: list[Argument | Expr] = [argument(values[t], t) for t in inputs]
    operands.extend(extents.get(v, v) for v in scalars)
    made_results = tuple(argument(v, t) for v, t in zip(results, outputs, strict=True))
    return Kernel(program, tuple(operands), made_results)


def _are_equal(a: Sequence[Expr], b: Sequence[Expr], facts: Analyzer) -> bool:
    return len(a) == len(b) and all(map(facts.equal, a, b))


def _distinct(composition: Composition, results: Sequence[Buffer]) -> list[Tensor]:
    """A definition of its own for each result: copies of what is given, known or named twice."""
    outputs: list[Tensor] = []
    for value in results:
        found = composition.tensor(value)
        if found.definition is None or found in outputs or found in composition.literals:
            found = _copied(found, value.name)
        outputs.append(found)
    return outputs


def _copied(tensor: Tensor, name: str) -> Tensor:
    return te.compute(tensor.shape, lambda *i: tensor[i], name)


def _scalars(params: Sequence[Tensor], definitions: Sequence[Definition]) -> tuple[Var, ...]:
    """The variables that no parameter has as an extent of its own: they are parameters."""
    told = {e for t in params for e in t.shape if isinstance(e, Var)}
    used = dict.fromkeys(free_vars(*(e for t in params for e in t.shape)))
    for definition in definitions:
        used.update(dict.fromkeys(definition.scalars))
    return tuple(v for v in used if v not in told)


def kernel_name(ops: Sequence[str], taken: Collection[str]) -> str:
    """A name that tells what is computed, with a number: ``fused_matmul_add_gelu_3``."""
    shown = [*ops[: MOST_NAMES - 1], ops[-1]] if len(ops) > MOST_NAMES else list(ops)
    stem = "_".join(["fused", *shown] if len(ops) > 1 else shown)
    number = 1
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"
