"""The rules of the house that no other tool checks: sizes, places, names, words, docstrings."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import tensorsmith

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tensorsmith"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE_FOLDERS = ("src", "tests", "examples", "bench")

MAX_FILE_LINES = 600
SOFT_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_FUNCTION_LINES_OF_TESTS = 80

NAMES_THAT_SAY_NOTHING = {"utils.py", "util.py", "common.py", "helpers.py", "misc.py"}

# Words about how the text came to be, rather than about what it says. Each is specific enough not
# to hit the field's own terms ('session' of a runtime, 'agent' of reinforcement learning, ...).
PROCESS_TALK = re.compile(
    r"""
      \b(this|another|next|last|previous|my|our)\ (session|agent|issue|prompt)s?\b
    | \bissues?\ \#?\d+\b
    | \b(sub-?agent|language\ model|chatbot|AI\ assistant)s?\b
    | /work/main | /tmp/ | /root/ | /home/\w+
    """,
    re.VERBOSE | re.IGNORECASE,
)

HEAVY_PACKAGES = {
    "hypothesis",
    "matplotlib",
    "onnx",
    "pandas",
    "pygments",
    "pytest",
    "scipy",
    "torch",
    "z3",
}
# These make or run machine code, and may load LLVM. Writing, checking and evaluating needs none.
NEEDS_LLVM = {"codegen", "compiler", "runtime", "target", "tune", "cli"}
MAX_MODULES_LOADED = 60


def tracked(*folders: str, suffixes: tuple[str, ...]) -> list[Path]:
    """The repository's own files: those that git knows or would not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = (ROOT / name for name in sorted(set(listed)))
    return [p for p in paths if p.suffix in suffixes and p.is_file()]


def python_files() -> list[Path]:
    return tracked(*CODE_FOLDERS, suffixes=(".py",))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def test_size_of_files():
    lengths = {shown(p): len(p.read_text().splitlines()) for p in python_files()}
    if above_soft := {name: n for name, n in lengths.items() if n > SOFT_FILE_LINES}:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(f"over {SOFT_FILE_LINES} lines: {above_soft}", stacklevel=1)
    assert {name: n for name, n in lengths.items() if n > MAX_FILE_LINES} == {}


def limit_of(path):
    """Lines of a function in this file: generators of programs are one long list of choices."""
    return MAX_FUNCTION_LINES if "src" in path.parts else MAX_FUNCTION_LINES_OF_TESTS


def test_size_of_functions():
    too_long = {
        f"{shown(path)}:{function.lineno} {function.name}": length
        for path in python_files()
        for function in functions(ast.parse(path.read_text()))
        if (length := lines_without_docstring(function)) > limit_of(path)
    }
    assert too_long == {}


def test_file_names_say_what_is_inside():
    assert [shown(p) for p in python_files() if p.name in NAMES_THAT_SAY_NOTHING] == []


def test_every_package_has_a_folder_of_tests():
    packages = sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py"))
    assert [p for p in packages if not any((ROOT / "tests" / p).rglob("test_*.py"))] == []


def test_folders_of_tests_are_not_packages():
    # A package tests/ir would be importable as `ir`, and shadow or be shadowed.
    named = {p.name for p in PACKAGE.iterdir() if p.is_dir()}
    packages = [p.parent.name for p in (ROOT / "tests").glob("*/__init__.py")]
    assert [name for name in packages if name in named] == []


def test_text_speaks_of_its_subject_only():
    texts = tracked(".", suffixes=(".py", ".md", ".toml", ".yml", ".txt", ".cfg", ""))
    hits = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in texts
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if PROCESS_TALK.search(line)
    ]
    assert hits == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as the previous session left it", True),
        ("see issue 12", True),
        ("a path such as /tmp/x", True),
        ("an ONNX Runtime session", False),
        ("the user agent string", False),
        ("instructions issue in order", False),
    ],
)
def test_process_talk_is_told_from_the_terms_of_the_field(text, found):
    assert bool(PROCESS_TALK.search(text)) is found


def public_members(owner: ModuleType | type) -> Iterator[tuple[str, object]]:
    """The public functions, classes and properties that `owner` itself defines."""
    home = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__  # noqa: PLW2901 (what it wraps is what has the docstring)
        is_code = isinstance(member, type | FunctionType | property)
        if is_code and getattr(member, "__module__", home) == home:
            yield name, member


def undocumented(owner: ModuleType | type, path: str) -> Iterator[str]:
    """Public names without a docstring. One that overrides another has the other's."""
    for name, member in public_members(owner):
        inherited = isinstance(owner, type) and inspect.getdoc(getattr(owner, name))
        if not inspect.getdoc(member) and not inherited:
            yield f"{path}.{name}"
        # The members of a protocol are documented by the protocol.
        if isinstance(member, type) and not getattr(member, "_is_protocol", False):
            yield from undocumented(member, f"{path}.{name}")


def test_public_names_have_docstrings():
    names = [m.name for m in pkgutil.walk_packages(tensorsmith.__path__, "tensorsmith.")]
    modules = [importlib.import_module(name) for name in names]
    assert [missing for m in modules for missing in undocumented(m, m.__name__)] == []


def modules_loaded_by(statement: str) -> set[str]:
    """What `statement` imports in a fresh interpreter, beyond NumPy and the standard library."""
    code = (
        f"import sys, numpy, ml_dtypes; before = set(sys.modules); {statement}; "
        "print(*(set(sys.modules) - before))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    return {m for m in output.split() if m.partition(".")[0] not in sys.stdlib_module_names}


def test_import_is_light():
    loaded = modules_loaded_by("import tensorsmith")
    assert {m.partition(".")[0] for m in loaded} & {*HEAVY_PACKAGES, "llvmlite"} == set()
    assert len(loaded) <= MAX_MODULES_LOADED


def test_every_package_imports_without_heavy_packages():
    names = {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    loaded = modules_loaded_by("; ".join(f"import tensorsmith.{n}" for n in sorted(names)))
    assert {m.partition(".")[0] for m in loaded} & HEAVY_PACKAGES == set()
    without = "; ".join(f"import tensorsmith.{n}" for n in sorted(names - NEEDS_LLVM))
    assert "llvmlite" not in modules_loaded_by(without)


def test_every_page_is_linked_from_the_index():
    docs = ROOT / "docs"
    linked: set[Path] = set()
    to_read = [docs / "index.md"]
    while to_read:
        page = to_read.pop()
        if page in linked or not page.is_file():
            continue
        linked.add(page)
        targets = re.findall(r"\]\(([^)#\s]+\.md)[)#]", page.read_text())
        to_read += [(page.parent / target).resolve() for target in targets]
    assert [shown(p) for p in tracked("docs", suffixes=(".md",)) if p not in linked] == []


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = set(re.findall(r"[\w/-]+\.md", nav))
    docs = ROOT / "docs"
    assert {p.relative_to(docs).as_posix() for p in tracked("docs", suffixes=(".md",))} == named


def test_page_on_packages_follows_the_contract():
    (contract, *_) = PYPROJECT["tool"]["importlinter"]["contracts"]
    order = [layer.strip("()") for layer in contract["layers"]]
    page = (ROOT / "docs" / "reference" / "packages.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == order
