"""Every error of the script form, by its whole text.

The cases stand in ``script_errors.txt``: a name, the lines of a body or a whole text,
the class of the error and what it says.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tensorsmith import script as T
from tensorsmith.errors import ScriptError, TensorsmithError
from tensorsmith.script import parse_module, parse_program

HEAD = """\
from tensorsmith import script as T

n = T.dim("n")


@T.program
def f(A: T.Buffer((n, 8), "float32"), B: T.Buffer((n,), "int32"), x: T.int32):
"""


def cases() -> list[tuple[str, str, str, str]]:
    found = []
    text = Path(__file__).with_name("script_errors.txt").read_text(encoding="utf-8")
    for section in text.removeprefix("=== ").split("\n=== "):
        name, _, rest = section.partition("\n")
        lines, _, outcome = rest.partition("--- ")
        kind, _, expected = outcome.partition("\n")
        whole = name.endswith(", whole text")
        script = lines if whole else HEAD + textwrap.indent(lines, "    ")
        found.append((name, script, kind, expected.rstrip("\n")))
    return found


@pytest.mark.parametrize(("name", "script", "kind", "expected"), cases())
def test_error(name: str, script: str, kind: str, expected: str) -> None:
    with pytest.raises(TensorsmithError) as caught:
        parse_program(script)
    assert type(caught.value).__name__ == kind
    assert str(caught.value) == expected


def test_cases_are_many_and_named_once() -> None:
    names = [name for name, *_ in cases()]
    assert len(names) > 60
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("deep", ["-" * 20_000 + "x", "~" * 20_000 + "x"])
def test_what_python_cannot_parse(deep: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_program(f"{HEAD}    B[0] = {deep}\n", "deep.py")
    assert str(caught.value) == (
        "deep.py: the script is nested deeper than Python's parser takes\n"
        "  try: T.alias to name a part of an expression"
    )


def test_too_many_parentheses() -> None:
    with pytest.raises(ScriptError) as caught:
        parse_program(HEAD + "    B[0] = " + "(" * 250 + "x" + ")" * 250 + "\n")
    assert caught.value.what == "Python cannot read this: too many nested parentheses"


def test_null_byte() -> None:
    with pytest.raises(ScriptError) as caught:
        parse_program("\0")
    assert "null bytes" in caught.value.what


def test_two_modules() -> None:
    text = "@T.module\nclass M:\n    pass\n"
    with pytest.raises(ScriptError) as caught:
        parse_module(text * 2, "two.py")
    assert str(caught.value) == "two.py: the text has more than one module"


def test_an_error_of_a_decorated_function_points_into_its_file() -> None:
    with pytest.raises(ScriptError) as caught:

        @T.program
        def f(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = qqzzqq[i]  # noqa: F821

    first, line, carets = str(caught.value).splitlines()
    assert first.startswith(f"{__file__}:")
    assert first.endswith(": 'qqzzqq' is not defined")
    assert line == "    A[i] = qqzzqq[i]  # noqa: F821"
    assert carets == "           ^^^^^^"


def test_a_function_without_source() -> None:
    namespace = {"T": T}
    exec("def f(A: T.Buffer((4,), 'float32')): pass", namespace)  # noqa: S102
    with pytest.raises(ScriptError) as caught:
        T.program(namespace["f"])
    assert str(caught.value) == (
        "the source of 'f' is not at hand\n"
        "  because: a script is parsed from its source, which Python has for files and notebooks\n"
        "  try: put the function in a file, or give its text to parse_program"
    )


def test_an_error_in_a_helper_names_the_call() -> None:
    def halve(x: int) -> int:
        return x // 0

    with pytest.raises(ScriptError) as caught:

        @T.program
        def f(A: T.Buffer((4,), "float32")):
            A[halve(4)] = 0.0

    assert caught.value.what == "halve: integer division or modulo by zero"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_terms_run_by_python() -> None:
    with pytest.raises(ScriptError) as caught:
        for _ in T.grid(2, 3):
            pass
    assert str(caught.value) == (
        "a loop has a meaning inside of a script function only\n"
        "  try: the decorator @T.program on the function"
    )
    with pytest.raises(ScriptError, match="a block has a meaning"), T.block("b"):
        pass


def test_a_module_holds_programs_only() -> None:
    with pytest.raises(ScriptError) as caught:

        @T.module
        class Kernels:
            def f():
                pass

    assert str(caught.value) == (
        "'f' of module 'Kernels' is not a tensor program\n  try: the decorator @T.program"
    )
