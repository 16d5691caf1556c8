"""The entry of a compiled program: ``i32 name(void **args, void *context)``.

`args` has one slot a parameter: for a buffer a pointer to its DLPack ``DLTensor``, for a scalar its
value. `context` is the runtime's (`tensorsmith.runtime.thread_pool`): on how many threads to run.
The entry checks device, element type, rank, shape, strides and alignment, binds the symbolic
dimensions, and calls the body. It gives 0, or the code of what was wrong (`ModuleText.messages`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tensorsmith.arith import Analyzer, simplify
from tensorsmith.arith.index_map import map_shape
from tensorsmith.codegen.llvm.function import Function
from tensorsmith.codegen.llvm.types import register_type
from tensorsmith.errors import CodegenError
from tensorsmith.ir import Buffer, Const, Expr, TensorProgram, Var, as_expr, equal, free_vars
from tensorsmith.ir.dtype import DType, Kind
from tensorsmith.target import Target

if TYPE_CHECKING:
    from tensorsmith.codegen.llvm.module import ModuleText


class TensorFields(NamedTuple):
    """Byte offsets of the fields of DLTensor (DLPack 1.0), whose shape and strides are arrays of 64
    bits on every machine."""

    data: int
    device: int
    ndim: int
    dtype: int
    shape: int
    strides: int
    byte_offset: int


def tensor_fields(target: Target) -> TensorFields:
    """Where C puts the fields on this machine. On i686, 64 bits are aligned to 4 bytes."""
    if target.index_bits == 64:
        return TensorFields(0, 8, 16, 20, 24, 32, 40)
    return TensorFields(0, 4, 12, 16, 20, 24, 28 if target.arch == "i686" else 32)


DL_CPU: Final = 1
_DL_CODES: Final = {Kind.INT: 0, Kind.INDEX: 0, Kind.UINT: 1, Kind.FLOAT: 2, Kind.BOOL: 6}
_DL_STORAGE: Final = {
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
    "float6_e2m3fn": 15,
    "float6_e3m2fn": 16,
    "float4_e2m1fn": 17,
}


def dlpack_type(dtype: DType) -> tuple[int, int]:
    """The code and bits of DLPack's DLDataType. Types below 8 bits lie in a byte each."""
    if dtype.name == "bfloat16":
        return 4, 16
    if dtype.name in _DL_STORAGE:
        return _DL_STORAGE[dtype.name], 8
    if dtype.kind not in _DL_CODES:
        raise CodegenError(f"a {dtype} cannot be passed to a compiled program")
    return _DL_CODES[dtype.kind], max(8, dtype.bits)


