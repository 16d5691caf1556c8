"""Reports on fusion."""

from __future__ import annotations

from graph.models import encoder
from tensorsmith.graph import fusion_rules
from tensorsmith.graph.report import fusion_report
from tensorsmith.ops import OPERATORS, GraphBuilder


def test_kernels_and_why_they_are_apart() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (8, 8), "float32")
    b.sources = ("first",)
    total = b("add", b("matmul", x, x), x)
    b.sources = ("second",)
    result = b("exp", b("relu", total))
    report = fusion_report(b.function("main", [result, total]))
    assert [k.operators for k in report.kernels] == [("matmul", "add"), ("relu", "exp")]
    assert [k.sources for k in report.kernels] == [("first",), ("second",)]
    (boundary,) = report.boundaries
    assert (boundary.value, boundary.user) == (total, "relu")
    assert boundary.reason == fusion_rules.SECOND_RESULT
    assert str(report) == (
        "2 kernels\n"
        "  matmul + add -> add: Buffer((8, 8), 'float32')\n"
        "  relu + exp -> exp: Buffer((8, 8), 'float32')\n"
        "1 values between them\n"
        f"  add -> relu: {fusion_rules.SECOND_RESULT}"
    )


def test_every_boundary_has_a_reason() -> None:
    b, x = encoder(2, 4, 32)
    report = fusion_report(b.function("main", [x]))
    assert len(report.kernels) == 19
    assert all(b.reason for b in report.boundaries)
    assert len(report.boundaries) >= 16
