"""Recurrences along an axis: each step computes a state from the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

from tensorsmith.errors import DTypeError, IRError, ShapeError, Span
from tensorsmith.ir import (
    AttrValue,
    Block,
    Eq,
    Expr,
    ExprLike,
    IterKind,
    Load,
    Select,
    Stmt,
    Var,
    as_expr,
    free_vars,
    postorder,
    seq,
)
from tensorsmith.te.compute import Compute, Nest, compute
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.lowering import Place, Read
from tensorsmith.te.origin import caller, placed
from tensorsmith.te.tensor import Definition, Tensor, check_extent, define, is_zero, make_tensor

if TYPE_CHECKING:
    from tensorsmith.te.lowering import Lowering


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class State(Definition):
    """The state before a step, as the step function sees it. Has storage only within its scan."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """None: the scan gives it its value."""
        return ()

    @property
    def scalars(self) -> tuple[Var, ...]:
        """The dimensions of its shape."""
        return free_vars(*self.outputs[0].shape)

    def lower(self, lowering: Lowering) -> Stmt:
        """Raises IRError: only the scan's own steps may read it."""
        raise IRError(
            f"the state {self.name!r} of a scan is used outside of the scan",
            try_="the tensor that te.scan gives: its element [t, ...] is the state after step t",
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scan(Definition):
    """``history[t] = step(t, history[t - 1])``, with `initial` in place of the state before step 0.

    steps: the number of steps.  time: the variable of the step.
    states, results: the tensors that stand for the states before and after the step, one an output.
    inner: the definitions that are computed in each step, in order; `results` are among theirs.
    """

    steps: Expr
    time: Var
    initial: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    inner: tuple[Definition, ...]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, each once, in order of first use."""
        own = {*self.states, *(o for d in self.inner for o in d.outputs)}
        read = dict.fromkeys((*self.initial, *(i for d in self.inner for i in d.inputs)))
        return tuple(t for t in read if t not in own)

    @property
    def scalars(self) -> tuple[Var, ...]:
        """The variables that it takes from outside: dimensions and scalar parameters."""
        used = dict.fromkeys((*free_vars(self.steps), *(v for d in self.inner for v in d.scalars)))
        return tuple(v for v in used if v is not self.time)

    @property
    def is_pointwise(self) -> bool:
        """Whether each element of the states has a recurrence of its own, with no other definition.

        Only then may the loops over the elements stand outside that over the steps.
        """
        if len(self.inner) != 1 or not isinstance(self.inner[0], Compute):
            return False
        step = self.inner[0]
        loads = (e for e in postorder(*step.values) if isinstance(e, Load))
        return (
            not step.reductions
            and len(step.outputs) == len(self.outputs)
            and all(e.indices == step.axes for e in loads if e.buffer in self.states)
        )

    def lower(self, lowering: Lowering) -> Stmt:
        """A loop over the steps around a block with an opaque iterator.

        The block holds the blocks of a step, or is that of the step where each element has a
        recurrence of its own. Where there is nothing to compute, no statement.
        """
        if is_zero(self.steps) or any(is_zero(e) for o in self.outputs for e in o.shape):
            return seq()
        nest = Nest(lowering)
        now = nest.add(self.time, self.steps, IterKind.OPAQUE)
        for k, output in enumerate(self.outputs):
            history = lowering.places[output]
            lowering.put(self.results[k], Place(history.buffer, (*history.leading, now)))
            before = lowering.reads[self.initial[k]]
            lowering.reads[self.states[k]] = _read_before(now, before, history)
        if self.is_pointwise:
            (only,) = self.inner
            assert isinstance(only, Compute)
            attrs = MappingProxyType({**only.attrs, **self.attrs})
            return replace(only, name=self.name, attrs=attrs).lower_within(nest, lowering)
        name = lowering.unique(self.name)
        body = lowering.statements(self.inner)
        return nest.around(Block(name, tuple(nest.iters), body, attrs=self.attrs, span=self.span))


def _read_before(now: Var, initial: Read, history: Place) -> Read:
    def read(indices: tuple[Expr, ...]) -> Expr:
        last = history.read((now - 1, *indices))
        return Select(Eq(now, as_expr(0)), initial(indices), last)

    return read


@overload
def scan(
    steps: ExprLike,
    step: Callable[..., Tensor],
    initial: Tensor,
    name: str = ...,
    *,
    attrs: Mapping[str, AttrValue] = ...,
) -> Tensor: ...


@overload
def scan(
    steps: ExprLike,
    step: Callable[..., Sequence[Tensor]],
    initial: tuple[Tensor, ...],
    name: str = ...,
    *,
    attrs: Mapping[str, AttrValue] = ...,
) -> tuple[Tensor, ...]: ...


def scan(
    steps: ExprLike,
    step: Callable[..., Tensor | Sequence[Tensor]],
    initial: Tensor | tuple[Tensor, ...],
    name: str = "scan",
    *,
    attrs: Mapping[str, AttrValue] = MappingProxyType({}),
) -> Tensor | tuple[Tensor, ...]:
    """The states of a recurrence after each of its steps.

    steps: how many; the first axis of the result.
    step: ``step(t, state)`` (or ``step(t, state_0, state_1, ...)``) gives the state after step t
        from the one before it: tensors defined by `compute` and the like, any number of them,
        reductions included. What does not depend on t or the state is computed once, before.
    initial: the state before step 0, or a tuple of several.
    Returns a tensor of shape (steps, *state's shape), or a tuple of one a state.
    Raises ShapeError or DTypeError if a step changes the shape or type of a state, IRError if it
    gives another number of states.

    >>> from tensorsmith import te
    >>> x = te.placeholder((10,), name="x")
    >>> zero = te.compute((), lambda: 0.0)
    >>> te.scan(10, lambda t, s: te.compute((), lambda: s + x[t]), zero, "cumulative_sum")
    cumulative_sum: Buffer((10,), 'float32')
    """
    span = caller()
    with placed(span):
        count = as_expr(steps)
        check_extent(count, f"the scan {name!r}")
        before = initial if isinstance(initial, tuple) else (initial,)
        states = tuple(_make_state(name, t, span) for t in before)
        time = Var("t")
        after = step(time, *states)
        wanted = _checked(name, before, (after,) if isinstance(after, Tensor) else tuple(after))
        results, inner = _within(wanted, states, time)
        outputs = tuple(
            make_tensor(
                name if len(before) == 1 else f"{name}_{k}", (count, *s.shape), s.dtype, span
            )
            for k, s in enumerate(states)
        )
        define(
            Scan(
                name=name,
                outputs=outputs,
                attrs=MappingProxyType(dict(attrs)),
                span=span,
                steps=count,
                time=time,
                initial=before,
                states=states,
                results=results,
                inner=inner,
            )
        )
        return outputs if isinstance(initial, tuple) else outputs[0]


def _make_state(name: str, initial: Tensor, span: Span | None) -> Tensor:
    state = make_tensor(f"{name}_before", initial.shape, initial.dtype, span)
    define(State(name=state.name, outputs=(state,), attrs=MappingProxyType({}), span=span))
    return state


def _checked(
    name: str, before: tuple[Tensor, ...], after: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """`after`, if the step keeps number, shapes and types of the states."""
    if len(after) != len(before):
        raise IRError(
            f"a step of the scan {name!r} gives {len(after)} states from {len(before)}",
            try_="one tensor for each state",
        )
    for k, (old, new) in enumerate(zip(before, after, strict=True)):
        if new.dtype is not old.dtype:
            raise DTypeError(
                f"a step of the scan {name!r} makes state {k} {new.dtype}, and it starts as"
                f" {old.dtype}"
            )
        if new.shape != old.shape:
            raise ShapeError(
                f"a step of the scan {name!r} changes the shape of state {k}",
                given=f"{old!r} before, {new!r} after",
            )
    return after


def _within(
    wanted: tuple[Tensor, ...], states: tuple[Tensor, ...], time: Var
) -> tuple[tuple[Tensor, ...], tuple[Definition, ...]]:
    """The results of a step, and the definitions to compute in each step, in order.

    Each result is written straight into the history, so it must be computed within the step, by a
    compute, and be wanted once; what is not is copied.
    """
    varying = _varying(wanted, states, time)
    results: list[Tensor] = []
    for tensor in wanted:
        direct = isinstance(tensor.definition, Compute) and tensor.definition in varying
        if direct and tensor not in results:
            results.append(tensor)
        else:
            copied = tensor
            results.append(compute(tensor.shape, lambda *i, c=copied: c[i], tensor.name))
    copies = [r.definition for r in results if r.definition not in varying]
    inner = (*varying, *(c for c in copies if c is not None))
    return tuple(results), inner


def _varying(
    wanted: tuple[Tensor, ...], states: tuple[Tensor, ...], time: Var
) -> tuple[Definition, ...]:
    """The definitions under `wanted` that depend on the step, in order."""
    changing = set(states)
    found = []
    for definition in definitions_under(wanted):
        if isinstance(definition, State):
            continue
        if time in definition.scalars or any(i in changing for i in definition.inputs):
            found.append(definition)
            changing.update(definition.outputs)
    return tuple(found)
