"""Random graphs of definitions against NumPy, in wrapping 32-bit integers, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.evaluate import interpret
from tensorsmith.ir.structural import structural_equal
from tensorsmith.script import parse_program

INT = "int32"
EXTENTS = (1, 2, 3, 5)


class Graph:
    """Tensors, each with what NumPy says it holds."""

    def __init__(self, draw):
        self.draw = draw
        self.inputs = []
        self.values = []

    def choose(self, *options):
        return self.draw(st.sampled_from(options))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def some(self, rank=None):
        """A tensor and its value, of this rank if there is one."""
        fitting = [v for v in self.values if rank is None or v[1].ndim >= rank]
        return self.choose(*fitting) if fitting else self.add_input(rank)

    def add_input(self, rank=None):
        rank = self.number(0, 3) if rank is None else rank
        shape = tuple(self.choose(*EXTENTS) for _ in range(rank))
        seed = self.number(0, 2**32 - 1)
        value = np.random.default_rng(seed).integers(-(2**31), 2**31, shape, dtype=np.int32)
        tensor = te.placeholder(shape, INT, f"in{len(self.inputs)}")
        self.inputs.append((tensor, value))
        self.values.append((tensor, value))
        return self.values[-1]

    def define(self, value, function, name):
        self.values.append((te.compute(value.shape, function, name), value))


def elementwise(g):
    tensor, value = g.some()
    constant = g.number(-5, 5)
    op = g.choose("add", "mul", "max", "select")
    if op == "add":
        g.define(value + np.int32(constant), lambda *i: tensor[i] + constant, op)
    elif op == "mul":
        g.define(value * value, lambda *i: tensor[i] * tensor[i], op)
    elif op == "max":
        g.define(np.maximum(value, constant), lambda *i: T.max(tensor[i], constant), op)
    else:
        g.define(
            np.where(value > constant, -value, value),
            lambda *i: T.select(tensor[i] > constant, -tensor[i], tensor[i]),
            op,
        )


def outer(g):
    """All pairs of the elements of two tensors, each of rank at most 1 by its first row."""
    (a, x), (b, y) = g.some(), g.some()
    x, y = x[(0,) * max(0, x.ndim - 1)], y[(0,) * max(0, y.ndim - 1)]
    shape = (*x.shape, *y.shape)

    def element(*i):
        at, bt = i[: x.ndim], i[x.ndim :]
        first = a[(*(0,) * (a.rank - x.ndim), *at)]
        return first - b[(*(0,) * (b.rank - y.ndim), *bt)]

    assert np.subtract.outer(x, y).shape == shape
    g.define(np.subtract.outer(x, y), element, "outer")


def permute(g):
    tensor, value = g.some(1)
    order = g.draw(st.permutations(range(value.ndim)))
    inverse = [order.index(d) for d in range(value.ndim)]
    g.define(
        np.ascontiguousarray(value.transpose(order)),
        lambda *i: tensor[tuple(i[d] for d in inverse)],
        "permute",
    )


def shift(g):
    """Along the first axis, zeros coming in."""
    tensor, value = g.some(1)
    by, size = g.number(-3, 3), value.shape[0]
    rows = [value[i - by] if 0 <= i - by < size else np.zeros_like(value[0]) for i in range(size)]
    g.define(
        np.stack(rows),
        lambda i, *rest: T.select(
            (i - by >= 0) & (i - by < size), tensor[(i - by, *rest)], T.const(0, INT)
        ),
        "shift",
    )


def flatten(g):
    tensor, value = g.some()
    flat = value.reshape(-1)

    def element(i):
        indices = []
        for extent in reversed(value.shape):
            indices.append(i % extent)
            i = i // extent
        return tensor[tuple(reversed(indices))]

    g.define(flat, element, "flatten")


def join(g):
    (a, x), (b, y) = g.some(1), g.some(1)
    x, y = (v[(slice(None), *(0,) * (v.ndim - 1))] for v in (x, y))
    cut = len(x)

    def element(i):
        left = a[(i, *(0,) * (a.rank - 1))]
        return T.select(i < cut, left, b[(i - cut, *(0,) * (b.rank - 1))])

    g.define(np.concatenate([x, y]), element, "join")


def reduction(g):
    """Along some axes, perhaps over every other point of the first of them."""
    tensor, value = g.some(1)
    over = sorted(g.draw(st.sets(st.integers(0, value.ndim - 1), min_size=1)))
    name = g.choose("sum", "prod", "min", "max", "argmax", "argmin")
    axes = [te.reduce_axis(value.shape[d], f"k{d}") for d in over]
    sparse = g.draw(st.booleans()) and not name.startswith("arg")
    kept = [d for d in range(value.ndim) if d not in over]

    def element(*i):
        at = dict(zip(kept, i, strict=True)) | dict(zip(over, axes, strict=True))
        where = T.equal(axes[0] % 2, 0) if sparse else None
        return getattr(te, name)(
            tensor[tuple(at[d] for d in range(value.ndim))], axis=axes, where=where
        )

    moved = value.transpose(*kept, *over)
    if sparse:
        moved = moved[(*(slice(None),) * len(kept), slice(None, None, 2))]
    moved = moved.reshape(*moved.shape[: len(kept)], -1)
    shape = tuple(value.shape[d] for d in kept)
    if name.startswith("arg"):
        extreme, place = te.compute(shape, element, name)
        result = getattr(np, name)(moved, -1)
        g.values.append((extreme, (np.max if name == "argmax" else np.min)(moved, -1)))
        narrow = te.compute(shape, lambda *i: T.cast(place[i], INT), "narrow")
        g.values.append((narrow, np.asarray(result, np.int32)))
    else:
        keywords = {"dtype": np.int32} if name in ("sum", "prod") else {}
        result = getattr(np, name)(moved, -1, **keywords)
        g.values.append((te.compute(shape, element, name), np.asarray(result)))


def recurrence(g):
    """Running over the first axis: each state is twice the last one, plus the row."""
    tensor, value = g.some(1)
    rest = value.shape[1:]
    zero = te.compute(rest, lambda *i: T.const(1, INT), "one")

    def step(t, state):
        return te.compute(rest, lambda *i: state[i] * 2 + tensor[(t, *i)], "step")

    state, states = np.ones(rest, np.int32), []
    for row in value:
        state = state * np.int32(2) + row
        states.append(state)
    g.values.append((te.scan(value.shape[0], step, zero, "scan"), np.stack(states)))


def lookup(g):
    """Rows by the values of another tensor."""
    (tensor, value), (at, place) = g.some(1), g.some()
    size = value.shape[0]
    place = place[(0,) * place.ndim] if place.ndim == 0 else place[(0,) * (place.ndim - 1)]

    def element(*i):
        head = i[: place.ndim]
        row = at[(*(0,) * (at.rank - place.ndim), *head)]
        return tensor[(T.cast(row, "index") % size, *i[place.ndim :])]

    g.define(value[place.astype(np.int64) % size], element, "lookup")


STEPS = (elementwise, outer, permute, shift, flatten, join, reduction, recurrence, lookup)
LARGEST = 600
"""Elements, so that products of shapes do not explode."""


@st.composite
def graphs(draw):
    g = Graph(draw)
    g.add_input()
    with np.errstate(over="ignore"):
        for _ in range(draw(st.integers(1, 5))):
            before = len(g.values)
            draw(st.sampled_from(STEPS))(g)
            if any(v.size > LARGEST or v.ndim > 4 for _, v in g.values[before:]):
                del g.values[before:]
    return g


def check(g):
    computed = [(t, v) for t, v in g.values if t.definition is not None]
    if not computed:
        return
    program = te.program([t for t, _ in g.inputs], [t for t, _ in computed], "random")
    outputs = [np.full(v.shape, 99, v.dtype) for _, v in computed]
    interpret(program, *(v for _, v in g.inputs), *outputs)
    for (tensor, expected), got in zip(computed, outputs, strict=True):
        np.testing.assert_array_equal(got, expected, err_msg=f"{tensor.name} of\n{program}")
    last = te.program([t for t, _ in g.inputs], computed[-1][0], "last")
    got = np.full(computed[-1][1].shape, 99, computed[-1][1].dtype)
    interpret(last, *(v for _, v in g.inputs), got)
    np.testing.assert_array_equal(got, computed[-1][1])
    assert structural_equal(parse_program(last.script()), last)


@given(graphs())
def test_agree_with_numpy(g):
    check(g)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(graphs())
def test_agree_with_numpy_at_length(g):
    check(g)
