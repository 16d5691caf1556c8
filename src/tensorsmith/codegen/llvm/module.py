"""One LLVM module for the programs of one `IRModule`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tensorsmith.codegen.llvm import math as functions
from tensorsmith.codegen.llvm.entry import Entry
from tensorsmith.codegen.llvm.function import Function
from tensorsmith.codegen.llvm.memory import Place
from tensorsmith.codegen.llvm.runtime_calls import alone
from tensorsmith.codegen.llvm.tile_products import TILE_PRODUCTS, reconfigure, releasing
from tensorsmith.codegen.llvm.types import register_type
from tensorsmith.codegen.lower.calls import callee_values
from tensorsmith.codegen.lower.pipeline import lower
from tensorsmith.codegen.lower.scheduled import SCHEDULED
from tensorsmith.errors import Span
from tensorsmith.ir import Buffer, For, Invoke, IRModule, TensorProgram, Var
from tensorsmith.ir.dtype import float32, float64
from tensorsmith.ir.rewrite import statements
from tensorsmith.ir.stmt import ZERO
from tensorsmith.runtime.signature import KERNEL_SHIFT
from tensorsmith.target import Target

PARALLEL: Final = "ts_parallel"
"""The runtime's function that runs a loop on threads; see `tensorsmith.runtime.thread_pool`."""
_PARALLEL_DECLARED: Final = f"declare i32 @{PARALLEL}(ptr, ptr, ptr, i64, i64)"
_PARALLEL_ALONE: Final = f"""\
define weak i32 @{PARALLEL}(ptr %ctx, ptr %body, ptr %env, i64 %begin, i64 %end) #0 {{
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %run, label %none
run:
  %code = call i32 %body(ptr %ctx, ptr %env, i64 %begin, i64 %end)
  ret i32 %code
none:
  ret i32 0
}}"""
MOST_SCOPES: Final = 64
"""Buffers of one program of which LLVM is told that they do not overlap."""


@dataclass(frozen=True, slots=True)
class Message:
    """What an error code of a compiled function means."""

    text: str
    span: Span | None = None
    is_argument: bool = False
    """Whether it is about the arguments of the call."""
    is_type: bool = False
    """Whether it is about their type, not their shape."""


