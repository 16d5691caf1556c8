"""The page of operators that are read is what the converters say."""

import importlib.util
import re
from pathlib import Path

import onnx
import pytest

from tensorsmith.frontend.onnx.converters import CONVERTERS
from tensorsmith.frontend.onnx.opsets import NEWEST, schema_of

TOOL = Path(__file__).resolve().parents[3] / "tools" / "onnx_operators.py"
spec = importlib.util.spec_from_file_location("onnx_operators", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_the_page_is_up_to_date():
    written = tool.PAGE.read_text()
    made_for = re.search(r"from onnx ([\w.]+)\. -->", written)[1]
    if made_for != onnx.__version__:
        pytest.skip(f"the page was made with onnx {made_for}")
    assert written == tool.page(), "run: python tools/onnx_operators.py"


def test_converters_are_of_operators_that_there_are():
    not_defined = {("", "FusedConv"), ("", "SimplifiedLayerNormalization")}
    for domain, op in CONVERTERS:
        if domain != "com.microsoft" and (domain, op) not in not_defined:
            assert schema_of(domain, op, NEWEST[domain]) or op in ("Scatter", "Upsample"), op


def test_converters_begin_with_versions_of_their_operators():
    for (domain, op), versions in CONVERTERS.items():
        for since in versions:
            if domain == "" and since > 1 and (schema := schema_of(domain, op, since)):
                assert schema.since_version == since, (op, since)
