"""A matmul with a symbolic dimension: a script, printed, parsed back, interpreted, compiled.

Run it with `make tour`.
"""

import sys
import time

import numpy as np

from tensorsmith import script as T
from tensorsmith.codegen import build
from tensorsmith.evaluate import interpret
from tensorsmith.ir import TensorProgram
from tensorsmith.ir.structural import structural_equal, structural_hash
from tensorsmith.schedule import default

K = 32
M = 16
SIZES = (1, 3, 8, 17, 64)

n = T.dim("n", min=1)


@T.program
def matmul(
    A: T.Buffer((n, K), "float32"),
    B: T.Buffer((K, M), "float32"),
    C: T.Buffer((n, M), "float32"),
):
    """C = A B, where A has as many rows as the caller likes."""
    for i, j, k in T.grid(n, M, K):
        with T.block("C"):
            vi, vj, vk = T.remap("SSR", i, j, k)
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj]


def coloured(text: str) -> str:
    """`text` with the colours of Python, if it goes to a terminal."""
    if not sys.stdout.isatty():
        return text
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import PythonLexer

    return highlight(text, PythonLexer(), TerminalFormatter())


def heading(text: str) -> None:
    """Print a heading."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}── {text} {'─' * max(0, 76 - len(text))}{plain}\n")


def show_text(program: TensorProgram) -> TensorProgram:
    """Print the program, parse the text back, and compare; return what was parsed."""
    heading("1. The program as it prints: valid Python")
    text = program.script()
    print(coloured(text).rstrip())

    heading("2. Parsed back from that text")
    parsed = T.parse_program(text)
    print(f"the same object:           {parsed is program}")
    print(f"structurally equal:        {structural_equal(parsed, program)}")
    print(f"prints to the same bytes:  {parsed.script() == text}")
    print(f"hash of the original:      {structural_hash(program)[:16]}")
    print(f"hash of the parsed one:    {structural_hash(parsed)[:16]}")
    if not structural_equal(parsed, program) or parsed.script() != text:
        sys.exit("the text did not parse back to the same program")
    return parsed


def compare_with_numpy(program: TensorProgram) -> None:
    """Interpret the program for several sizes and print how far it is from NumPy."""
    heading("3. The parsed program, interpreted, against NumPy")
    # Each of two float32 sums of K products is within K (eps / 2) sum |a b| of the true sum.
    print(f"{'n':>4} {'worst error':>13} {'bound':>10} {'milliseconds':>14}   result")
    random = np.random.default_rng(0)
    for size in SIZES:
        a = random.standard_normal((size, K), dtype=np.float32)
        b = random.standard_normal((K, M), dtype=np.float32)
        c = np.empty((size, M), np.float32)
        started = time.perf_counter()
        interpret(program, a, b, c)
        milliseconds = (time.perf_counter() - started) * 1e3
        bounds = K * np.finfo(np.float32).eps * (np.abs(a) @ np.abs(b))
        errors = np.abs(c - a @ b)
        agrees = bool((errors <= bounds).all())
        print(
            f"{size:>4} {errors.max():>13.1e} {bounds.max():>10.1e} {milliseconds:>14.1f}"
            f"   {'agrees' if agrees else 'DIFFERS'}"
        )
        if not agrees:
            sys.exit(f"the interpreter differs from NumPy for n = {size}")


def run_natively(program: TensorProgram) -> None:
    """Schedule and compile the program, check it against NumPy, and say how long a call takes."""
    heading("4. Native code: a default schedule, compiled")
    begin = time.perf_counter()
    exe = build(default(program))
    print(f"ready after {time.perf_counter() - begin:.2f} s")
    print(f"{'n':>4} {'worst error':>13} {'microseconds':>14}   result")
    rng = np.random.default_rng(1)
    for size in SIZES:
        a = rng.standard_normal((size, K), dtype=np.float32)
        b = rng.standard_normal((K, M), dtype=np.float32)
        c = np.empty((size, M), np.float32)
        seconds = []
        for _ in range(50):
            begin = time.perf_counter()
            exe(a, b, c)
            seconds.append(time.perf_counter() - begin)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        bounds = K * np.finfo(np.float32).eps * (np.abs(a) @ np.abs(b))
        errors = np.abs(c - exact)
        if not (errors <= bounds).all():
            sys.exit(f"native code differs from NumPy for n = {size}")
        print(f"{size:>4} {errors.max():>13.1e} {min(seconds) * 1e6:>14.1f}   agrees")


def main() -> None:
    """Run the four parts."""
    parsed = show_text(matmul)
    compare_with_numpy(parsed)
    run_natively(parsed)
    print("\nOne program, every n.")


if __name__ == "__main__":
    main()
