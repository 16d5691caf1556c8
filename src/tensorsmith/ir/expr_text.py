"""Expressions as text: Python's operators with the least parentheses.

Two printers share the text of single nodes. `Texts` is exact: what would be nested too deeply, or
would repeat a large shared part, becomes a line ``name = T.alias(...)`` before the statement, so
that the text is linear in the number of distinct nodes. `shortened` is one line for people, with
``...`` for what is beyond its budget. Both are iterative.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from tensorsmith.ir.dtype import DType, Kind, bool_, index
from tensorsmith.ir.expr import (
    Add,
    And,
    Binary,
    BitAnd,
    BitNot,
    BitOr,
    BitXor,
    Call,
    Cast,
    Compare,
    Const,
    Div,
    Eq,
    Expr,
    FloorDiv,
    FloorMod,
    Le,
    Load,
    Lt,
    Max,
    Min,
    Mul,
    Ne,
    Neg,
    Not,
    Or,
    Reinterpret,
    Select,
    ShiftLeft,
    ShiftRight,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    postorder,
)
from tensorsmith.ir.names import Names

Text: TypeAlias = tuple[str, int]
"""A text and how tightly its outermost operator binds."""

LOOSEST: Final = 0
_UNARY: Final = 11
_ATOM: Final = 12
_LEVELS: Final[Mapping[type[Expr], int]] = {
    Or: 1,
    And: 2,
    Not: 3,
    Eq: 4,
    Ne: 4,
    Lt: 4,
    Le: 4,
    BitOr: 5,
    BitXor: 6,
    BitAnd: 7,
    ShiftLeft: 8,
    ShiftRight: 8,
    Add: 9,
    Sub: 9,
    Mul: 10,
    Div: 10,
    FloorDiv: 10,
    FloorMod: 10,
}

MAX_HEIGHT: Final = 24
"""Levels of nesting in one line; deeper parts get an alias. Python's own parser takes about 90."""
MAX_REPEATED: Final = 12
"""Nodes that a shared part may have to be written out at each of its uses."""


# --- Constants -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _float_literal(text_key: str, dtype: DType) -> str:
    value = float.fromhex(text_key)
    if dtype.bits == 64:
        return repr(value)
    for digits in range(1, 18):
        short = float(f"{value:.{digits}g}")
        if Const(short, dtype).value == value:
            return repr(short)
    return repr(value)


def float_literal(value: float, dtype: DType) -> str:
    """The shortest decimal text of a finite float that rounds back to it in `dtype`."""
    return _float_literal(value.hex(), dtype)


def constant_text(constant: Const, like: DType | None) -> Text:
    """A constant: bare where `like` is its dtype, else in a call of the dtype."""
    value, dtype = constant.value, constant.dtype
    if dtype.is_float or dtype.kind is Kind.STORAGE:
        if not math.isfinite(value):
            return f'T.{dtype.name}("{value}")', _ATOM
        literal = float_literal(float(value), dtype)
    else:
        literal = repr(value)
    if dtype is like:
        return literal, _UNARY if literal.startswith("-") else _ATOM
    return f"T.{dtype.name}({literal})", _ATOM


def contexts(e: Expr) -> Sequence[DType | None]:
    """For each operand of `e` the dtype that a bare constant there would get; None: no constant.

    Where all operands are constants the first is written with its dtype, or Python would fold them.
    """
    args = e.args
    if isinstance(e, (Load, Cast, Reinterpret, Neg)):
        return (index,) * len(args)
    if isinstance(e, (Not, BitNot)):
        return (None,)
    if isinstance(e, (And, Or)):
        return None, bool_
    if isinstance(e, Select):
        return bool_, None if type(args[2]) is Const else e.dtype, e.dtype
    like = args[0].dtype
    typed = all(type(a) is Const for a in args)
    return (None if typed else like, *(like for _ in args[1:]))


# --- Nodes -----------------------------------------------------------------------------------


