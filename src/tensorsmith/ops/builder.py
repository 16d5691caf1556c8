"""Graph functions made binding by binding, with types inferred as they grow.

The builder knows what small integer tensors hold (`tensorsmith.ops.contents`): so shape arithmetic
that a model writes as tensors becomes expressions over dimensions, and where it cannot, a `Dims`
binding reads the numbers when the function runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError, TensorsmithError
from tensorsmith.ir import (
    Buffer,
    Cast,
    Const,
    DType,
    Expr,
    ExprLike,
    Load,
    Var,
    as_expr,
    const,
    free_vars,
)
from tensorsmith.ir.dtype import dtype as as_dtype
from tensorsmith.ir.dtype import index
from tensorsmith.ir.graph import (
    Apply,
    Binding,
    Body,
    Check,
    Constant,
    Dims,
    GraphFunction,
    MatchShape,
    Value,
)
from tensorsmith.ops.contents import (
    Contents,
    constant_shape,
    contents_of_array,
    derive,
    exact,
)
from tensorsmith.ops.operator import Operator, placeholders, result_types
from tensorsmith.ops.requirements import collecting

Array = np.ndarray[Any, Any]


class GraphBuilder:
    """A graph function in the making.

    operators: what `apply` knows, by name.
    sources: the model's node that is being read, noted on each binding.
    facts: what is known of the dimensions.
    variables: those that are in scope here.
    """

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self.operators = operators
        self.sources: tuple[str, ...] = ()
        self.facts = Analyzer()
        self.variables: set[Var] = set()
        self.params: list[Value] = []
        self.constants: dict[Buffer, Array] = {}
        self._contents: dict[Buffer, Contents] = {}
        self._integers: dict[Buffer, tuple[Expr, ...]] = {}
        self._bindings: list[Binding] = []

    # --- Values ------------------------------------------------------------------------------

    def param(self, name: str, shape: Sequence[ExprLike], dtype: DType | str) -> Buffer:
        """A new parameter."""
        made = Buffer(name, shape, dtype)
        self.add_param(made)
        return made

    def add_param(self, value: Value) -> None:
        """Make `value` the next parameter."""
        self.params.append(value)
        self.variables.update(free_vars(*value.shape))

    def constant(self, array: Array, name: str = "constant") -> Buffer:
        """A tensor that is known. The array is kept, not copied, and must not change."""
        type_ = as_dtype(array.dtype.name)
        made = Buffer(name, array.shape, type_)
        self.emit(Constant(made, array, sources=self.sources))
        self.constants[made] = array
        known = contents_of_array(array, made)
        if known is not None:
            self._contents[made] = known
        return made

    def scalar(self, value: float, dtype: DType | str, name: str = "scalar") -> Buffer:
        """A constant of shape ()."""
        type_ = as_dtype(dtype)
        assert type_.numpy is not None
        return self.constant(np.array(value, type_.numpy), name)

    def elements(
        self, values: Sequence[ExprLike], dtype: DType | str = "int64", *, name: str = "shape"
    ) -> Buffer:
        """The tensor of rank 1 that holds these expressions over dimensions."""
        attrs = {"values": tuple(as_expr(v) for v in values), "dtype": as_dtype(dtype).name}
        (made,) = self.apply("from_elements", (), attrs, [name])
        return made

    # --- Bindings ----------------------------------------------------------------------------

    def emit(self, binding: Binding) -> None:
        """Append a binding."""
        self._bindings.append(binding)
        if isinstance(binding, Dims):
            self.variables.update(binding.variables)
        elif not isinstance(binding, (Apply, Constant)):
            self.variables.update(free_vars(*(e for v in binding.outputs for e in v.shape)))

    def apply(
        self,
        op: str,
        operands: Sequence[Buffer | None],
        attrs: Mapping[str, Any] = MappingProxyType({}),
        names: Sequence[str] | None = None,
    ) -> tuple[Buffer, ...]:
        """The results of an operator; their types and contents follow from its computation.

        names: what the results are called; by default as the operator's own tensors are.
        Raises ShapeError, DTypeError or IRError for operands that do not fit, with the sources.
        """
        inputs = placeholders(operands)
        try:
            with collecting() as required:
                results = self.operators[op](inputs, attrs)
            for condition, message in required.items():
                self.check(condition, message)
        except TensorsmithError as error:
            raise error.at(", ".join(self.sources) or None) from error
        values = result_types(results, names or [r.name for r in results], self.facts)
        kept = tuple(operands)
        self.emit(Apply(values, op, kept, MappingProxyType(dict(attrs)), sources=self.sources))
        known = {
            p: self._contents[o]
            for p, o in zip(inputs, operands, strict=True)
            if p is not None and o is not None and o in self._contents
        }
        if len(known) == sum(o is not None for o in operands):
            for value, result in zip(values, results, strict=True):
                if (found := derive(result, known)) is not None:
                    self._contents[value] = found
        return values

    def __call__(self, op: str, *operands: Buffer | None, **attrs: Any) -> Buffer:
        """`apply` for an operator with one result."""
        (result,) = self.apply(op, operands, attrs)
        return result

    def check(self, condition: Expr, message: str) -> None:
        """Have `condition` hold when the function runs, and know it from here on.

        Raises ShapeError if it never holds.
        """
        proved = self.facts.prove(condition)
        if proved is True:
            return
        if proved is False:
            raise ShapeError(message, where=", ".join(self.sources) or None)
        self.emit(Check(condition, message, sources=self.sources))
        self.facts.learn(condition)

    def match(self, value: Buffer, shape: Sequence[ExprLike]) -> Buffer:
        """`value` by another view of its shape, checked when the function runs."""
        made = Buffer(value.name, shape, value.dtype)
        self.emit(MatchShape(made, value, sources=self.sources))
        if value in self._contents:
            self._contents[made] = self._contents[value]
        if value in self.constants:
            self.constants[made] = self.constants[value]
        return made

    def dimension(self, value: Expr, name: str = "n", low: int | None = 0) -> Expr:
        """`value` itself if it is made of variables and constants, else a fresh variable for it.

        low: what it is never below (checked when the function runs), None for nothing.
        """
        value = self.facts.simplify(value if value.dtype.is_index else Cast(value, index))
        if isinstance(value, (Const, Var)):
            return value
        made = Var(name, low=low)
        self.emit(Dims((made,), (value,), sources=self.sources))
        return made

    # --- What is known -----------------------------------------------------------------------

    def array(self, value: Buffer) -> Array | None:
        """What the tensor holds if that is known now, else None."""
        if value in self.constants:
            return self.constants[value]
        known = self._contents.get(value)
        if known is None or not all(isinstance(e, Const) for e in known.flat):
            return None
        assert value.dtype.numpy is not None
        return np.array([e.value for e in known.flat], value.dtype.numpy).reshape(known.shape)

    def contents(self, value: Buffer) -> Contents | None:
        """The elements as expressions of the tensor's dtype, if they are known, else None."""
        return self._contents.get(value)

    def integers(self, value: Buffer, name: str = "n", low: int | None = None) -> tuple[Expr, ...]:
        """The elements of an integer tensor of constant size, as ``index`` expressions.

        Known ones are expressions over dimensions; the others are fresh variables, read when the
        function runs. low: what none of the latter is below, None for nothing.
        Raises ShapeError if the size is not constant or the rank above 1.
        """
        if value in self._integers:
            return self._integers[value]
        known = self._contents.get(value)
        if known is not None:
            found = [exact(e) for e in known.flat]
            if all(e is not None for e in found):
                simple = tuple(self.facts.simplify(e) for e in found if e is not None)
                self._integers[value] = simple
                return simple
        shape = constant_shape(value)
        if shape is None or len(shape) > 1:
            raise ShapeError(
                f"{value.name!r} says sizes or positions, and has a shape that is not known",
                where=", ".join(self.sources) or None,
                given=repr(value),
                because="how many there are decides the rank of a result",
            )
        points = list(np.ndindex(shape))
        variables = tuple(
            Var(f"{name}{k}" if len(points) > 1 else name, low=low) for k in range(len(points))
        )
        loads = tuple(Cast(Load(value, tuple(map(const, at))), index) for at in points)
        if variables:
            self.emit(Dims(variables, loads, sources=self.sources))
        self._integers[value] = variables
        return variables

    # --- Inside and end ----------------------------------------------------------------------

    @contextmanager
    def inside(self) -> Iterator[list[Binding]]:
        """Collect the bindings of a body apart: what is emitted within goes into the list."""
        outer, self._bindings = self._bindings, []
        known, variables = dict(self._integers), set(self.variables)
        try:
            with self.facts.scope():
                yield self._bindings
        finally:
            self._bindings = outer
            self._integers = known  # variables bound inside have no meaning outside
            self.variables = variables

    def body(
        self,
        make: Callable[[], Sequence[Value]],
        params: Sequence[Value] = (),
        variables: Sequence[Var] = (),
    ) -> Body:
        """The body whose bindings `make` emits and whose results it gives."""
        with self.inside() as bindings:
            self.variables.update(variables, free_vars(*(e for p in params for e in p.shape)))
            results = tuple(make())
            return Body(tuple(params), tuple(bindings), results, tuple(variables))

    def function(self, name: str, results: Sequence[Value]) -> GraphFunction:
        """The function as it stands."""
        return GraphFunction(name, tuple(self.params), tuple(self._bindings), tuple(results))
