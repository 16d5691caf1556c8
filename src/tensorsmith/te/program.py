"""Programs made of definitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from tensorsmith.errors import IRError
from tensorsmith.ir import Assert, AttrValue, Expr, TensorProgram, Var, free_vars, seq
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.lowering import Lowering
from tensorsmith.te.origin import caller, placed
from tensorsmith.te.tensor import Definition, Tensor
from tensorsmith.verify import verify


def program(
    inputs: Tensor | Var | Sequence[Tensor | Var],
    outputs: Tensor | Sequence[Tensor],
    name: str = "main",
    *,
    attrs: Mapping[str, AttrValue] = MappingProxyType({}),
    inline: Collection[Tensor] = (),
    checks: Sequence[tuple[Expr, str]] = (),
) -> TensorProgram:
    """The program that computes `outputs` from `inputs`, verified.

    Its parameters are the inputs (tensors and scalars), then the outputs. Each definition becomes
    one block within its loops, in an order in which it follows what it reads; tensors that are
    neither inputs nor outputs are allocated.
    inputs: most often placeholders. A tensor with a definition is taken as given.
    inline: tensors without a block and memory of their own: each of their elements is computed
        where it is read. They are computes without reductions, and no outputs.
    checks: conditions on dimensions and scalars, checked first with these messages, and facts for
        what follows.
    Raises IRError if an output is also an input, if a placeholder or a scalar is used that is not
    among the inputs, or if the program breaks a rule of well-formedness.

    >>> from tensorsmith import te
    >>> A = te.placeholder((8,), name="A")
    >>> te.program([A], te.compute((8,), lambda i: A[i] * 2, "B"), "double").params
    (A: Buffer((8,), 'float32'), B: Buffer((8,), 'float32'))
    """
    span = caller()
    with placed(span):
        arguments = (inputs,) if isinstance(inputs, (Tensor, Var)) else tuple(inputs)
        results = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        _check_parameters(arguments, results)
        given = frozenset(i for i in arguments if isinstance(i, Tensor))
        definitions = definitions_under(results, given)
        _check_closed(arguments, results, definitions)
        lowering = Lowering()
        params = tuple(
            lowering.make_buffer(p) if isinstance(p, Tensor) else p for p in (*arguments, *results)
        )
        asserts = [Assert(lowering.expr(c), m) for c, m in checks]
        kept = _with_blocks(definitions, lowering, inline, results)
        body = seq(*asserts, lowering.statements(kept))
        made = TensorProgram(name, params, body, MappingProxyType(dict(attrs)), span=span)
        verify(made)
        return made


def _with_blocks(
    definitions: Sequence[Definition],
    lowering: Lowering,
    inline: Collection[Tensor],
    outputs: Sequence[Tensor],
) -> list[Definition]:
    """The definitions that get a block; the others are read where they are used from now on.

    Raises IRError for a tensor that cannot be computed where it is read.
    """
    kept: list[Definition] = []
    for definition in definitions:
        if not any(o in inline for o in definition.outputs):
            kept.append(definition)
            continue
        if any(o in outputs or o not in inline for o in definition.outputs):
            raise IRError(
                f"{definition.name!r} cannot be computed where it is read",
                because="one of its tensors needs memory: it is an output, or not to be inlined",
            )
        definition.inline(lowering)
    return kept


def _check_parameters(inputs: Sequence[Tensor | Var], outputs: Sequence[Tensor]) -> None:
    if not outputs:
        raise IRError("a program needs an output")
    for p in inputs:
        if not isinstance(p, (Tensor, Var)):
            raise IRError(
                f"the input {p!r} is not a tensor or a variable", try_="te.placeholder or te.var"
            )
    for o in outputs:
        if not isinstance(o, Tensor):
            raise IRError(f"the output {o!r} is not a tensor", try_="te.compute(...)")
        if o.definition is None or o in inputs:
            raise IRError(
                f"the output {o.name!r} is an input",
                because="a program writes its results into parameters of their own",
                try_=f"te.compute({o.name}.shape, lambda *i: {o.name}[i]), a copy",
            )
    everything: list[Tensor | Var] = [*inputs, *outputs]
    for parameter in everything:
        if everything.count(parameter) > 1:
            raise IRError(f"{parameter.name!r} is given twice among the inputs and outputs")


def _check_closed(
    inputs: Sequence[Tensor | Var],
    outputs: Sequence[Tensor],
    definitions: Sequence[Definition],
) -> None:
    """Raise IRError if a definition uses a placeholder or variable that no input gives."""
    tensors = [t for t in (*inputs, *outputs) if isinstance(t, Tensor)]
    variables = {*free_vars(*(e for t in tensors for e in t.shape))}
    variables.update(i for i in inputs if isinstance(i, Var))
    known = {*inputs, *(o for d in definitions for o in d.outputs)}
    for definition in definitions:
        for tensor in definition.inputs:
            if tensor not in known:
                raise IRError(
                    f"{definition.name!r} reads {tensor.name!r}, which is not among the inputs",
                    where=definition.span,
                    try_=f"add {tensor.name} to the inputs of te.program",
                )
        for variable in definition.scalars:
            if variable not in variables:
                raise IRError(
                    f"{definition.name!r} uses the variable {variable.name!r}, which nothing"
                    " defines",
                    where=definition.span,
                    try_="add it to the inputs of te.program; or if it is a reduction axis,"
                    " reduce over it: te.sum(..., axis=...)",
                )
