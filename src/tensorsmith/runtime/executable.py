"""Compiled programs that can be called."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tensorsmith.errors import DTypeError, EvaluationError, IRError, ShapeError
from tensorsmith.runtime.dlpack import view
from tensorsmith.runtime.jit import link_object
from tensorsmith.runtime.thread_pool import Context, symbols

_ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a compiled program.

    dtype: by name. is_buffer: a tensor, else a scalar. is_written: whether calls write to it.
    """

    name: str
    dtype: str
    is_buffer: bool
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error code means: a message, and whether it is about the arguments, or their type."""

    text: str
    where: str | None = None
    is_argument: bool = False
    is_type: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """What can be known of a compiled program without its code."""

    name: str
    parameters: tuple[Parameter, ...]
    failures: tuple[Failure, ...]


class CompiledProgram:
    """One program of an `Executable`: called with one argument a parameter, in order or by name.

    Tensors are NumPy arrays or anything with ``__dlpack__``; they are used where they lie, and
    those that the program writes hold the results afterwards. Raises ShapeError or DTypeError for
    arguments that do not fit, EvaluationError for what goes wrong inside, such as a failed
    assertion.
    """

    def __init__(self, signature: Signature, address: int, context: Context) -> None:
        self.signature = signature
        self._entry = _ENTRY(address)
        self._context = context

    def __repr__(self) -> str:
        params = ", ".join(f"{p.name}: {p.dtype}" for p in self.signature.parameters)
        return f"<compiled {self.signature.name}({params})>"

    def __call__(self, *args: object, **named: object) -> None:
        parameters = self.signature.parameters
        values = args if not named else self._in_order(args, named)
        if len(values) != len(parameters):
            raise ShapeError(
                f"{self.signature.name} takes {len(parameters)} arguments, not {len(values)}",
                given=", ".join(p.name for p in parameters),
            )
        slots = (ctypes.c_uint64 * max(len(values), 1))()
        kept = []
        for at, (p, value) in enumerate(zip(parameters, values, strict=True)):
            if not p.is_buffer:
                slots[at] = _scalar(p, value)
                continue
            tensor = view(value)
            if p.is_written and tensor.readonly:
                raise DTypeError(f"argument {p.name!r} is read-only, and {self!r} writes to it")
            kept.append(tensor)
            slots[at] = tensor.address
        code = self._entry(ctypes.addressof(slots), self._context.address)
        if code:
            raise self._failure(code, values)

    def _in_order(self, args: Sequence[object], named: Mapping[str, object]) -> Sequence[object]:
        names = [p.name for p in self.signature.parameters]
        unknown = [n for n in named if n not in names[len(args) :]]
        missing = [n for n in names[len(args) :] if n not in named]
        if unknown or missing:
            what = f"has no free parameter {unknown[0]!r}" if unknown else f"lacks {missing[0]!r}"
            raise ShapeError(f"{self.signature.name} {what}", given=", ".join(names))
        return (*args, *(named[n] for n in names[len(args) :]))

    def _failure(self, code: int, values: Sequence[object]) -> Exception:
        failures = self.signature.failures
        if not 0 < code <= len(failures):
            return EvaluationError(f"{self.signature.name} failed with code {code}")
        failure = failures[code - 1]
        given = "; ".join(
            f"{p.name}: {_describe(v)}"
            for p, v in zip(self.signature.parameters, values, strict=True)
        )
        if failure.is_argument:
            kind = DTypeError if failure.is_type else ShapeError
            return kind(f"{self.signature.name}: {failure.text}", given=given)
        return EvaluationError(f"{self.signature.name}: {failure.text}", where=failure.where)


def _describe(value: object) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    return repr(value)


def _scalar(p: Parameter, value: object) -> int:
    """The bits of a scalar argument in its slot."""
    if p.dtype in ("float32", "float64"):
        if not isinstance(value, (int, float, np.number)):
            raise DTypeError(f"argument {p.name!r} must be a number, not {value!r}")
        code = "<f" if p.dtype == "float32" else "<d"
        return int.from_bytes(struct.pack(code, float(value)), "little")
    if not isinstance(value, (int, np.integer, np.bool_)):
        raise DTypeError(f"argument {p.name!r} must be an integer, not {value!r}")
    return int(value) & 0xFFFF_FFFF_FFFF_FFFF


class Executable:
    """Compiled programs, ready to be called: ``exe["name"](...)``, or ``exe(...)`` for the first.

    threads: on how many threads parallel loops run.
    """

    def __init__(self, code: bytes, signatures: Sequence[Signature], *, threads: int) -> None:
        if threads < 1:
            raise ShapeError(f"threads must be at least 1, not {threads}")
        context = Context(threads)
        self.threads = threads
        self.code_bytes = len(code)
        imports = {"ts_parallel": symbols()["ts_parallel"]}
        addresses = link_object(code, [s.name for s in signatures], imports)
        self.programs: dict[str, CompiledProgram] = {
            s.name: CompiledProgram(s, addresses[s.name], context) for s in signatures
        }

    def __getitem__(self, name: str) -> CompiledProgram:
        """The program called `name`. Raises IRError, with the names there are."""
        try:
            return self.programs[name]
        except KeyError:
            known = ", ".join(map(repr, self.programs))
            raise IRError(f"no program {name!r} was compiled", try_=f"one of {known}") from None

    def __call__(self, *args: object, **named: object) -> None:
        """Call the first program."""
        next(iter(self.programs.values()))(*args, **named)

    def __repr__(self) -> str:
        return f"<executable of {', '.join(self.programs)}, {self.threads} threads>"


__all__ = ["CompiledProgram", "Executable", "Failure", "Parameter", "Signature"]
