"""Mathematical functions as LLVM text, for vectors and scalars, since LLVM has none of its own."""

from tensorsmith.codegen.llvm.math.accuracy import ERROR_BOUNDS, error_bound
from tensorsmith.codegen.llvm.math.conversion import conversion, unpack
from tensorsmith.codegen.llvm.math.library import MathFunction, library_text, math_function

__all__ = [
    "ERROR_BOUNDS",
    "MathFunction",
    "conversion",
    "error_bound",
    "library_text",
    "math_function",
    "unpack",
]