class Entry:
    """The entry of one program on its way to text."""

    def __init__(self, module: ModuleText, program: TensorProgram) -> None:
        self.module = module
        self.program = program
        self.function = Function(module, program.name, is_entry=True)
        self.fields = tensor_fields(module.target)
        self.pending: list[tuple[Expr, Expr, str]] = []
        """What must be equal once all dimensions are known, and the message if it is not."""

    def text(self) -> str:
        """The function."""
        arguments = [self.argument(at, p) for at, p in enumerate(self.program.params)]
        self.check_facts()
        for wanted, got, message in self.pending:
            self.check(equal(wanted, got), message)
        for d in self.program.dims:
            register, _ = self.function.variables.get(d, (None, 0))
            if register is None:
                raise CodegenError(
                    f"the dimension {d.name!r} of {self.program.name!r} cannot be told from a call",
                    because="no extent or stride of a parameter is that dimension alone",
                    try_="a scalar parameter of that name",
                )
            arguments.append(f"{register_type(d.dtype)} {register}")
        body = self.function.text
        passed = ("ptr %ctx", *arguments)
        code = body.value(f'call i32 @"{self.program.name}.body"({", ".join(passed)})')
        return "\n".join(
            (
                f'define i32 @"{self.program.name}"(ptr %args, ptr %ctx) #0 {{',
                "entry:",
                body.render(),
                f"  ret i32 {code}",
                "}",
            )
        )

    def argument(self, at: int, p: Buffer | Var) -> str:
        """Check parameter number `at`; what to pass on for it."""
        body = self.function.text
        slot = body.value(f"getelementptr i8, ptr %args, i64 {8 * at}")
        if isinstance(p, Var):
            type_ = register_type(p.dtype)
            if type_ == "i1":
                byte = body.value(f"load i8, ptr {slot}, align 8")
                value = body.value(f"icmp ne i8 {byte}, 0")
            elif p.dtype.is_float and p.dtype.bits == 16:
                raise CodegenError(f"scalar {p.name!r} is {p.dtype}", try_="a float32 scalar")
            else:
                value = body.value(f"load {type_}, ptr {slot}, align 8")
            self.function.variables[p] = (value, 0)
            return f"{type_} {value}"
        tensor = body.value(f"load ptr, ptr {slot}, align 8")
        self.check_type(tensor, p)
        self.check_shape(tensor, p)
        return f"ptr {self.data(tensor, p)}"

    def field(self, tensor: str, offset: int, type_: str) -> str:
        """A field of a DLTensor."""
        body = self.function.text
        pointer = body.value(f"getelementptr i8, ptr {tensor}, i64 {offset}")
        return body.value(f"load {type_}, ptr {pointer}, align 4")

    def check_type(self, tensor: str, p: Buffer) -> None:
        """Check where the tensor lies, its element type and its rank."""
        code, bits = dlpack_type(p.dtype)
        device = self.field(tensor, self.fields.device, "i32")
        self.fail_unless(
            f"icmp eq i32 {device}, {DL_CPU}",
            f"{p.name!r} does not lie in main memory",
            is_type=True,
        )
        both = self.field(tensor, self.fields.dtype, "i32")
        wanted = code | bits << 8 | p.dtype.lanes << 16
        self.fail_unless(
            f"icmp eq i32 {both}, {wanted}", f"{p.name!r} must be {p.dtype}", is_type=True
        )
        rank = self.field(tensor, self.fields.ndim, "i32")
        self.fail_unless(f"icmp eq i32 {rank}, {p.rank}", f"{p.name!r} must have rank {p.rank}")

    def check_shape(self, tensor: str, p: Buffer) -> None:
        """Check extents and strides, binding the dimensions that they are."""
        check_layout(p)
        shape = self.field(tensor, self.fields.shape, "ptr")
        got = [self.element(shape, axis) for axis in range(p.rank)]
        for axis, extent in enumerate(p.shape):
            self.match(extent, got[axis], f"axis {axis} of {p.name!r} must have extent {extent!r}")
        strides = self.field(tensor, self.fields.strides, "ptr")
        body = self.function.text
        given, after = body.name("given"), body.name("after")
        missing = body.value(f"icmp eq ptr {strides}, null")
        if p.strides is not None:
            self.fail_unless(f"icmp ne ptr {strides}, null", f"{p.name!r} must come with strides")
            for axis, stride in enumerate(p.strides):
                self.match(
                    stride,
                    self.element(strides, axis),
                    f"axis {axis} of {p.name!r} must have stride {stride!r}",
                )
            return
        body.line(f"br i1 {missing}, label %{after}, label %{given}")
        body.begin(given)
        self.check_dense(p, strides, got)
        body.line(f"br label %{after}")
        body.begin(after)

    def check_dense(self, p: Buffer, strides: str, got: list[str]) -> None:
        """Row-major without gaps; the stride of an axis of extent 1 does not matter, nor does any
        where the tensor is empty."""
        body = self.function.text
        total, fine = "1", "true"
        empty = "false"
        for axis in reversed(range(p.rank)):
            stride = self.element(strides, axis)
            same = body.value(f"icmp eq i64 {stride}, {total}")
            single = body.value(f"icmp eq i64 {got[axis]}, 1")
            none = body.value(f"icmp eq i64 {got[axis]}, 0")
            empty = body.value(f"or i1 {empty}, {none}")
            good = body.value(f"or i1 {same}, {single}")
            fine = body.value(f"and i1 {fine}, {good}")
            total = body.value(f"mul i64 {total}, {got[axis]}")
        self.fail_unless(
            f"or i1 {fine}, {empty}", f"{p.name!r} must be contiguous, in row-major order"
        )

    def element(self, array: str, axis: int) -> str:
        """An item of an array of 64-bit integers."""
        body = self.function.text
        pointer = body.value(f"getelementptr i64, ptr {array}, i64 {axis}")
        return body.value(f"load i64, ptr {pointer}, align 8")

    def match(self, wanted: Expr, got: str, message: str) -> None:
        """Bind a dimension to what the call has, or have it compared later."""
        if isinstance(wanted, Const):
            self.fail_unless(f"icmp eq i64 {got}, {wanted.value}", message)
        elif isinstance(wanted, Var) and wanted not in self.function.variables:
            self.function.variables[wanted] = (got, 0)
        else:
            held = Var("got")
            self.function.variables[held] = (got, 0)
            self.pending.append((wanted, held, message))

    def check_facts(self) -> None:
        """What stands on the dimensions must hold of the call."""
        for d in (*self.program.dims, *(p for p in self.program.params if isinstance(p, Var))):
            if d not in self.function.variables:
                continue
            plain = Var(d.name, d.dtype)  # without the facts, which would make the check vanish
            self.function.variables[plain] = self.function.variables[d]
            if d.low is not None:
                self.check(plain >= d.low, f"{d.name!r} must be at least {d.low}")
            if d.high is not None:
                self.check(plain <= d.high, f"{d.name!r} must be at most {d.high}")
            if d.multiple_of != 1:
                condition = equal(plain % d.multiple_of, 0)
                self.check(condition, f"{d.name!r} must be a multiple of {d.multiple_of}")

    def check(self, condition: Expr, message: str) -> None:
        """Return the message's code unless the condition holds.

        Raises CodegenError if a call cannot tell a dimension in it.
        """
        unknown = [v for v in free_vars(condition) if v not in self.function.variables]
        if unknown:
            raise CodegenError(
                f"the dimension {unknown[0].name!r} of {self.program.name!r} cannot be told"
                " from a call",
                because="no extent or stride of a parameter is that dimension alone",
                try_="a scalar parameter of that name",
            )
        value, _ = self.function.expressions.value(simplify(condition))
        self.function.fail_unless(value, self.module.message(message, None, is_argument=True))

    def fail_unless(self, comparison: str, message: str, *, is_type: bool = False) -> None:
        """Return the message's code unless the comparison holds."""
        good = self.function.text.value(comparison)
        code = self.module.message(message, None, is_argument=True, is_type=is_type)
        self.function.fail_unless(good, code)

    def data(self, tensor: str, p: Buffer) -> str:
        """The address of the first element."""
        body = self.function.text
        start = self.field(tensor, self.fields.data, "ptr")
        offset = self.field(tensor, self.fields.byte_offset, "i64")
        pointer = body.value(f"getelementptr i8, ptr {start}, i64 {offset}")
        if p.align > 1:
            address = body.value(f"ptrtoint ptr {pointer} to i64")
            low = body.value(f"and i64 {address}, {p.align - 1}")
            self.fail_unless(
                f"icmp eq i64 {low}, 0", f"{p.name!r} must be aligned to {p.align} bytes"
            )
        return pointer


def check_layout(p: Buffer) -> None:
    """Raise CodegenError if a parameter's layout needs more memory than an array of its shape has:
    what the caller passes could then not hold it."""
    if p.layout is None:
        return
    facts = Analyzer()
    logical, physical = as_expr(1), as_expr(1)
    for extent in p.shape:
        logical = logical * extent
    for extent in map_shape(p.layout, p.shape):
        physical = physical * extent
    if not facts.equal(logical, physical):
        raise CodegenError(
            f"the layout of parameter {p.name!r} does not fill an array of its shape",
            given=f"{facts.simplify(logical)} elements, laid out in {facts.simplify(physical)}",
            try_="a layout without padding, or a copy of the parameter that is padded",
        )
