"""Reports of figures: what the pages show, and pages of their own."""

import json
import re

import pytest
import report
from machine import ROOT

SUITES = sorted(report.load())


@pytest.mark.parametrize("name", report.SHOWN_IN)
def test_pages_show_what_the_figures_say(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert report.BLOCK.search(page)
    assert report.updated(page, report.load()) == page


def test_only_marked_places_change():
    page = "a\n<!-- figures: networks latency -->\nold\n<!-- end of figures -->\nb\n"
    assert report.updated(page, {}) == page
    document = report.load()["networks"]
    new = report.updated(page, {"networks": document})
    assert new.startswith("a\n<!-- figures: networks latency -->\n\n| case | threads |")
    assert new.endswith("\n<!-- end of figures -->\nb\n")
    assert "old" not in new
    assert report.updated(new, {"networks": document}) == new


@pytest.mark.parametrize("suite", SUITES)
def test_files_say_what_they_are_from(suite):
    document = report.load()[suite]
    assert document["machine"]["processor"]
    assert document["command"].startswith("python bench/")
    for row in document["results"]:
        for figures in row["peers"].values():
            assert figures["verdict"] != "ok" or 0 < figures["p10_us"] <= figures["median_us"]
    assert set(document["versions"]) >= set(document["results"][0]["peers"])


def test_all_tables_as_markdown():
    text = report.markdown(report.load())
    for suite in SUITES:
        assert f"## {report.SUITES[suite]}" in text


def test_page_needs_no_network():
    pytest.importorskip("matplotlib")
    from page import html_page

    text = html_page(report.load())
    assert text.count("data:image/png;base64,") >= len(SUITES)
    assert not re.search(r"(src|href)=\"(?!#|data:)", text)
    assert "@import" not in text


def test_plots_are_written_for_each_suite_and_thread_count(tmp_path):
    pytest.importorskip("matplotlib")
    import plots

    documents = report.load()
    names = {p.stem for p in plots.write(documents, tmp_path)}
    wanted = {
        f"{suite}-latency-{threads}"
        for suite, document in documents.items()
        for threads in document["limits"]
    }
    assert names >= wanted
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in tmp_path.iterdir())


def test_files_given_are_used(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"suite": "operators", "results": []}))
    assert list(report.load([path])) == ["operators"]
