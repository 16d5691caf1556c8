"""Scalar expressions as LLVM values, one lane or many.

`Expressions.value` gives the text of a value and its lanes: 1 for what is the same in all lanes of
the vectorised loop around, else that loop's. A pure value is emitted at the depth where the last of
its variables is defined; what loads, or may go wrong, stays where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tensorsmith.codegen.llvm import casts, integers
from tensorsmith.codegen.llvm.extremes import extreme
from tensorsmith.codegen.llvm.few_bits import looked_up
from tensorsmith.codegen.llvm.types import literal, register_type, suffix, vector
from tensorsmith.codegen.lower.tree import loads_anything, may_fail
from tensorsmith.ir import expr as ir
from tensorsmith.ir.dtype import DType
from tensorsmith.ir.expr import Const, Expr, Load, Var

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorsmith.codegen.llvm.function import Function

HERE: Final = 1 << 30
"""The depth of a value that must be computed where it is used."""


class Lanes(NamedTuple):
    """A value: its LLVM text, and in how many lanes it is."""

    text: str
    lanes: int


class Expressions:
    """The values of one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.text = function.text
        self.contract = "contract " if function.module.contract else ""
        self.depths: dict[Expr, int] = {}
        self.loads: dict[Expr, Lanes] = {}
        """Values that hold until memory changes or another part of the program runs."""

    def forget_loads(self) -> None:
        """Memory may have changed."""
        self.loads.clear()

    # --- Where values belong -----------------------------------------------------------------

    def value(self, root: Expr) -> Lanes:
        """The value of `root`, computed if it is not at hand."""
        stack = [root]
        while stack:
            e = stack[-1]
            if self.at_hand(e) is not None:
                stack.pop()
                continue
            pending = [a for a in self.eager_args(e) if self.at_hand(a) is None]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            self.keep(e, self.compute(e))
        found = self.at_hand(root)
        assert found is not None
        return found

    def at_hand(self, e: Expr) -> Lanes | None:
        """The value of `e` if it is known here."""
        if type(e) is Const:
            return Lanes(literal(e), 1)
        found = self.loads.get(e)
        if found is not None:
            return found
        depth = self.depths.get(e)
        if depth is None or depth > self.text.depth:
            return None
        cached = self.text.scopes[depth].cache.get(e)
        return None if cached is None else Lanes(*cached)

    def keep(self, e: Expr, value: Lanes) -> None:
        """Remember the value of `e` where it holds."""
        depth = self.depths[e]
        if depth == HERE:
            self.loads[e] = value
        else:
            self.text.scopes[depth].cache[e] = value

    def eager_args(self, e: Expr) -> tuple[Expr, ...]:
        """The operands that are computed before `e` is: of lazy operations with something that may
        go wrong in a branch, only the condition; of loads, whose address is simpler than their
        subscripts are, only the subscripts that load."""
        if type(e) is Load:
            return tuple(a for a in e.args if loads_anything(a))
        if type(e) in _LAZY and not all(self.harmless(a) for a in e.args[1:]):
            return e.args[:1]
        return e.args

    def harmless(self, root: Expr) -> bool:
        """Whether evaluating `root` needlessly does no harm: it loads nothing, divides by nothing
        that may be 0."""
        return not any(type(e) is Load or may_fail(e) for e in ir.postorder(root))

    def depth_of(self, e: Expr) -> int:
        """The depth at which `e` can be computed; its operands' depths are known."""
        found = self.depths.get(e)
        if found is not None:
            return found
        if type(e) is Var:
            depth = self.function.variable(e)[1]
        elif type(e) is Load or may_fail(e):
            depth = HERE
        elif type(e) in _LAZY:
            depth = HERE if not self.harmless(e) else max(map(self.depth_of, e.args))
        else:
            depth = max((self.depth_of(a) for a in e.args), default=0)
        self.depths[e] = depth
        return depth

    def emit(self, instruction: str, depth: int) -> str:
        """A computed value at `depth`, or here."""
        return self.text.value(instruction, None if depth >= self.text.depth else depth)

    # --- Values ------------------------------------------------------------------------------

    def compute(self, e: Expr) -> Lanes:
        """Emit the operation of `e` on operands that are at hand."""
        depth = self.depth_of(e)
        if type(e) is Var:
            return self.variable(e)
        if type(e) is Load:
            return self.function.memory.load(e)
        if type(e) in _LAZY and len(self.eager_args(e)) == 1:
            return self.lazy(e)
        args = [self.at_hand(a) for a in e.args]
        lanes = max(a.lanes for a in args if a is not None)
        spread = [
            self.spread(a, x.dtype, lanes, depth)
            for a, x in zip(args, e.args, strict=True)
            if a is not None
        ]
        return Lanes(self.operation(e, spread, lanes, depth), lanes)

    def variable(self, v: Var) -> Lanes:
        """The register of a variable; of the vectorised loop's, all its values."""
        loop = self.function.loop
        if loop is not None and v is loop.var:
            depth = self.depths[v]
            start = self.spread(self.value(loop.start), v.dtype, loop.lanes, depth)
            steps = ", ".join(f"i64 {k}" for k in range(loop.lanes))
            type_ = vector("i64", loop.lanes)
            return Lanes(self.emit(f"add nsw {type_} {start}, <{steps}>", depth), loop.lanes)
        register, _ = self.function.variable(v)
        varying = loop is not None and v in self.function.vector_vars
        return Lanes(register, loop.lanes if varying and loop is not None else 1)

    def spread(self, value: Lanes, dtype: DType, lanes: int, depth: int = HERE) -> str:
        """The value in `lanes` lanes."""
        return self.spread_type(value, register_type(dtype), lanes, depth)

    def spread_type(self, value: Lanes, element: str, lanes: int, depth: int = HERE) -> str:
        """As `spread`, for an element type of LLVM's."""
        if value.lanes == lanes:
            return value.text
        if not value.text.startswith("%"):
            return f"splat ({element} {value.text})"
        key = ("splat", value.text, lanes)
        at = min(depth, self.text.depth)
        for scope in self.text.scopes[: at + 1]:
            if key in scope.cache:
                return scope.cache[key][0]
        type_ = vector(element, lanes)
        one = self.emit(f"insertelement {type_} poison, {element} {value.text}, i64 0", depth)
        all_ = self.emit(
            f"shufflevector {type_} {one}, {type_} poison, {vector('i32', lanes)} zeroinitializer",
            depth,
        )
        if at < len(self.text.scopes):
            self.text.scopes[at].cache[key] = (all_, lanes)
        return all_

    def operation(self, e: Expr, args: list[str], lanes: int, depth: int) -> str:
        """The instruction(s) of an operation whose operands are all in `lanes` lanes."""
        kind = type(e)
        dtype = e.args[0].dtype

        def emit(instruction: str) -> str:
            return self.emit(instruction, depth)

        if kind is ir.Cast and (found := looked_up(self.function.module, emit, e, args[0], lanes)):
            return found
        if kind is ir.Cast or kind is ir.Reinterpret:
            convert = casts.cast if kind is ir.Cast else casts.reinterpret
            return convert(self.function.module, emit, dtype, e.dtype, args[0], lanes)
        if kind is ir.Call:
            return self.call(e, args, lanes, depth)
        type_ = vector(register_type(dtype), lanes)
        if kind is ir.Select:
            value = vector(register_type(e.dtype), lanes)
            condition = vector("i1", lanes)
            return emit(f"select {condition} {args[0]}, {value} {args[1]}, {value} {args[2]}")
        if kind in _LOGIC:
            return emit(f"{_LOGIC[kind]} {type_} {args[0]}, {args[1]}")
        if kind is ir.Not:
            return emit(f"xor {type_} {args[0]}, {_splat('i1', 'true', lanes)}")
        if dtype.is_bool:
            return emit(f"icmp {'eq' if kind is ir.Eq else 'ne'} {type_} {args[0]}, {args[1]}")
        if dtype.is_float:
            return self.float_operation(kind, dtype, args, lanes, emit)
        return integers.operation(self.function, emit, e, args, lanes)

    def float_operation(
        self,
        kind: type[Expr],
        dtype: DType,
        args: list[str],
        lanes: int,
        emit: Callable[[str], str],
    ) -> str:
        """The instruction of a float operation, rounded to its type."""
        element = register_type(dtype)
        type_ = vector(element, lanes)
        if kind in _FLOAT_COMPARE:
            return emit(f"fcmp {_FLOAT_COMPARE[kind]} {type_} {args[0]}, {args[1]}")
        if kind is ir.Neg:
            return emit(f"fneg {type_} {args[0]}")
        if kind in _FLOAT_EXTREME:
            pair = (args[0], args[1])
            found = extreme(
                self.function.module, emit, pair, (element, lanes), is_greater=kind is ir.Max
            )
            if found is not None:
                return found
            name = f"llvm.{_FLOAT_EXTREME[kind]}.{suffix(element, lanes)}"
            self.function.module.declare(f"declare {type_} @{name}({type_}, {type_})")
            return emit(f"call {type_} @{name}({type_} {args[0]}, {type_} {args[1]})")
        flag = self.contract if kind in (ir.Add, ir.Sub, ir.Mul) else ""
        result = emit(f"{_FLOAT_ARITHMETIC[kind]} {flag}{type_} {args[0]}, {args[1]}")
        return casts.round_to(self.function.module, emit, dtype, result, lanes)

    def call(self, e: Expr, args: list[str], lanes: int, depth: int) -> str:
        """A call of an intrinsic."""
        assert isinstance(e, ir.Call)

        def emit(instruction: str) -> str:
            return self.emit(instruction, depth)

        dtype = e.args[0].dtype
        if dtype.is_integer:
            return integers.intrinsic(self.function, emit, e, args, lanes)
        element = register_type(dtype)
        type_ = vector(element, lanes)
        result_type = vector("i1", lanes) if e.dtype.is_bool else type_
        symbol = self.function.module.math(e.intrinsic.name, element, lanes)
        operands = ", ".join(f"{type_} {a}" for a in args)
        result = emit(f"call {result_type} @{symbol}({operands})")
        if e.dtype.is_bool:
            return result
        return casts.round_to(self.function.module, emit, dtype, result, lanes)

    # --- Lazy operations ---------------------------------------------------------------------

    def lazy(self, e: Expr) -> Lanes:
        """A select, ``and`` or ``or`` whose branches must not both be evaluated."""
        condition = self.value(e.args[0])
        if type(e) is ir.Select:
            branches: tuple[Expr, Expr] = (e.args[1], e.args[2])
        else:
            decided = Const(type(e) is ir.Or, e.dtype)
            branches = (e.args[1], decided) if type(e) is ir.And else (decided, e.args[1])
        if condition.lanes > 1:
            return self.lazy_masked(e, condition, branches)
        return self.lazy_branches(e, condition, branches)

    def lazy_branches(self, e: Expr, condition: Lanes, branches: tuple[Expr, Expr]) -> Lanes:
        """A lazy operation whose condition is the same in all lanes: a branch."""
        text = self.text
        labels = [text.name("yes"), text.name("no")]
        after = text.name("after")
        kept = dict(self.loads)
        lanes = max(self.lanes_of(b) for b in branches)
        sources = []
        text.open()
        before = text.scopes[-1].before
        text.line(f"br i1 {condition.text}, label %{labels[0]}, label %{labels[1]}")
        for at, (label, branch) in enumerate(zip(labels, branches, strict=True)):
            if at:
                text.open(before)
            text.begin(label)
            self.loads = dict(kept)
            value = self.spread(self.value(branch), branch.dtype, lanes)
            sources.append(f"[ {value}, %{text.label} ]")
            text.line(f"br label %{after}")
            text.close()
        text.begin(after)
        self.loads = kept
        type_ = vector(register_type(e.dtype), lanes)
        return Lanes(text.value(f"phi {type_} {', '.join(sources)}"), lanes)

    def lazy_masked(self, e: Expr, condition: Lanes, branches: tuple[Expr, Expr]) -> Lanes:
        """A lazy operation whose condition differs by lane: both sides, under masks."""
        function = self.function
        lanes, type_ = condition.lanes, vector("i1", condition.lanes)
        outer, kept = function.mask, dict(self.loads)
        values = []
        for negate, branch in zip((False, True), branches, strict=True):
            mask = condition.text
            if negate:
                mask = self.text.value(f"xor {type_} {mask}, splat (i1 true)")
            if outer is not None:
                mask = self.text.value(f"and {type_} {mask}, {outer}")
            function.mask = mask
            self.loads = dict(kept)
            values.append(self.spread(self.value(branch), branch.dtype, lanes))
        function.mask, self.loads = outer, kept
        value = vector(register_type(e.dtype), lanes)
        return Lanes(
            self.text.value(
                f"select {type_} {condition.text}, {value} {values[0]}, {value} {values[1]}"
            ),
            lanes,
        )

    def lanes_of(self, root: Expr) -> int:
        """In how many lanes the value of `root` will be."""
        loop = self.function.loop
        if loop is None:
            return 1
        varying = self.function.vector_vars
        uses = any(type(e) is Var and e in varying for e in ir.postorder(root))
        return loop.lanes if uses else 1

    def some_lane(self) -> str | None:
        """Whether any lane of the vectorised loop runs, as an ``i1``; None if all do."""
        mask, loop = self.function.mask, self.function.loop
        if mask is None or loop is None:
            return None
        key = ("some", mask)
        for scope in self.text.scopes:
            if key in scope.cache:
                return scope.cache[key][0]
        type_ = vector("i1", loop.lanes)
        name = f"llvm.vector.reduce.or.v{loop.lanes}i1"
        self.function.module.declare(f"declare i1 @{name}({type_})")
        found = self.text.value(f"call i1 @{name}({type_} {mask})")
        self.text.scopes[-1].cache[key] = (found, 1)
        return found

    def where_run(self, condition: str, lanes: int) -> str:
        """Whether a condition, of which there is one or one a lane, holds in all lanes that run."""
        type_ = vector("i1", lanes)
        runs = self.function.mask if lanes > 1 else self.some_lane()
        if runs is not None:
            idle = self.text.value(f"xor {type_} {runs}, {_splat('i1', 'true', lanes)}")
            condition = self.text.value(f"or {type_} {condition}, {idle}")
        if lanes == 1:
            return condition
        name = f"llvm.vector.reduce.and.v{lanes}i1"
        self.function.module.declare(f"declare i1 @{name}({type_})")
        return self.text.value(f"call i1 @{name}({type_} {condition})")


def _splat(element: str, text: str, lanes: int) -> str:
    return text if lanes == 1 else f"splat ({element} {text})"


_LAZY: Final = frozenset((ir.Select, ir.And, ir.Or))
_LOGIC: Final[dict[type[Expr], str]] = {ir.And: "and", ir.Or: "or"}
_FLOAT_COMPARE: Final[dict[type[Expr], str]] = {
    ir.Eq: "oeq",
    ir.Ne: "une",
    ir.Lt: "olt",
    ir.Le: "ole",
}
_FLOAT_EXTREME: Final[dict[type[Expr], str]] = {ir.Min: "minimum", ir.Max: "maximum"}
_FLOAT_ARITHMETIC: Final[dict[type[Expr], str]] = {
    ir.Add: "fadd",
    ir.Sub: "fsub",
    ir.Mul: "fmul",
    ir.Div: "fdiv",
}

__all__ = ["HERE", "Expressions", "Lanes"]
