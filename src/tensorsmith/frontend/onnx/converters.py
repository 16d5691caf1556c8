"""Every converter, by domain and operator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from tensorsmith.frontend.onnx import (
    activations,
    attention,
    cast,
    contract,
    control,
    creation,
    elementwise,
    losses,
    maps,
    microsoft,
    microsoft_attention,
    microsoft_classical,
    microsoft_quantize,
    ml,
    movement,
    normalize,
    quantize,
    random,
    recurrent,
    reduce,
    resize,
    scatter,
    select,
    sequences,
    signal,
    strings,
    training,
    vision,
    windows,
)
from tensorsmith.frontend.onnx.node import Converter
from tensorsmith.frontend.onnx.opsets import Table, Versions

Family: TypeAlias = "Mapping[str, Converter | Versions]"
"""Converters of one domain by operator: one for all versions, or by the version they begin with."""


def table(*families: tuple[str, Family]) -> Table:
    """The converters of families by domain and operator."""
    found: dict[tuple[str, str], Versions] = {}
    for domain, family in families:
        for op, entry in family.items():
            assert (domain, op) not in found, op
            found[domain, op] = entry if isinstance(entry, Mapping) else {1: entry}
    return MappingProxyType(found)


CONVERTERS: Final[Table] = table(
    ("", activations.CONVERTERS),
    ("", attention.CONVERTERS),
    ("", cast.CONVERTERS),
    ("", contract.CONVERTERS),
    ("", control.CONVERTERS),
    ("", creation.CONVERTERS),
    ("", elementwise.CONVERTERS),
    ("", losses.CONVERTERS),
    ("", microsoft.IN_DEFAULT_DOMAIN),
    ("", movement.CONVERTERS),
    ("", normalize.CONVERTERS),
    ("", quantize.CONVERTERS),
    ("", random.CONVERTERS),
    ("", recurrent.CONVERTERS),
    ("", reduce.CONVERTERS),
    ("", resize.CONVERTERS),
    ("", scatter.CONVERTERS),
    ("", select.CONVERTERS),
    ("", sequences.CONVERTERS),
    ("", signal.CONVERTERS),
    ("", strings.CONVERTERS),
    ("", vision.CONVERTERS),
    ("", windows.CONVERTERS),
    ("ai.onnx.ml", maps.CONVERTERS),
    ("ai.onnx.ml", ml.CONVERTERS),
    ("ai.onnx.preview.training", training.CONVERTERS),
    ("com.microsoft", microsoft.CONVERTERS),
    ("com.microsoft", microsoft_attention.CONVERTERS),
    ("com.microsoft", microsoft_classical.CONVERTERS),
    ("com.microsoft", microsoft_quantize.CONVERTERS),
)
"""What `from_onnx` knows."""
