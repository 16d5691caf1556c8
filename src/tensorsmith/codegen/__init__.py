"""Code generation: lowering to flat loops, LLVM for CPUs, and building what can be called."""

from tensorsmith.codegen.compilation import build, compile_module, object_code
from tensorsmith.codegen.models import BuildOptions, HostInterface, build_model

__all__ = ["BuildOptions", "HostInterface", "build", "build_model", "compile_module", "object_code"]
