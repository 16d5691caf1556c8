"""Code generation: lowering to flat loops, LLVM for CPUs, and building what can be called."""

from tensorsmith.codegen.compilation import build, compile_module, object_code
from tensorsmith.codegen.models import BuildOptions, HostInterface, Plan, build_model, build_plan

__all__ = [
    "BuildOptions",
    "HostInterface",
    "Plan",
    "build",
    "build_model",
    "build_plan",
    "compile_module",
    "object_code",
]
