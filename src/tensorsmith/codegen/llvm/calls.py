"""Calls: of programs of the module, of external functions, of instructions of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.codegen.llvm import tile_products
from tensorsmith.codegen.llvm.instructions import INSTRUCTIONS, Instruction, Vector, is_widened
from tensorsmith.codegen.llvm.regions import check_region
from tensorsmith.codegen.llvm.runtime_calls import IN_CONTEXT, RETURN, hand_over, note_cell
from tensorsmith.codegen.llvm.types import register_type
from tensorsmith.codegen.strides import dense_strides, strides_of
from tensorsmith.errors import CodegenError
from tensorsmith.ir import Const, Expr, Invoke, Region
from tensorsmith.ir.dtype import Kind
from tensorsmith.ir.dtype import dtype as as_dtype

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.function import Function


def invoke(function: Function, s: Invoke) -> None:
    """Emit a call; its error code, if it has one, is passed on."""
    function.memory.tiles.forget_all()
    if s.callee in tile_products.TILE_PRODUCTS:
        tile_products.emit(function, s)
        return
    if s.is_instruction:
        _Instruction(function, s, _instruction(function, s)).emit()
        return
    args: list[str] = []
    for a in s.args:
        if isinstance(a, Region):
            check_region(function, a)
            starts = tuple(start for start, _ in a.ranges)
            args.append(f"ptr {function.memory.address(a.buffer, starts)}")
        else:
            value, _ = function.expressions.value(a)
            args.append(f"{register_type(a.dtype)} {value}")
    if s.callee == RETURN:
        args = hand_over(function, s, args)
    elif s.callee in IN_CONTEXT:
        if isinstance(s.args[0], Region):
            note_cell(function, s.args[0])
        args = ["ptr %ctx", *args]
    function.module.call(function, s, args)


def _instruction(function: Function, s: Invoke) -> Instruction:
    found = INSTRUCTIONS.get(s.callee)
    target = function.module.target
    if found is None:
        raise CodegenError(
            f"{s.callee!r} is no instruction that has code",
            where=s.span,
            try_=f"one of {', '.join(INSTRUCTIONS)}",
        )
    if not target.features.intersection(found.needs):
        raise CodegenError(
            f"{target.cpu or target.triple} lacks {s.callee!r}",
            where=s.span,
            because=f"it needs {' or '.join(found.needs)}",
            try_="a target that has it, or a schedule without it",
        )
    if len(s.args) - len(found.operands) not in (1, 2):
        raise CodegenError(
            f"{s.callee!r} takes a result and {len(found.operands)} operands,"
            f" not {len(s.args)} arguments",
            where=s.span,
        )
    return found


class _Instruction:
    """One call of an instruction on its way to text."""

    def __init__(self, function: Function, s: Invoke, instruction: Instruction) -> None:
        self.function = function
        self.call = s
        self.instruction = instruction

    def emit(self) -> None:
        """Load the operands, compute, store the result."""
        function, instruction = self.function, self.instruction
        result, *operands = self.call.args
        own = operands[len(operands) - len(instruction.operands) :]
        values = [self.operand(a, v) for a, v in zip(own, instruction.operands, strict=True)]
        types = ", ".join(v.llvm for v in instruction.operands)
        type_ = instruction.result.llvm
        function.module.declare(f"declare {type_} @{instruction.name}({types})")
        value = function.text.value(f"call {type_} @{instruction.name}({', '.join(values)})")
        if len(own) < len(operands):
            added = self.operand(operands[0], instruction.result)
            value = function.text.value(f"add {added}, {value}")
        region, lanes = self.region(result, instruction.result)
        if lanes != instruction.result.lanes:
            raise self.wrong(region, f"{instruction.result.lanes} elements")
        pointer = self.pointer(region)
        function.text.line(
            f"store {type_} {value}, ptr {pointer}, align {region.buffer.dtype.bytes}"
            f"{function.memory.alias(region.buffer)}"
        )

    def operand(self, a: Expr | Region, wanted: Vector) -> str:
        """The operand with its type. Fewer elements than the vector has are repeated."""
        text = self.function.text
        region, count = self.region(a, wanted)
        pointer = self.pointer(region)
        align = region.buffer.dtype.bytes
        alias = self.function.memory.alias(region.buffer)
        if region.buffer.dtype.name != wanted.dtype:
            return self.widened(region, count, wanted)
        if count == wanted.lanes:
            return f"{wanted.llvm} " + text.value(
                f"load {wanted.llvm}, ptr {pointer}, align {align}{alias}"
            )
        part = f"i{8 * align * count}"
        one = text.value(f"load {part}, ptr {pointer}, align {align}{alias}")
        return self.repeated(one, part, wanted.lanes // count, wanted)

    def widened(self, region: Region, count: int, wanted: Vector) -> str:
        """The operand from elements of fewer bits."""
        text, type_ = self.function.text, region.buffer.dtype
        narrow, wide = (f"<{count} x i{b}>" for b in (type_.bits, as_dtype(wanted.dtype).bits))
        alias = self.function.memory.alias(region.buffer)
        given = text.value(f"load {narrow}, ptr {self.pointer(region)}, align {type_.bytes}{alias}")
        extend = "sext" if type_.kind is Kind.INT else "zext"
        value = text.value(f"{extend} {narrow} {given} to {wide}")
        if count == wanted.lanes:
            return f"{wanted.llvm} " + text.value(f"bitcast {wide} {value} to {wanted.llvm}")
        part = f"i{as_dtype(wanted.dtype).bits * count}"
        one = text.value(f"bitcast {wide} {value} to {part}")
        return self.repeated(one, part, wanted.lanes // count, wanted)

    def repeated(self, one: str, part: str, copies: int, wanted: Vector) -> str:
        """A value of type `part` again and again, as the operand that is wanted."""
        text = self.function.text
        first = text.value(f"insertelement <{copies} x {part}> poison, {part} {one}, i64 0")
        all_ = text.value(
            f"shufflevector <{copies} x {part}> {first}, <{copies} x {part}> poison,"
            f" <{copies} x i32> zeroinitializer"
        )
        return f"{wanted.llvm} " + text.value(
            f"bitcast <{copies} x {part}> {all_} to {wanted.llvm}"
        )

    def region(self, a: Expr | Region, wanted: Vector) -> tuple[Region, int]:
        """The argument as a region that fits, and its number of elements."""
        if not isinstance(a, Region):
            raise CodegenError(
                f"{self.call.callee!r} takes regions, not {a!r}", where=self.call.span
            )
        type_ = as_dtype(wanted.dtype)
        if a.buffer.dtype is not type_ and not is_widened(a.buffer.dtype, type_):
            raise self.wrong(a, f"{wanted.dtype} elements")
        count = 1
        for _, extent in a.ranges:
            size = self.function.facts.simplify(extent)
            if not isinstance(size, Const):
                raise self.wrong(a, "a constant number of elements")
            count *= int(size.value)
        small = count * a.buffer.dtype.bytes in (1, 2, 4, 8)
        if count != wanted.lanes and (count < 1 or wanted.lanes % count or not small):
            raise self.wrong(a, f"{wanted.lanes} elements")
        self.check_contiguous(a)
        return a, count

    def check_contiguous(self, a: Region) -> None:
        strides = strides_of(a.buffer)
        wanted = dense_strides([extent for _, extent in a.ranges])
        facts = self.function.facts
        if strides is None or not all(
            facts.equal(extent, 1) or facts.equal(stride, step)
            for (_, extent), stride, step in zip(a.ranges, strides, wanted, strict=True)
        ):
            raise self.wrong(a, "elements that lie one after the other")

    def pointer(self, region: Region) -> str:
        check_region(self.function, region)
        return self.function.memory.address(
            region.buffer, tuple(start for start, _ in region.ranges)
        )

    def wrong(self, region: Region, wanted: str) -> CodegenError:
        return CodegenError(
            f"{self.call.callee!r} cannot take {region!r}",
            where=self.call.span,
            because=f"it needs {wanted} there",
        )
