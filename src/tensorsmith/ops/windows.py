"""The geometry of windows that slide over images: convolutions and poolings share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.arith import Analyzer
from tensorsmith.errors import ShapeError
from tensorsmith.ir import Expr, ExprLike, as_expr, as_exprs
from tensorsmith.ops.indexing import ranges
from tensorsmith.ops.padding import padded
from tensorsmith.te import ReduceAxis, Tensor


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the spatial dimensions of an image, one entry a dimension.

    image: extents.  kernel: positions of a window.  before, after: padding.
    steps: from window to window.  spread: from position to position (the dilation).
    """

    image: tuple[Expr, ...]
    kernel: tuple[Expr, ...]
    steps: tuple[Expr, ...]
    spread: tuple[Expr, ...]
    before: tuple[Expr, ...]
    after: tuple[Expr, ...]

    def counts(self, *, ceil: bool = False) -> tuple[Expr, ...]:
        """How many windows fit.

        ceil: one that fits in part counts, if it begins before the padding at the end.
        """
        facts = Analyzer()
        found = []
        for d, extent in enumerate(self.image):
            room = extent + self.before[d] + self.after[d] - self.reach(d)
            step = self.steps[d]
            count = (room + (step - 1 if ceil else 0)) // step + 1
            if ceil:
                count = T.min(count, (extent + self.before[d] + step - 1) // step)
            found.append(at_least_zero(count, facts))
        return tuple(found)

    def reach(self, d: int) -> Expr:
        """The extent of the image that a window covers along dimension `d`."""
        return (self.kernel[d] - 1) * self.spread[d] + 1

    def position(self, d: int, window: ExprLike, tap: ExprLike) -> Expr:
        """Where position `tap` of a window lies, counted from the start of the padding."""
        return window * self.steps[d] + tap * self.spread[d]

    def padded_extent(self, d: int, windows: Expr) -> Expr:
        """The extent, with padding, that this many windows cover."""
        return (windows - 1) * self.steps[d] + self.reach(d)

    def taps(self) -> tuple[ReduceAxis, ...]:
        """A reduction axis over the positions of a window for each dimension."""
        return tuple(te.reduce_axis(k, f"k{d}") for d, k in enumerate(self.kernel))


def windows(
    image: Sequence[Expr],
    kernel: Sequence[ExprLike],
    strides: Sequence[ExprLike] = (),
    dilations: Sequence[ExprLike] = (),
    pads: Sequence[ExprLike] = (),
) -> Windows:
    """The windows of these attributes, as ONNX gives them: ``pads`` is all begins, then all ends.

    Raises ShapeError if their numbers differ from that of the dimensions.
    """
    rank = len(image)
    given = {"kernel": kernel, "strides": strides, "dilations": dilations}
    for what, values in given.items():
        if len(values) not in ((rank,) if what == "kernel" else (0, rank)):
            raise ShapeError(
                f"windows over {rank} dimensions have {rank} {what}", given=f"{tuple(values)}"
            )
    if len(pads) not in (0, 2 * rank):
        raise ShapeError(
            f"windows over {rank} dimensions have {2 * rank} pads", given=f"{tuple(pads)}"
        )
    ones, zeros = (as_expr(1),) * rank, (as_expr(0),) * rank
    amounts = as_exprs(pads)
    return Windows(
        image=tuple(image),
        kernel=as_exprs(kernel),
        steps=as_exprs(strides) or ones,
        spread=as_exprs(dilations) or ones,
        before=amounts[:rank] or zeros,
        after=amounts[rank:] or zeros,
    )


def at_least_zero(extent: Expr, facts: Analyzer) -> Expr:
    """An extent that may come out negative, as at least 0."""
    simple = facts.simplify(extent)
    return simple if facts.prove(simple >= 0) is True else facts.simplify(T.max(simple, 0))


def same_pads(
    image: Sequence[Expr],
    kernel: Sequence[ExprLike],
    strides: Sequence[ExprLike] = (),
    dilations: Sequence[ExprLike] = (),
    *,
    upper: bool = True,
) -> tuple[Expr, ...]:
    """The pads with which there are ceil(extent / stride) windows: all begins, then all ends.

    upper: where the amount is odd, one more stands at the end; else at the begin.
    """
    facts = Analyzer()
    shape = windows(image, kernel, strides, dilations)
    begins, ends = [], []
    for d, extent in enumerate(shape.image):
        step = shape.steps[d]
        count = (extent + step - 1) // step
        total = at_least_zero((count - 1) * step + shape.reach(d) - extent, facts)
        small, large = total // 2, total - total // 2
        begins.append(facts.simplify(small if upper else large))
        ends.append(facts.simplify(large if upper else small))
    return (*begins, *ends)


def with_padding(
    x: Tensor, shape: Windows, counts: Sequence[Expr], outside: Expr, trailing: int = 0
) -> Tensor:
    """The image with all that `counts` windows cover: as it is where that is the image itself.

    x: leading dimensions, those of the windows, then `trailing` ones. outside: what stands in the
    padding.
    """
    facts = Analyzer()
    end = x.rank - trailing
    lead = end - len(shape.image)
    covered = [
        facts.simplify(
            T.max(shape.padded_extent(d, n), 0)
            if not _positive(n, facts)
            else shape.padded_extent(d, n)
        )
        for d, n in enumerate(counts)
    ]
    inside = all(
        facts.equal(b, 0) and facts.prove(c <= e) is True
        for b, c, e in zip(shape.before, covered, shape.image, strict=True)
    )
    if inside:
        return x
    whole = (*x.shape[:lead], *covered, *x.shape[end:])

    def element(*axes: Expr) -> Expr:
        at = [i - b for i, b in zip(axes[lead:end], shape.before, strict=True)]
        known = ranges(axes, whole)
        place = [*axes[:lead], *map(known.simplify, at), *axes[end:]]
        return padded(x, place, outside, known)

    return te.compute(whole, element, "padded")


def _positive(extent: Expr, facts: Analyzer) -> bool:
    return facts.prove(extent >= 1) is True
