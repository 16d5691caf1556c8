"""Derives the coefficients of the mathematical functions, and writes them as a Python module.

Run `python tools/minimax.py` to write `coefficients.py` anew, and with `--check` to compare only.
Every polynomial is fitted to the true function (mpmath, 60 digits) by weighted least squares on
Chebyshev nodes. Lawson's iteration moves the weights towards the minimax fit; then the
coefficients are rounded to their format one after the other, from the constant term up, and the
others are fitted again each time, so that they make up for the rounding. The degree is the least
that keeps the largest weighted error below the bound a fit states.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mpmath
from mpmath import mp, mpf

mp.dps = 60

TARGET = (
    Path(__file__).resolve().parent.parent / "src/tensorsmith/codegen/llvm/math/coefficients.py"
)
HEADER = '''"""Coefficients and constants. Written by tools/minimax.py; do not edit.

A key of `POLYNOMIALS` names the function and the grade it is good for: ``f32`` and ``f64`` are for
arithmetic in that type, ``single`` is for results in f32 that are computed in f64. The comment
gives the binary logarithm of the largest error, in the measure that the fit states.
"""

from __future__ import annotations

from typing import Final

'''

Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """A polynomial of t on [low, high] for `target`, with error times `weight` below 2**-bits."""

    name: str
    grade: str
    target: Real
    low: object
    high: object
    weight: Real
    bits: int
    """The bound on the error."""


def significand_bits(grade: str) -> int:
    """How many bits a coefficient has."""
    return 24 if grade == "f32" else 53


def rounded(x: mpf, bits: int) -> mpf:
    """The nearest number of `bits` bits."""
    if x == 0:
        return mpf(0)
    exponent = int(mpmath.floor(mpmath.log(abs(x), 2))) + 1
    scale = mpf(2) ** (bits - exponent)
    return mpmath.nint(x * scale) / scale


def chebyshev_nodes(low: mpf, high: mpf, count: int) -> list[mpf]:
    """`count` points that gather at both ends."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle + half * mpmath.cos(mp.pi * (i + mpf(1) / 2) / count) for i in range(count)]


class Samples:
    """The function at the nodes: one row a node, one column a coefficient."""

    def __init__(self, fit: Fit, degree: int) -> None:
        self.nodes = chebyshev_nodes(mpf(fit.low), mpf(fit.high), 6 * (degree + 2))
        self.values = [fit.target(t) for t in self.nodes]
        self.scale = [fit.weight(t) for t in self.nodes]
        self.rows = [[t**i for i in range(degree + 1)] for t in self.nodes]
        self.lawson = [mpf(1)] * len(self.nodes)

    def errors(self, solution: list[mpf]) -> list[mpf]:
        """The weighted error at each node."""
        totals = (mpmath.fsum(map(mpmath.fmul, solution, row)) for row in self.rows)
        known = zip(totals, self.values, self.scale, strict=True)
        return [abs(total - value) * scale for total, value, scale in known]

    def solve(self, fixed: dict[int, mpf]) -> list[mpf]:
        """The least-squares solution, with some coefficients given."""
        columns = len(self.rows[0])
        free = [i for i in range(columns) if i not in fixed]
        if not free:
            return [fixed[i] for i in range(columns)]
        gram = mpmath.matrix(len(free), len(free))
        right = mpmath.matrix(len(free), 1)
        for n, row in enumerate(self.rows):
            rest = self.values[n] - mpmath.fsum(c * row[i] for i, c in fixed.items())
            square = self.lawson[n] * self.scale[n] ** 2
            for a, i in enumerate(free):
                part = square * row[i]
                right[a] += part * rest
                for b, j in enumerate(free[a:], a):
                    gram[a, b] += part * row[j]
        for a in range(len(free)):
            for b in range(a):
                gram[a, b] = gram[b, a]
        solved = mpmath.lu_solve(gram, right)
        answer = dict(fixed) | {i: solved[a] for a, i in enumerate(free)}
        return [answer[i] for i in range(columns)]


def minimax(fit: Fit, degree: int) -> tuple[list[mpf], mpf]:
    """The rounded coefficients of this degree, and the largest error at the nodes."""
    samples = Samples(fit, degree)
    solution = samples.solve({})
    for _ in range(12):
        errors = samples.errors(solution)
        mean = mpmath.fsum(errors) / len(errors)
        moved = [w * (e / mean + mpf("0.01")) for w, e in zip(samples.lawson, errors, strict=True)]
        total = mpmath.fsum(moved) / len(moved)
        samples.lawson = [w / total for w in moved]
        solution = samples.solve({})
    fixed: dict[int, mpf] = {}
    for i in range(len(solution)):
        fixed[i] = rounded(solution[i], significand_bits(fit.grade))
        solution = samples.solve(fixed)
    return solution, max(samples.errors(solution))


def smallest(fit: Fit) -> tuple[int, list[mpf], mpf]:
    """The least degree within the bound, its coefficients and error."""
    for degree in range(1, 30):
        solution, error = minimax(fit, degree)
        if error < mpf(2) ** -fit.bits:
            return degree, solution, error
    raise SystemExit(f"{fit.name} {fit.grade}: no fit within 2**-{fit.bits}, error {error}")


