"""Random chains of computations whose blocks a schedule can move: whole-number data, so that
results do not depend on the order of sums."""

from __future__ import annotations

from hypothesis import strategies as st

from tensorsmith import te
from tensorsmith.ir import Const, Expr, TensorProgram, Var, select

EXTENTS = (1, 2, 3, 4, 5, 6, 8, 12)


@st.composite
def chains(draw: st.DrawFn, *, least: int = 2, most: int = 4) -> TensorProgram:
    """A program of `least` to `most` stages over int32 tensors, perhaps of a symbolic size."""
    n = Var("n", low=1, high=9)
    extents: tuple[Expr | int, ...] = (*EXTENTS, n, n + 3) if draw(st.booleans()) else EXTENTS
    inputs = [
        te.placeholder(
            draw(st.lists(st.sampled_from(extents), min_size=1, max_size=2)), "int32", name
        )
        for name in ("X", "Y")[: draw(st.integers(1, 2))]
    ]
    if len(extents) > len(EXTENTS):
        inputs.append(te.placeholder((n,), "int32", "N"))
    tensors = list(inputs)
    read: set[te.Tensor] = set()
    for k in range(draw(st.integers(least, most))):
        stage = draw(st.sampled_from(STAGES))
        recent = tensors[-2:] if draw(st.booleans()) else tensors
        source = draw(st.sampled_from(recent))
        if not source.shape:
            continue
        made = stage(draw, source, tensors, f"S{k}")
        if made is not None:
            read.add(source)
            tensors.append(made)
    computed = [t for t in tensors if t not in inputs]
    if not computed:
        computed = [te.compute(inputs[0].shape, lambda *i: inputs[0][i] + 1, "S")]
    outputs = [t for t in computed[:-1] if t not in read] + computed[-1:]
    return te.program(inputs, outputs, "chain")


def _elementwise(draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str) -> te.Tensor:
    same = [t for t in others if t.shape == a.shape]
    b = draw(st.sampled_from(same))
    factor = draw(st.integers(-2, 3))
    return te.compute(a.shape, lambda *i: a[i] * factor + b[i], name)


def _broadcast(
    draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str
) -> te.Tensor | None:
    rows = [t for t in others if len(t.shape) == 1 and t.shape[0] is a.shape[-1]]
    if not rows:
        return None
    b = draw(st.sampled_from(rows))
    return te.compute(a.shape, lambda *i: a[i] - b[i[-1]], name)


def _transpose(
    draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str
) -> te.Tensor | None:
    if len(a.shape) != 2:
        return None
    return te.compute(a.shape[::-1], lambda i, j: a[j, i] + 1, name)


def _reverse(draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str) -> te.Tensor:
    n = a.shape[0]
    return te.compute(a.shape, lambda i, *rest: a[(n - 1 - i, *rest)] * 2, name)


def _window(draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str) -> te.Tensor:
    n = a.shape[-1]
    step = draw(st.integers(1, 2))

    def padded(i: tuple[Expr, ...], at: Expr) -> Expr:
        inside = (at >= 0) & (at < n)
        return select(inside, a[(*i[:-1], at)], 0)

    return te.compute(
        a.shape, lambda *i: padded(i, i[-1] - step) + a[i] + padded(i, i[-1] + 1), name
    )


def _valid_window(
    draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str
) -> te.Tensor | None:
    n = a.shape[0]
    if not isinstance(n, Const) or n.value < 3:
        return None
    stride = draw(st.integers(1, 2))
    extent = (int(n.value) - 3) // stride + 1
    return te.compute(
        (extent, *a.shape[1:]),
        lambda i, *r: a[(i * stride, *r)] + a[(i * stride + 1, *r)] - a[(i * stride + 2, *r)],
        name,
    )


def _reduce(draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str) -> te.Tensor:
    k = te.reduce_axis(a.shape[-1], "k")
    fold = draw(st.sampled_from((te.sum, te.max)))
    return te.compute(a.shape[:-1], lambda *i: fold(a[(*i, k)], axis=k), name)


def _matmul(draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str) -> te.Tensor | None:
    fitting = [t for t in others if len(t.shape) == 2 and t.shape[0] is a.shape[-1]]
    if len(a.shape) != 2 or not fitting:
        return None
    b = draw(st.sampled_from(fitting))
    k = te.reduce_axis(a.shape[-1], "k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name
    )


def _flatten(draw: st.DrawFn, a: te.Tensor, others: list[te.Tensor], name: str) -> te.Tensor | None:
    if len(a.shape) != 2:
        return None
    m = a.shape[1]
    return te.compute((a.shape[0] * m,), lambda i: a[i // m, i % m], name)


STAGES = (
    _elementwise,
    _elementwise,
    _broadcast,
    _transpose,
    _reverse,
    _window,
    _valid_window,
    _reduce,
    _matmul,
    _flatten,
)
