"""Decoders that are measured: what they compute, whole and in two parts."""

from __future__ import annotations

import language_models
import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import tensorsmith

SMALL = {
    "gpt2": language_models.LanguageModel("gpt2", 1, 64, 4, 4, 96, 50),
    "llama": language_models.LanguageModel("llama", 1, 64, 4, 2, 96, 50),
    "llama-q4": language_models.LanguageModel("llama", 1, 64, 4, 2, 96, 50, bits=4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_results_are_those_of_the_reference(name, tmp_path):
    shape = SMALL[name]
    path = language_models.built(shape, tmp_path)
    model = tensorsmith.compile(path, threads=1)
    reference = ReferenceEvaluator(str(path))
    given = language_models.inputs(shape, {"batch": 2, "length": 3, "past": 5})
    wanted = reference.run(None, given)
    found = model(**given)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-q4"])
def test_a_text_in_two_parts_gives_what_it_gives_at_once(name, tmp_path):
    shape = SMALL[name]
    model = tensorsmith.compile(language_models.built(shape, tmp_path), threads=1, min_extent=0)
    given = language_models.inputs(shape, {"batch": 1, "length": 7, "past": 0})
    logits, *held = model(**given)
    first = {n: a[:, :6] if a.ndim == 2 else a for n, a in given.items()}
    _, *before = model(**first)
    last = {n: given[n][:, 6:] for n in ("input_ids", "position_ids")}
    names = [n for n in given if n.startswith("past")]
    after, *now = model(**last, **dict(zip(names, before, strict=True)))
    np.testing.assert_allclose(after[:, 0], logits[:, 6], rtol=1e-4, atol=1e-5)
    for one, other in zip(now, held, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
