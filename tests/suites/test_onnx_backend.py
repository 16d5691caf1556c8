"""ONNX's backend test suite: what passed once has to pass, and the rest is known with reasons."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from suites.onnx_cases import OTHERS, PASS_LIST, cases, listed, run_case, sample
from tensorsmith.onnx_backend import InterpretedBackend, TensorsmithBackend

ROOT = Path(__file__).resolve().parents[2]


def must_pass():
    names = set(listed(PASS_LIST))
    return [c for c in cases(kinds=("node", "simple")) if c.name in names]


def failures(chosen, backend):
    outcomes = [run_case(c, backend.prepare) for c in chosen]
    return {o.name: o.details for o in outcomes if o.error is not None}


def test_lists_have_each_case_once():
    passing, others = listed(PASS_LIST), listed(OTHERS)
    assert sorted(set(passing)) == passing
    assert not set(passing) & set(others)
    assert len(set(others)) == len(others)


def test_some_cases_as_native_code():
    assert failures(sample(must_pass(), 150), TensorsmithBackend) == {}


def test_some_cases_by_the_interpreter():
    assert failures(sample(must_pass(), 70), InterpretedBackend) == {}


@pytest.mark.slow
def test_every_case_is_listed():
    names = {c.name for c in cases()}
    known = {*listed(PASS_LIST), *listed(OTHERS)}
    assert names - known == set(), "neither known to pass nor known with a reason"


@pytest.mark.slow
def test_all_listed_cases():
    tool = str(ROOT / "tools" / "onnx_suite.py")
    jobs = str(os.cpu_count() or 1)
    done = subprocess.run(
        [sys.executable, tool, "--jobs", jobs], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
