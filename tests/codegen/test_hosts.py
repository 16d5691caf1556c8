"""Hosts: kernels compile apart, equal ones once, and are linked to what calls them."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.codegen import build, object_code
from tensorsmith.codegen.compilation import compile_module
from tensorsmith.codegen.units import split
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate.interpreter import interpret
from tensorsmith.ir import (
    Alloc,
    Bind,
    Buffer,
    Invoke,
    IRModule,
    Stmt,
    TensorProgram,
    Var,
    View,
    as_expr,
    seq,
)
from tensorsmith.script import parse_module
from tensorsmith.target import Target
from tensorsmith.verify import verify

HEADER = "from tensorsmith import script as T\n"


def kernel(name: str, factor: float) -> TensorProgram:
    """``B = A * factor + 1``, of any shape of rank 2."""
    n, m = Var(f"n_{name}", low=1), Var("m", low=1)
    a = te.placeholder((n, m), name=f"A_{name}")
    return te.program([a], te.compute((n, m), lambda i, j: a[i, j] * factor + 1.0, "B"), name)


def chain(length: int) -> IRModule:
    """A host that calls `length` kernels in a row, of which four differ, over an arena."""
    kernels = [kernel(f"k{at}", float(at % 4 + 1)) for at in range(length)]
    n = Var("n", low=1)
    x, y = Buffer("x", (n, 8)), Buffer("y", (n, 8))
    size = Var("size", low=64)
    arena = Buffer("arena", (size * 2,), "uint8", align=64)
    body: list[Stmt] = [Bind(size, (n * 32 + 63) // 64 * 64), Alloc(arena)]
    before = x
    for at, k in enumerate(kernels):
        after = y if at == length - 1 else Buffer(f"t{at}", (n, 8))
        if after is not y:
            offset = Var(f"offset{at}", low=0)
            body += [Bind(offset, size * as_expr(at % 2)), View(after, arena, offset)]
        body.append(Invoke(k.name, (before.region(), after.region())))
        before = after
    host = TensorProgram("main", (x, y), seq(*body), {"host": True})
    return IRModule.of(host, *kernels)


def test_equal_kernels_compile_once() -> None:
    module = chain(11)
    verify(module)
    units = list(split(module))
    assert [unit.names for unit in units] == [
        ("k0", "k4", "k8"),
        ("k1", "k5", "k9"),
        ("k2", "k6", "k10"),
        ("k3", "k7"),
        (),
    ]
    assert units[-1].calls == tuple(f"k{at}" for at in range(11))
    for n in (1, 7, 1000):
        a = np.random.default_rng(n).random((n, 8), np.float32)
        expected, b = np.empty_like(a), np.empty_like(a)
        interpret(module, a, expected, entry="main")
        build(module, threads=2)(a, b)
        np.testing.assert_array_equal(b, expected)
        build(module, check_bounds=True)(a, b)
        np.testing.assert_array_equal(b, expected)


def test_the_cache_has_one_entry_for_equal_kernels(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TENSORSMITH_CACHE_DIR", str(folder))
    first = compile_module(chain(11), Target.host())
    assert len(list(folder.glob("*.zip"))) == 5
    again = compile_module(chain(11), Target.host())
    assert len(list(folder.glob("*.zip"))) == 5
    assert first == again
    compile_module(chain(9), Target.host())  # another host, of the same kernels
    assert len(list(folder.glob("*.zip"))) == 6


def test_large_hosts_compile_in_linear_time() -> None:
    target = Target.host()
    spent = []
    for length in (200, 800):
        module = chain(length)
        started = time.process_time()
        compile_module(module, target, cache=False)
        spent.append(time.process_time() - started)
    assert spent[1] < 4 * 2 * spent[0]


FAILING = (
    HEADER
    + """
n = T.dim("n")
m = T.dim("m", min=3)

