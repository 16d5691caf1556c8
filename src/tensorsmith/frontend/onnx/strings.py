"""Tensors of strings: values of their own kind, worked on by Python functions.

A `CallExtern` names a function of `tensorsmith.runtime.strings`. What moves elements without
looking at them moves positions instead, and takes the strings that stand there at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorsmith.frontend.onnx.arguments import count_of, product
from tensorsmith.frontend.onnx.types import Array
from tensorsmith.frontend.onnx.values import STRINGS, Read, kind_of
from tensorsmith.ir import Attrs, AttrValue, Buffer, CallExtern, Expr, ExprLike, Opaque, as_expr
from tensorsmith.ops.broadcast import broadcast_shapes

if TYPE_CHECKING:
    from tensorsmith.frontend.onnx.node import Converter, Node
    from tensorsmith.ops import GraphBuilder


# --- Values ----------------------------------------------------------------------------------


def string_tensor(name: str, shape: Sequence[ExprLike]) -> Opaque:
    """A new value for a tensor of strings."""
    return Opaque(name, STRINGS, tuple(as_expr(e) for e in shape))


def constant_strings(builder: GraphBuilder, array: Array, name: str) -> Opaque:
    """A known tensor of strings."""
    made = string_tensor(name, array.shape)
    attrs: Attrs = {
        "values": tuple(str(s) for s in array.reshape(-1)),
        "shape": tuple(int(d) for d in array.shape),
    }
    call_python(builder, "strings.constant", (made,), (), attrs)
    return made


def call_python(
    builder: GraphBuilder,
    function: str,
    results: tuple[Buffer | Opaque, ...],
    operands: Sequence[Buffer | Opaque | Expr],
    attrs: Attrs,
) -> None:
    """Have a Python function make the results. It is called by its name in the runtime."""
    builder.emit(
        CallExtern(
            results,
            function,
            tuple(operands),
            attrs,
            is_python=True,
            sources=builder.sources,
        )
    )


def _made(
    node: Node, function: str, operands: Sequence[Buffer | Opaque], **attrs: AttrValue
) -> Opaque:
    """A tensor of strings of the first operand's shape."""
    made = string_tensor(function, operands[0].shape)
    call_python(node.builder, f"strings.{function}", (made,), operands, attrs)
    return made


def _read(
    node: Node,
    function: str,
    operands: Sequence[Buffer | Opaque],
    result: tuple[Sequence[ExprLike], str],
    attrs: Attrs,
) -> Buffer:
    """A tensor of numbers, of this shape and type."""
    made = Buffer(function, *result)
    call_python(node.builder, f"strings.{function}", (made,), operands, attrs)
    return made


# --- Operators that move elements ------------------------------------------------------------


def also_of_strings(convert: Converter, *operands: int) -> Converter:
    """`convert`, which moves the elements of its operands, for tensors of strings too.

    operands: which ones hold elements that are moved; all of them if none are named.
    """

    def converted(node: Node) -> Read | tuple[Read | None, ...]:
        chosen = operands or tuple(range(len(node.inputs)))
        moved = [n for n in chosen if node.text_tensor(n)]
        if not moved:
            return convert(node)
        if any(node.value(n) is not None for n in set(chosen) - set(moved)):
            node.wrong("strings and numbers together", kind_of(node.value(moved[0])))
        taken = [node.strings(n) for n in moved]
        start: Expr = as_expr(0)
        inputs = list(node.inputs)
        for number, value in zip(moved, taken, strict=True):
            inputs[number] = _positions(node, value, start)
            start = start + product(value.shape)
        made = convert(node.with_inputs(inputs))
        outputs = made if isinstance(made, tuple) else (made,)
        found = tuple(taken_strings(node, taken, o) for o in outputs)
        return found if isinstance(made, tuple) else found[0]

    return converted


def _positions(node: Node, value: Opaque, start: Expr) -> Buffer:
    """Where each element of a tensor of strings stands, counted from `start`."""
    first = node("from_elements", values=(start,), dtype="int64", is_scalar=True)
    step = node.builder.scalar(1, "int64")
    flat = node("range", first, step, count=product(value.shape))
    return node("reshape", flat, shape=value.shape)


def taken_strings(node: Node, values: Sequence[Opaque], positions: Read | None) -> Opaque:
    """The strings at positions among those of tensors, one after the other."""
    assert isinstance(positions, Buffer)
    made = string_tensor("taken", positions.shape)
    call_python(node.builder, "strings.take", (made,), (*values, positions), {})
    return made


# --- Operators on strings --------------------------------------------------------------------