def ratio(f: Real, limit: object) -> Real:
    """`f` where it is not 0/0; at 0 its limit."""
    return lambda t: mpf(limit) if abs(t) < mpf(10) ** -25 else f(t)


def odd(f: Real, third: object) -> Real:
    """P of f(x) = x + x z P(z), z = x**2; `third` is the coefficient of x**3."""

    def tail(z: mpf) -> mpf:
        x = mpmath.sqrt(z)
        return (f(x) - x) / (x * z)

    return ratio(tail, third)


def odd_weight(f: Real) -> Real:
    """The error of P relative to f(x)."""
    return lambda z: z * mpmath.sqrt(z) / f(mpmath.sqrt(z)) if z > 0 else mpf(0)


def exp_tail(r: mpf) -> mpf:
    """The q of exp(r) = 1 + r + r**2 q(r)."""
    return (mpmath.expm1(r) - r) / r**2


def log_tail(z: mpf) -> mpf:
    """The L of log((1 + s) / (1 - s)) = 2 s + s z L(z), z = s**2."""
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) - 2 * s) / (s * z)


def cos_tail(z: mpf) -> mpf:
    """The C of cos(r) = 1 - z/2 + z**2 C(z), z = r**2."""
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2


def erf_small(z: mpf) -> mpf:
    """The P of erf(x) = x + x P(z), z = x**2."""
    x = mpmath.sqrt(z)
    return mpmath.erf(x) / x - 1


ERF_CENTRE = mpf(5) / 2


def erf_large_argument(t: mpf) -> mpf:
    """The x of t = (x - c) / (x + c)."""
    return ERF_CENTRE * (1 + t) / (1 - t)


def erf_large(t: mpf) -> mpf:
    """The G of erf(x) = 1 - exp(-x**2) G(t)."""
    x = erf_large_argument(t)
    return mpmath.erfc(x) * mpmath.exp(x * x)


ERF_EXPONENT_CENTRE = mpf(2)


def erf_exponent(t: mpf) -> mpf:
    """The E of erf(a) = 1 - exp(a E(t)), t = a - 2."""
    a = t + ERF_EXPONENT_CENTRE
    return mpmath.log(mpmath.erfc(a)) / a


def erf_exponent_weight(t: mpf) -> mpf:
    """How an error of E changes erf(a), relatively."""
    a = t + ERF_EXPONENT_CENTRE
    return a * mpmath.erfc(a) / mpmath.erf(a)


def log_pair_tail(z: mpf) -> mpf:
    """The T of log((1 + s) / (1 - s)) = 2 s (1 + z (1/3 + z T(z))), z = s**2."""
    return (log_tail(z) / 2 - mpf(1) / 3) / z


def fits() -> list[Fit]:
    """Everything that is fitted."""
    tail_log = ratio(log_tail, mpf(2) / 3)
    half_ln2 = mp.log(2) / 2 * mpf("1.0001")
    log_end = (3 - 2 * mpmath.sqrt(2)) ** 2 * mpf("1.0001")
    quarter, half = (mp.pi / 4) ** 2 * mpf("1.0001"), (mp.pi / 2) ** 2 * mpf("1.0001")
    result = []
    for grade, bits in (("f32", 26), ("single", 32), ("f64", 57)):
        result += [
            Fit("exp", grade, ratio(exp_tail, mpf(1) / 2), -half_ln2, half_ln2, abs, bits),
            Fit("log", grade, tail_log, 0, log_end, lambda z: z / 2, bits + 2),
        ]
    tiny = mpf(10) ** -20
    for grade, bits in (("single", 32), ("f64", 56)):
        result += [
            Fit("sin", grade, odd(mp.sin, -mpf(1) / 6), 0, quarter, odd_weight(mp.sin), bits),
            Fit("cos", grade, ratio(cos_tail, mpf(1) / 24), 0, quarter, lambda z: z * z, bits),
            Fit("asin", grade, odd(mp.asin, mpf(1) / 6), 0, 0.2501, odd_weight(mp.asin), bits),
            Fit("atan", grade, odd(mp.atan, -mpf(1) / 3), 0, 0.1717, odd_weight(mp.atan), bits),
            Fit("sinh", grade, odd(mp.sinh, mpf(1) / 6), 0, 1.001, odd_weight(mp.sinh), bits),
            Fit("asinh", grade, odd(mp.asinh, -mpf(1) / 6), 0, 0.2501, odd_weight(mp.asinh), bits),
            Fit("atanh", grade, odd(mp.atanh, mpf(1) / 3), 0, 0.2501, odd_weight(mp.atanh), bits),
        ]
    sin_half = odd(mp.sin, -mpf(1) / 6)
    large_low, large_high = (1 - ERF_CENTRE) / (1 + ERF_CENTRE), mpf(7) / 17
    result += [
        Fit("sin_half_turn", "single", sin_half, 0, half, odd_weight(mp.sin), 32),
        Fit("tanh", "f32", odd(mp.tanh, -mpf(1) / 3), 0, 0.25, odd_weight(mp.tanh), 26),
        Fit("erf_small", "f32", erf_small, tiny, 0.25, lambda z: 1 / (1 + erf_small(z)), 26),
        Fit("tanh", "f64", odd(mp.tanh, -mpf(1) / 3), 0, 0.3601, odd_weight(mp.tanh), 56),
        Fit("erf_small", "f64", erf_small, tiny, 1.001, lambda z: 1 / (1 + erf_small(z)), 56),
        Fit(
            *("erf_large", "f64", erf_large, large_low, large_high),
            *(lambda t: mpmath.exp(-(erf_large_argument(t) ** 2)), 57),
        ),
        Fit("erf_exponent", "f32", erf_exponent, -2, 2, erf_exponent_weight, 26),
        Fit(
            *("log_pair", "f64", ratio(log_pair_tail, mpf(1) / 5), 0, log_end),
            *(lambda z: z * z, 66),
        ),
    ]
    return result


