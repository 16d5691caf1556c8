"""What the tables make of figures."""

import math

import pytest
import tables

ROW = {
    "case": "net@0",
    "title": "net 1x16",
    "threads": 1,
    "share": 0.5,
    "peers": {
        "tensorsmith": {
            "verdict": "ok",
            "median_us": 2000.0,
            "p10_us": 1900.0,
            "p90_us": 2100.0,
            "compile_s": 1.5,
            "compile_cold_s": 12.0,
        },
        "tensorsmith-fixed": {"verdict": "ok", "median_us": 1600.0, "p10_us": 0.0, "p90_us": 0.0},
        "onnxruntime": {
            "verdict": "ok",
            "median_us": 4000.0,
            "p10_us": 3900.0,
            "p90_us": 4100.0,
            "compile_s": 0.25,
        },
        "openvino": {
            "verdict": "ok",
            "median_us": 1000.0,
            "p10_us": 900.0,
            "p90_us": 1100.0,
            "compile_s": 0.5,
        },
        "tvm": {"verdict": "failed: ValueError: a | b <c>"},
    },
}
TWO_THREADS = {
    **ROW,
    "threads": 2,
    "peers": {
        "tensorsmith": {"verdict": "ok", "median_us": 500.0, "p10_us": 500.0, "p90_us": 500.0},
        "onnxruntime": {"verdict": "ok", "median_us": 1000.0, "p10_us": 1.0, "p90_us": 1.0},
        "openvino": {"verdict": "wrong: output 0 is off by 1, its largest is 2"},
    },
}
DOCUMENT = {"results": [ROW, TWO_THREADS]}


def test_best_peer_is_the_fastest_that_is_not_ours():
    assert tables.best_peer(ROW) == "openvino"
    assert tables.best_peer(TWO_THREADS) == "onnxruntime"
    assert tables.ratio(ROW, "onnxruntime") == 0.5
    assert tables.ratio(ROW, "tvm") is None
    assert tables.best_peer({"peers": {"tensorsmith": ROW["peers"]["tensorsmith"]}}) is None


def test_peers_that_could_do_nothing_have_no_column():
    assert tables.rivals(DOCUMENT) == ["onnxruntime", "openvino"]


def test_latency_table():
    table = tables.latency_table(DOCUMENT)
    assert table.markdown().splitlines() == [
        "| case | threads | tensorsmith | onnxruntime | openvino | ours / best | of limit |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| net 1x16 | 1 | 2 | 4 | 1 | 2.00 | 50% |",
        "| net 1x16 | 2 | 0.5 | 1 | - | 0.50 | 50% |",
    ]
    assert table.hints[1, 4] == "wrong: output 0 is off by 1, its largest is 2"


def test_means_are_geometric_and_over_the_cases_that_both_can_do():
    rows = tables.means_table(DOCUMENT).rows
    assert rows == [
        ["best of them", "2.00", "1", "0.50", "1"],
        ["onnxruntime", "0.50", "1", "0.50", "1"],
        ["openvino", "2.00", "1", "-", "0"],
    ]
    assert tables.geometric_mean([1, 4]) == pytest.approx(2)
    assert tables.geometric_mean([0.5, 2]) == pytest.approx(1)


def test_means_by_group():
    other = {**ROW, "group": "other"}
    table = tables.group_table({"results": [{**ROW, "group": "net"}, other, other]})
    assert table.rows == [["net", "2.00", "1"], ["other", "2.00", "2"]]
    assert tables.group_table(DOCUMENT) is None


def test_summary_has_one_row_a_case():
    table = tables.summary_table(DOCUMENT)
    assert table.columns[-2:] == ["ours / best, 1 thread", "ours / best, 2 threads"]
    assert table.rows == [["net 1x16", "2", "4", "1", "2.00", "0.50"]]


def test_compile_table_tells_cold_from_warm():
    table = tables.compile_table({"results": [ROW]})
    assert table.columns == [
        "",
        "tensorsmith, cold",
        "tensorsmith, warm",
        "onnxruntime",
        "openvino",
    ]
    assert table.rows == [["net 1x16", "12", "1.5", "0.25", "0.5"]]


def test_dynamic_table_is_there_if_it_was_measured():
    assert tables.dynamic_table(DOCUMENT).rows == [["net 1x16", "1", "2", "1.6", "1.25"]]
    assert tables.dynamic_table({"results": [TWO_THREADS]}) is None


def test_failures_name_each_reason_once():
    twice = {"results": [ROW, {**ROW, "title": "other"}]}
    assert tables.failures(twice) == ["tvm, net 1x16, other: failed: ValueError: a | b <c>"]


def test_html_escapes_and_marks_ratios():
    text = tables.Table(["a<b", "q"], [["x", "0.9"], ["y", "1.1"], ["z", "-"]], 1, {1}).html()
    assert '<th class="text">a&lt;b</th>' in text
    assert '<td class="good">0.9</td>' in text
    assert '<td class="bad">1.1</td>' in text
    assert "<td>-</td>" in text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.04567, "0.0457"), (12.345, "12.3"), (1234.5, "1234")]
)
def test_milliseconds_have_three_digits(value, text):
    assert tables.milliseconds(value) == text
    assert value is None or math.isclose(float(text), value, rel_tol=5e-3)
