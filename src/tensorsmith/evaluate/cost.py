"""How many operations a program does and how many bytes it moves.

Counts are expressions in the dimensions. The body of a loop is walked once, with a symbolic loop
variable,
and its counts are summed over the loop: exactly where the extents of inner loops are polynomials
in the variable (triangular loops), and else as an upper bound. Of two branches of which either
may be taken, the greater counts are taken, count by count; the init of a block counts once for
each point of its spatial iterators. A node that stands twice in one statement is computed once.

What counts as an operation: each arithmetic operator, comparison and intrinsic on element values,
`fma` as two; not loads, selects, casts, logic and index arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tensorsmith.arith import simplify
from tensorsmith.arith.regions import union_region
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate.cost_domain import CostDomain, Place, Symbolic
from tensorsmith.evaluate.walker import evaluate, find_entry
from tensorsmith.ir.buffer import Buffer
from tensorsmith.ir.expr import Expr, Var, const, substitute
from tensorsmith.ir.module import IRModule, TensorProgram

_NONE: Final = const(0)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a program does to one buffer.

    loads, stores: how often an element is read and written.
    read_footprint, write_footprint: how many different elements, at most: those of the least box,
        as far as one can be told, around all that are read or written.
    """

    loads: Expr = _NONE
    stores: Expr = _NONE
    read_footprint: Expr = _NONE
    write_footprint: Expr = _NONE

    def substituted(self, values: Mapping[Expr, Expr]) -> Traffic:
        """With dimensions replaced."""
        return Traffic(
            *(
                simplify(substitute(e, values))
                for e in (self.loads, self.stores, self.read_footprint, self.write_footprint)
            )
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run of a program costs, as expressions in its dimensions and scalar parameters.

    flops: operations on floats. integer_operations: on fixed-width integers.
    traffic: for each buffer, the local ones too. program: whose cost it is.
    unknowns: variables that stand for what is known only when the program runs: extents that depend
        on data, iterations of while loops, operations of external functions.
    """

    program: TensorProgram = field(repr=False)
    flops: Expr
    integer_operations: Expr
    traffic: Mapping[Buffer, Traffic]
    unknowns: tuple[Var, ...] = ()

    @property
    def bytes_read(self) -> Expr:
        """Bytes that loads from the program's parameters take, each load counted."""
        return self._bytes([(b, t.loads) for b, t in self.traffic.items()])

    @property
    def bytes_written(self) -> Expr:
        """Bytes that stores to the program's parameters write, each store counted."""
        return self._bytes([(b, t.stores) for b, t in self.traffic.items()])

    @property
    def unique_bytes_read(self) -> Expr:
        """Bytes of the parameters that are read, each byte counted once."""
        return self._bytes([(b, t.read_footprint) for b, t in self.traffic.items()])

    @property
    def unique_bytes_written(self) -> Expr:
        """Bytes of the parameters that are written, each byte counted once."""
        return self._bytes([(b, t.write_footprint) for b, t in self.traffic.items()])

    def _bytes(self, elements: Sequence[tuple[Buffer, Expr]]) -> Expr:
        total: Expr = const(0)
        for buffer, count in elements:
            if buffer in self.program.buffers:
                total = total + count * buffer.dtype.bytes
        return simplify(total)

    def at(self, **dims: int) -> Cost:
        """The cost for these dimensions (or scalar parameters or unknowns), by name.

        Raises EvaluationError if there is no such name.
        """
        known = [*self.program.dims, *self.unknowns]
        known += [p for p in self.program.params if isinstance(p, Var)]
        by_name: dict[str, Var] = {v.name: v for v in known}
        if wrong := [name for name in dims if name not in by_name]:
            raise EvaluationError(
                f"the cost of {self.program.name} has no variable {wrong[0]!r}",
                given=f"it has {', '.join(by_name) or 'none'}",
            )
        values: dict[Expr, Expr] = {
            by_name[name]: const(value, by_name[name].dtype) for name, value in dims.items()
        }
        return replace(
            self,
            flops=simplify(substitute(self.flops, values)),
            integer_operations=simplify(substitute(self.integer_operations, values)),
            traffic={b: t.substituted(values) for b, t in self.traffic.items()},
        )


def cost(program: TensorProgram | IRModule, *, entry: str | None = None) -> Cost:
    """What a run of `program`, or of the function `entry` of a module, costs.

    >>> from tensorsmith.ir import For, Store
    >>> n, i = Var("n", low=1), Var("i")
    >>> a, b = Buffer("a", (n,)), Buffer("b", (n,))
    >>> found = cost(TensorProgram("double", (a, b), For(i, n, Store(b, (i,), a[i] + a[i]))))
    >>> found.flops, found.bytes_read, found.at(n=8).bytes_written
    (n, n * 4, 32)
    """
    function, _ = find_entry(program, entry)
    domain = CostDomain()
    args: list[Symbolic | Place] = [
        Place(p, (_NONE,) * p.rank, p.shape) if isinstance(p, Buffer) else p
        for p in function.params
    ]
    evaluate(program, domain, args, entry=entry)
    return Cost(
        function,
        _counted(domain, "flops"),
        _counted(domain, "integers"),
        {buffer: _traffic(domain, buffer) for buffer in _touched(function, domain)},
        tuple(domain.unknowns),
    )


def _touched(function: TensorProgram, domain: CostDomain) -> dict[Buffer, None]:
    """The buffers in order: parameters, then local ones as they come up."""
    return dict.fromkeys([*function.buffers, *(buffer for _, buffer in domain.boxes)])


def _counted(domain: CostDomain, what: str, buffer: Buffer | None = None) -> Expr:
    found = domain.counted(what, buffer)
    return _NONE if found is None else domain.counts.expr(found)


def _traffic(domain: CostDomain, buffer: Buffer) -> Traffic:
    return Traffic(
        _counted(domain, "loads", buffer),
        _counted(domain, "stores", buffer),
        _footprint(domain, "loads", buffer),
        _footprint(domain, "stores", buffer),
    )


def _footprint(domain: CostDomain, what: str, buffer: Buffer) -> Expr:
    boxes = domain.boxes.get((what, buffer))
    if boxes is None:
        return _NONE
    size: Expr = const(1)
    for _, extent in union_region(boxes, domain.analyzer).ranges:
        size = size * extent
    return domain.analyzer.simplify(size)
