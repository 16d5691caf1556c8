"""Calls of compiled programs with any arguments: slower than `fast_call`, and with the messages."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tensorsmith.errors import DTypeError, EvaluationError, ShapeError
from tensorsmith.runtime.dlpack import view
from tensorsmith.runtime.signature import Parameter, Signature
from tensorsmith.runtime.thread_pool import Context

ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
"""What a compiled program is in C: ``i32 name(void **args, void *context)``."""


class Slots(NamedTuple):
    """Arguments as an entry takes them, and what must live as long."""

    words: ctypes.Array[ctypes.c_uint64]
    kept: tuple[object, ...]
    values: tuple[object, ...]

    @property
    def address(self) -> int:
        """Where the slots lie."""
        return ctypes.addressof(self.words)


class GeneralCall:
    """Calls of the program at `address`, with one argument a parameter. `kept` must live as long.

    Raises ShapeError or DTypeError for arguments that do not fit, EvaluationError for what goes
    wrong inside.
    """

    def __init__(
        self,
        signature: Signature,
        address: int,
        context: Context,
        kept: tuple[object, ...] = (),
    ) -> None:
        self._kept = kept
        self.signature = signature
        self.address = address
        self.context = context
        self._entry = ENTRY(address)

    def __call__(self, *values: object) -> None:
        slots = self.slots(values)
        code = self._entry(slots.address, self.context.address)
        if code:
            self.fail(code, *values)

    def describe(self) -> str:
        """The program and its parameters, as in 'scale(A: float32, x: float32)'."""
        params = ", ".join(f"{p.name}: {p.dtype}" for p in self.signature.parameters)
        return f"{self.signature.name}({params})"

    def slots(self, values: Sequence[object]) -> Slots:
        """The arguments as the entry takes them. Raises ShapeError or DTypeError."""
        parameters = self.signature.parameters
        if len(values) != len(parameters):
            raise ShapeError(
                f"{self.signature.name} takes {len(parameters)} arguments, not {len(values)}",
                given=", ".join(p.name for p in parameters),
            )
        words = (ctypes.c_uint64 * max(len(values), 1))()
        kept: list[object] = []
        for at, (p, value) in enumerate(zip(parameters, values, strict=True)):
            if not p.is_buffer:
                words[at] = scalar_bits(p, value)
                continue
            tensor = view(value)
            if p.is_written and tensor.readonly:
                raise DTypeError(
                    f"argument {p.name!r} is read-only, and <compiled {self.describe()}> writes"
                    " to it"
                )
            kept.append(tensor)
            words[at] = tensor.address
        return Slots(words, tuple(kept), tuple(values))

    def in_order(self, args: Sequence[object], named: Mapping[str, object]) -> Sequence[object]:
        """All arguments by position. Raises ShapeError for a name that is wrong or missing."""
        names = [p.name for p in self.signature.parameters]
        unknown = [n for n in named if n not in names[len(args) :]]
        missing = [n for n in names[len(args) :] if n not in named]
        if unknown or missing:
            what = f"has no free parameter {unknown[0]!r}" if unknown else f"lacks {missing[0]!r}"
            raise ShapeError(f"{self.signature.name} {what}", given=", ".join(names))
        return (*args, *(named[n] for n in names[len(args) :]))

    def fail(self, code: int, *values: object) -> None:
        """Raise what the error code of a call with these arguments means."""
        failure = self.signature.failure(code)
        if failure is None:
            raise EvaluationError(f"{self.signature.name} failed with code {code}")
        if not failure.is_argument:
            raise EvaluationError(f"{self.signature.name}: {failure.text}", where=failure.where)
        given = "; ".join(
            f"{p.name}: {_describe(v)}"
            for p, v in zip(self.signature.parameters, values, strict=True)
        )
        kind = DTypeError if failure.is_type else ShapeError
        raise kind(f"{self.signature.name}: {failure.text}", given=given)


def _describe(value: object) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    return repr(value)


def integer_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type, by its name. Raises DTypeError if it is
    none."""
    if dtype == "index":
        return -(2**63), 2**63 - 1
    if dtype == "handle":
        return 0, 2**64 - 1
    digits = dtype.removeprefix("u").removeprefix("int")
    if not digits.isdigit():
        raise DTypeError(f"a scalar of {dtype} cannot be passed to compiled code")
    bits = int(digits)
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def scalar_bits(p: Parameter, value: object) -> int:
    """The bits of a scalar argument in its slot. Raises DTypeError if it does not fit."""
    if p.dtype in ("float32", "float64"):
        if not isinstance(value, (int, float, np.floating, np.integer)):
            raise DTypeError(f"argument {p.name!r} must be a number, not {value!r}")
        try:
            number = float(value)
        except OverflowError:
            raise DTypeError(f"argument {p.name!r} is {value}, which does not fit {p.dtype}") from (
                None
            )
        if p.dtype == "float64":
            return int.from_bytes(struct.pack("<d", number), "little")
        return int.from_bytes(bytes(ctypes.c_float(number)), "little")
    if p.dtype == "bool":
        if not isinstance(value, (bool, np.bool_)):
            raise DTypeError(f"argument {p.name!r} must be a bool, not {value!r}")
        return int(value)
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise DTypeError(f"argument {p.name!r} must be an integer, not {value!r}")
    low, high = integer_range(p.dtype)
    if not low <= int(value) <= high:
        raise DTypeError(f"argument {p.name!r} is {value}, which does not fit {p.dtype}")
    return int(value) & 0xFFFF_FFFF_FFFF_FFFF
