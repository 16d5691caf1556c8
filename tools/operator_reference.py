"""Writes docs/reference/operators.md: each operator, its operands and attributes, what it gives.

Everything on the page is taken from the docstrings and signatures. Run
`python tools/operator_reference.py` after one has changed; a test fails while the page is not up to
date.
"""

import inspect
import re
import sys
from pathlib import Path

from tensorsmith.ops import OPERATORS, Operator

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "operators.md"

INTRODUCTION = """\
# Operators

<!-- Made by tools/operator_reference.py from the docstrings; changes belong there. -->

A model is read as a graph of these operators. Each is one function in `tensorsmith.ops` that gives
its results as [tensor expressions](../tutorials/tensor-expressions.md). From these follow the
shapes and types of the results, over symbolic dimensions too, the cost, and what the operator
means; so there is nothing else to be said of it anywhere.

Operands are tensors. One in brackets may be left out; one with a star stands for any number.
Attributes are numbers, names, tuples, or expressions over dimensions (as the shape of `reshape`
is); they have the defaults that are shown.

What holds of all: results have the type of the operands unless said otherwise. Operands broadcast
as in NumPy where several are combined element by element. Floats narrower than float32 are added
up, and put through more than one operation, in float32, and rounded once. NaN is kept. Extents may
be 0: a reduction over nothing gives 0, 1, or the end of the type. What cannot fit is a `ShapeError`
or a `DTypeError` when the graph is made; what depends on symbolic dimensions is checked when it
runs.

Operators whose results are as large as the data says come in two parts: `nonzero_count` tells how
many there are, and `nonzero` takes that number as its attribute `count`.
"""


def page() -> str:
    """The text of the page."""
    families: dict[str, list[Operator]] = {}
    for operator in OPERATORS.values():
        families.setdefault(operator.compute.__module__, []).append(operator)
    parts = [INTRODUCTION]
    for module, operators in families.items():
        title = (inspect.getdoc(sys.modules[module]) or "").partition(".")[0]
        parts.append(f"## {' '.join(title.split())}\n\n{table(operators)}")
    return "\n".join(parts)


def table(operators: list[Operator]) -> str:
    """One row an operator."""
    rows = ["| operator | operands | attributes | computes |", "| --- | --- | --- | --- |"]
    for operator in operators:
        operands, attributes = parameters(operator)
        text = cell(summary(operator))
        rows.append(f"| `{operator.name}` | {cell(operands)} | {cell(attributes)} | {text} |")
    return "\n".join(rows) + "\n"


def parameters(operator: Operator) -> tuple[str, str]:
    """The operands and the attributes."""
    operands, attributes = [], []
    for p in inspect.signature(operator.compute).parameters.values():
        if p.kind is p.KEYWORD_ONLY:
            default = "" if p.default is p.empty else f"={shown(p.default)}"
            attributes.append(f"`{p.name}{default}`")
        elif p.kind is p.VAR_POSITIONAL:
            operands.append(f"*{p.name}")
        else:
            operands.append(p.name if p.default is p.empty else f"[{p.name}]")
    return ", ".join(operands), ", ".join(attributes)


def shown(default: object) -> str:
    """A default as it is written, without more digits than tell it."""
    return f"{default:.8g}" if isinstance(default, float) else repr(default)


def summary(operator: Operator) -> str:
    """The docstring in one line; lists of parameters stay in it."""
    text = inspect.getdoc(operator.compute) or ""
    return " ".join(re.sub(r"``(.+?)``", r"`\1`", text).split())


def cell(text: str) -> str:
    """Text that stands in a cell; what is no code means nothing to Markdown."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<\[\]])", r"\\\1", p) for p in parts[::2]]
    return "`".join(parts).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
