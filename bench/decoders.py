"""Decoders of texts against every peer that is installed, in one run: see `language_models`.

Cases are called 'model@prefill', which reads a text of 128 tokens, and 'model@decode', which adds
one token to it. Outputs are compared with ONNX Runtime's before a time counts. The large models
take part where `--cases` names them.
"""

from __future__ import annotations

from typing import Any

import language_models
import measure
from networks import RELATIVE, offered
from peers import OnnxRuntime
from work import Expected, Work

from tensorsmith.codegen.limits import Limits

RELATIVE_QUANTISED = 5e-2
"""Of the largest output: how far peers may differ where floats may be rounded to 8 bits, which each
peer does at places of its own."""


def work(case: str) -> Work:
    """The model file of a case and its inputs."""
    path, inputs = language_models.case(case)
    return Work(str(path), inputs, may_be_empty=["past"], may_round=bits(case) < 32)


def bits(case: str) -> int:
    """Of the weights of a case."""
    return language_models.MODELS[case.partition("@")[0]].bits


def expected(case: str) -> Expected:
    """What ONNX Runtime gives."""
    relative = RELATIVE if bits(case) == 32 else RELATIVE_QUANTISED
    return Expected(OnnxRuntime().prepare(work(case), 1)(), relative=relative)


def facts(case: str, ours: dict[str, Any], limit: Limits) -> dict[str, Any]:
    """What the tables call it."""
    return {"title": case.replace("@", " "), "group": case.partition("@")[2]}


SUITE = measure.Suite(
    name="decoders",
    cases=language_models.case_names(),
    quick=["gpt2-small@decode"],
    more=language_models.case_names(large=True),
    peers=offered(),
    expected=expected,
    facts=facts,
    dynamic=lambda _: True,
)

if __name__ == "__main__":
    measure.main(SUITE)
