"""Matching the arguments of a call with the parameters of a program: dtypes, shapes, dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import DTypeError, EvaluationError, ShapeError
from tensorsmith.evaluate.expressions import evaluate_expr
from tensorsmith.evaluate.memory import Memory
from tensorsmith.evaluate.rounding import Value
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.dtype import Kind
from tensorsmith.ir.expr import Add, Const, Expr, Mul, Var, free_vars
from tensorsmith.ir.module import TensorProgram

if TYPE_CHECKING:
    from tensorsmith.evaluate.numpy_domain import NumPyDomain


def bind_arguments(
    program: TensorProgram, args: Sequence[Value | Memory], domain: NumPyDomain
) -> tuple[dict[Var, Value], dict[Buffer, Memory]]:
    """The values of scalar parameters and dimensions, and the memory of each buffer parameter.

    Raises ShapeError, DTypeError or EvaluationError, in the words of the program's parameters.
    """
    if len(args) != len(program.params):
        names = ", ".join(p.name for p in program.params)
        raise EvaluationError(
            f"{program.name} takes {len(program.params)} arguments ({names}), and got {len(args)}"
        )
    values: dict[Var, Value] = {}
    memories: dict[Buffer, Memory] = {}
    for param, arg in zip(program.params, args, strict=True):
        if isinstance(param, Var):
            values[param] = _scalar(param, arg, domain)
        elif isinstance(arg, Memory):
            _check_array(param, arg, domain)
            memories[param] = arg
        else:
            raise DTypeError(
                f"argument {param.name!r} must be an array, and is {type(arg).__name__}"
            )
    _bind_dims(program, values, memories, domain)
    return values, memories


def _check_array(buffer: Buffer, memory: Memory, domain: NumPyDomain) -> None:
    shape, expected = memory.shape, domain.memory_dtype(buffer.dtype)
    if memory.data.dtype != expected:
        raise DTypeError(
            f"argument {buffer.name!r} must be an array of {expected}, not {memory.data.dtype}"
        )
    if len(shape) != buffer.rank:
        raise ShapeError(
            f"argument {buffer.name!r} must have rank {buffer.rank}, not {len(shape)}",
            given=f"an array of shape {shape} for {buffer!r}",
        )


def _scalar(param: Var, arg: object, domain: NumPyDomain) -> Value:
    """A Python or NumPy number as a value of the parameter's dtype."""
    dtype = param.dtype
    if isinstance(arg, np.ndarray) and arg.ndim == 0:
        arg = arg[()]
    if dtype.flag & Kind.BOOL:
        fits = isinstance(arg, (bool, np.bool_))
    elif dtype.flag & Kind.INTEGER:
        fits = isinstance(arg, (int, np.integer)) and not isinstance(arg, bool)
    else:
        fits = not isinstance(arg, (bool, np.bool_, str, complex)) and np.isscalar(arg)
    if not fits:
        raise DTypeError(
            f"argument {param.name!r} must be {dtype}, and is {type(arg).__name__}",
            given=f"{arg!r}",
        )
    number: Any = arg
    if dtype.flag & Kind.INTEGER:
        number = int(number)
        if not dtype.min_value <= number <= dtype.max_value:
            raise DTypeError(f"argument {param.name!r} is {number}, which does not fit {dtype}")
        check_facts(param, number, "argument")
    return domain.argument(number, dtype)


def check_facts(var: Var, value: int, what: str) -> None:
    """Raise ShapeError unless the facts that stand on `var` hold of `value`."""
    facts = []
    if var.low is not None and value < var.low:
        facts.append(f"at least {var.low}")
    if var.high is not None and value > var.high:
        facts.append(f"at most {var.high}")
    if value % var.multiple_of:
        facts.append(f"a multiple of {var.multiple_of}")
    if facts:
        raise ShapeError(f"{what} {var.name!r} is {value}, and must be {' and '.join(facts)}")


def _bind_dims(
    program: TensorProgram,
    values: dict[Var, Value],
    memories: dict[Buffer, Memory],
    domain: NumPyDomain,
) -> None:
    """Bind the dimensions to the shapes, then check that every shape is what its program says."""
    extents = [
        (buffer, axis, extent, size)
        for buffer, memory in memories.items()
        for axis, (extent, size) in enumerate(zip(buffer.shape, memory.shape, strict=True))
    ]
    bound = -1
    while bound != len(values):  # a dimension found by one extent may settle another
        bound = len(values)
        for _, _, extent, size in extents:
            solve(extent, size, values)
    _bind_strides(memories, values)
    for var in program.dims:
        if var in values:
            check_facts(var, values[var], "dimension")
    for buffer, axis, extent, size in extents:
        unknown = [v.name for v in free_vars(extent) if v not in values]
        if unknown:
            raise ShapeError(
                f"the shapes of the arguments do not tell the dimension {unknown[0]!r}",
                given=f"extent {axis} of {buffer.name!r} is {extent!r}",
                try_=f"{unknown[0]} as a scalar parameter, or alone as an extent of a buffer",
            )
        known: dict[Expr, Any] = {v: values[v] for v in free_vars(extent)}
        wanted = evaluate_expr(extent, domain, domain.operations, known)
        if wanted != size:
            _mismatch(buffer, axis, size, wanted, values, memories)


def _mismatch(
    buffer: Buffer,
    axis: int,
    size: int,
    wanted: int,
    values: dict[Var, Value],
    memories: dict[Buffer, Memory],
) -> None:
    extent = buffer.shape[axis]
    dims = ", ".join(f"{v.name} = {values[v]}" for v in free_vars(extent))
    raise ShapeError(
        f"extent {axis} of argument {buffer.name!r} is {size}, and must be {wanted}",
        given=", ".join(f"{b.name} {m.shape}" for b, m in memories.items()),
        because=f"it is {extent!r}, and {dims}" if dims else None,
    )


def solve(extent: Expr, size: int, values: dict[Var, Value]) -> None:
    """Bind the variable of `extent`, if it has one unbound one, so that it equals `size`.

    Sums and products with known numbers are inverted; what is left over is checked afterwards.
    """
    while True:
        if isinstance(extent, Var):
            values.setdefault(extent, size)
            return
        if type(extent) not in (Add, Mul):
            return
        a, b = extent.args
        known, rest = _number(a, values), b
        if known is None:
            known, rest = _number(b, values), a
        if known is None:
            return
        if type(extent) is Add:
            size -= known
        elif known == 0 or size % known:
            return
        else:
            size //= known
        extent = rest


def _number(e: Expr, values: dict[Var, Value]) -> int | None:
    if isinstance(e, Const):
        return int(e.value)
    return values.get(e) if isinstance(e, Var) else None


def _bind_strides(memories: dict[Buffer, Memory], values: dict[Var, Value]) -> None:
    """Dimensions that only strides mention take the strides of the arrays, in elements."""
    for buffer, memory in memories.items():
        for stride, step in zip(buffer.strides or (), memory.data.strides, strict=False):
            if isinstance(stride, Var) and stride not in values:
                values[stride] = step // memory.data.itemsize
