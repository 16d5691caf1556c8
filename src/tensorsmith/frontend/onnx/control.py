"""If, Loop and Scan.

A condition that is known takes its side at once. A loop over sequences or strings, of which the
number of iterations is known, is read iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from typing import TYPE_CHECKING, Final

from tensorsmith.errors import ShapeError
from tensorsmith.frontend.onnx.arguments import ask_equal
from tensorsmith.frontend.onnx.node import Converter, Node, OpenValueError
from tensorsmith.frontend.onnx.strings import also_of_strings
from tensorsmith.frontend.onnx.types import STRING
from tensorsmith.frontend.onnx.values import Nothing, Read, Sequence, flat
from tensorsmith.ir import Buffer, Const, Expr, Opaque, Var, as_expr
from tensorsmith.ir.expr import Max
from tensorsmith.ops.control import branch, loop

if TYPE_CHECKING:
    from onnx import GraphProto

_ENDLESS: Final = 2**31 - 1
"""Trip counts from here on mean that only the condition ends a loop."""


def if_(node: Node) -> tuple[Read, ...]:
    """Either of two graphs."""
    condition = node.tensor()
    sides = {name: node.graph(name) for name in ("then_branch", "else_branch")}
    known = node.builder.array(condition)
    if known is not None:
        name = "then_branch" if bool(known.reshape(-1)[:1].any()) else "else_branch"
        return node.run_graph(sides[name], name, ())
    if condition.rank:
        condition = node("reshape", condition, shape=())
    found: list[tuple[Read, ...]] = []

    def make(name: str) -> SequenceOf[Buffer | Opaque]:
        found.append(node.run_graph(sides[name], name, ()))
        return [t for r in found[-1] for t in flat(r)]

    try:
        results = branch(
            node.builder, condition, lambda: make("then_branch"), lambda: make("else_branch")
        )
    except ShapeError as error:
        node.refuse_open(0, None if len(found) == 2 else f"a side cannot be taken: {error.what}")
    if [_form(r) for r in found[0]] != [_form(r) for r in found[1]]:
        node.refuse_open(0)
    return _refilled(found[0], results)


def _form(value: Read) -> object:
    """What of a value is resolved while reading."""
    if isinstance(value, Sequence):
        return tuple(map(_form, value.items))
    return isinstance(value, Nothing)


def _refilled(values: SequenceOf[Read], tensors: SequenceOf[Buffer | Opaque]) -> tuple[Read, ...]:
    """The values with other tensors in place of theirs."""
    rest = iter(tensors)

    def fill(value: Read) -> Read:
        if isinstance(value, Sequence):
            return Sequence(tuple(fill(v) for v in value.items))
        return value if isinstance(value, Nothing) else next(rest)

    return tuple(fill(v) for v in values)


# --- Loop ------------------------------------------------------------------------------------


def loop_(node: Node) -> tuple[Read, ...]:
    """A graph again and again."""
    body = node.graph("body")
    states = [node.value(n) for n in range(2, len(node.inputs))]
    if any(s is None for s in states):
        node.wrong("a state of the loop is left out")
    initial = [s for s in states if s is not None]
    if any(not isinstance(s, (Buffer, Opaque)) for s in initial):
        return _unrolled(node, body, initial)
    if _has_strings(node, body) and _count_is_known(node):
        return _unrolled(node, body, initial)
    tensors = [s for s in initial if isinstance(s, (Buffer, Opaque))]
    trip, condition = _bounds(node)

    def make(
        number: Var, params: SequenceOf[Buffer | Opaque]
    ) -> tuple[Buffer | None, SequenceOf[Buffer | Opaque], SequenceOf[Buffer | Opaque]]:
        at = node("from_elements", values=(number,), dtype="int64", is_scalar=True)
        going = node.builder.scalar(value=True, dtype="bool", name="going")
        on, *rest = node.run_graph(body, "body", (at, going, *params))
        tensors = [t for t in rest if isinstance(t, (Buffer, Opaque))]
        if len(tensors) != len(rest) or not isinstance(on, Buffer):
            node.unsupported("a loop makes a sequence of tensors")
        return _going(node, on), tensors[: len(params)], tensors[len(params) :]

    try:
        return loop(node.builder, trip, condition, tensors, make)
    except ShapeError as error:
        if error.what.startswith("a state before and after"):
            return _unrolled(node, body, initial)
        raise


def _has_strings(node: Node, body: GraphProto) -> bool:
    """Whether strings go into a loop, or its body sees or makes some."""
    named = {name for n in body.node for name in n.input}
    seen = (*node.inputs, *(v for name, v in node.scope.values.items() if name in named))
    return any(isinstance(v, Opaque) for v in seen) or any(
        a.name in ("value_string", "value_strings") or a.t.data_type == STRING
        for n in body.node
        for a in n.attribute
    )


def _count_is_known(node: Node) -> bool:
    """Whether it is known while reading how often a loop runs at most, and that it begins."""
    counts, begins = node.numbers_of(0, "trip"), node.optional(1)
    if not counts or not isinstance(counts[0], Const) or counts[0].value >= _ENDLESS:
        return False
    return begins is None or node.builder.array(begins) is not None


def _going(node: Node, on: Buffer) -> Buffer | None:
    """A condition of shape (); None where it is known to hold."""
    known = node.builder.array(on)
    if known is not None and bool(known.all()):
        return None
    return node("reshape", on, shape=()) if on.rank else on


def _bounds(node: Node) -> tuple[Expr | None, Buffer | None]:
    """How often a loop runs at most, and whether it begins."""
    trip: Expr | None = None
    counts = node.numbers_of(0, "trip")
    if counts:
        trip = counts[0]
        if isinstance(trip, Const) and trip.value >= _ENDLESS:
            trip = None
        elif node.builder.facts.prove(trip >= 0) is not True:
            trip = node.builder.dimension(Max(trip, as_expr(0)), "trip")
    condition = node.optional(1)
    if condition is None:
        return trip, None
    known = node.builder.array(condition)
    if known is not None:
        return (trip, None) if bool(known.all()) else (as_expr(0), None)
    return trip, _going(node, condition)


def _unrolled(node: Node, body: GraphProto, states: SequenceOf[Read]) -> tuple[Read, ...]:
    """A loop of which the number of iterations is known, read one by one."""
    limit = node.reader.limits.sequence
    trips = node.constants(0)
    condition = node.known(1)
    going = condition is None or bool(condition.all())
    current = list(states)
    scans: list[list[Read]] = []
    number = 0
    while going and (not trips or number < trips[0]):
        if number >= limit:
            node.unsupported(f"a loop of more than {limit} iterations over sequences")
        at = node.builder.scalar(number, "int64", "iteration")
        on = node.builder.scalar(value=True, dtype="bool", name="going")
        goes_on, *rest = node.run_graph(body, "body", (at, on, *current))
        current = list(rest[: len(states)])
        scans.append(list(rest[len(states) :]))
        known = node.builder.array(goes_on) if isinstance(goes_on, Buffer) else None
        if known is None:
            values = node.reader.inputs_behind(goes_on)
            raise OpenValueError("the end of the loop must be known", node.where, values=values)
        going = bool(known.all())
        number += 1
    width = len(scans[0]) if scans else 0
    collected = (_stacked(node, [row[k] for row in scans]) for k in range(width))
    made = (*current, *collected)
    if len(made) < len(node.proto.output):
        node.unsupported("a scan of a loop without iterations", because="its shape is not known")
    return made


def _stacked(node: Node, rows: SequenceOf[Read]) -> Read:
    """What a scan has collected."""
    if not all(isinstance(r, (Buffer, Opaque)) for r in rows):
        node.unsupported("a scan of values that are no tensors")
    found = also_of_strings(_stack)(node.with_inputs(rows))
    assert not isinstance(found, tuple)
    return found


def _stack(node: Node) -> Buffer:
    return node("stack", *node.tensors(), axis=0)


# --- Scan ------------------------------------------------------------------------------------


def scan(node: Node) -> tuple[Read, ...]:
    """A graph for each slice of tensors."""
    body = node.graph("body")
    count = _scan_count(node, 0)
    inputs = node.tensors()
    states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    axes = node.integers("scan_input_axes", (0,) * count)
    reverse = node.integers("scan_input_directions", (0,) * count)
    made = _scanned(node, body, (states, scanned), (axes, reverse))
    outputs = len(node.proto.output) - len(states)
    out_axes = node.integers("scan_output_axes", (0,) * outputs)
    out_reverse = node.integers("scan_output_directions", (0,) * outputs)
    collected = made[len(states) :]
    if not len(out_axes) == len(out_reverse) == len(collected):
        node.wrong("an axis and a direction for each output of a scan")
    placed = (
        _placed(node, value, axis, backwards=bool(back))
        for value, axis, back in zip(collected, out_axes, out_reverse, strict=True)
    )
    return (*made[: len(states)], *placed)


def _scan_count(node: Node, first: int) -> int:
    """How many tensors are scanned, of the inputs from `first` on."""
    count = node.integer("num_scan_inputs")
    if not 1 <= count <= len(node.inputs) - first:
        node.wrong(f"{count} tensors are scanned, and there are {len(node.inputs) - first} inputs")
    return count


def _scanned(
    node: Node,
    body: GraphProto,
    operands: tuple[SequenceOf[Buffer], SequenceOf[Buffer]],
    along: tuple[SequenceOf[int], SequenceOf[int]],
    length: Expr | None = None,
) -> tuple[Buffer, ...]:
    """The states at the end, and what was collected, for (states, scanned) along (axes, ways).

    length: how many of the slices are scanned, and from which on backwards; None for all of them.
    """
    states, scanned = operands
    axes, reverse = along
    if not scanned or not len(axes) == len(reverse) == len(scanned):
        node.wrong("an axis and a direction for each tensor that is scanned")
    for x, axis in zip(scanned, axes, strict=True):
        if not -x.rank <= axis < x.rank:
            node.wrong(f"a scan along axis {axis}", given=f"{x!r}")
    trip = scanned[0].shape[axes[0]]
    for x, axis in zip(scanned, axes, strict=True):
        ask_equal(node, x.shape[axis], trip, "the tensors that are scanned have one length")
    if length is not None:
        node.builder.check(length <= trip, "a sequence is no longer than what is scanned")
        trip = length

    def make(
        number: Var, params: SequenceOf[Buffer | Opaque]
    ) -> tuple[None, SequenceOf[Buffer | Opaque], SequenceOf[Buffer | Opaque]]:
        slices = [
            taken(node, x, axis, trip - 1 - number if back else number)
            for x, axis, back in zip(scanned, axes, reverse, strict=True)
        ]
        results = node.run_graph(body, "body", (*params, *slices))
        tensors = [t for t in results if isinstance(t, (Buffer, Opaque))]
        if len(tensors) != len(results):
            node.unsupported("a scan makes a sequence of tensors")
        return None, tensors[: len(params)], tensors[len(params) :]

    made = loop(node.builder, trip, None, states, make)
    return tuple(v for v in made if isinstance(v, Buffer))


def taken(node: Node, x: Buffer, axis: int, position: Expr) -> Buffer:
    """The slice of `x` at a position along an axis, without the axis."""
    piece = node("slice", x, starts=(position,), extents=(1,), axes=(axis,))
    return node("squeeze", piece, axes=(axis,))


def _placed(node: Node, value: Buffer, axis: int, *, backwards: bool) -> Buffer:
    """What a scan collected, with its axis where it is wanted."""
    if backwards:
        value = node("flip", value, axes=(0,))
    axis = axis + value.rank if axis < 0 else axis
    if axis == 0:
        return value
    order = list(range(1, value.rank))
    order.insert(axis, 0)
    return node("transpose", value, axes=tuple(order))


def _filled_up(node: Node, x: Buffer, extent: Expr) -> Buffer:
    """`x` with zeros at its end, so that its first axis has this extent."""
    rest = (0,) * (x.rank - 1)
    made = node("pad", x, before=(0, *rest), after=(extent - x.shape[0], *rest))
    return node.builder.match(made, (extent, *made.shape[1:]))


def scan_of_batches(node: Node) -> tuple[Read, ...]:
    """A scan for each element of a batch, as it was in opset 8."""
    lengths = node.optional(0)
    body = node.graph("body")
    count = _scan_count(node, 1)
    reverse = node.integers("directions", (0,) * count)
    inputs = tuple(node.tensor(n) for n in range(1, len(node.inputs)))
    batch = inputs[0].shape[0]
    states = len(inputs) - count

    def make(
        number: Var, params: SequenceOf[Buffer | Opaque]
    ) -> tuple[None, SequenceOf[Buffer | Opaque], SequenceOf[Buffer | Opaque]]:
        parts = [taken(node, x, 0, number) for x in inputs]
        operands = (parts[:states], parts[states:])
        along = (0,) * count, reverse
        if lengths is None:
            return None, (), _scanned(node, body, operands, along)
        (length,) = node.builder.integers(taken(node, lengths, 0, number), "length", low=0)
        made = _scanned(node, body, operands, along, length)
        whole = parts[states].shape[0]
        return None, (), (*made[:states], *(_filled_up(node, x, whole) for x in made[states:]))

    return loop(node.builder, batch, None, (), make)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "If": if_,
    "Loop": loop_,
    "Scan": {8: scan_of_batches, 9: scan},
}
"""By operator of ONNX's own domain."""
