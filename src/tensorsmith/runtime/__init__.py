"""Running compiled code: executables, tensors, threads. Needs nothing of the compiler."""

from tensorsmith.runtime.executable import CompiledProgram, Executable

__all__ = ["CompiledProgram", "Executable"]
