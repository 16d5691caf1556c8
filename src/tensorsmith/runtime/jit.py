"""Linking machine code into this process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from tensorsmith.runtime.object_cache import key_of, object_cache

_lock: Final = threading.RLock()
_linkers: list[Any] = []
_compilers: list[Any] = []
_loaded: list[object] = []
"""What keeps the runtime's own code mapped."""
_counter: Final = iter(range(1, 1 << 62))


@functools.cache
def llvm_version() -> str:
    """The versions of LLVM and of its binding."""
    numbers = ".".join(map(str, llvm.llvm_version_info))
    return f"LLVM {numbers}, llvmlite {llvmlite.__version__}"


@functools.cache
def _host() -> tuple[str, str, str]:
    """This machine's triple, processor and features."""
    return (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )


def _host_machine() -> Any:  # llvmlite has no types
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    triple, cpu, features = _host()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", jit=True
    )


def _linker() -> Any:  # llvmlite has no types
    if not _linkers:
        _linkers.append(llvm.create_lljit_compiler(_host_machine(), use_jit_link=False))
    return _linkers[0]


class Code(dict[str, int]):
    """Addresses of linked code by symbol. The code is unmapped when this object ends, so whatever
    calls it must hold on to it."""

    def __init__(self, library: Any, names: Iterable[str]) -> None:
        super().__init__({name: library[name] for name in names})
        self._library = library


def link_object(
    code: bytes, names: Iterable[str], imports: Mapping[str, int] | None = None
) -> Code:
    """The symbols `names` of an object file, linked into this process.

    imports: addresses of symbols that the code uses, besides those of the process itself.
    Raises OSError if a symbol is missing.
    """
    return link_objects([code], names, imports)


def link_objects(
    codes: Iterable[bytes], names: Iterable[str], imports: Mapping[str, int] | None = None
) -> Code:
    """As `link_object`, for object files that are linked together."""
    wanted = list(names)
    with _lock:
        linker = _linker()
        builder = llvm.JITLibraryBuilder()
        for code in codes:
            builder.add_object_img(code)
        builder.add_current_process()
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        for name in wanted:
            builder.export_symbol(name)
        try:
            library = builder.link(linker, f"tensorsmith.{next(_counter)}")
        except RuntimeError as error:
            raise OSError(f"compiled code does not link: {error}") from None
        return Code(library, wanted)


def link_ir(ir: str, names: Iterable[str], imports: Mapping[str, int] | None = None) -> Code:
    """As `link_object`, for LLVM IR of the runtime's own: its object file is kept in the cache, and
    its code is there for good."""
    cache = object_cache()
    key = key_of(["runtime", ir, *_host(), llvm_version()])
    entry = cache.get(key) if cache else None
    if entry:
        return _for_good(link_object(entry.code, names, imports))
    code = _compiled(ir)
    if cache:
        cache.put(key, {"kind": "runtime", "compiler": llvm_version()}, code)
    return _for_good(link_object(code, names, imports))


def _for_good(code: Code) -> Code:
    _loaded.append(code)
    return code


def link_ir_once(ir: str, names: Iterable[str]) -> Code:
    """As `link_object`, for LLVM IR that holds addresses of this process."""
    return link_object(_compiled(ir), names)


def _compiled(ir: str) -> bytes:
    with _lock:
        if not _compilers:
            _compilers.append(_host_machine())
        module = llvm.parse_assembly(ir)
        module.verify()
        return bytes(_compilers[0].emit_object(module))
