"""Functions on tensors of strings, which compiled models call by name.

Strings are object arrays of `str`. Each function takes arrays, then keyword attributes, and gives
one array a result: a tuple where there are several.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from tensorsmith.errors import EvaluationError

Array: TypeAlias = np.ndarray[Any, Any]


def strings(values: Sequence[str], shape: Sequence[int] | None = None) -> Array:
    """An object array of strings, of rank 1 if no shape is given."""
    made = np.empty(len(values), object)
    made[:] = values
    return made if shape is None else made.reshape(tuple(shape))


def constant(*, values: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """The tensor of these strings."""
    return strings(values, shape)


def from_numbers(x: Array) -> Array:
    """Numbers as text: the shortest that reads back, NaN, INF and -INF as ONNX has them."""
    return strings([_text(v) for v in x.reshape(-1)], x.shape)


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if isinstance(value, np.integer):
        return str(int(value))
    if value != value:
        return "NaN"
    if np.isinf(value):
        return "INF" if value > 0 else "-INF"
    return str(value)


def to_numbers(x: Array, *, dtype: str) -> Array:
    """Text as numbers. Raises EvaluationError for text that is none."""
    type_ = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    try:
        found = [float(s) if type_.kind not in "iu" else int(float(s)) for s in x.reshape(-1)]
    except ValueError as error:
        raise EvaluationError("a string is no number", because=str(error)) from None
    return np.array(found).astype(type_).reshape(x.shape)


def equal(a: Array, b: Array) -> Array:
    """Whether strings are the same, with broadcasting."""
    return np.asarray(a == b, np.bool_)


def concat(a: Array, b: Array) -> Array:
    """Strings one after the other, with broadcasting."""
    first, second = np.broadcast_arrays(a, b)
    pairs = zip(first.reshape(-1), second.reshape(-1), strict=True)
    return strings([p + q for p, q in pairs], first.shape)


def take(*operands: Array) -> Array:
    """The strings at positions (the last operand) among those of all others, one after the other.

    A position below 0 is an empty string.
    """
    everything = [s for x in operands[:-1] for s in x.reshape(-1)]
    at = operands[-1]
    return strings([everything[p] if p >= 0 else "" for p in at.reshape(-1)], at.shape)


def full_match(x: Array, *, pattern: str) -> Array:
    """Whether a regular expression matches all of a string."""
    compiled = re.compile(pattern)
    found = [compiled.fullmatch(s) is not None for s in x.reshape(-1)]
    return np.array(found, np.bool_).reshape(x.shape)


def split_width(x: Array, *, delimiter: str, maxsplit: int) -> Array:
    """The greatest number of parts of a string, an int64 scalar."""
    return np.array(max((len(p) for p in _parts(x, delimiter, maxsplit)), default=0), np.int64)


def split(x: Array, width: int, *, delimiter: str, maxsplit: int) -> tuple[Array, Array]:
    """The parts of each string, filled up with empty ones to `width`; and how many there are."""
    parts = _parts(x, delimiter, maxsplit)
    filled = [s for p in parts for s in (*p, *[""] * (width - len(p)))]
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return strings(filled, (*x.shape, width)), counts


def _parts(x: Array, delimiter: str, maxsplit: int) -> list[list[str]]:
    return [s.split(delimiter or None, maxsplit) for s in x.reshape(-1)]


def normalized_count(x: Array, **how: Any) -> Array:
    """How many strings `normalize` leaves, an int64 scalar."""
    return np.array(len(_normalized(x, **how)), np.int64)


def normalize(x: Array, **how: Any) -> Array:
    """Strings without accents and stop words, in one case, and without those that are empty then.

    One empty string is left where there would be none. Attributes: see `_normalized`.
    """
    return strings(_normalized(x, **how), (*x.shape[:-1], -1))


def _normalized(
    x: Array, *, case: str, is_case_sensitive: bool, stopwords: tuple[str, ...]
) -> list[str]:
    """case: 'LOWER', 'UPPER' or 'NONE'."""
    changes: dict[str, Callable[[str], str]] = {
        "LOWER": str.lower,
        "UPPER": str.upper,
        "NONE": str,
    }
    change = changes[case]
    stops = set(stopwords) if is_case_sensitive else {change(w) for w in stopwords}
    made = []
    for text in x.reshape(-1):
        plain = _without_accents(text)
        if is_case_sensitive:
            plain = change(_without(plain, stops))
        else:
            plain = _without(change(plain), stops)
        made.append(plain)
    return [s for s in made if s] or [""]


def _without(text: str, stops: set[str]) -> str:
    return " ".join(w for w in text.split(" ") if w not in stops) if stops else text


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    return "".join(c for c in parts if not unicodedata.combining(c))


def words(
    x: Array, *, separators: tuple[str, ...], word: str, least: int, padding: str, mark: bool
) -> Array:
    """The words of each string, along a new last axis, filled up with `padding`.

    separators: expressions for what is between words, each applied to what those before left; or
    one that is empty, for single characters. word: an expression for a word, else.
    least: how many characters words have. mark: whether the words of a string stand between
    characters 2 and 3.
    """
    rows = [[w for w in _split(s, separators, word) if len(w) >= least] for s in x.reshape(-1)]
    if mark and any(rows):
        rows = [["\x02", *row, "\x03"] for row in rows]
    width = max(map(len, rows), default=0)
    filled = [s for row in rows for s in (*row, *[padding] * (width - len(row)))]
    return strings(filled, (*x.shape, width))


def _split(text: str, separators: tuple[str, ...], word: str) -> list[str]:
    if word:
        return [m.group() for m in re.finditer(word, text) if m.group()]
    if separators == ("",):
        return list(text)
    parts = [text]
    for separator in separators:
        parts = [p for part in parts for p in _between(part, separator) if p]
    return parts


def _between(text: str, separator: str) -> Iterator[str]:
    """What lies between the matches of an expression."""
    start = 0
    for match in re.finditer(separator, text):
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]


def lookup(
    x: Array, *, keys: tuple[Any, ...], values: tuple[Any, ...], default: Any, dtype: str
) -> Array:
    """What each element stands for in a table, or the default. NaN is a key like others."""
    table = {_key(k): v for k, v in zip(keys, values, strict=True)}
    found = [table.get(_key(e), default) for e in x.reshape(-1).tolist()]
    if dtype == "string":
        return strings(found, x.shape)
    return np.array(found).astype(np.dtype(dtype)).reshape(x.shape)


def _key(value: Any) -> Any:
    return "nan" if isinstance(value, float) and value != value else value


def count_grams(
    x: Array,
    *,
    grams: tuple[tuple[Any, ...], ...],
    columns: tuple[int, ...],
    sizes: tuple[int, int],
    skips: int,
    width: int,
) -> Array:
    """How often each gram (a run of tokens) occurs in each row: float32 of `width` columns.

    sizes: least and greatest length of grams that count. skips: tokens that may be left out
    between those of a gram, always the same number within one.
    """
    wanted = {g: c for g, c in zip(grams, columns, strict=True) if sizes[0] <= len(g) <= sizes[1]}
    lengths = sorted({len(g) for g in wanted})
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    counts = np.zeros((len(rows), width), np.float32)
    for number, row in enumerate(rows.tolist()):
        found: Counter[tuple[Any, ...]] = Counter()
        for length in lengths:
            for step in range(1, 2 + (skips if length > 1 else 0)):
                reach = step * (length - 1) + 1
                starts = range(len(row) - reach + 1)
                found.update(tuple(row[s : s + reach : step]) for s in starts)
        for gram, count in found.items():
            if gram in wanted:
                counts[number, wanted[gram]] += count
    return counts.reshape(width) if x.ndim < 2 else counts


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "strings.concat": concat,
        "strings.constant": constant,
        "strings.count_grams": count_grams,
        "strings.equal": equal,
        "strings.from_numbers": from_numbers,
        "strings.full_match": full_match,
        "strings.lookup": lookup,
        "strings.normalize": normalize,
        "strings.normalized_count": normalized_count,
        "strings.split": split,
        "strings.split_width": split_width,
        "strings.take": take,
        "strings.to_numbers": to_numbers,
        "strings.words": words,
    }
)
"""Every function, by the name that models call it by."""