def strings_of_numbers(node: Node, x: Buffer) -> Opaque:
    """Numbers as text."""
    return _made(node, "from_numbers", (x,))


def numbers_of_strings(node: Node, x: Opaque, dtype: str) -> Buffer:
    """Text as numbers."""
    return _read(node, "to_numbers", (x,), (x.shape, dtype), {"dtype": dtype})


def equal_strings(node: Node) -> Buffer:
    """Whether strings are the same."""
    a, b = node.strings(0), node.strings(1)
    shape = broadcast_shapes(a.shape, b.shape)
    return _read(node, "equal", (a, b), (shape, "bool"), {})


def string_concat(node: Node) -> Opaque:
    """Strings one after the other."""
    a, b = node.strings(0), node.strings(1)
    made = string_tensor("concat", broadcast_shapes(a.shape, b.shape))
    call_python(node.builder, "strings.concat", (made,), (a, b), {})
    return made


def string_split(node: Node) -> tuple[Opaque, Buffer]:
    """The parts of strings, and how many there are of each."""
    x = node.strings()
    attrs: Attrs = {
        "delimiter": node.text("delimiter", ""),
        "maxsplit": node.integer("maxsplit", -1),
    }
    width = count_of(node, _read(node, "split_width", (x,), ((), "int64"), attrs), "parts")
    parts = string_tensor("split", (*x.shape, width))
    counts = Buffer("counts", x.shape, "int64")
    call_python(node.builder, "strings.split", (parts, counts), (x, width), attrs)
    return parts, counts


def string_normalizer(node: Node) -> Opaque:
    """Strings without stop words, in one case."""
    x = node.strings()
    node.ignore("locale")
    if len(x.shape) not in (1, 2):
        node.wrong("takes a vector, or a matrix of one row", given=kind_of(x))
    attrs: Attrs = {
        "case": node.text("case_change_action", "NONE", ("LOWER", "UPPER", "NONE")),
        "is_case_sensitive": node.flag("is_case_sensitive"),
        "stopwords": node.texts("stopwords", ()),
    }
    count = count_of(node, _read(node, "normalized_count", (x,), ((), "int64"), attrs), "words")
    made = string_tensor("normalized", (*x.shape[:-1], count))
    call_python(node.builder, "strings.normalize", (made,), (x,), attrs)
    return made


