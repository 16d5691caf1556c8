"""The domain of a prime field: floats are integers modulo a prime, and arithmetic on them is exact.

Two programs that compute the same polynomials or quotients of their inputs agree on random elements
of the field; two that do not agree only with a probability of about degree / prime a trial
(Schwartz 1980, Zippel 1979). So a few runs on random inputs tell whether two programs are equal as
real functions, with no rounding in the way. Source: Wu et al., 'Mirage: A multi-level
superoptimizer for tensor programs', OSDI 2025, which has the idea for neural networks.

What has no meaning in a field is a fixed pseudo-random function of its arguments: equal arguments
give equal results, and nothing more is known of it. So ``exp(a + b)`` and ``exp(b + a)`` agree, and
``exp(a) * exp(b)`` and ``exp(a + b)`` do not. Comparisons use a pseudo-random total order, with the
infinities at its ends: the laws of orders, of `min`, `max` and `select` hold, and those that tie
order to arithmetic (``max(a, b) + c`` is ``max(a + c, b + c)``) do not. Programs that are equal
only by such laws are reported as different.

Each trial should have its own `salt`: comparing two numbers tells little of any one order.

Integers, bools and indices are what they are in the NumPy domain. A cast between float types
changes nothing, since numbers are not rounded here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate.numpy_domain import NumPyDomain
from tensorsmith.evaluate.operations import numpy_operations
from tensorsmith.evaluate.rounding import Value, carrier, choose, constant, wrap
from tensorsmith.ir import expr as ir
from tensorsmith.ir.dtype import DType, Kind, float32
from tensorsmith.ir.expr import Expr

DEFAULT_PRIME: Final = (1 << 31) - 1
"""Products of two elements fit int64."""
_FLOATS: Final = int(Kind.FLOAT | Kind.STORAGE)


class PrimeFieldDomain(NumPyDomain):
    """Floats are int64 from 0 to ``prime - 1``; all else is as in `NumPyDomain`.

    prime: below 2**31. Not checked to be one. salt: chooses the pseudo-random functions.
    """

    def __init__(
        self,
        prime: int = DEFAULT_PRIME,
        *,
        salt: int = 0,
        externs: Mapping[str, Callable[..., object]] | None = None,
        vectorize: bool = True,
    ) -> None:
        super().__init__(externs=externs, vectorize=vectorize)
        self.prime = prime
        self._salt = salt
        self._infinity = self.constant(math.inf, float32)
        self._minus_infinity = -self._infinity % prime
        exact = numpy_operations(self.any_active)
        self.operations = {kind: self._rule(kind, rule) for kind, rule in exact.items()}

    def memory_dtype(self, dtype: DType) -> np.dtype[Any]:
        return np.dtype(np.int64) if dtype.flag & _FLOATS else super().memory_dtype(dtype)

    def argument(self, value: Value, dtype: DType) -> Value:
        return value if dtype.flag & _FLOATS else super().argument(value, dtype)

    def constant(self, value: float, dtype: DType) -> Value:
        """An element of the field: of a float its exact value, of an integer its residue.

        NaN and the infinities are arbitrary, but fixed, elements.
        """
        if not dtype.flag & _FLOATS:
            return constant(value, dtype)
        if value == -math.inf:
            return self._minus_infinity
        if not math.isfinite(value):
            return self._random(repr(value), np.int64(0))
        exact = Fraction(value)
        inverse = pow(exact.denominator, -1, self.prime)
        return np.int64(exact.numerator * inverse % self.prime)

    # --- Operations ---

    def _rule(self, kind: type[Expr], exact: Callable[..., Value]) -> Callable[..., Value]:
        """The rule for floats where a node has one among its types, else the exact one."""
        field = self._field_rules().get(kind, exact)

        def apply(e: Expr, *args: Value) -> Value:
            has_floats = e.dtype.flag & _FLOATS or any(a.dtype.flag & _FLOATS for a in e.args)
            return (field if has_floats else exact)(e, *args)

        return apply

    def _field_rules(self) -> dict[type[Expr], Callable[..., Value]]:
        """What differs from NumPy where floats take part."""
        return {
            ir.Const: lambda e: self.constant(e.value, e.dtype),
            ir.Add: lambda e, a, b: (a + b) % self.prime,
            ir.Sub: lambda e, a, b: (a - b) % self.prime,
            ir.Mul: lambda e, a, b: a * b % self.prime,
            ir.Div: lambda e, a, b: a * self._inverse(b) % self.prime,
            ir.Neg: lambda e, a: -a % self.prime,
            ir.Min: lambda e, a, b: choose(self._rank(a) < self._rank(b), a, b),
            ir.Max: lambda e, a, b: self._greater(a, b),
            ir.Lt: lambda e, a, b: self._rank(a) < self._rank(b),
            ir.Le: lambda e, a, b: self._rank(a) <= self._rank(b),
            ir.Cast: self._cast,
            ir.Reinterpret: self._reinterpret,
            ir.Call: self._call,
        }

    def _rank(self, a: Value) -> Value:
        """The places of elements in the order: a different one for each element."""
        rank = self._hash("order", a)
        rank = choose(a == self._infinity, np.uint64((1 << 64) - 1), rank)
        return choose(a == self._minus_infinity, np.uint64(0), rank)

    def _greater(self, a: Value, b: Value) -> Value:
        return choose(self._rank(a) < self._rank(b), b, a)

    def _inverse(self, a: Value) -> Value:
        """``a ** (prime - 2)``: 1 / a, and 0 for 0."""
        result, power, exponent = np.int64(1), a, self.prime - 2
        while exponent:
            if exponent & 1:
                result = result * power % self.prime
            power = power * power % self.prime
            exponent >>= 1
        return result

    def _cast(self, e: Expr, a: Value) -> Value:
        source, target = e.args[0].dtype, e.dtype
        if not source.flag & _FLOATS:
            return self._residue(a, source)
        if target.flag & _FLOATS:
            return a
        if target.flag & Kind.BOOL:
            return a != 0
        if target.flag & Kind.INDEX:
            raise EvaluationError("an element of a prime field cannot be an index", given=f"{e!r}")
        return self._as_integer(self._random("to integer", a), target)

    def _residue(self, a: Value, source: DType) -> Value:
        """An integer or bool as an element."""
        if source.name == "uint64":
            return (a % np.uint64(self.prime)).astype(np.int64)
        return np.asarray(a).astype(np.int64)[()] % self.prime

    def _as_integer(self, element: Value, target: DType) -> Value:
        return wrap(element.astype(carrier(target)), target)

    def _reinterpret(self, e: Expr, a: Value) -> Value:
        source = e.args[0].dtype
        bits = a if source.flag & _FLOATS else self._residue(a, source)
        element = self._random(f"bits of {source}", bits)
        return element if e.dtype.flag & _FLOATS else self._as_integer(element, e.dtype)

    def _call(self, e: ir.Call, *args: Value) -> Value:
        name, p, a = e.intrinsic.name, self.prime, args[0]
        match name:
            case "fma":
                return (a * args[1] % p + args[2]) % p
            case "abs":
                return self._greater(a, -a % p)
            case "rsqrt":
                return self._inverse(self._random("sqrt", a))
            case "expm1":
                return (self._random("exp", a) - 1) % p
            case "log1p":
                return self._random("log", (a + 1) % p)
            case "sigmoid":
                return self._inverse((self._random("exp", -a % p) + 1) % p)
            case "isfinite":
                return a == a
            case "isnan" | "isinf":
                return a != a
        return self._random(name, *args)

    def _random(self, name: str, *args: Value) -> Value:
        """A fixed pseudo-random element for each function and arguments."""
        return (self._hash(name, *args) % np.uint64(self.prime)).astype(np.int64)

    def _hash(self, name: str, *args: Value) -> Value:
        """64 bits for each function and arguments; of one argument, different ones for each."""
        seed = hashlib.blake2b(f"{self._salt} {name}".encode(), digest_size=8).digest()
        state: Value = np.uint64(int.from_bytes(seed, "little"))
        with np.errstate(over="ignore"):
            for arg in args:
                state = _mix(state ^ arg.astype(np.uint64))
        return state


def _mix(x: Value) -> Value:
    """SplitMix64's permutation of 64 bits: Steele, Lea, Flood, OOPSLA 2014."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
