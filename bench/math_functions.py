"""The cost of the mathematical functions: instructions a vector, nanoseconds an element.

`python bench/math_functions.py [--lanes 8] [name ...]` calls each function in a loop over an array
that lies in the first-level cache. Instructions are those of the loop, with its load and store.
"""

import argparse
import ctypes
import re
import time

import llvmlite.binding as llvm
import numpy as np

from tensorsmith.codegen.llvm.math import library_text, math_function
from tensorsmith.ir.dtype import dtype
from tensorsmith.ir.intrinsic import INTRINSICS

COUNT = 4096
REPEATS = 200
NAMES = ["exp", "tanh", "sigmoid", "erf", "log", "sin", "cos", "pow"]


def loop(function, element, lanes, arity):
    """A module with a loop that applies `function` to arrays."""
    vector = f"<{lanes} x {element}>"
    pointers = ", ".join(f"ptr noalias %p{i}" for i in range(arity))
    loads = "".join(
        f"  %q{i} = getelementptr {element}, ptr %p{i}, i64 %at\n"
        f"  %x{i} = load {vector}, ptr %q{i}, align 64\n"
        for i in range(arity)
    )
    operands = ", ".join(f"{vector} %x{i}" for i in range(arity))
    return f"""{library_text([function])}
define void @run({pointers}, ptr noalias %r) {{
entry:
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
{loads}  %y = call {vector} @{function.symbol}({operands})
  %w = getelementptr {element}, ptr %r, i64 %at
  store {vector} %y, ptr %w, align 64
  %next = add i64 %at, {lanes}
  %more = icmp ult i64 %next, {COUNT}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def compiled(text):
    """The machine code of a module, and its assembly."""
    module = llvm.parse_assembly(text)
    module.verify()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True
    )
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    assembly = machine.emit_assembly(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, assembly


def instructions(assembly):
    """Instructions of `run`, from its first label on: the loop, and a few around it."""
    body = assembly.split("\nrun:", 1)[1].split(".Lfunc_end", 1)[0]
    inside = re.split(r"\n\.LBB\d+_\d+:", body, maxsplit=1)[1]
    return sum(1 for line in inside.splitlines() if re.match(r"\t[a-z]", line))


def measure(name, type_name, lanes):
    """Instructions a vector and nanoseconds an element."""
    arity = INTRINSICS[name].arity
    function = math_function(name, dtype(type_name), lanes)
    element = {"float32": "float", "float64": "double"}[type_name]
    engine, assembly = compiled(loop(function, element, lanes, arity))
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1))(
        engine.get_function_address("run")
    )
    raw = np.zeros((arity + 1, COUNT + 64), type_name)
    rng = np.random.default_rng(0)
    places = []
    for row in raw:
        skip = -row.ctypes.data % 64 // row.itemsize
        row[skip : skip + COUNT] = rng.uniform(0.01, 6, COUNT)
        places.append(row.ctypes.data + skip * row.itemsize)
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        for _ in range(10):
            run(*places)
        best = min(best, (time.perf_counter_ns() - start) / (10 * COUNT))
    return instructions(assembly), best


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--lanes", type=int, default=8)
    options = parser.parse_args()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    print(f"{llvm.get_host_cpu_name()}, {options.lanes} lanes of f32, half as many of f64")
    for name in options.names:
        for type_name, lanes in (("float32", options.lanes), ("float64", options.lanes // 2)):
            count, time_ns = measure(name, type_name, lanes)
            print(f"{name:8} {type_name} {count:4} instructions {time_ns:7.3f} ns/element")


if __name__ == "__main__":
    main()