def chopped(x: mpf, bits: int) -> mpf:
    """`x` cut to `bits` bits."""
    scale = mpf(2) ** (bits - int(mpmath.floor(mpmath.log(abs(x), 2))) - 1)
    return mpmath.floor(x * scale) / scale if x > 0 else -chopped(-x, bits)


def split(x: mpf, *bits: int) -> list[mpf]:
    """`x` as a sum of numbers of so many bits each; the last is rounded to nearest."""
    parts = []
    for b in bits[:-1]:
        parts.append(chopped(x, b))
        x -= parts[-1]
    return [*parts, rounded(x, bits[-1])]


def constants() -> dict[str, list[mpf]]:
    """Numbers in several parts, whose sum is more precise than one."""
    ln2, log2e, log10e = mp.log(2), 1 / mp.log(2), 1 / mp.log(10)
    return {
        "LN2_F32": split(ln2, 15, 24),
        "LN2_F64": split(ln2, 41, 53),
        "LOG2E_F32": split(log2e, 12, 24),
        "LOG2E_F64": split(log2e, 21, 53),
        "LOG10E_F32": split(log10e, 12, 24),
        "LOG10E_F64": split(log10e, 21, 53),
        "LOG10_2_F32": split(mp.log10(2), 15, 24),
        "LOG10_2_F64": split(mp.log10(2), 41, 53),
        "HALF_PI_CHOPPED": split(mp.pi / 2, 33, 33, 53),
        "PI_CHOPPED": split(mp.pi, 30, 53),
        "HALF_PI": split(mp.pi / 2, 53, 53),
        "PI": split(mp.pi, 53, 53),
        "LN2": [rounded(ln2, 53)],
        "LOG2E": [rounded(log2e, 53)],
        "TWO_OVER_PI": [rounded(2 / mp.pi, 53)],
        "ONE_OVER_PI": [rounded(1 / mp.pi, 53)],
        "ERF_EXPONENT_CENTRE": [ERF_EXPONENT_CENTRE],
        "ERF_CENTRE": [ERF_CENTRE],
        "THIRD": split(mpf(1) / 3, 53, 53),
    }


def two_over_pi_words() -> list[int]:
    """2 / pi as a binary fraction in words of 64 bits, after one word of zeros."""
    with mpmath.workdps(450):
        digits = int(mpmath.floor(2 / mp.pi * mpf(2) ** (64 * 20)))
    mask = (1 << 64) - 1
    return [0, *((digits >> (64 * (19 - i))) & mask for i in range(20))]


def literal(x: mpf) -> str:
    """A Python literal that reads back as `x`."""
    return repr(float(x))


def tuple_text(values: list[str], indent: str) -> str:
    """A tuple, one value a line."""
    return "(\n" + "".join(f"{indent}    {v},\n" for v in values) + f"{indent})"


def module_text() -> str:
    """The whole module."""
    polynomials = []
    for fit in fits():
        degree, solution, error = smallest(fit)
        size = f"2**{float(mpmath.log(error, 2)):.1f}"
        print(f"{fit.name:14} {fit.grade:7} degree {degree:2} error {size}", flush=True)
        body = tuple_text([literal(c) for c in solution], "    ")
        polynomials.append(f'    # {size}\n    ("{fit.name}", "{fit.grade}"): {body},\n')
    kind = "Final[dict[tuple[str, str], tuple[float, ...]]]"
    text = HEADER + f"POLYNOMIALS: {kind} = {{\n" + "".join(polynomials) + "}\n\n"
    for name, parts in constants().items():
        values = ", ".join(literal(p) for p in parts)
        text += f"{name}: Final = {values if len(parts) == 1 else f'({values})'}\n"
    words = tuple_text([f"0x{w:016X}" for w in two_over_pi_words()], "")
    return text + f"TWO_OVER_PI_WORDS: Final = {words}\n"


def main() -> int:
    """Write the module, or tell whether it is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if not parser.parse_args().check:
        TARGET.write_text(module_text())
        return 0
    return int(TARGET.read_text() != module_text())


if __name__ == "__main__":
    sys.exit(main())
