"""What of a module compiles apart: host programs, the kernels that they call, and the rest.

A *host* is a program with the attribute ``host=True``: it allocates, does shape arithmetic and
calls *kernels*, the other programs. A host may call a thousand of them, many the same but for
names. So each kernel compiles by itself, once for all that are structurally equal, and a host only
declares what it calls, by name; the linker brings them together. Programs that are no hosts, and
that none calls, compile with those that they call, in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tensorsmith.ir import Buffer, Invoke, IRModule, Region, Store, TensorProgram, View
from tensorsmith.ir.rewrite import statements
from tensorsmith.ir.structural import structural_hash

HOST: Final = "host"
"""The attribute of a host program."""
KERNEL: Final = "kernel"
"""What a kernel is called while it compiles, so that its name does not matter."""
WRITE_FIRST: Final = frozenset(("ts_hold", "ts_append", "ts_drop"))
"""Functions of the runtime that write their first argument, a cell, and only read the others."""
READ_ONLY: Final = frozenset(("ts_return",))
"""Functions of the runtime that only read what they get."""


def is_host(program: TensorProgram) -> bool:
    """Whether the program is a host."""
    return bool(program.attrs.get(HOST))


def callees(program: TensorProgram, module: IRModule) -> tuple[str, ...]:
    """The programs of the module that a program calls itself, each once, in order."""
    called = (s.callee for s in statements(program.body) if isinstance(s, Invoke))
    return tuple(dict.fromkeys(name for name in called if name in module.programs))


@dataclass(frozen=True)
class Unit:
    """Programs that compile together.

    module: the programs, and for a host those that it declares. kernel: the symbol of the one
    kernel that they are, '' for programs that can be called from outside. calls: the kernels that a
    host calls, in the order of their numbers.
    """

    module: IRModule
    kernel: str = ""
    calls: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=(), compare=False)
    """Of a kernel: what the module calls it, and those that are equal to it."""

    @cached_property
    def defined(self) -> Mapping[str, TensorProgram]:
        """The programs that get code here."""
        programs = self.module.programs
        return {name: p for name, p in programs.items() if name not in self.calls}

    @property
    def title(self) -> str:
        """What errors call it."""
        return ", ".join(self.names or self.defined)


def split(module: IRModule) -> Iterator[Unit]:
    """The units of a module: kernels before the hosts that call them."""
    hosts = {name: p for name, p in module.programs.items() if is_host(p)}
    calls = {name: callees(p, module) for name, p in hosts.items()}
    kernels = dict.fromkeys(k for called in calls.values() for k in called)
    yield from _kernels(module, kernels)
    for name, host in hosts.items():
        declared = (module.programs[k] for k in calls[name])
        yield Unit(IRModule.of(host, *declared, attrs=module.attrs), calls=calls[name])
    rest = {n: p for n, p in module.programs.items() if n not in hosts and n not in kernels}
    for part in _connected(rest):
        yield Unit(IRModule.of(*part, attrs=module.attrs))


def _kernels(module: IRModule, names: Mapping[str, None]) -> Iterator[Unit]:
    """A unit for each set of equal kernels."""
    found: dict[str, tuple[IRModule, list[str]]] = {}
    for name in names:
        alone = _as_kernel(module, name)
        root, *others = alone.programs.values()
        symbol = structural_hash(alone if others or module.attrs else root)
        found.setdefault(f"k{symbol}", (alone, []))[1].append(name)
    for symbol, (alone, equal) in found.items():
        yield Unit(alone, kernel=symbol, names=tuple(equal))


def _as_kernel(module: IRModule, name: str) -> IRModule:
    """A kernel under the name `KERNEL`, first, and all that it calls."""
    needed: dict[str, None] = {}
    pending = [name]
    while pending:
        here = pending.pop()
        if here not in needed:
            needed[here] = None
            pending.extend(callees(module.programs[here], module))
    root, *others = (module.programs[n] for n in needed)
    if KERNEL in needed:
        return IRModule.of(root, *others, attrs=module.attrs)
    return IRModule.of(replace(root, name=KERNEL), *others, attrs=module.attrs)


def _connected(programs: Mapping[str, TensorProgram]) -> Iterator[list[TensorProgram]]:
    """The programs in groups of those that call each other."""
    part = {name: {name} for name in programs}
    for name, program in programs.items():
        for s in statements(program.body):
            if isinstance(s, Invoke) and s.callee in part and part[s.callee] is not part[name]:
                joined = part[name] | part[s.callee]
                part.update(dict.fromkeys(joined, joined))
    done: set[str] = set()
    for name in programs:
        if name not in done:
            done |= part[name]
            yield [f for n, f in programs.items() if n in part[name]]


class Written:
    """Which parameters the programs of a module write, themselves or by a call; each found once.

    Instructions write their first argument alone. Other callees that are not in the module may
    write all that they get.
    """

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self._known: dict[str, set[Buffer]] = {}

    def of(self, program: TensorProgram) -> set[Buffer]:
        """The buffers that a program writes, views seen through."""
        if program.name not in self._known:
            self._known[program.name] = set(self._buffers(program))
        return self._known[program.name]

    def _buffers(self, program: TensorProgram) -> Iterator[Buffer]:
        sources: dict[Buffer, Buffer] = {}
        for s in statements(program.body):
            if isinstance(s, View) and isinstance(s.source, Buffer):
                sources[s.buffer] = sources.get(s.source, s.source)
            elif isinstance(s, Store):
                yield sources.get(s.buffer, s.buffer)
            elif isinstance(s, Invoke):
                for buffer in self._by_call(s):
                    yield sources.get(buffer, buffer)

    def _by_call(self, s: Invoke) -> Iterator[Buffer]:
        if s.callee in READ_ONLY:
            return
        if s.is_instruction or s.callee in WRITE_FIRST:
            yield from (a.buffer for a in s.args[:1] if isinstance(a, Region))
            return
        callee = self.module.programs.get(s.callee)
        inside = None if callee is None else self.of(callee)
        params = [None] * len(s.args) if callee is None else callee.params
        for argument, p in zip(s.args, params, strict=True):
            if isinstance(argument, Region) and (inside is None or p in inside):
                yield argument.buffer
