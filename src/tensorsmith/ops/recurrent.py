"""Recurrent layers: LSTM, GRU and the plain one, in either direction or both.

The products with the input are one contraction over all steps; only those with the state stand in
the loop over the steps. Operands and results have the shapes of ONNX, with a first dimension for
the directions; narrow floats are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import INTRINSICS, Const, DType, Expr, Kind, Select, as_expr
from tensorsmith.ops.indexing import as_index, check_extents, check_integer
from tensorsmith.ops.operands import check_rank, computed_in, converted, one_dtype
from tensorsmith.ops.operator import Operator, operators
from tensorsmith.te import Tensor

Activation = tuple[str, float | None, float | None]
"""A function by its name in ONNX, in lower case, and its alpha and beta (None for the usual)."""

_abs: Final = INTRINSICS["abs"]
_exp: Final = INTRINSICS["exp"]
_expm1: Final = INTRINSICS["expm1"]
_log1p: Final = INTRINSICS["log1p"]
_sigmoid: Final = INTRINSICS["sigmoid"]
_tanh: Final = INTRINSICS["tanh"]

_FUNCTIONS: Final[dict[str, tuple[float, float, Callable[[Expr, float, float], Expr]]]] = {
    "relu": (0, 0, lambda x, a, b: T.max(x, 0.0)),
    "tanh": (0, 0, lambda x, a, b: _tanh(x)),
    "sigmoid": (0, 0, lambda x, a, b: _sigmoid(x)),
    "affine": (1, 0, lambda x, a, b: x * a + b),
    "leakyrelu": (0.01, 0, lambda x, a, b: T.select(x < 0.0, x * a, x)),
    "thresholdedrelu": (1, 0, lambda x, a, b: T.select(x > a, x, 0.0)),
    "scaledtanh": (1, 1, lambda x, a, b: _tanh(x * b) * a),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: T.max(T.min(x * a + b, 1.0), 0.0)),
    "elu": (1, 0, lambda x, a, b: T.select(x < 0.0, _expm1(x) * a, x)),
    "softsign": (0, 0, lambda x, a, b: x / (_abs(x) + 1.0)),
    "softplus": (0, 0, lambda x, a, b: T.max(x, 0.0) + _log1p(_exp(T.neg(_abs(x))))),
}
"""Each activation with the usual alpha and beta."""

DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction runs backwards."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """The operands and attributes of a layer.

    gates: how many rows of the weights there are for each unit.
    """

    x: Tensor
    weight: Tensor
    recurrence: Tensor
    bias: Tensor | None
    lengths: Tensor | None
    starts: tuple[Tensor | None, ...]
    gates: int
    backwards: tuple[bool, ...]
    activations: tuple[Activation, ...]
    clip: float | None
    batch_first: bool

    @property
    def units(self) -> Expr:
        """The extent of the state."""
        return self.recurrence.shape[2]

    @property
    def steps(self) -> Expr:
        """The number of steps."""
        return self.x.shape[1 if self.batch_first else 0]

    @property
    def batch(self) -> Expr:
        """The number of sequences."""
        return self.x.shape[0 if self.batch_first else 1]

    @property
    def wide(self) -> DType:
        """The type to compute in."""
        return computed_in(self.x.dtype)

    def checked(self, op: str) -> _Layer:
        """Itself. Raises ShapeError or DTypeError if the operands do not fit."""
        floats = (self.x, self.weight, self.recurrence, self.bias, *self.starts)
        one_dtype(op, Kind.FLOAT, *(t for t in floats if t is not None))
        for operand in (self.x, self.weight, self.recurrence):
            check_rank(op, operand, 3, 3)
        directions, rows = as_expr(len(self.backwards)), self.units * self.gates
        fits: list[tuple[tuple[Expr, ...], tuple[Expr, ...]]] = [
            (self.weight.shape, (directions, rows, self.x.shape[2])),
            (self.recurrence.shape, (directions, rows, self.units)),
        ]
        if self.bias is not None:
            fits.append((self.bias.shape, (directions, rows * 2)))
        state = (directions, self.batch, self.units)
        if self.batch_first:
            state = (self.batch, directions, self.units)
        fits.extend((s.shape, state) for s in self.starts if s is not None)
        if self.lengths is not None:
            check_integer(self.lengths, f"the lengths of {op}")
            fits.append((self.lengths.shape, (self.batch,)))
        for shape, wanted in fits:
            if len(shape) != len(wanted):
                raise ShapeError(f"{op} takes operands of other ranks", given=f"{shape}")
            for a, b in zip(shape, wanted, strict=True):
                check_extents(a, b, f"{op} of operands that do not fit")
        if len(self.activations) % len(self.backwards):
            raise ShapeError(f"{op} takes as many activations for each direction")
        return self

    def activation(
        self, direction: int, number: int, *, clips: bool = True
    ) -> Callable[[Expr], Expr]:
        """A function, of values that are clipped first: those of gates, not the cell's."""
        each = len(self.activations) // len(self.backwards)
        name, alpha, beta = self.activations[direction * each + number]
        if name not in _FUNCTIONS:
            raise ShapeError(
                f"there is no activation {name!r}", try_=f"one of {', '.join(_FUNCTIONS)}"
            )
        usual_alpha, usual_beta, function = _FUNCTIONS[name]
        a = usual_alpha if alpha is None else alpha
        b = usual_beta if beta is None else beta

        def apply(value: Expr) -> Expr:
            if clips and self.clip is not None:
                value = T.max(T.min(value, self.clip), -self.clip)
            return function(value, float(a), float(b))

        return apply

    def projected(self, direction: int) -> Tensor:
        """(steps, batch, rows): the products of the input, by the steps of `x`."""
        k = te.reduce_axis(self.x.shape[2], "k")
        rows = self.weight.shape[1]

        def product(t: Expr, b: Expr, r: Expr) -> te.Reduce:
            at = (b, t, k) if self.batch_first else (t, b, k)
            value = converted(self.x[at], self.wide)
            return te.sum(value * converted(self.weight[direction, r, k], self.wide), axis=k)

        return te.compute((self.steps, self.batch, rows), product, "projected")

    def biased(self, direction: int, row: Expr, part: int) -> Expr:
        """The bias of a row: of the input (part 0) or of the state (1)."""
        if self.bias is None:
            return as_expr(0.0, self.wide)
        return converted(self.bias[direction, row + part * self.weight.shape[1]], self.wide)

    def product(self, direction: int, state: Tensor, first: int, count: int) -> Tensor:
        """(batch, rows): the products of the state for the gates from the first on."""
        k = te.reduce_axis(self.units, "k")
        rows = Analyzer().simplify(self.units * count)
        start = Analyzer().simplify(self.units * first)

        def turned(k: Expr, r: Expr) -> Expr:
            return converted(self.recurrence[direction, start + r, k], self.wide)

        # Once for all steps: rows side by side, so that vectors of them take part in each step.
        weight = te.compute((self.units, rows), turned, "turned")
        before = te.compute(state.shape, lambda b, j: state[b, j], "before")

        def total(b: Expr, r: Expr) -> te.Reduce:
            return te.sum(before[b, k] * weight[k, r], axis=k)

        return te.compute((self.batch, rows), total, "recurrent")

    def moment(self, direction: int, step: Expr, batch: Expr) -> Expr:
        """Where in time a step of a direction is, or the step at a time."""
        if not self.backwards[direction]:
            return step
        if self.lengths is None:
            return self.steps - 1 - step
        count = T.min(as_index(self.lengths[batch]), self.steps)
        return T.select(step < count, count - 1 - step, step)

    def start(self, direction: int, number: int) -> Tensor:
        """The state before the first step: (batch, units)."""
        given = self.starts[number]

        def element(b: Expr, j: Expr) -> Expr:
            if given is None:
                return as_expr(0.0, self.wide)
            at = (b, direction, j) if self.batch_first else (direction, b, j)
            return converted(given[at], self.wide)

        return te.compute((self.batch, self.units), element, "start")

    def held(self, step: Expr, batch: Expr, new: Expr, old: Expr) -> Expr:
        """The state after a step: the old one where the sequence has ended."""
        if self.lengths is None:
            return new
        return T.select(step < as_index(self.lengths[batch]), new, old)

    def outputs(self, histories: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
        """The states of the first kind at each time, and the last ones of each kind.

        histories: for each direction those of each kind of state, by steps.
        """
        directions = len(self.backwards)
        type_ = self.x.dtype

        def at_time(t: Expr, d: Expr, b: Expr, j: Expr) -> Expr:
            values = [histories[n][0][self.moment(n, t, b), b, j] for n in range(directions)]
            value = _chosen(d, values)
            if self.lengths is not None:
                value = T.select(t < as_index(self.lengths[b]), value, 0.0)
            return converted(value, type_)

        def last(kind: int) -> Callable[[Expr, Expr, Expr], Expr]:
            def element(d: Expr, b: Expr, j: Expr) -> Expr:
                values = [
                    self._last(n, histories[n][kind], kind, (b, j)) for n in range(directions)
                ]
                return converted(_chosen(d, values), type_)

            return element

        shape = (self.steps, as_expr(directions), self.batch, self.units)
        if self.batch_first:
            whole = te.compute(
                (self.batch, self.steps, directions, self.units),
                lambda b, t, d, j: at_time(t, d, b, j),
                "states",
            )
        else:
            whole = te.compute(shape, at_time, "states")
        ends = []
        for kind in range(len(histories[0])):
            element = last(kind)
            if self.batch_first:
                end = te.compute(
                    (self.batch, directions, self.units),
                    lambda b, d, j, e=element: e(d, b, j),
                    "last_state",
                )
            else:
                end = te.compute(shape[1:], element, "last_state")
            ends.append(end)
        return whole, *ends

    def _last(self, direction: int, history: Tensor, kind: int, at: tuple[Expr, Expr]) -> Expr:
        """The state after all steps, which is that before the first if there are none."""
        if self.steps is as_expr(0):
            return self.start(direction, kind)[at]
        if isinstance(self.steps, Const):
            return history[(self.steps - 1, *at)]
        return Select(
            self.steps > 0, history[(self.steps - 1, *at)], self.start(direction, kind)[at]
        )


def _chosen(direction: Expr, values: Sequence[Expr]) -> Expr:
    """The value of a direction."""
    return values[0] if len(values) == 1 else T.select(T.equal(direction, 0), *values)


def _layer(
    operands: tuple[Tensor, Tensor, Tensor],
    rest: Sequence[Tensor | None],
    counts: tuple[int, int],
    attrs: tuple[str, tuple[Activation, ...], float | None, bool],
) -> _Layer:
    """A layer. counts: the gates and the states."""
    direction, activations, clip, batch_first = attrs
    if direction not in DIRECTIONS:
        raise ShapeError(f"there is no direction {direction!r}", try_=f"one of {[*DIRECTIONS]}")
    gates, states = counts
    bias, lengths, *starts = (*rest, *(None,) * 5)[: 2 + states]
    x, weight, recurrence = operands
    return _Layer(
        x=x,
        weight=weight,
        recurrence=recurrence,
        bias=bias,
        lengths=lengths,
        starts=tuple(starts),
        gates=gates,
        backwards=DIRECTIONS[direction],
        activations=activations,
        clip=clip,
        batch_first=batch_first,
    )


def _for_all(
    activations: tuple[Activation, ...], count: int, direction: str
) -> tuple[Activation, ...]:
    """The activations of each direction, where they are given once for both."""
    twice = direction == "bidirectional" and len(activations) == count
    return activations * 2 if twice else activations


Cell = Callable[[int, Tensor, Expr, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""The states after a step: of the direction, the products of the input, the step, the states."""


def _scanned(layer: _Layer, direction: int, cell: Cell) -> tuple[Tensor, ...]:
    """The states of a direction after each step."""
    projected = layer.projected(direction)
    starts = tuple(layer.start(direction, k) for k in range(len(layer.starts)))

    def step(t: Expr, *states: Tensor) -> tuple[Tensor, ...]:
        return cell(direction, projected, t, states)

    return te.scan(layer.steps, step, starts, "states")


def _results(layer: _Layer, cell: Cell) -> tuple[Tensor, ...]:
    return layer.outputs([_scanned(layer, d, cell) for d in range(len(layer.backwards))])


def rnn(
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    *rest: Tensor | None,
    activations: tuple[Activation, ...] = (("tanh", None, None),),
    direction: str = "forward",
    clip: float | None = None,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:
    """The plain recurrent layer: ``h = f(W x + R h + b)``.

    x: (steps, batch, size), or (batch, steps, size) with `batch_first`. weight: (directions, units,
    size), recurrence: (directions, units, units). rest: up to three of the biases (directions, 2 *
    units), of the input, then of the state; the lengths (batch,) of the sequences; and the states
    before the first step (directions, batch, units).
    activations: those of each direction, or once for all. clip: the bound of what gates give them.
    Returns the states (steps, directions, batch, units), zeros beyond the lengths, and the last
    ones (directions, batch, units); with `batch_first` the batch comes first in all.
    """
    attrs = (direction, _for_all(activations, 1, direction), clip, batch_first)
    layer = _layer((x, weight, recurrence), rest, (1, 1), attrs).checked("rnn")

    def cell(d: int, projected: Tensor, t: Expr, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (h,) = states
        f, product = layer.activation(d, 0), layer.product(d, h, 0, 1)

        def state(b: Expr, j: Expr) -> Expr:
            value = projected[layer.moment(d, t, b), b, j] + product[b, j]
            value = value + layer.biased(d, j, 0) + layer.biased(d, j, 1)
            return layer.held(t, b, f(value), h[b, j])

        return (te.compute(h.shape, state, "state"),)

    return _results(layer, cell)


def gru(
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    *rest: Tensor | None,
    activations: tuple[Activation, ...] = (("sigmoid", None, None), ("tanh", None, None)),
    direction: str = "forward",
    clip: float | None = None,
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> tuple[Tensor, ...]:
    """Gated recurrent units, operands as of `rnn` with the rows of the gates z, r, h in turn.

    linear_before_reset: the reset gate multiplies the product with the state, not the state.
    Source: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.
    """
    attrs = (direction, _for_all(activations, 2, direction), clip, batch_first)
    layer = _layer((x, weight, recurrence), rest, (3, 1), attrs).checked("gru")
    units = layer.units

    def cell(d: int, projected: Tensor, t: Expr, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (h,) = states
        f, g = layer.activation(d, 0), layer.activation(d, 1)
        product = layer.product(d, h, 0, 2)

        def gate(b: Expr, r: Expr) -> Expr:
            value = projected[layer.moment(d, t, b), b, r] + product[b, r]
            return f(value + layer.biased(d, r, 0) + layer.biased(d, r, 1))

        gates = te.compute(product.shape, gate, "gates")
        if linear_before_reset:
            inner = layer.product(d, h, 2, 1)
        else:
            reset = te.compute(h.shape, lambda b, j: gates[b, units + j] * h[b, j], "reset")
            inner = layer.product(d, reset, 2, 1)

        def state(b: Expr, j: Expr) -> Expr:
            row = units * 2 + j
            value = inner[b, j] + layer.biased(d, row, 1)
            if linear_before_reset:
                value = value * gates[b, units + j]
            value = value + projected[layer.moment(d, t, b), b, row] + layer.biased(d, row, 0)
            keep = gates[b, j]
            return layer.held(t, b, (1.0 - keep) * g(value) + keep * h[b, j], h[b, j])

        return (te.compute(h.shape, state, "state"),)

    return _results(layer, cell)


_USUAL: Final[tuple[Activation, ...]] = (
    ("sigmoid", None, None),
    ("tanh", None, None),
    ("tanh", None, None),
)


def lstm(
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    *rest: Tensor | None,
    activations: tuple[Activation, ...] = _USUAL,
    direction: str = "forward",
    clip: float | None = None,
    batch_first: bool = False,
    input_forget: bool = False,
) -> tuple[Tensor, ...]:
    """Long short-term memory, operands as of `rnn` with the rows of the gates i, o, f, c in turn.

    rest: the biases, the lengths, the hidden states and the cells before the first step, and the
    peepholes (directions, 3 * units) of i, o, f. input_forget: the forget gate is 1 less the input
    gate. Returns the hidden states, the last ones, and the last cells.
    Sources: Hochreiter and Schmidhuber, 1997; Gers and Schmidhuber, Recurrent nets that time and
    count, 2000.
    """
    attrs = (direction, _for_all(activations, 3, direction), clip, batch_first)
    layer = _layer((x, weight, recurrence), rest, (4, 2), attrs).checked("lstm")
    peepholes = rest[4] if len(rest) > 4 else None
    if peepholes is not None:
        one_dtype("lstm", Kind.FLOAT, x, peepholes)
        check_rank("the peepholes of lstm", peepholes, 2, 2)
        check_extents(peepholes.shape[1], layer.units * 3, "lstm takes three peepholes a unit")
    units = layer.units

    def cell(d: int, projected: Tensor, t: Expr, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h, c = states
        f, g = layer.activation(d, 0), layer.activation(d, 1)
        last = layer.activation(d, 2, clips=False)
        product = layer.product(d, h, 0, 4)

        def gate(b: Expr, j: Expr, k: int) -> Expr:
            row = units * k + j
            value = projected[layer.moment(d, t, b), b, row] + product[b, row]
            return value + layer.biased(d, row, 0) + layer.biased(d, row, 1)

        def peep(value: Expr, j: Expr, k: int, memory: Expr) -> Expr:
            if peepholes is None:
                return value
            return value + converted(peepholes[d, units * k + j], layer.wide) * memory

        def memory(b: Expr, j: Expr) -> Expr:
            old = c[b, j]
            enter = f(peep(gate(b, j, 0), j, 0, old))
            keep = 1.0 - enter if input_forget else f(peep(gate(b, j, 2), j, 2, old))
            return keep * old + enter * g(gate(b, j, 3))

        cells = te.compute(c.shape, memory, "cell")

        def hidden(b: Expr, j: Expr) -> Expr:
            now = cells[b, j]
            return layer.held(t, b, f(peep(gate(b, j, 1), j, 1, now)) * last(now), h[b, j])

        state = te.compute(h.shape, hidden, "state")
        if layer.lengths is None:
            return state, cells
        return state, te.compute(
            c.shape, lambda b, j: layer.held(t, b, cells[b, j], c[b, j]), "held_cell"
        )

    return _results(layer, cell)


OPERATORS: Final[tuple[Operator, ...]] = operators(rnn, gru, lstm)
