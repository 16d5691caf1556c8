"""Large weights stay in the model's own file, instead of being copied with the message around them.

A message of hundreds of megabytes is in memory twice while protobuf parses it. So before that, each
large tensor is said to be external data (`tensorsmith.frontend.onnx.external`) at the place in the
same file where its bytes are, which are then mapped, and checked as those of any other file. Only
the frame of the message is read here: tags and lengths. What does not look as expected is left to
protobuf, whose verdict counts.

Source: the encoding of protocol buffers, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LARGE: Final = 1 << 20
"""Bytes of data from which on a tensor stays in its file."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
GRAPH_OF_MODEL, INITIALIZER_OF_GRAPH = 7, 5
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 9, 13, 14
KEY_OF_ENTRY, VALUE_OF_ENTRY = 1, 2
EXTERNAL: Final = 1


class _OtherwiseError(Exception):
    """The message does not look as expected."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: all of it from `start` to `end`, its content from `content` on."""

    number: int
    wire: int
    start: int
    content: int
    end: int


def without_large_tensors(data: memoryview, location: str) -> bytes | None:
    """The model's message with its large initialisers as external data in the file `location`,
    which `data` is the content of. None if there are none, or it is no such message."""
    try:
        return _model(data, location)
    except _OtherwiseError:
        return None


def _model(data: memoryview, location: str) -> bytes | None:
    fields = list(_fields(data, 0, len(data)))
    graphs = [f for f in fields if f.number == GRAPH_OF_MODEL]
    if len(graphs) != 1 or graphs[0].wire != BYTES:
        return None
    (graph,) = graphs
    parts: list[bytes | memoryview] = []
    found = 0
    for f in _fields(data, graph.content, graph.end):
        made = _tensor(data, f, location) if f.number == INITIALIZER_OF_GRAPH else None
        parts.append(data[f.start : f.end] if made is None else made)
        found += made is not None
    if not found:
        return None
    inside = b"".join(parts)
    around = [
        _delimited(GRAPH_OF_MODEL, inside) if f is graph else data[f.start : f.end] for f in fields
    ]
    return b"".join(around)


def _tensor(data: memoryview, field: _Field, location: str) -> bytes | None:
    """An initialiser whose data is external; None if it should stay as it is."""
    if field.wire != BYTES:
        raise _OtherwiseError
    fields = list(_fields(data, field.content, field.end))
    raw = [f for f in fields if f.number == RAW_DATA]
    if len(raw) != 1 or raw[0].wire != BYTES or raw[0].end - raw[0].content < LARGE:
        return None
    if any(f.number in (EXTERNAL_DATA, DATA_LOCATION) for f in fields):
        return None
    (held,) = raw
    entries = {
        "location": location,
        "offset": str(held.content),
        "length": str(held.end - held.content),
    }
    parts = [bytes(data[f.start : f.end]) for f in fields if f is not held]
    for key, value in entries.items():
        entry = _delimited(KEY_OF_ENTRY, key.encode()) + _delimited(VALUE_OF_ENTRY, value.encode())
        parts.append(_delimited(EXTERNAL_DATA, entry))
    parts.append(_varint(DATA_LOCATION << 3 | VARINT) + _varint(EXTERNAL))
    return _delimited(INITIALIZER_OF_GRAPH, b"".join(parts))


def _fields(data: memoryview, at: int, end: int) -> Iterator[_Field]:
    """The fields of a message. Raises _OtherwiseError for what is cut off or none."""
    while at < end:
        start = at
        tag, at = _number(data, at, end)
        wire = tag & 7
        if wire == VARINT:
            content = at
            _, at = _number(data, at, end)
        elif wire == BYTES:
            size, content = _number(data, at, end)
            at = content + size
        elif wire in (FIXED32, FIXED64):
            content = at
            at += 4 if wire == FIXED32 else 8
        else:
            raise _OtherwiseError
        if at > end:
            raise _OtherwiseError
        yield _Field(tag >> 3, wire, start, content, at)


def _number(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _OtherwiseError


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content
