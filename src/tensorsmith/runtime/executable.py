"""Compiled programs that can be called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensorsmith.errors import DTypeError, IRError, ShapeError
from tensorsmith.runtime.fast_call import fast_call
from tensorsmith.runtime.general_call import GeneralCall
from tensorsmith.runtime.jit import link_object, link_objects
from tensorsmith.runtime.profile import Profile, profile
from tensorsmith.runtime.signature import Failure, Kernel, Parameter, Signature
from tensorsmith.runtime.thread_pool import Context, symbols


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """An object file, and the programs in it: one symbol each, of the program's name.

    kernel: the one program in it, if it is one that hosts call: it cannot be called from outside.
    """

    code: bytes
    signatures: tuple[Signature, ...]
    kernel: Kernel | None = None


class CompiledProgram:
    """One program of an `Executable`: called with one argument a parameter, in order or by name.

    Tensors are NumPy arrays, torch tensors, or anything with ``__dlpack__``; they are used where
    they lie, and those that the program writes hold the results afterwards. The GIL is released
    during the call. Raises ShapeError or DTypeError for arguments that do not fit, EvaluationError
    for what goes wrong inside, such as a failed assertion.
    """

    __slots__ = ("_call", "_general")

    def __init__(
        self,
        signature: Signature,
        address: int,
        context: Context,
        kept: tuple[object, ...] = (),
    ) -> None:
        self._general = GeneralCall(signature, address, context, kept)
        self._call = fast_call(self._general)

    @property
    def positional(self) -> Callable[..., None]:
        """The call with arguments by position alone, at its fastest."""
        return self._call

    @property
    def signature(self) -> Signature:
        """The program's name, parameters and errors."""
        return self._general.signature

    def __repr__(self) -> str:
        return f"<compiled {self._general.describe()}>"

    def __call__(self, *args: object, **named: object) -> None:
        if named:
            args = tuple(self._general.in_order(args, named))
        self._call(*args)

    def profile(
        self, *args: object, repeats: int = 10, warmup: int = 1, **named: object
    ) -> Profile:
        """How long calls with these arguments take, without the time that Python takes.

        The program runs `warmup` times without and `repeats` times with a clock, and writes its
        results as any call does. Raises as a call does. Prints as a table:
        ``print(exe["matmul"].profile(a, b, c))``.
        """
        if named:
            args = tuple(self._general.in_order(args, named))
        return profile(self._general, self._general.slots(args), repeats, warmup)


_FUNCTION: Final = ctypes.CFUNCTYPE(None).__bases__[0]
"""What all functions of ctypes derive from."""


def address_of(function: object) -> int:
    """Where a function of C is."""
    if isinstance(function, int):
        return function
    if not isinstance(function, _FUNCTION):
        raise DTypeError(
            f"{function!r} is no function of C",
            try_="an address, or what ctypes.CFUNCTYPE makes of a Python function",
        )
    pointer: Any = function
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def link_kernels(parts: Iterable[ObjectCode], imports: Mapping[str, int]) -> Mapping[str, int]:
    """The addresses of all kernels, by symbol. Their code is there as long as the mapping is."""
    kernels = {part.kernel.symbol: part.code for part in parts if part.kernel is not None}
    return link_objects(list(kernels.values()), list(kernels), imports) if kernels else {}


def link_programs(
    parts: Iterable[ObjectCode],
    imports: Mapping[str, int],
    kernels: Mapping[str, int],
    context: Context,
    kept: object = None,
) -> dict[str, CompiledProgram]:
    """The programs that can be called. kernels: the addresses of what hosts call, by symbol.

    kept: what must live as long as one of the programs does.
    """
    found: dict[str, CompiledProgram] = {}
    for part in parts:
        if part.kernel is None:
            called = {k.name: kernels[k.symbol] for s in part.signatures for k in s.kernels}
            found.update(link_host(part, imports, called, context, (kernels, kept)))
    return found


def link_host(
    part: ObjectCode,
    imports: Mapping[str, int],
    called: Mapping[str, int],
    context: Context,
    kept: tuple[object, ...],
) -> dict[str, CompiledProgram]:
    """The programs of one object, linked to the addresses of what they call, by name.

    kept: what must live as long as the programs do.
    """
    known = {**imports, **{f"{name}.body": address for name, address in called.items()}}
    code = link_object(part.code, [s.name for s in part.signatures], known)
    return {
        s.name: CompiledProgram(s, code[s.name], context, (code, *kept)) for s in part.signatures
    }


class Executable:
    """Compiled programs, ready to be called: ``exe["name"](...)``, or ``exe(...)`` for the first.

    threads: on how many threads parallel loops run.
    externs: addresses of functions, or functions of ctypes, that the code calls by name. They take
        pointers and scalars, and give 0 for success as a 32-bit integer.
    context: what all its programs run in; ``context.trim()`` frees the memory that it keeps.
    """

    def __init__(
        self,
        objects: Iterable[ObjectCode],
        *,
        threads: int,
        externs: Mapping[str, object] | None = None,
    ) -> None:
        if threads < 1:
            raise ShapeError(f"threads must be at least 1, not {threads}")
        self.context = context = Context(threads)
        self.threads = threads
        self._externs = dict(externs or {})  # keeps functions of ctypes alive
        imports = {name: address_of(f) for name, f in self._externs.items()}
        imports.update(symbols())
        parts = list(objects)
        self.code_bytes = sum(len(part.code) for part in parts)
        kernels = link_kernels(parts, imports)
        self.programs = link_programs(parts, imports, kernels, context, self._externs)

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

    def profile(
        self, *args: object, repeats: int = 10, warmup: int = 1, **named: object
    ) -> Profile:
        """How long calls of the first program take; see `CompiledProgram.profile`."""
        first = next(iter(self.programs.values()))
        return first.profile(*args, repeats=repeats, warmup=warmup, **named)

    def __repr__(self) -> str:
        return f"<executable of {', '.join(self.programs)}, {self.threads} threads>"


__all__ = [
    "CompiledProgram",
    "Executable",
    "Failure",
    "Kernel",
    "ObjectCode",
    "Parameter",
    "Signature",
    "address_of",
    "link_host",
    "link_kernels",
    "link_programs",
]
