"""Graph functions: single-assignment bindings over typed values.

A tensor value *is* a `Buffer`: its type is the buffer's symbolic shape, dtype and, once laid out,
layout. What is no tensor (strings, state that lives between calls) is an `Opaque`. A scalar
variable (`Var`) stands for a dimension or another integer that is known when the function runs.

Scopes. A value is defined once: as a parameter, or by the one binding that has it among its
results. The bodies of `Branch` and `Loop` see all values defined before them outside. Variables in
the shapes of parameters are bound by the arguments; those that `Dims` and `MatchShape` introduce
hold from there on.

Effects. All bindings but `CallExtern` with ``is_pure=False`` are free of effects: what is not used
may be dropped, and order is only that of data. `CallProgram.inplace` states which operand's memory
a result takes over; the operand is then dead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorsmith.errors import Span
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Expr, Load, Var, free_vars, postorder
from tensorsmith.ir.stmt import Attrs, no_attrs

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A value that is no tensor. Equal only to itself.

    kind: 'strings' (a tensor of strings of `shape`), 'state' (memory that lives between calls).
    """

    name: str
    kind: str
    shape: tuple[Expr, ...] = ()


Value: TypeAlias = "Buffer | Opaque"
Operand: TypeAlias = "Buffer | Opaque | None"
"""None is an optional operand that is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """What gives values.

    sources: names of the model's nodes that it comes from, for errors, profiles and `explain`.
    """

    sources: tuple[str, ...] = field(default=(), kw_only=True)
    span: Span | None = field(default=None, kw_only=True, repr=False)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that it defines."""
        return ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads, without those that the bodies of control flow capture."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Binding):
    """A tensor that is known: `data` has the result's shape and dtype, and is never written."""

    result: Buffer
    data: Array

    def __post_init__(self) -> None:
        if self.data.flags.writeable:
            view = self.data.view()
            view.flags.writeable = False
            object.__setattr__(self, "data", view)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The tensor."""
        return (self.result,)


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Binding):
    """An operator of `tensorsmith.ops`, by name.

    attrs: its keyword arguments; expressions among them may use the variables in scope.
    """

    results: tuple[Buffer, ...]
    op: str
    operands: tuple[Buffer | None, ...]
    attrs: Attrs = field(default_factory=no_attrs)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results."""
        return self.results

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The operands that are given."""
        return tuple(o for o in self.operands if o is not None)


@dataclass(frozen=True, slots=True, eq=False)
class CallProgram(Binding):
    """A tensor program of the module, in destination-passing style.

    Its arguments are `operands` (tensors and scalars), then `results`.
    inplace: (result, operand) numbers: this result takes over that operand's memory. The program
        must be safe for it (each element is read before it is written and not after).
    """

    results: tuple[Buffer, ...]
    callee: str
    operands: tuple[Buffer | Expr, ...]
    inplace: tuple[tuple[int, int], ...] = ()

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results."""
        return self.results

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The operands that are tensors."""
        return tuple(o for o in self.operands if isinstance(o, Buffer))


@dataclass(frozen=True, slots=True, eq=False)
class CallExtern(Binding):
    """An external function: a symbol of a library, or a Python callable by its registered name.

    is_python: whether it is one of `tensorsmith.runtime`'s registered Python functions, called as
        ``f(*arrays, **attrs)``, which gives one array a result.
    """

    results: tuple[Value, ...]
    symbol: str
    operands: tuple[Value | Expr | None, ...]
    attrs: Attrs = field(default_factory=no_attrs)
    is_python: bool = False
    is_pure: bool = True

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results."""
        return self.results

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The operands that are values."""
        return tuple(o for o in self.operands if isinstance(o, (Buffer, Opaque)))


@dataclass(frozen=True, slots=True, eq=False)
class Dims(Binding):
    """Give fresh variables the values of integer expressions, which may load elements of values.

    So a number that a tensor holds becomes a dimension: ``Dims((k,), (load(count, []),))``. The
    facts on the variables are checked when the function runs.
    """

    variables: tuple[Var, ...]
    values: tuple[Expr, ...]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tensors whose elements are loaded."""
        loads = (e for e in postorder(*self.values) if isinstance(e, Load))
        return tuple(dict.fromkeys(load.buffer for load in loads))