def regex_full_match(node: Node) -> Buffer:
    """Whether a regular expression matches all of a string."""
    x = node.strings()
    pattern = node.text("pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        node.wrong("the pattern is no regular expression", given=repr(pattern), because=str(error))
    return _read(node, "full_match", (x,), (x.shape, "bool"), {"pattern": pattern})


# --- Tables ----------------------------------------------------------------------------------

_KINDS: Final = (
    ("strings", "string", "_Unused"),
    ("int64s", "int64", -1),
    ("floats", "float32", -0.0),
)
"""Suffixes of attributes that hold a table's side, the type of it, and the default element."""


def label_encoder(node: Node) -> Read:
    """What each element stands for in a table."""
    if node.opset < 2:
        return _old_label_encoder(node)
    keys = _side(node, "keys")
    values = _side(node, "values")
    if keys is None or values is None or keys.size != values.size:
        node.wrong("keys and values of the table are not one for one")
    default = _default(node, values.dtype.name if values.dtype != object else "string")
    return _looked_up(node, keys, values, default)


def _looked_up(node: Node, keys: Array, values: Array, default: AttrValue) -> Read:
    operand = node.text_tensor() or node.tensor()
    dtype = "string" if values.dtype == object else values.dtype.name
    if isinstance(operand, Buffer) and keys.dtype != object and dtype != "string":
        numbers = keys.astype(operand.dtype.numpy), values, np.array(default, values.dtype)
        table = (node.builder.constant(n.reshape(-1)) for n in numbers)
        return node("lookup", operand, *table)
    attrs: Attrs = {
        "keys": tuple(keys.reshape(-1).tolist()),
        "values": tuple(values.reshape(-1).tolist()),
        "default": default,
        "dtype": dtype,
    }
    if dtype == "string":
        return _made(node, "lookup", (operand,), **attrs)
    return _read(node, "lookup", (operand,), (operand.shape, dtype), attrs)


def string_positions(node: Node, x: Opaque, names: Sequence[str]) -> Buffer:
    """Where each string stands in a list; -1 for one that does not."""
    keys = np.empty(len(names), object)
    keys[:] = names
    found = _looked_up(node, keys, np.arange(len(names), dtype=np.int64), -1)
    assert isinstance(found, Buffer)
    return found


def _old_label_encoder(node: Node) -> Read:
    """Strings to their numbers in a list, or back."""
    classes = np.array(node.texts("classes_strings", ()), object)
    return _categories(node, classes, np.arange(len(classes), dtype=np.int64))


def category_mapper(node: Node) -> Read:
    """Strings to their numbers in a table, or back."""
    classes = np.array(node.texts("cats_strings", ()), object)
    numbers = np.array(node.integers("cats_int64s", ()), np.int64)
    if len(classes) != len(numbers):
        node.wrong(f"{len(classes)} names for {len(numbers)} numbers of categories")
    return _categories(node, classes, numbers)


def _categories(node: Node, classes: Array, numbers: Array) -> Read:
    """Strings to their numbers, or numbers to their strings: what the operand is not."""
    default_number = node.integer("default_int64", -1)
    default_text = node.text("default_string", "_Unused")
    if node.text_tensor():
        return _looked_up(node, classes, numbers, default_number)
    return _looked_up(node, numbers, classes, default_text)


def _side(node: Node, side: str) -> Array | None:
    """The keys or values of a table."""
    for suffix, _, _ in _KINDS:
        name = f"{side}_{suffix}"
        if node.has(name):
            if suffix == "strings":
                return np.array(node.texts(name), object)
            if suffix == "int64s":
                return np.array(node.integers(name), np.int64)
            return np.array(node.numbers(name), np.float32)
    return node.array(f"{side}_tensor")


def _default(node: Node, dtype: str) -> AttrValue:
    """What an element that is no key stands for."""
    number = node.number("default_float", -0.0)
    integer = node.integer("default_int64", -1)
    text = node.text("default_string", "_Unused")
    given = node.array("default_tensor")
    if given is not None and given.size == 1:
        found: AttrValue = given.reshape(()).item()
        return found
    if dtype == "string":
        return text
    return number if dtype.startswith("float") else integer


def tf_idf_vectorizer(node: Node) -> Buffer:
    """How often n-grams occur, perhaps weighted."""
    operand = node.text_tensor() or node.tensor()
    pool = node.texts("pool_strings", None) or node.integers("pool_int64s", ())
    starts = node.integers("ngram_counts")
    columns = node.integers("ngram_indexes")
    weights = node.numbers("weights", None)
    mode = node.text("mode", choices=("TF", "IDF", "TFIDF"))
    if list(starts) != sorted(starts) or any(not 0 <= s <= len(pool) for s in starts):
        node.wrong(f"n-grams begin at {starts} of a pool of {len(pool)}")
    grams = _grams(pool, starts)
    if len(grams) != len(columns) or any(c < 0 for c in columns) or len(operand.shape) > 2:
        node.wrong(f"{len(columns)} columns for {len(grams)} n-grams", given=kind_of(operand))
    width = max(columns, default=-1) + 1
    if width * 4 > node.reader.limits.constant_bytes or len(weights or columns) != len(columns):
        node.wrong(f"{width} columns, of which {len(columns)} are used")
    attrs: Attrs = {
        "grams": grams,
        "columns": columns,
        "sizes": (node.integer("min_gram_length"), node.integer("max_gram_length")),
        "skips": node.integer("max_skip_count"),
        "width": width,
    }
    shape = (*operand.shape[:-1], width)
    counts = _read(node, "count_grams", (operand,), (shape, "float32"), attrs)
    if mode != "TF" and weights is not None:
        by_column = np.ones(width, np.float32)
        by_column[list(columns)] = weights
        factor = node.builder.constant(by_column, "weights")
    else:
        factor = node.builder.scalar(1.0, "float32")
    if mode == "IDF":
        zero = node.builder.scalar(0.0, "float32")
        counts = node("cast", node("greater", counts, zero), dtype="float32")
    return node("mul", counts, factor)


def _grams(pool: Sequence[str | int], starts: Sequence[int]) -> tuple[tuple[str | int, ...], ...]:
    """The n-grams of a pool, in which those of each length stand together."""
    made: list[tuple[str | int, ...]] = []
    for number, start in enumerate(starts):
        size = number + 1
        end = starts[number + 1] if number + 1 < len(starts) else len(pool)
        made.extend(tuple(pool[at : at + size]) for at in range(start, end - size + 1, size))
    return tuple(made)


CONVERTERS: Final[Mapping[str, Converter | Mapping[int, Converter]]] = {
    "RegexFullMatch": regex_full_match,
    "StringConcat": string_concat,
    "StringNormalizer": string_normalizer,
    "StringSplit": string_split,
    "TfIdfVectorizer": tf_idf_vectorizer,
}
"""By operator of ONNX's own domain."""
