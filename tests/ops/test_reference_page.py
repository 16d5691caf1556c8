"""The reference of the operators is made from the docstrings that there are."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "operator_reference.py"
spec = importlib.util.spec_from_file_location("operator_reference", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_page_is_up_to_date():
    assert tool.PAGE.read_text() == tool.page(), "run: python tools/operator_reference.py"
