"""The text of what stands around expressions: strings, attributes, buffers, regions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from tensorsmith.ir.buffer import GLOBAL, Buffer, IndexMap, Region
from tensorsmith.ir.dtype import index
from tensorsmith.ir.expr import Add, Const, Expr, Var, as_expr
from tensorsmith.ir.expr_text import Texts
from tensorsmith.ir.names import Names
from tensorsmith.ir.stmt import ZERO, Attrs, AttrValue

Bounds: TypeAlias = tuple[Expr, Expr | None]
"""What a region's dimension shows: ``start:stop``, or a point where the stop is None."""

_ONE: Final = as_expr(1)


def string_text(text: str) -> str:
    """A Python string literal in double quotes, on one line."""
    # The added quote makes `repr` choose double quotes as its own; it is cut off again.
    parts = [repr(part + "'")[1:-2] for part in text.split('"')]
    return '"' + '\\"'.join(parts) + '"'


def tuple_text(parts: Iterable[str]) -> str:
    """A Python tuple."""
    items = list(parts)
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


# --- Attributes ------------------------------------------------------------------------------


def _exprs_in(value: AttrValue) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _exprs_in(part)


def attr_exprs(attrs: Attrs) -> tuple[Expr, ...]:
    """The expressions in attributes, in the order of the text."""
    return tuple(e for key in sorted(attrs) for e in _exprs_in(attrs[key]))


def attr_text(value: AttrValue, texts: Texts) -> str:
    """One attribute's value. texts: those of `attr_exprs`."""
    if isinstance(value, Expr):
        return texts.of(value, None)
    if isinstance(value, tuple):
        return tuple_text(attr_text(part, texts) for part in value)
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def attrs_text(attrs: Attrs, texts: Texts) -> str:
    """Attributes as a dictionary, sorted by name: numbers bare, constants with their dtype."""
    items = (f"{string_text(key)}: {attr_text(attrs[key], texts)}" for key in sorted(attrs))
    return "{" + ", ".join(items) + "}"


# --- Buffers ---------------------------------------------------------------------------------


def buffer_exprs(buffer: Buffer) -> tuple[Expr, ...]:
    """The expressions of a buffer's type, without its layout."""
    return (*buffer.shape, *(buffer.strides or ()), buffer.offset)


def _layout_text(names: Names, layout: IndexMap) -> str:
    with names.scope():
        inputs = "".join(f" {names.of(v)}," for v in layout.inputs).removesuffix(",")
        texts = Texts(names, layout.outputs)
        outputs = tuple_text(texts.of(o) for o in layout.outputs)
        return f"lambda{inputs}: {_with_aliases(texts, outputs)}"


def _with_aliases(texts: Texts, text: str) -> str:
    """A text inside of a lambda, before which no lines can stand."""
    if not texts.aliases:
        return text
    parts = ", ".join(f"{name} := {alias}" for name, alias in texts.aliases)
    return f"({parts}, {text})[-1]"


def inline_text(names: Names, e: Expr) -> str:
    """The text of `e` by itself, where no lines can stand before it."""
    with names.scope():
        texts = Texts(names, [e])
        text = _with_aliases(texts, texts.of(e))
        return f"(lambda: {text})()" if texts.aliases else text


def buffer_text(names: Names, buffer: Buffer, text: Callable[[Expr], str]) -> str:
    """The arguments of ``T.Buffer`` and ``T.alloc``; what has its default is left out.

    text: the text of one of its expressions.
    """
    parts = [tuple_text(map(text, buffer.shape)), string_text(buffer.dtype.name)]
    if buffer.strides is not None:
        parts.append(f"strides={tuple_text(map(text, buffer.strides))}")
    if buffer.offset is not ZERO:
        parts.append(f"offset={text(buffer.offset)}")
    if buffer.layout is not None:
        parts.append(f"layout={_layout_text(names, buffer.layout)}")
    if buffer.scope != GLOBAL:
        parts.append(f"scope={string_text(buffer.scope)}")
    if buffer.align:
        parts.append(f"align={buffer.align}")
    return ", ".join(parts)


def facts_text(var: Var) -> str:
    """The facts about a variable as keyword arguments, each after a comma."""
    facts = {"min": var.low, "max": var.high, "multiple_of": var.multiple_of}
    unset = None, None, 1
    pairs = zip(facts.items(), unset, strict=True)
    return "".join(f", {name}={fact}" for (name, fact), none in pairs if fact != none)


# --- Regions ---------------------------------------------------------------------------------


def _bounds(start: Expr, extent: Expr, *, points: bool) -> Bounds:
    if points and extent is _ONE:
        return start, None
    if start is ZERO:
        return start, extent
    if isinstance(start, Const) and isinstance(extent, Const):
        stop = int(start.value) + int(extent.value)
        if index.min_value <= stop <= index.max_value:
            return start, Const(stop, index)
    return start, Add(start, extent)


def is_whole(region: Region) -> bool:
    """Whether a region is all of its buffer, said with the buffer's own extents."""
    ranges = zip(region.ranges, region.buffer.shape, strict=True)
    return all(start is ZERO and extent is shape for (start, extent), shape in ranges)


def region_exprs(region: Region, *, points: bool = True) -> tuple[Expr, ...]:
    """The expressions in a region's text."""
    bounds = (_bounds(start, extent, points=points) for start, extent in region.ranges)
    return tuple(e for pair in bounds for e in pair if e is not None)


def region_text(
    names: Names, region: Region, text_of: Callable[[Expr], str], *, points: bool = True
) -> str:
    """``A[i, 0:128]``. Where `points` is false, an extent of 1 is written as a slice too."""
    parts = []
    for start, extent in region.ranges:
        low, high = _bounds(start, extent, points=points)
        parts.append(text_of(low) if high is None else f"{text_of(low)}:{text_of(high)}")
    return f"{names.of(region.buffer)}[{', '.join(parts) or '()'}]"
