"""Code generation for CPUs with LLVM, as textual IR."""
