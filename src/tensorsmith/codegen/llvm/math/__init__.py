"""Mathematical functions as LLVM text, for vectors and scalars, since LLVM has none of its own."""

from tensorsmith.codegen.llvm.math.conversion import conversion, unpack
from tensorsmith.codegen.llvm.math.library import MathFunction, library_text, math_function

__all__ = ["MathFunction", "conversion", "library_text", "math_function", "unpack"]
