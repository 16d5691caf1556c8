"""Models that call Python: split, compiled in parts, and compared with the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorsmith.compiler import compile
from tensorsmith.errors import EvaluationError, UnsupportedOpError
from tensorsmith.graph.stages import needs_stages, split_stages
from tensorsmith.ir import Buffer, CallExtern, GraphFunction, IRModule, Opaque, Var, const
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.ops.interpret import interpret_graph
from tensorsmith.runtime.manifest import DimensionStage, NativeStage, PythonStage
from tensorsmith.runtime.model import Model

n = Var("n", low=0)


def lengths(words: Any) -> Any:
    """The length of each word."""
    return np.array([len(w) for w in words.reshape(-1)], np.int64).reshape(words.shape)


def longest(words: Any) -> Any:
    """The length of the longest word, at least 1."""
    return np.array(max((len(w) for w in words.reshape(-1)), default=1), np.int64)


def letters(words: Any, width: int, table: Any, *, missing: int) -> Any:
    """The codes of the letters of each word, from a table; `missing` after its end."""
    found = np.full((words.size, width), missing, np.int64)
    for row, word in zip(found, words.reshape(-1), strict=True):
        for at, letter in enumerate(word[:width]):
            row[at] = table[ord(letter) % table.size]
    return found


def upper(words: Any) -> Any:
    """Words in capitals."""
    made = np.empty(words.size, object)
    made[:] = [w.upper() for w in words.reshape(-1)]
    return made.reshape(words.shape)


FUNCTIONS = {"lengths": lengths, "longest": longest, "letters": letters, "upper": upper}
TABLE = np.arange(7, dtype=np.int64) * 10


def call(b: GraphBuilder, symbol: str, results: Any, *operands: Any, **attrs: Any) -> Any:
    b.emit(CallExtern(results, symbol, operands, attrs, is_python=True, sources=(symbol,)))
    return results[0] if len(results) == 1 else results


def sentences() -> GraphFunction:
    """Python and native code in turns, with dimensions that go to and fro."""
    b = GraphBuilder(OPERATORS)
    words, scale = Opaque("words", "strings", (n,)), b.param("scale", (n, 1), "float32")
    big = call(b, "upper", (Opaque("big", "strings", (n,)),), words)
    width = call(b, "longest", (Buffer("width", (), "int64"),), big)
    (k,) = b.integers(b("add", width, b.constant(np.array(1))), "k", low=1)
    table = b.constant(TABLE)
    codes = call(b, "letters", (Buffer("codes", (n, k), "int64"),), big, k, table, missing=-1)
    real = b("cast", codes, dtype="float32")
    scaled = b("mul", real, scale)
    flat = b("reshape", scaled, shape=(n * k,))
    sizes = call(b, "lengths", (Buffer("sizes", (n,), "int64"),), words)
    doubled = b("add", sizes, sizes)
    shape = b.elements([n, k])
    made = b.function("main", [flat, big, doubled, table, shape])
    return GraphFunction("main", (words, *made.params), made.body, (*made.results, words), {})


def test_parts_take_turns() -> None:
    graph = sentences()
    assert needs_stages(graph)
    stages = split_stages(graph)
    assert not any(
        isinstance(v, Opaque)
        for part in stages.parts
        if isinstance(part, GraphFunction)
        for v in (*part.params, *part.results)
    )
    calls = [p.symbol for p in stages.parts if isinstance(p, CallExtern)]
    assert [c for c in calls if c in FUNCTIONS] == ["upper", "longest", "lengths", "letters"]
    assert len(stages.results) == len(set(stages.results)) == 6


def test_results_are_those_of_the_interpreter(tmp_path: Path) -> None:
    graph = sentences()
    model = compile(IRModule.of(graph), threads=1, functions=FUNCTIONS)
    kinds = {type(s) for s in model.manifest.stages}
    assert kinds == {NativeStage, PythonStage, DimensionStage}
    model.save(tmp_path / "model.tsm")
    loaded = Model.load(tmp_path / "model.tsm", functions=FUNCTIONS)
    for given in (["hello", "to", "everyone", ""], ["a"], []):
        words = np.array(given, object)
        scale = np.random.default_rng(len(given)).random((len(given), 1), np.float32)
        wanted = interpret_graph(IRModule.of(graph), "main", (words, scale), externs=FUNCTIONS)
        for each in (model, loaded):
            found = each(words, scale)
            for x, y in zip(found, wanted, strict=True):
                assert x.shape == y.shape
                assert x.dtype == y.dtype
                assert (x == y).all()
            assert found[5] is not words
            assert not np.shares_memory(found[3], each.weights)


def test_facts_on_numbers_from_python() -> None:
    model = compile(
        IRModule.of(sentences()), functions={**FUNCTIONS, "longest": lambda w: np.int64(-5)}
    )
    with pytest.raises(EvaluationError, match="k must be at least 1"):
        model(np.array(["x"], object), np.ones((1, 1), np.float32))


def test_strings_inside_of_a_branch_are_refused() -> None:
    b = GraphBuilder(OPERATORS)
    condition = b.param("c", (), "bool")
    x = b.param("x", (3,), "float32")
    from tensorsmith.ir.graph import Body, Branch

    text = Opaque("text", "strings", (const(3),))
    made = CallExtern((text,), "upper", (x,), is_python=True)
    branch = Branch((x,), condition, Body((), (made,), (x,)), Body((), (), (x,)), sources=("If_3",))
    graph = GraphFunction("main", (condition, x), (branch, made), (text,), {})
    with pytest.raises(UnsupportedOpError) as raised:
        split_stages(graph)
    assert str(raised.value) == (
        "If_3: strings in a branch or loop are not supported\n"
        "  try: a model that works on strings before or after it"
    )
