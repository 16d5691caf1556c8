"""Random programs over views that overlap at will: native code keeps the order of every access."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorsmith.codegen import build
from tensorsmith.evaluate.interpreter import interpret
from tensorsmith.ir import (
    Alloc,
    Buffer,
    Cast,
    Expr,
    For,
    Load,
    LoopKind,
    Stmt,
    Store,
    TensorProgram,
    Var,
    View,
    const,
    seq,
)
from tensorsmith.ir.dtype import dtype
from tensorsmith.verify import verify

BYTES = 256
TYPES = ("uint8", "int16", "int32", "int64", "uint32")


def copied(source: Buffer, target: Buffer) -> Stmt:
    """All bytes of one buffer to another."""
    i = Var("i")
    return For(i, const(BYTES), Store(target, (i,), Load(source, (i,))))


@st.composite
def views(draw: st.DrawFn, memory: Buffer) -> View:
    """A view of some of the memory."""
    type_ = dtype(draw(st.sampled_from(TYPES)))
    count = draw(st.integers(1, 24))
    start = draw(st.integers(0, (BYTES - count * type_.bytes) // type_.bytes)) * type_.bytes
    return View(Buffer("v", (count,), type_), memory, const(start))


@st.composite
def loops(draw: st.DrawFn, buffers: list[Buffer]) -> Stmt:
    """A loop that writes one view from another, and maybe a parameter."""
    target, source = draw(st.sampled_from(buffers)), draw(st.sampled_from(buffers))
    length = min(int(b.shape[0].value) for b in (target, source))  # type: ignore[attr-defined]
    i = Var("i")
    backwards = const(length - 1) - i
    at = draw(st.sampled_from([i, backwards]))
    value: Expr = Load(source, (draw(st.sampled_from([i, backwards])),))
    value = Cast(value, target.dtype) if value.dtype is not target.dtype else value
    if draw(st.booleans()):
        other = Load(target, (i,))
        value = value + other
    value = value * const(draw(st.integers(1, 5)), target.dtype)
    kind = draw(st.sampled_from([LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.UNROLLED]))
    return For(i, const(length), Store(target, (at,), value), kind)


@st.composite
def programs(draw: st.DrawFn) -> TensorProgram:
    """Bytes in and out; between them, loops over views of one arena, or of the output itself."""
    before, after = Buffer("before", (BYTES,), "uint8"), Buffer("after", (BYTES,), "uint8")
    arena = Buffer("arena", (BYTES,), "uint8", align=64)
    memory = draw(st.sampled_from([arena, after]))
    seen = [draw(views(memory)) for _ in range(draw(st.integers(2, 4)))]
    inner = [draw(loops([v.buffer for v in seen])) for _ in range(draw(st.integers(1, 5)))]
    start = [Alloc(arena), copied(before, arena)] if memory is arena else [copied(before, after)]
    end = [copied(arena, after)] if memory is arena else []
    attrs = {"host": True} if draw(st.booleans()) else {}
    return TensorProgram("f", (before, after), seq(*start, *seen, *inner, *end), attrs)


@settings(max_examples=60)
@given(programs(), st.integers(0, 2**32 - 1))
def test_views_that_overlap(program: TensorProgram, seed: int) -> None:
    verify(program)
    before = np.random.default_rng(seed).integers(0, 256, BYTES, np.uint8)
    expected, after = np.zeros(BYTES, np.uint8), np.zeros(BYTES, np.uint8)
    interpret(program, before, expected)
    for check_bounds in (False, True):
        build(program, cache=False, check_bounds=check_bounds)(before, after)
        np.testing.assert_array_equal(after, expected)
