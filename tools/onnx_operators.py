"""Writes docs/reference/onnx-operators.md: operators of ONNX models that are read, by version.

Run `python tools/onnx_operators.py` after converters were added, or for a new version of `onnx`; a
test fails while the page is not up to date.
"""

from collections import defaultdict
from pathlib import Path

import onnx
from onnx import defs

from tensorsmith.frontend.onnx.converters import CONVERTERS
from tensorsmith.frontend.onnx.opsets import NEWEST, converter_of, is_function

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "onnx-operators.md"

INTRODUCTION = f"""\
# Operators of ONNX models

<!-- Made by tools/onnx_operators.py from the converters and from onnx {onnx.__version__}. -->

`from_onnx` reads these operators. A version is the opset from which on ONNX defines the operator as
it says; a model of a later opset has the last definition before it. How an operator is read:

- *converter*: by a function of `tensorsmith.frontend.onnx`, into operators of Tensorsmith;
- *function*: as ONNX defines it by other operators.

What is not on this page is named, with all its nodes, in one error. A model may bring functions of
its own, and `from_onnx(converters=...)` takes converters of yours.
"""


def page() -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    missing: list[str] = []
    for domain, operators in sorted(defined().items()):
        rows = []
        for op, versions in sorted(operators.items()):
            how = {v: read_by(domain, op, v, schema) for v, schema in sorted(versions.items())}
            known = [v for v, by in how.items() if by]
            if not known:
                missing.append(f"`{domain or 'ai.onnx'}::{op}`")
                continue
            left_out = [v for v in how if v not in known]
            rows.append(
                row(op, [str(v) for v in known], {by for by in how.values() if by}, left_out)
            )
        parts.append(f"## {domain or 'ai.onnx'}\n\n{table(rows)}")
    own = sorted(op for domain, op in CONVERTERS if domain == "com.microsoft")
    rows = [row(op, ["1"], {"converter"}, []) for op in own]
    parts.append(f"## com.microsoft\n\nOf ONNX Runtime's optimiser.\n\n{table(rows)}")
    parts.append(f"## Not read\n\n{', '.join(missing)}.\n")
    return "\n".join(parts)


def defined() -> dict[str, dict[str, dict[int, defs.OpSchema]]]:
    """Every operator that ONNX defines in versions that are known here, by domain and version."""
    found: dict[str, dict[str, dict[int, defs.OpSchema]]] = defaultdict(lambda: defaultdict(dict))
    for schema in defs.get_all_schemas_with_history():
        if schema.since_version <= NEWEST.get(schema.domain, 0):
            found[schema.domain][schema.name][schema.since_version] = schema
    return found


def read_by(domain: str, op: str, version: int, schema: defs.OpSchema) -> str:
    """How an operator is read in a version; '' if it is not."""
    if converter_of(CONVERTERS, domain, op, version) is not None:
        return "converter"
    return "function" if is_function(schema) else ""


def row(op: str, versions: list[str], how: set[str], left_out: list[int]) -> str:
    """A row of a table."""
    without = f" (not {', '.join(map(str, left_out))})" if left_out else ""
    return f"| `{op}` | {', '.join(versions)}{without} | {', '.join(sorted(how))} |"


def table(rows: list[str]) -> str:
    """A table of rows."""
    return "\n".join(["| operator | versions | read by |", "| --- | --- | --- |", *rows]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
