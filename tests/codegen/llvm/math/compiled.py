"""Functions of the mathematical library, compiled for this machine and called on NumPy arrays."""

import ctypes
import functools

import llvmlite.binding as llvm
import numpy as np

from tensorsmith.codegen.llvm.math import MathFunction, library_text, math_function
from tensorsmith.ir.dtype import bool_, dtype
from tensorsmith.ir.intrinsic import INTRINSICS

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

ELEMENTS = {"float32": "float", "float64": "double", "bool": "i1"}


def register(name):
    """The LLVM type of an element in a register."""
    return ELEMENTS.get(name) or f"i{np.dtype(name).itemsize * 8}"


def shaped(element, lanes):
    return element if lanes == 1 else f"<{lanes} x {element}>"


def machine(*, fma=True):
    """A target machine for this processor, with or without the fused multiply-add."""
    features = llvm.get_host_cpu_features()
    if not fma:
        features["fma"] = features["fma4"] = False
        for name in [n for n in features if n.startswith(("avx512", "avx10"))]:
            features[name] = False
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu="x86-64" if not fma else llvm.get_host_cpu_name(),
        features=features.flatten(),
        opt=2,
        jit=True,
    )


def engine(text, *, fma=True, optimize=0):
    """Parse, verify and compile. Level 0 of the optimizer inlines, and changes no formula."""
    module = llvm.parse_assembly(text)
    module.verify()
    own = machine(fma=fma)
    tuning = llvm.create_pipeline_tuning_options(speed_level=optimize)
    builder = llvm.create_pass_builder(own, tuning)
    builder.getModulePassManager().run(module, builder)
    jit = llvm.create_mcjit_compiler(module, own)
    jit.finalize_object()
    return jit, module, own


def loop_text(function: MathFunction, parameters, result, lanes, name="run"):
    """A loop over arrays: whole vectors only. parameters, result: NumPy names of element types."""
    loads, pointers, operands = [], [], []
    for i, parameter in enumerate(parameters):
        type_ = shaped(register(parameter), lanes)
        pointers.append(f"ptr noalias %p{i}")
        loads.append(f"  %q{i} = getelementptr {register(parameter)}, ptr %p{i}, i64 %at")
        loads.append(f"  %x{i} = load {type_}, ptr %q{i}, align 1")
        operands.append(f"{type_} %x{i}")
    out = register(result)
    stored, type_, extra = "%y", shaped(out, lanes), ""
    if out == "i1":
        extra = f"  %z = zext {type_} %y to {shaped('i8', lanes)}\n"
        stored, type_, out = "%z", shaped("i8", lanes), "i8"
    body = "\n".join(loads)
    return f"""
define void @{name}({", ".join(pointers)}, ptr noalias %r, i64 %n) {{
entry:
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
{body}
  %y = call {shaped(register(result), lanes)} @{function.symbol}({", ".join(operands)})
{extra}  %w = getelementptr {out}, ptr %r, i64 %at
  store {type_} {stored}, ptr %w, align 1
  %next = add i64 %at, {lanes}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


class Compiled:
    """A function of arrays of one length."""

    def __init__(self, function, parameters, result, lanes, *, fma=True):
        text = library_text([function]) + loop_text(function, parameters, result, lanes)
        self.kept = engine(text, fma=fma)
        self.parameters, self.result, self.lanes = parameters, result, lanes
        pointers = [ctypes.c_void_p] * (len(parameters) + 1)
        address = self.kept[0].get_function_address("run")
        self.run = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(address)

    def __call__(self, *arrays):
        arrays = np.broadcast_arrays(*(np.atleast_1d(a) for a in arrays))
        shape = arrays[0].shape
        n = arrays[0].size
        padded = -(-n // self.lanes) * self.lanes
        flat = []
        for array, name in zip(arrays, self.parameters, strict=True):
            assert array.dtype.name == name, (array.dtype, name)
            copy = np.ones(padded, array.dtype)
            copy[:n] = array.ravel()
            flat.append(copy)
        out = np.empty(padded, self.result)
        if n:
            self.run(*(a.ctypes.data for a in flat), out.ctypes.data, padded)
        return out[:n].reshape(shape)


def engine_of_arrays(function, source, target):
    """The function of one vector, as one of (array of its elements, array for the result)."""
    wrapper = f"""
define void @run(ptr %p, ptr %r) {{
  %x = load {source}, ptr %p, align 1
  %y = call {target} @{function.symbol}({source} %x)
  store {target} %y, ptr %r, align 1
  ret void
}}
"""
    kept = engine(library_text([function]) + wrapper)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    run = signature(kept[0].get_function_address("run"))

    def call(x, out):
        run(x.ctypes.data, out.ctypes.data)
        return out

    call.kept = kept
    return call


@functools.cache
def compiled(name, type_name, lanes=8, *, fma=True, scalef=False):
    """The intrinsic on arrays of this type."""
    intrinsic = INTRINSICS[name]
    function = math_function(name, dtype(type_name), lanes, has_fma=fma, has_scalef=scalef)
    result = bool_.name if intrinsic.result_is_bool else type_name
    return Compiled(function, (type_name,) * intrinsic.arity, result, lanes, fma=fma)
