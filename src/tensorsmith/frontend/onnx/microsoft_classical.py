"""Operators of the domain com.microsoft that exports of scikit-learn's models use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tensorsmith.frontend.onnx.node import Converter, Node
from tensorsmith.frontend.onnx.strings import call_python, string_tensor
from tensorsmith.frontend.onnx.values import kind_of
from tensorsmith.ir import Attrs, Buffer, Opaque, Var


def cdist(node: Node) -> Buffer:
    """The distance of each row of a matrix to each row of another."""
    metric = node.text("metric", "sqeuclidean", ("sqeuclidean", "euclidean"))
    a, b = node.tensor(0), node.tensor(1)
    if a.rank != 2 or b.rank != 2:
        node.wrong("takes two matrices", given=f"{kind_of(a)} and {kind_of(b)}")
    apart = node("sub", node("expand_dims", a, axes=(1,)), node("expand_dims", b, axes=(0,)))
    squares = node("reduce_sum_square", apart, axes=(2,), keep_dims=False)
    return node("sqrt", squares) if metric == "euclidean" else squares


def tokenizer(node: Node) -> Opaque:
    """The words of strings, along a new axis, filled up where there are fewer."""
    x = node.strings()
    separators = node.texts("separators", ())
    token = node.text("tokenexp", "")
    if len(x.shape) not in (1, 2) or bool(separators) == bool(token):
        node.wrong(
            "takes a vector or matrix, and either separators or an expression for words",
            given=kind_of(x),
        )
    for pattern in (*separators, token):
        try:
            re.compile(pattern)
        except re.error as error:
            node.wrong("the pattern is no regular expression", repr(pattern), str(error))
    made = string_tensor("words", (*x.shape, Var("words", low=0)))
    attrs: Attrs = {
        "separators": separators,
        "word": token,
        "least": node.integer("mincharnum"),
        "padding": node.text("pad_value"),
        "mark": node.flag("mark"),
    }
    call_python(node.builder, "strings.words", (made,), (x,), attrs)
    return made


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "CDist": cdist,
    "Tokenizer": tokenizer,
}
"""By operator of the domain com.microsoft."""
