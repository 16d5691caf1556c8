"""What the dimensions and scalars of a program stand for, given the tensors it is applied to."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.arith import Analyzer
from tensorsmith.errors import DTypeError, IRError, ShapeError
from tensorsmith.ir import Buffer, Expr, Le, Region, TensorProgram, Var, const, equal, substitute
from tensorsmith.te.tensor import Tensor


def match_parameters(
    program: TensorProgram, args: Sequence[Tensor | Region | Expr]
) -> dict[Var, Expr]:
    """The value of each scalar parameter and symbolic dimension of `program` applied to `args`.

    Raises IRError for a wrong number or sort of arguments, DTypeError for other types, ShapeError
    for shapes that do not fit or cannot be shown to.
    """
    if len(args) != len(program.params):
        raise IRError(
            f"the program {program.name!r} takes {len(program.params)} inputs and outputs, and"
            f" {len(args)} are given"
        )
    values: dict[Var, Expr] = {}
    shapes: list[tuple[Expr, Expr, Buffer]] = []
    for parameter, arg in zip(program.params, args, strict=True):
        _check_sort(program, parameter, arg)
        if isinstance(parameter, Var) and isinstance(arg, Expr):
            values[parameter] = arg
        elif isinstance(parameter, Buffer) and isinstance(arg, Tensor):
            pairs = zip(parameter.shape, arg.shape, strict=True)
            shapes.extend((wanted, given, parameter) for wanted, given in pairs)
    for wanted, given, _ in shapes:
        if isinstance(wanted, Var):
            values.setdefault(wanted, given)
    _check_shapes(program, values, shapes)
    _check_facts(program, values)
    return values


def _check_sort(
    program: TensorProgram, parameter: Buffer | Var, arg: Tensor | Region | Expr
) -> None:
    """Raise unless `arg` is a tensor of the wanted rank and type, or a scalar of the type."""
    where = f"the parameter {parameter.name!r} of the program {program.name!r}"
    if isinstance(parameter, Buffer) != isinstance(arg, Tensor):
        sort = "a tensor" if isinstance(parameter, Buffer) else "a scalar"
        raise IRError(f"{where} is {sort}, and {arg!r} is given")
    assert isinstance(arg, (Tensor, Expr))
    if arg.dtype is not parameter.dtype:
        raise DTypeError(f"{where} is {parameter.dtype}, and {arg!r} is {arg.dtype}")
    if not isinstance(parameter, Buffer) or not isinstance(arg, Tensor):
        return
    if parameter.rank != arg.rank:
        raise ShapeError(f"{where} has rank {parameter.rank}, and {arg.name!r} has rank {arg.rank}")
    if parameter.strides is not None or parameter.layout is not None:
        raise IRError(f"{where} has a layout of its own, and tensors are dense and row-major")


def _check_shapes(
    program: TensorProgram, values: dict[Var, Expr], shapes: Sequence[tuple[Expr, Expr, Buffer]]
) -> None:
    analyzer = Analyzer()
    bindings: dict[Expr, Expr] = dict(values.items())
    for wanted, given, parameter in shapes:
        bound = analyzer.simplify(substitute(wanted, bindings))
        if bound is not given and analyzer.prove(equal(bound, given)) is not True:
            raise ShapeError(
                f"the parameter {parameter.name!r} of the program {program.name!r} has the extent"
                f" {wanted!r} where {given!r} is given",
                because=f"{bound!r} == {given!r} does not follow from what is known",
            )


def _check_facts(program: TensorProgram, values: dict[Var, Expr]) -> None:
    analyzer = Analyzer()
    for variable, value in values.items():
        facts: list[Expr] = []
        if variable.low is not None:
            facts.append(Le(const(variable.low, variable.dtype), value))
        if variable.high is not None:
            facts.append(Le(value, const(variable.high, variable.dtype)))
        if variable.multiple_of != 1:
            facts.append(equal(value % variable.multiple_of, 0))
        for fact in facts:
            if analyzer.prove(fact) is not True:
                raise ShapeError(
                    f"{fact!r} does not follow from what is known, and the dimension"
                    f" {variable.name!r} of the program {program.name!r} needs it",
                    try_="a dimension with this fact: script.dim(name, min=, max=, multiple_of=)",
                )
