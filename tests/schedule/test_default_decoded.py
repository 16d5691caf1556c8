"""Products with matrices that are kept in few bits: computed from them where they are used."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build
from tensorsmith.compiler import compile
from tensorsmith.compiler.constants import divide, marked
from tensorsmith.compiler.variants import divided
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Buffer, IRModule, TensorProgram, Var
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.schedule import Fallback, default_schedule
from tensorsmith.schedule.defaults.few import few_rows
from tensorsmith.target import Target
from tensorsmith.verify import verify

DEPTH, COLUMNS = 256, 128


def small(target: Target) -> Target:
    """A machine with caches so small that packed weights pay."""
    return dataclasses.replace(target, caches=dataclasses.replace(target.caches, l2=32 * 1024))


HOST = small(Target.host())
V3 = small(Target.named("x86-64-v3"))


def blocks_of_nibbles(n: object, k: object, words: te.Tensor, scales: te.Tensor) -> object:
    """Elements of 4 bits, two neighbours a byte, without signs."""
    digit = (words[n, k // 32, k % 32 // 8] >> T.cast(k % 8 * 4, "uint32")) & T.uint32(15)
    return (T.float32(digit) - T.float32(8.0)) * scales[n, k // 32]


def halves_of_blocks(n: object, k: object, words: te.Tensor, scales: te.Tensor) -> object:
    """Elements of 4 bits, of which each byte holds one of either half of a block."""
    shift = k % 4 * 8 + k % 32 // 16 * 4
    digit = (words[n, k // 32, k % 16 // 4] >> T.cast(shift, "uint32")) & T.uint32(15)
    return T.float32(digit) * scales[n, k // 32]


def bytes_by_columns(n: object, k: object, words: te.Tensor, scales: te.Tensor) -> object:
    """Bytes with a scale a column."""
    return T.float32(T.int32(words[n, k])) * scales[n]


KINDS = {
    "nibbles": (blocks_of_nibbles, ((COLUMNS, DEPTH // 32, 4), "uint32"), (COLUMNS, DEPTH // 32)),
    "halves": (halves_of_blocks, ((COLUMNS, DEPTH // 32, 4), "uint32"), (COLUMNS, DEPTH // 32)),
    "bytes": (bytes_by_columns, ((COLUMNS, DEPTH), "int8"), (COLUMNS,)),
}


def product(kind: str, rows: object) -> TensorProgram:
    """max(A B + bias, 0), with B by the way of `kind`."""
    element, (shape, dtype), scale_shape = KINDS[kind]
    a = te.placeholder((rows, DEPTH), name="A")
    words, scales = te.placeholder(shape, dtype, "W"), te.placeholder(scale_shape, name="S")
    bias = te.placeholder((COLUMNS,), name="bias")
    b = te.compute((COLUMNS, DEPTH), lambda n, k: element(n, k, words, scales), "B")
    k = te.reduce_axis(DEPTH, "k")
    c = te.compute((rows, COLUMNS), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), "C")
    d = te.compute((rows, COLUMNS), lambda i, j: T.max(c[i, j] + bias[j], T.float32(0)), "D")
    return marked(te.program([a, words, scales, bias], d, "few_bits"), [1, 2, 3])


def data(kind: str, rows: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Arguments of which every sum is exact, and the result."""
    rng = np.random.default_rng(rows)
    _, (shape, dtype), scale_shape = KINDS[kind]
    kinds = np.iinfo(dtype)
    words = rng.integers(kinds.min, kinds.max, shape, dtype=dtype, endpoint=True)
    scales = np.float32(2.0) ** rng.integers(-3, 1, scale_shape).astype(np.float32)
    a = rng.integers(-4, 5, (rows, DEPTH)).astype(np.float32)
    bias = rng.integers(-9, 10, COLUMNS).astype(np.float32)
    if kind == "bytes":
        b = words.astype(np.float64) * scales[:, None]
    else:
        raw = words.view(np.uint8).reshape(COLUMNS, DEPTH // 32, 16)
        low, high = (raw & 15).astype(np.float64), (raw >> 4).astype(np.float64)
        if kind == "nibbles":
            digits = np.stack([low, high], -1).reshape(COLUMNS, DEPTH // 32, 32) - 8
        else:
            digits = np.concatenate([low, high], -1)
        b = (digits * scales[..., None]).reshape(COLUMNS, DEPTH)
    return [a, words, scales, bias], np.maximum(a @ b.T + bias, 0)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_those_of_the_decoded_matrix(kind: str, rows: int) -> None:
    notes: list[Fallback] = []
    scheduled = default_schedule(product(kind, rows), HOST, fallbacks=notes).program
    assert not notes
    verify(scheduled)
    arrays, wanted = data(kind, rows)
    out = np.full((rows, COLUMNS), np.nan, np.float32)
    build(scheduled, HOST, threads=2, cache=False)(*arrays, out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_with_short_vectors_computes_the_same(kind: str) -> None:
    scheduled = default_schedule(product(kind, 1), V3).program
    arrays, wanted = data(kind, 1)
    out = np.full((1, COLUMNS), np.nan, np.float32)
    interpret(scheduled, *arrays, out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_has_the_bits_that_were_given(kind: str, rows: int) -> None:
    _, parts = divide(default_schedule(product(kind, rows), HOST).program)
    assert parts is not None
    kept = parts.before.params[len(parts.constants) :]
    given = [p for p in product(kind, rows).params if p.name in "WS"]
    assert sorted(map(size, kept)) == sorted(map(size, given))


def size(buffer: Buffer) -> int:
    return int(np.prod([int(e.value) for e in buffer.shape])) * buffer.dtype.bytes


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_the_call_tells_share_what_is_kept(kind: str) -> None:
    program = product(kind, Var("m", low=1))
    other = few_rows(program, HOST)
    assert other is not None
    condition, few = other
    whole, parts = divided(default_schedule(program, HOST).program, (condition, few.program))
    assert parts is not None
    assert "if " in str(whole.body)


def test_scales_are_applied_once_a_block() -> None:
    text = str(default_schedule(product("nibbles", 1), HOST).program.body)
    (line,) = (x for x in text.splitlines() if "C_rf[" in x and "A[" in x)
    assert "S_global" not in line


def test_constants_are_fetched_ahead_of_their_use() -> None:
    text = str(default_schedule(product("nibbles", 1), HOST).program.body)
    (line,) = (x for x in text.splitlines() if "prefetch" in x)
    assert "T.serial" in line


@pytest.mark.parametrize("rows", [1, 2, 9, None])
@pytest.mark.parametrize(("bits", "block"), [(4, 16), (4, 128), (8, 32), (2, 64)])
@pytest.mark.parametrize("zeros", [False, True])
def test_the_operator(rows: int | None, bits: int, block: int, *, zeros: bool) -> None:
    rng = np.random.default_rng(bits)
    depth, columns, blocks = 512, 1280, 512 // block
    digits = rng.integers(0, 1 << bits, (columns, depth))
    raw = digits.reshape(columns, -1, 32 // bits).astype(np.uint64) << np.arange(
        0, 32, bits, dtype=np.uint64
    )
    words = raw.sum(-1).astype(np.uint32).reshape(columns, blocks, -1)
    points = rng.integers(0, 1 << bits, (columns, blocks)).astype(np.float32)
    scales = np.float32(2.0) ** rng.integers(-3, 1, (columns, blocks)).astype(np.float32)
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (Var("m", low=1) if rows is None else rows, depth), "float32")
    zero = b.constant(points) if zeros else None
    given = (x, b.constant(words), b.constant(scales), zero)
    y = b("matmul_nbits", *given, depth=depth, columns=columns, bits=bits, block=block)
    model = compile(IRModule.of(b.function("main", [y])), threads=1)
    less = points[..., None] if zeros else 1 << (bits - 1)
    matrix = (digits.reshape(columns, blocks, block) - less) * scales[..., None].astype(np.float64)
    for count in (rows,) if rows else (1, 3, 4, 21):
        a = rng.integers(-4, 5, (count, depth)).astype(np.float32)
        np.testing.assert_array_equal(model(a), a @ matrix.reshape(columns, depth).T)