@dataclass(frozen=True, slots=True, eq=False)
class Check(Binding):
    """Fail with `message` when the function runs and `condition` (over variables) is false."""

    condition: Expr
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class MatchShape(Binding):
    """The same tensor with another view of its shape, checked when the function runs.

    result: of the operand's dtype and rank, in the same memory. Variables of its shape that are
        not in scope are bound here to the extents of the operand; the others must agree.
    """

    result: Buffer
    operand: Buffer

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The tensor by its new type."""
        return (self.result,)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True, eq=False)
class Alias(Binding):
    """The same elements by another shape, in row-major order and in the same memory.

    result: of the operand's dtype, and of as many elements for all values of the dimensions.
    """

    result: Buffer
    operand: Buffer

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The tensor by its new shape."""
        return (self.result,)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """The inside of a branch or loop. Sees what is defined before it outside.

    params: a loop's state at the start of an iteration; () for a branch.
    variables: a loop's iteration number, if it has a name; () for a branch.
    """

    params: tuple[Value, ...]
    bindings: tuple[Binding, ...]
    results: tuple[Value, ...]
    variables: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Branch(Binding):
    """Either of two bodies.

    condition: a boolean tensor of shape ().
    results: of the types that both bodies' results have in common. An extent in which they differ
        is a fresh variable in the result's shape.
    """

    results: tuple[Value, ...]
    condition: Buffer
    then: Body
    orelse: Body

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results."""
        return self.results

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The condition."""
        return (self.condition,)


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Binding):
    """A body again and again, with carried state.

    trip: how often at most; None for no bound.
    condition: a boolean tensor of shape () that must hold for the first iteration, or None.
    initial: the states before the first iteration, one for each of the body's parameters.
    body: its results are, in order: whether to go on (a boolean tensor of shape (); left out if
        `has_condition` is false), the states after the iteration, and what the scans collect.
    results: the states after the last iteration, then one tensor a scan, with a new first axis of
        one entry an iteration. Extents that may change from iteration to iteration, and the number
        of iterations if it is not `trip`, are fresh variables.
    """

    results: tuple[Value, ...]
    trip: Expr | None
    condition: Buffer | None
    initial: tuple[Value, ...]
    body: Body
    has_condition: bool = False

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The results."""
        return self.results

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The condition and the initial states."""
        own = () if self.condition is None else (self.condition,)
        return (*own, *self.initial)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GraphFunction:
    """A function over values.

    params: tensors (and opaque values), in the order of the call.
    results: in order; a parameter or constant may be a result, and one value may be several.
    """

    name: str
    params: tuple[Value, ...]
    body: tuple[Binding, ...]
    results: tuple[Value, ...]
    attrs: Attrs = field(default_factory=no_attrs)
    span: Span | None = field(default=None, kw_only=True)

    @property
    def dims(self) -> tuple[Var, ...]:
        """The symbolic dimensions that the arguments bind, in order of first use."""
        return free_vars(*(e for p in self.params for e in p.shape))

    def script(self) -> str:
        """The function in script form."""
        from tensorsmith.ir.printer import print_function

        return print_function(self)

    def show(self) -> None:
        """Print the script form, in colours where a terminal and pygments allow."""
        from tensorsmith.ir.highlight import show

        show(self.script())

    def _repr_html_(self) -> str:
        from tensorsmith.ir.highlight import for_notebook

        return for_notebook(self.script())

    def __repr__(self) -> str:
        return self.script()


def bodies(binding: Binding) -> tuple[Body, ...]:
    """The bodies inside a binding: two of a branch, one of a loop, none of others."""
    if isinstance(binding, Branch):
        return (binding.then, binding.orelse)
    return (binding.body,) if isinstance(binding, Loop) else ()


def captured(body: Body) -> tuple[Value, ...]:
    """The values that a body reads from outside, each once, in order of first use."""
    own: set[Value] = set(body.params)
    found: dict[Value, None] = {}
    for binding in body.bindings:
        read = [*binding.inputs, *(v for b in bodies(binding) for v in captured(b))]
        found.update(dict.fromkeys(v for v in read if v not in own))
        own.update(binding.outputs)
    found.update(dict.fromkeys(v for v in body.results if v not in own))
    return tuple(found)