def _within(text: Text, level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def _call(name: str, *args: str) -> Text:
    return f"T.{name}({', '.join(args)})", _ATOM


def _infix(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    level = _LEVELS[type(e)]
    left = level + isinstance(e, Compare)  # Python chains comparisons
    return f"{_within(args[0], left)} {e.symbol} {_within(args[1], level + 1)}", level


def _not(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    return f"not {_within(args[0], _LEVELS[Not])}", _LEVELS[Not]


def _sign(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    if isinstance(e, Neg) and type(e.a) is Const:
        return _call("neg", args[0][0])
    return f"{e.symbol}{_within(args[0], _UNARY)}", _UNARY


def _load(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    assert isinstance(e, Load)
    return f"{names.of(e.buffer)}[{', '.join(a[0] for a in args) or '()'}]", _ATOM


def _cast(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    if type(e.args[0]) is Const:
        return _call("cast", args[0][0], f'"{e.dtype.name}"')
    return _call(e.dtype.name, args[0][0])


def _reinterpret(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    return _call("reinterpret", args[0][0], f'"{e.dtype.name}"')


def _intrinsic(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    assert isinstance(e, Call)
    return _call(e.intrinsic.name, *(a[0] for a in args))


def _function(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    return _call(_FUNCTIONS[type(e)], *(a[0] for a in args))


def _variable(names: Names, e: Expr, args: Sequence[Text]) -> Text:
    assert isinstance(e, Var)
    return names.of(e), _ATOM


_FUNCTIONS: Final[Mapping[type[Expr], str]] = {
    Min: "min",
    Max: "max",
    TruncDiv: "truncdiv",
    TruncMod: "truncmod",
    Select: "select",
}
_PRINTERS: Final[Mapping[type[Expr], Callable[[Names, Expr, Sequence[Text]], Text]]] = {
    **{op: _infix for op in _LEVELS if issubclass(op, Binary)},
    **dict.fromkeys(_FUNCTIONS, _function),
    Not: _not,
    Neg: _sign,
    BitNot: _sign,
    Load: _load,
    Cast: _cast,
    Reinterpret: _reinterpret,
    Call: _intrinsic,
    Var: _variable,
}


def _node_text(names: Names, e: Expr, operands: Sequence[Text | None]) -> Text:
    """The text of `e`; an operand that is None is a constant, written as its place needs it."""
    if None not in operands:
        return _PRINTERS[type(e)](names, e, operands)  # type: ignore[arg-type]
    args = [
        constant_text(a, like) if text is None and isinstance(a, Const) else text
        for a, text, like in zip(e.args, operands, contexts(e), strict=True)
    ]
    return _PRINTERS[type(e)](names, e, args)  # type: ignore[arg-type]


# --- Whole expressions -----------------------------------------------------------------------


def to_alias(roots: Iterable[Expr]) -> set[Expr]:
    """The nodes under `roots` that need a name: deep ones, and large ones that are used twice."""
    order = list(postorder(*roots))
    if len(order) <= MAX_REPEATED:
        return set()
    uses = Counter(a for e in order for a in e.args)
    total = uses + Counter(roots)
    aliased: set[Expr] = set()
    shape: dict[Expr, tuple[int, int]] = {}
    for e in order:
        height = 1 + max((shape[a][0] for a in e.args), default=-1)
        size = 1 + sum(shape[a][1] for a in e.args)
        deep = height >= MAX_HEIGHT and uses[e] > 0
        if deep or (size > MAX_REPEATED and total[e] > 1):
            aliased.add(e)
            height, size = 0, 1
        shape[e] = height, size
    return aliased


class Texts:
    """The exact texts of the expressions of one statement.

    aliases: the names of parts, and their texts, in the order in which they use each other.
    """

    def __init__(self, names: Names, roots: Iterable[Expr]) -> None:
        roots = tuple(roots)
        aliased = to_alias(roots)
        done: dict[Expr, Text] = {}
        self._done = done
        self.aliases: list[tuple[str, str]] = []
        for e in postorder(*roots):
            if type(e) is Const:
                continue
            text = _node_text(names, e, [done.get(a) for a in e.args])
            if e in aliased:
                name = names.fresh("e")
                self.aliases.append((name, text[0]))
                text = name, _ATOM
            done[e] = text

    def alias_lines(self) -> list[str]:
        """The lines that must stand before the statement."""
        return [f"{name} = T.alias({text})" for name, text in self.aliases]

    def of(self, root: Expr, like: DType | None = index, level: int = LOOSEST) -> str:
        """The text of one of the roots, where a bare constant would get the dtype `like`."""
        text = constant_text(root, like) if isinstance(root, Const) else self._done[root]
        return _within(text, level)


SHORT: Final = 160
"""How many nodes a shortened text shows."""


def shortened(names: Names, root: Expr, like: DType | None = index, budget: int = SHORT) -> str:
    """`root` on one line; where it has more than `budget` nodes, the farthest are ``...``."""
    nodes = [root]
    children: list[range | None] = []
    at = 0
    while at < len(nodes):
        args = nodes[at].args
        fits = len(nodes) + len(args) <= budget
        children.append(range(len(nodes), len(nodes) + len(args)) if fits else None)
        nodes.extend(args if fits else ())
        at += 1
    texts: list[Text | None] = [None] * len(nodes)
    for at in reversed(range(len(nodes))):
        e, below = nodes[at], children[at]
        if type(e) is Const:
            continue
        if below is None:
            texts[at] = "...", _ATOM
        else:
            texts[at] = _node_text(names, e, [texts[c] for c in below])
    text = texts[0]
    return constant_text(root, like)[0] if text is None and isinstance(root, Const) else text[0]  # type: ignore[index]
