"""Running compiled code: models, executables, tensors, threads. Needs nothing of the compiler."""

from tensorsmith.runtime.executable import CompiledProgram, Executable
from tensorsmith.runtime.manifest import TensorInfo
from tensorsmith.runtime.model import Model, ModelOptions
from tensorsmith.runtime.model_profile import KernelTimes, ModelProfile
from tensorsmith.runtime.profile import LoopTimes, Profile

__all__ = [
    "CompiledProgram",
    "Executable",
    "KernelTimes",
    "LoopTimes",
    "Model",
    "ModelOptions",
    "ModelProfile",
    "Profile",
    "TensorInfo",
]