@dataclass(slots=True)
class ModuleText:
    """The text of a module as it grows.

    check_bounds: whether every access is checked when the code runs (a debugging aid).
    messages: what error code k means, at ``messages[k - 1]``.
    """

    module: IRModule
    target: Target
    check_bounds: bool = False
    apart: Mapping[str, int] = field(default_factory=dict)
    """The programs of the module that are defined elsewhere, and their numbers from 1: what they
    return is told apart from codes of this module by `KERNEL_SHIFT`."""
    messages: list[Message] = field(default_factory=list)
    declarations: dict[str, None] = field(default_factory=dict)
    bodies: list[str] = field(default_factory=list)
    library: dict[str, str] = field(default_factory=dict)
    """Functions of our own library that are used, by symbol."""
    scopes: dict[Buffer, int] = field(default_factory=dict)
    """The number of each buffer of the program that is being printed."""
    viewed: dict[Buffer, Buffer | None] = field(default_factory=dict)
    """What each view is a view of, at last; None for memory at an address."""
    alias_nodes: list[str] = field(default_factory=lambda: ["!0 = !{i32 1}"])
    is_scheduled: bool = True
    """Whether all programs need little of LLVM's middle end."""
    program: TensorProgram | None = None
    """The program that is being printed."""
    has_tiles: bool = False
    """Whether that uses tile registers, here or there."""

    @property
    def contract(self) -> bool:
        """Whether the program allows a product and a sum to be rounded once."""
        assert self.program is not None
        return bool(self.program.attrs.get("contract")) and self.target.has_fma

    @property
    def has_f16(self) -> bool:
        """Whether the machine converts 16-bit floats itself."""
        return bool(self.target.features & {"f16c", "avx512fp16", "fullfp16"})

    # --- Parts -------------------------------------------------------------------------------

    def declare(self, text: str) -> None:
        """Have this declaration in the module."""
        self.declarations[text] = None

    def message(
        self,
        text: str,
        span: Span | None,
        *,
        is_argument: bool = False,
        is_type: bool = False,
    ) -> int:
        """The error code for this message."""
        self.messages.append(Message(text, span, is_argument, is_type))
        return len(self.messages)

    def math(self, name: str, element: str, lanes: int) -> str:
        """The symbol of a mathematical function on vectors of ``float`` or ``double``."""
        dtype = float32 if element == "float" else float64
        has_fma, has_scalef = self.target.has_fma, self.target.has_scalef
        return self._use(
            functions.math_function(name, dtype, lanes, has_fma=has_fma, has_scalef=has_scalef)
        )

    def conversion(self, name: str, lanes: int) -> str:
        """The symbol of a conversion between a narrow float's bits and ``float``."""
        return self._use(functions.conversion(name, lanes))

    def _use(self, function: functions.MathFunction) -> str:
        if function.symbol not in self.library:
            self.library[function.symbol] = function.text
            for required in function.requires:
                if isinstance(required, str):
                    self.declare(required)
                else:
                    self._use(required)
        return function.symbol

    def alias_metadata(self, buffer: Buffer) -> str:
        """What tells LLVM that different buffers of one program do not overlap. Nothing beyond
        `MOST_SCOPES` buffers: each lists all others. A view counts as what it is a view of."""
        known = self.viewed.get(buffer, buffer)
        if known is None:
            return ""
        buffer = known
        if buffer not in self.scopes and len(self.scopes) >= MOST_SCOPES:
            return ""
        number = self.scopes.setdefault(buffer, len(self.scopes))
        first = self.alias_base + 1 + 3 * number
        return f", !alias.scope !{first + 1}, !noalias !{first + 2}"

    @property
    def alias_base(self) -> int:
        """The number of the first node of the program that is being printed."""
        return len(self.alias_nodes)

    def _close_scopes(self) -> None:
        """Print the nodes of a program's buffers. They say nothing on buffers of other programs: a
        callee's parameters are memory of the caller's."""
        base = self.alias_base
        nodes = [f"!{base} = distinct !{{!{base}}}"]
        for number in self.scopes.values():
            first = base + 1 + 3 * number
            others = ", ".join(f"!{base + 1 + 3 * k}" for k in self.scopes.values() if k != number)
            nodes.append(f"!{first} = distinct !{{!{first}, !{base}}}")
            nodes.append(f"!{first + 1} = !{{!{first}}}")
            nodes.append(f"!{first + 2} = !{{{others}}}")
        if self.scopes:
            self.alias_nodes.extend(nodes)
        self.scopes = {}

    # --- Functions ---------------------------------------------------------------------------

    @property
    def is_host(self) -> bool:
        """Whether the program that is being printed is a host."""
        return self.program is not None and bool(self.program.attrs.get("host"))

    def add(self, program: TensorProgram, *, symbol: str = "", is_inner: bool = False) -> None:
        """Print a program: its body, and the entry that checks arguments and calls it.

        symbol: what the body is called outside of the module, '' for what is seen inside alone.
        is_inner: whether there is no entry: whoever calls the body has checked the arguments.
        """
        self.program = program
        self.viewed = {}
        lowered = lower(program, self.module.programs, self.target, check_bounds=self.check_bounds)
        self.is_scheduled = self.is_scheduled and bool(lowered.attrs.get(SCHEDULED))
        called = {x.callee for x in statements(lowered.body) if isinstance(x, Invoke)}
        self.has_tiles = not called.isdisjoint(TILE_PRODUCTS)
        function = Function(self, f"{program.name}.body")
        params: list[str] = []
        shared = shared_params(program)
        for p in program.params:
            if isinstance(p, Buffer):
                name = f"%b{len(params)}"
                function.places[p] = Place(name, 0, 1 if p.offset is not ZERO else p.align)
                if p in shared:
                    self.viewed[p] = None
                params.append(f"ptr {name}" if p in shared else f"ptr noalias {name}")
            else:
                params.append(self._scalar(function, p, len(params)))
        for d in program.dims:
            params.append(self._scalar(function, d, len(params)))
        function.stmt(lowered.body)
        if symbol:
            function.name = symbol
        self._finish(function, "" if symbol else "internal", ", ".join(("ptr %ctx", *params)))
        self._close_scopes()
        if not is_inner:
            self.bodies.append(Entry(self, program).text())

    def _scalar(self, function: Function, v: Var, number: int) -> str:
        name = f"%s{number}"
        function.variables[v] = (name, 0)
        return f"{register_type(v.dtype)} {name}"

    def _finish(self, function: Function, linkage: str, params: str) -> None:
        lines = [
            f'define {linkage} i32 @"{function.name}"({params}) #0 {{',
            "entry:",
            *function.allocas,
            *function.cell_lines(),
            function.text.render(),
            *self._fence(function),
            "  ret i32 0",
            *function.exit_lines(),
            "}",
        ]
        text = "\n".join(line for line in lines if line)
        self.bodies.append(releasing(text) if function.has_tiles else text)

    def _fence(self, function: Function) -> list[str]:
        """What makes stores past the caches seen by others, where the machine wants it."""
        if not function.has_nontemporal or not self.target.is_x86:
            return []
        self.declare("declare void @llvm.x86.sse.sfence()")
        return ["  call void @llvm.x86.sse.sfence()"]

    def parallel_loop(self, function: Function, s: For) -> None:
        """A loop whose iterations the runtime hands out to threads."""
        assert self.program is not None
        number = len(self.bodies)
        body = Function(self, f"{self.program.name}.parallel.{number}", outer=function)
        body.facts = function.facts
        body.bounds = dict(function.bounds)
        body.nontemporal = function.nontemporal
        body.repeated = list(function.repeated)
        start, _ = function.expressions.value(s.start)
        end, _ = function.expressions.value(function.facts.simplify(s.start + s.extent))
        body.counted_loop(s, "%begin", "%end", nonempty=True)
        self._finish(body, "internal", "ptr %ctx, ptr %env, i64 %begin, i64 %end")
        text = function.text
        env = f"%{text.name('env')}"
        function.allocas.append(
            f"  {env} = alloca [{8 * max(len(body.captured), 1)} x i8], align 8"
        )
        for slot, what in enumerate(body.captured):
            pointer = text.value(f"getelementptr i8, ptr {env}, i64 {8 * slot}")
            if isinstance(what, Buffer):
                text.line(f"store ptr {function.place(what).pointer}, ptr {pointer}, align 8")
                continue
            value, _ = function.expressions.value(what)
            type_ = register_type(what.dtype)
            if type_ == "i1":
                value, type_ = text.value(f"zext i1 {value} to i8"), "i8"
            text.line(f"store {type_} {value}, ptr {pointer}, align 8")
        self.declare(_PARALLEL_DECLARED)
        code = text.value(
            f'call i32 @{PARALLEL}(ptr %ctx, ptr @"{body.name}", ptr {env}, i64 {start}, i64 {end})'
        )
        self.pass_on(function, code)

    def call(self, function: Function, s: Invoke, args: list[str]) -> None:
        """Call another program's body, or an external symbol, with scalars and pointers."""
        callee = self.module.programs.get(s.callee)
        symbol, number = f"@{s.callee}", 0
        if callee is not None:
            symbol = f'@"{s.callee}.body"'
            number = self.apart.get(s.callee, 0)
            values = callee_values(callee, s)
            dims = [(d, function.expressions.value(values[d]).text) for d in callee.dims]
            args = ["ptr %ctx", *args, *(f"{register_type(d.dtype)} {text}" for d, text in dims)]
        if callee is None or number:
            types = ", ".join(a.split(" ", 1)[0] for a in args)
            self.declare(f"declare i32 {symbol}({types})")
        code = function.text.value(f"call i32 {symbol}({', '.join(args)})")
        self.pass_on(function, code, number)

    def pass_on(self, function: Function, code: str, number: int = 0) -> None:
        """Return the error code of a call, unless it is 0; `number` is of the kernel called. What
        was called may have released the tile registers that loops around use."""
        text = function.text
        if self.has_tiles and text.depth:
            reconfigure(function)
        good, bad = text.name("good"), text.name("bad")
        fine = text.value(f"icmp eq i32 {code}, 0")
        text.line(f"br i1 {fine}, label %{good}, label %{bad}")
        text.begin(bad)
        if number:
            code = text.value(f"or i32 {code}, {number << KERNEL_SHIFT}")
        function.leave(code)
        text.begin(good)

    def define_runtime(self) -> None:
        """Have what the runtime gives in the module, unless there is another: loops that run on
        their caller, memory from the C library."""
        self.declarations.pop(_PARALLEL_DECLARED, None)
        self.bodies.append(_PARALLEL_ALONE)
        for declared, text in alone(self.target.index_bits).items():
            if declared in self.declarations:
                del self.declarations[declared]
                self.bodies.append(text)

    def render(self) -> str:
        """The whole module."""
        width = 8 * self.target.vector_bytes
        attributes = (
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}"'
            f' "min-legal-vector-width"="{width}" }}'
        )
        parts = [
            f'target triple = "{self.target.triple}"',
            *self.declarations,
            *self.library.values(),
            *self.bodies,
            attributes,
            *self.alias_nodes,
        ]
        return "\n\n".join(parts) + "\n"


def shared_params(program: TensorProgram) -> set[Buffer]:
    """The parameters that a call may give the memory of another one: by the attribute ``inplace``,
    pairs of numbers of parameters."""
    pairs = program.attrs.get("inplace", ())
    assert isinstance(pairs, tuple)
    numbers = {k for pair in pairs if isinstance(pair, tuple) for k in pair}
    return {p for k, p in enumerate(program.params) if k in numbers and isinstance(p, Buffer)}


def print_llvm(module: IRModule, target: Target, *, check_bounds: bool = False) -> ModuleText:
    """The LLVM text of all programs of a verified module; `ModuleText.render` gives it."""
    text = ModuleText(module, target, check_bounds)
    for program in module.programs.values():
        text.add(program)
    return text


__all__ = ["PARALLEL", "Message", "ModuleText", "print_llvm"]
