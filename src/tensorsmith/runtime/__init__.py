"""Running compiled code: executables, tensors, threads. Needs nothing of the compiler."""

from tensorsmith.runtime.executable import CompiledProgram, Executable
from tensorsmith.runtime.profile import LoopTimes, Profile

__all__ = ["CompiledProgram", "Executable", "LoopTimes", "Profile"]
