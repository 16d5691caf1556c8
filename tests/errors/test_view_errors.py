"""The whole text of the verifier's errors on views."""

from __future__ import annotations

from tensorsmith import ir
from tensorsmith.verify import errors
from verify.programs import only_problem, program

BYTES = ir.Buffer("bytes", (64,), "uint8")
X = ir.Buffer("x", (4,))


def view(source: ir.Buffer | ir.Expr, offset: int, buffer: ir.Buffer = X) -> ir.View:
    """A view at a constant offset."""
    return ir.View(buffer, source, ir.const(offset))


def test_source() -> None:
    rows = ir.Buffer("rows", (8, 8), strides=(16, 1))
    assert only_problem(program(rows, view(rows, 0)), errors.ViewError) == (
        "in 'f': 'x' is a view of 'rows', which does not lie in one piece\n"
        "  given: its strides are (16, 1), its layout is None\n"
        "  try: a dense buffer, such as one of bytes"
    )
    address = ir.Var("address", "uint64")
    assert only_problem(program(address, view(address, 0)), errors.ViewError) == (
        "in 'f': the view 'x' is at an address of type uint64, and it must be int64\n"
        "  given: address"
    )


def test_place() -> None:
    for offset in (52, -4):
        assert only_problem(program(BYTES, view(BYTES, offset)), errors.ViewError) == (
            f"in 'f': the view 'x' leaves 'bytes'\n  given: bytes {offset} to {offset + 16} of 64"
        )
    assert only_problem(program(BYTES, view(BYTES, 6)), errors.ViewError) == (
        "in 'f': the view 'x' is at byte 6, which is no multiple of 4\n"
        "  because: the elements of a x: Buffer((4,), 'float32') are aligned to 4 bytes"
    )
    offset = ir.View(X, BYTES, ir.const(0, "int32"))
    assert only_problem(program(BYTES, offset), errors.IndexTypeError) == (
        "in 'f': the offset of the view 'x' is int32, and must be index\n"
        "  given: T.int32(0): int32\n"
        "  try: T.cast(..., 'index')"
    )
