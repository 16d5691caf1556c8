"""Runs the Python examples of the Markdown pages as tests, and sets Hypothesis up.

The blocks of one page share their names, from top to bottom. A page's lines keep their numbers, so
that an error points into the page and the script form finds the source of its functions.
"""

from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# No deadline: on a busy machine a slow case is not a wrong case.
settings.register_profile("tensorsmith", settings.default, deadline=None, print_blob=True)
settings.load_profile("tensorsmith")

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["*.md"],
).pytest()