@T.program
def first(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        assert A[i] >= 0.0, "values are positive"
        B[i] = A[i] + 1.0

@T.program
def second(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        assert A[i] < 8.0, "values are small"
        B[i] = A[i] * 2.0

@T.program
def third(A: T.Buffer((m,), "float32"), B: T.Buffer((m,), "float32")):
    for i in range(m):
        B[i] = A[i]

@T.program(attrs={"host": True})
def main(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    arena = T.alloc((n * 8 + 20000,), "uint8", align=64)
    x = T.view(arena, 0, (n,), "float32")
    y = T.view(arena, n * 4, (n,), "float32")
    T.call("first", A, x)
    T.call("second", x, y)
    T.call("third", y, B)
"""
)


def test_errors_of_kernels_are_told_apart() -> None:
    exe = build(parse_module(FAILING), cache=False)
    assert list(exe.programs) == ["main"]
    b = np.empty(4, np.float32)
    exe(np.array([0, 1, 2, 3], np.float32), b)
    np.testing.assert_array_equal(b, [2, 4, 6, 8])
    cases = {
        "main: first: values are positive": [0, 1, 2, -3],
        "main: second: values are small": [0, 1, 2, 30],
        "main: third: 'm' must be at least 3": [0, 1],
    }
    for message, values in cases.items():
        a = np.array(values, np.float32)
        with pytest.raises(EvaluationError) as raised:
            exe(a, np.empty_like(a))
        assert raised.value.what == message


def test_object_code_has_host_and_kernels_in_one_file() -> None:
    code = object_code(chain(5), "aarch64")
    assert code[:4] == b"\x7fELF"
    for name in (b"main", b"k4", b"ts_take"):
        assert name in code


HELD = (
    HEADER
    + """
n = T.dim("n", min=0)

@T.program(attrs={"host": True})
def main(A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32"), fail: T.Scalar("bool")):
    cell = T.alloc((2,), "int64")
    cell[0] = 0
    cell[1] = 0
    one = T.alloc((1,), "int32")
    for i in range(n):
        one[0] = A[i] * 2
        T.call("ts_append", cell[0:1], one, T.int64(4), T.cast(i, "int64") * T.int64(4))
    assert not fail, "asked to"
    T.call("ts_hold", cell[1:2], A, T.cast(n, "int64") * T.int64(4))
    x = T.view(cell[0], 0, (n,), "int32")
    y = T.view(cell[1], 0, (n,), "int32")
    for i in range(n):
        B[i] = x[i] + y[i]
    T.call("ts_drop", cell[0:1])
    T.call("ts_drop", cell[1:2])
"""
)


def test_memory_that_cells_own() -> None:
    program = parse_module(HELD).program("main")
    verify(program)
    exe = build(program, cache=False)
    context = exe.context
    for n in (0, 1, 5, 3000):
        a = np.arange(n, dtype=np.int32)
        expected, b = np.empty_like(a), np.empty_like(a)
        interpret(program, a, expected, False)
        np.testing.assert_array_equal(expected, a * 3)
        exe(a, b, False)
        np.testing.assert_array_equal(b, expected)
    before = context.kept_bytes
    assert before > 0
    for _ in range(20):  # what cells own is given back where a program fails
        with pytest.raises(EvaluationError, match="asked to"):
            exe(a, b, True)
    assert context.kept_bytes == before
    context.trim()
    assert context.kept_bytes == 0


def test_arenas_are_used_again_by_any_number_of_threads() -> None:
    exe = build(chain(3), cache=False, threads=2)
    a = np.random.default_rng(0).random((5000, 8), np.float32)
    expected = np.empty_like(a)
    exe(a, expected)
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(50):
            rows = int(random.integers(1, 5000))
            b = np.empty((rows, 8), np.float32)
            exe(a[:rows], b)
            if not np.array_equal(b, expected[:rows]):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 0 < exe.context.kept_bytes < 8 * 2 * 5000 * 32 * 1.3
