"""Code generation: lowering to flat loops, LLVM for CPUs, and building what can be called."""

from tensorsmith.codegen.compilation import build, object_code

__all__ = ["build", "object_code"]
