"""Runs the Python blocks of the Markdown pages.

The blocks of one page share their names, from top to bottom, and keep their line numbers: an error
points into the page, and the script form finds the source of its functions there. A block is left
out by the comment `<!-- skip: next "why" -->` above it.
"""

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    if "```python" in page.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_examples_of_page(page):
    document = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()]).parse(page)
    for example in document.examples():
        example.evaluate()


def test_blocks_are_found_and_share_names(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\ntext\n```python\nassert x == 2\n```\n")
    first, second = Sybil(parsers=[PythonCodeBlockParser()]).parse(page).examples()
    first.evaluate()
    with pytest.raises(AssertionError):
        second.evaluate()
