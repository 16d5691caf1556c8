"""Which images may have their channels in blocks, and of what size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, Final

from tensorsmith.graph.following import Follow, channels, following, is_point
from tensorsmith.graph.kernel import Operators
from tensorsmith.ir import Const, as_expr, as_exprs
from tensorsmith.ir.graph import Apply, Binding, Constant, MatchShape, Value, bodies

SIZES: Final = (16, 8)
"""Channels of a block, the best first: those of a vector of float32, of 512 or of 256 bits."""
MOST_PADDED: Final = 1.25
"""How many times the channels there may be in blocks of the best size, the last one padded."""

CONVOLUTIONS: Final = {"conv": "blocked_conv", "conv_transpose": "conv_transpose"}
"""Operators that make blocks, and those that do it then."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution by a known weight that can make or read channels in blocks.

    depth, made: channels that a group reads and makes. flops: of one element of the result.
    """

    apply: Apply
    groups: int
    depth: int
    made: int
    flops: float

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is convolved alone."""
        return self.groups > 1 and self.depth == self.made == 1


@dataclass(frozen=True, slots=True)
class _Class:
    """Values whose channels are in blocks of one size.

    divisor: of the numbers of channels that have to consist of whole blocks, if any do. counts:
    how many channels they have. is_exact: whether the last block may not be padded.
    """

    divisor: int = 0
    counts: frozenset[int] = frozenset()
    is_exact: bool = False

    def joined(self, other: _Class) -> _Class:
        """Both as one."""
        return _Class(
            gcd(self.divisor, other.divisor),
            self.counts | other.counts,
            self.is_exact or other.is_exact,
        )

    def size(self) -> int:
        """The size of the blocks; 0 if there is none that fits."""
        best = SIZES[0]
        is_free = not self.is_exact and len(self.counts) == 1
        if is_free and all(-(-c // best) * best <= MOST_PADDED * c for c in self.counts):
            return best
        return next((s for s in SIZES if self.divisor % s == 0), 0)


def block_size(counts: Sequence[int], *, is_exact: bool = False) -> int:
    """Channels in a block of images that have so many, as far as nothing else has a say; 0 if they
    are in none. is_exact: whether they are cut between each other."""
    return _Class(gcd(*counts), frozenset(counts), is_exact).size()


class Blocks:
    """The size of the blocks of each value of a function, where its channels may be in blocks.

    Values are in one class if an operator follows from the one to the other: their blocks are of
    one size, which divides the channels of all of them. Where channels are neither joined nor cut,
    the last block may be padded: with channels that have the same elements as the last one.
    """

    def __init__(self, operators: Operators) -> None:
        self.operators = operators
        self.convolutions: dict[Apply, Convolution] = {}
        self.follows: dict[Apply, Follow] = {}
        self._known: set[Value] = set()
        self._parent: dict[Value, Value] = {}
        self._class: dict[Value, _Class] = {}

    def of(self, value: Value) -> int:
        """Channels in a block of `value`; 0 where they are on an axis of their own."""
        if not channels(value):
            return 0
        return (self._class.get(self._root(value)) or _class_of((value,))).size()

    def padded(self, value: Value) -> int:
        """The channels of `value` in blocks, with those of the padding."""
        size = self.of(value)
        return -(-channels(value) // size) * size if size else channels(value)

    def learn(self, bindings: Iterable[Binding]) -> None:
        """Take in the operators of a function or body, in order."""
        for b in bindings:
            if isinstance(b, Constant):
                self._known.add(b.result)
            elif isinstance(b, MatchShape):
                if b.operand in self._parent and channels(b.operand) == channels(b.result):
                    self._link((b.operand, b.result))
            elif isinstance(b, Apply):
                self._operator(b)
            for body in bodies(b):
                self.learn(body.bindings)

    def _operator(self, apply: Apply) -> None:
        found = self._convolution(apply)
        if found is not None:
            self.convolutions[apply] = found
            return
        if all(o not in self._parent for o in apply.operands if o is not None):
            return
        follow = following(apply, self.operators)
        if follow is None:
            return
        if self._link(follow.images, follow.multiples, is_exact=follow.is_exact):
            self.follows[apply] = follow

    def _convolution(self, apply: Apply) -> Convolution | None:
        """A convolution, if what it makes or reads can be in blocks."""
        if apply.op not in CONVOLUTIONS or len(apply.operands) < 2:
            return None
        x, weight = apply.operands[:2]
        (result,) = apply.results
        if x is None or weight not in self._known or not channels(x) or not channels(result):
            return None
        if result.dtype.name != "float32" or is_point(x):
            return None
        sizes = [int(e.value) for e in weight.shape if isinstance(e, Const)]
        if len(sizes) != x.rank:
            return None
        is_known = all(o in self._known for o in apply.operands[1:] if o is not None)
        if apply.op == "conv_transpose":
            return self._transposed(apply, sizes, is_exact=not is_known)
        groups = apply.attrs.get("groups", 1)
        if not isinstance(groups, int) or sizes[0] % groups:
            return None
        flops = 2.0 * _product(sizes[1:])
        found = Convolution(apply, groups, sizes[1], sizes[0] // groups, flops)
        if found.is_depthwise:
            return found if self._link((x, result), is_exact=not is_known) else None
        if groups > 1:
            given = self._link((x,), (found.depth,), is_exact=True)
            made = given and self._link((result,), (found.made,), is_exact=True)
            return found if made else None
        self._link((result,), is_exact=not is_known)
        return found

    def _transposed(
        self, apply: Apply, sizes: Sequence[int], *, is_exact: bool
    ) -> Convolution | None:
        """A transposed convolution, if its windows lie next to each other."""
        (result,) = apply.results
        attrs: Mapping[str, Any] = apply.attrs
        around = (*attrs.get("pads", ()), *attrs.get("output_padding", ()))
        is_apart = as_exprs(attrs.get("strides", ())) == as_exprs(sizes[2:])
        if not is_apart or any(e is not as_expr(0) for e in as_exprs(around)):
            return None
        if attrs.get("groups", 1) != 1:
            return None
        self._link((result,), is_exact=is_exact)
        return Convolution(apply, 1, sizes[0], sizes[1], 2.0 * sizes[0])

    # --- Classes -----------------------------------------------------------------------------

    def _root(self, value: Value) -> Value:
        while (parent := self._parent.get(value, value)) is not value:
            value = parent
        return value

    def _link(
        self, values: Sequence[Value], multiples: Sequence[int] = (), *, is_exact: bool = False
    ) -> bool:
        """Let the values be in one class, whose blocks divide `multiples`, if any size does."""
        whole = _class_of(values, multiples, is_exact=is_exact)
        roots = dict.fromkeys(map(self._root, values))
        for root in roots:
            whole = whole.joined(self._class.get(root, _Class()))
        if not whole.size():
            return False
        first = next(iter(roots))
        for root in roots:
            self._parent[root] = first
        self._class[first] = whole
        return True


def _class_of(
    values: Sequence[Value], multiples: Sequence[int] = (), *, is_exact: bool = False
) -> _Class:
    counts = frozenset(map(channels, values))
    return _Class(gcd(*counts, *multiples), counts, is_exact)


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
