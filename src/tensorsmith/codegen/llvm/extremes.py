"""The lesser and the greater of two vectors of floats, as `minimum` and `maximum` of IEEE 754-2019
are: NaN if either is, and -0 less than +0.

LLVM spells that with six instructions on x86. AVX-512 DQ has one that orders zeros, and ignores
NaN; a comparison and a choice put NaN back, of which a chain of them waits for the choice alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorsmith.codegen.llvm.types import vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.codegen.llvm.module import ModuleText

LESSER, GREATER = 4, 5
"""What the instruction computes: the sign is that of the result of the comparison."""
_NAN: Final = "0x7FF8000000000000"
_ELEMENTS: Final = {"float": ("ps", 4), "double": ("pd", 8)}


def extreme(
    module: ModuleText,
    emit: Callable[[str], str],
    args: tuple[str, str],
    type_: tuple[str, int],
    *,
    is_greater: bool,
) -> str | None:
    """The lesser or greater of two values that are no constants, if the machine has an instruction
    for vectors of this type: an element type of LLVM's and a number of lanes."""
    element, lanes = type_
    if element not in _ELEMENTS or not all(a.startswith("%") for a in args):
        return None
    wide = _lanes_at_once(module, element, lanes)
    if wide is None:
        return None
    whole, part = vector(element, lanes), vector(element, wide)
    short, size = _ELEMENTS[element]
    name = f"llvm.x86.avx512.mask.range.{short}.{8 * size * wide}"
    mask = f"i{max(8, wide)}"
    rounding = ", i32" if size * wide == 64 else ""
    module.declare(f"declare {part} @{name}({part}, {part}, i32, {part}, {mask}{rounding})")
    what = GREATER if is_greater else LESSER
    tail = f"{part} zeroinitializer, {mask} -1{', i32 4' if rounding else ''}"
    pieces = []
    for first in range(0, lanes, wide):
        a, b = (_cut(emit, x, (element, lanes), (first, wide)) for x in args)
        pieces.append(emit(f"call {part} @{name}({part} {a}, {part} {b}, i32 {what}, {tail})"))
    found = _joined(emit, pieces, element, wide)
    if lanes == 1:
        found = emit(f"extractelement {part} {found}, i32 0")
    is_nan = emit(f"fcmp uno {whole} {args[0]}, {args[1]}")
    nan = f"{element} {_NAN}" if lanes == 1 else f"{whole} splat ({element} {_NAN})"
    return emit(f"select {vector('i1', lanes)} {is_nan}, {nan}, {whole} {found}")


def _lanes_at_once(module: ModuleText, element: str, lanes: int) -> int | None:
    """Lanes of the widest vectors that the instruction takes, of which these are some; of the
    shortest ones for a single lane, which is one of theirs."""
    features = module.target.features
    if not module.target.is_x86 or "avx512dq" not in features:
        return None
    size = _ELEMENTS[element][1]
    if lanes == 1:
        return 16 // size if "avx512vl" in features else None
    widths = (64, 32, 16) if "avx512vl" in features else (64,)
    for count in (width // size for width in widths):
        pieces = lanes // count
        if pieces and lanes % count == 0 and not pieces & (pieces - 1):
            return count
    return None


def _cut(
    emit: Callable[[str], str], value: str, whole: tuple[str, int], part: tuple[int, int]
) -> str:
    """Some neighbouring lanes of a vector; of a single lane, a vector with it in front."""
    element, lanes = whole
    first, count = part
    if count == lanes:
        return value
    type_ = vector(element, lanes)
    if lanes == 1:
        around = vector(element, count)
        return emit(f"insertelement {around} zeroinitializer, {element} {value}, i32 0")
    mask = ", ".join(f"i32 {first + k}" for k in range(count))
    return emit(f"shufflevector {type_} {value}, {type_} poison, {vector('i32', count)} <{mask}>")


def _joined(emit: Callable[[str], str], pieces: list[str], element: str, lanes: int) -> str:
    """A power of two of vectors of `lanes`, side by side: joined in pairs."""
    while len(pieces) > 1:
        type_, both = vector(element, lanes), 2 * lanes
        mask = ", ".join(f"i32 {k}" for k in range(both))
        pieces = [
            emit(f"shufflevector {type_} {a}, {type_} {b}, {vector('i32', both)} <{mask}>")
            for a, b in zip(pieces[::2], pieces[1::2], strict=True)
        ]
        lanes = both
    return pieces[0]
