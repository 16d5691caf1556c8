"""Operands and attributes that every operator takes: at least one example each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensorsmith import te
from tensorsmith.ir import Var
from tensorsmith.ops import OPERATORS


@dataclass(frozen=True)
class Example:
    """Types as 'float32 2 3', None for an operand that is left out; and attributes."""

    operands: tuple[str | None, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    def shapes(self) -> list[tuple[int, ...] | None]:
        """The shape of each operand."""
        return [None if o is None else tuple(int(n) for n in o.split()[1:]) for o in self.operands]

    def dtypes(self) -> list[str | None]:
        """The dtype of each operand."""
        return [None if o is None else o.split()[0] for o in self.operands]

    def placeholders(self, dims: dict[int, Var] | None = None) -> list[te.Tensor | None]:
        """A tensor for each operand; extents are the variables of `dims`, where it has them."""
        known = dims or {}
        pairs = zip(self.shapes(), self.dtypes(), strict=True)
        return [
            None if s is None else te.placeholder([known.get(n, n) for n in s], d, f"x{k}")
            for k, (s, d) in enumerate(pairs)
        ]


def of(*operands: str | None, **attrs: Any) -> Example:
    return Example(operands, attrs)


def one(name: str) -> Example:
    """What an operator of one or two operands of one shape takes, judging by its family."""
    operator = OPERATORS[name]
    code = operator.compute.__code__
    number = max(code.co_argcount, 1)
    family = operator.compute.__module__.rpartition(".")[2]
    if name.startswith("logical_") or name in ("reduce_any", "reduce_all"):
        type_ = "bool"
    else:
        type_ = "int32" if family == "bitwise" else "float32"
    return Example((f"{type_} 2 3",) * number)


_SAME = [
    n
    for n, o in OPERATORS.items()
    if o.compute.__module__.rpartition(".")[2]
    in ("activations", "elementwise", "compare", "bitwise", "reduce", "cumulative", "softmax")
    and n not in ("where", "clip")
]
_NORM = ["float32 2 4 3 5", *["float32 4"] * 4]
_LSTM = ["float32 3 2 4", "float32 1 12 4", "float32 1 12 3"]

EXAMPLES: dict[str, list[Example]] = {
    **{name: [one(name)] for name in _SAME},
    "add": [one("add"), of("float32 2 3", "float32 3"), of("int8 2 1", "int8 1 3")],
    "clip": [of("float32 2 3", "float32", None), of("float32 2 3", None, None)],
    "where": [of("bool 2 1", "float32 3", "float32 2 3")],
    "pow": [of("float32 2 3", "int64"), of("int32 2 3", "int32 3")],
    "expand": [of("float32 1 3", shape=(2, 3))],
    "cast": [of("float32 2 3", dtype="float8_e4m3fn"), of("int4 2 3", dtype="float16")],
    "bitcast": [of("float32 2 3", dtype="int32")],
    # Contractions
    "matmul": [of("float32 2 3", "float32 3 5"), of("float16 2 4 3", "float16 2 3 5")],
    "gemm": [of("float32 2 3", "float32 5 3", "float32 5", trans_b=True, alpha=0.5)],
    "matmul_integer": [of("uint8 2 3", "int8 3 5", "uint8", "int8 5")],
    "einsum": [of("float32 2 3", "float32 3 5", "float32 5", equation="ij,jk,k->i")],
    "trilu": [of("float32 2 3", k=1)],
    "det": [of("float32 2 3 3")],
    # Normalisations and losses
    "layer_norm": [of("float32 2 3", "float32 3", "float32 3", with_statistics=True)],
    "rms_norm": [of("float16 2 3", "float16 3")],
    "group_norm": [of("float32 2 4 3", "float32 4", "float32 4", groups=2)],
    "instance_norm": [of(*_NORM[:3])],
    "batch_norm": [of(*_NORM)],
    "batch_norm_training": [of(*_NORM)],
    "lp_norm": [of("float32 2 3", p=1)],
    "lrn": [of("float32 2 5 3", size=3)],
    "mean_variance_norm": [of("float32 2 4 3 5")],
    "negative_log_likelihood": [of("float32 2 5 3", "int64 2 3", "float32 5", ignore_index=1)],
    "softmax_cross_entropy": [of("float32 2 5", "int64 2", None, with_log_probabilities=True)],
    # Shapes, movement, cutting
    "from_elements": [of(values=(1, 2)), of(values=(3,), is_scalar=True)],
    "copy": [of("float32 2 3")],
    "reshape": [of("float32 2 6", shape=(3, 4))],
    "expand_dims": [of("float32 2 3", axes=(1,))],
    "squeeze": [of("float32 2 1 3", axes=(1,))],
    "transpose": [of("float32 2 3 4", axes=(2, 0, 1))],
    "flip": [of("float32 2 3", axes=(1,))],
    "concat": [of("float32 2 3", "float32 2 4", axis=1)],
    "stack": [of("float32 2 3", "float32 2 3", axis=1)],
    "tile": [of("float32 2 3", repeats=(2, 1))],
    "depth_to_space": [of("float32 1 8 2 3", block=2)],
    "space_to_depth": [of("float32 1 2 4 6", block=2)],
    "reverse_sequence": [of("float32 3 2 4", "int64 2")],
    "flatten": [of("float32 2 3 4", axis=1)],
    "pad": [
        of("float32 2 3", None, before=(1, 0), after=(0, 2)),
        of("int8 3", before=(1,), after=(1,), mode="edge"),
    ],
    "slice": [of("float32 5 3", starts=(1, 0), extents=(2, 3), steps=(2, 1))],
    "range": [of("int64", "int64", count=4)],
    "range_count": [of("float32", "float32", "float32")],
    "full": [of("float32", shape=(2, 3))],
    "one_hot": [of("int64 2 3", "float32 2", depth=5)],
    "eye": [of(shape=(3, 4), diagonal=1)],
    "center_crop_pad": [of("float32 4 5", shape=(2, 7))],
    "gather": [of("float32 4 3", "int64 2 2")],
    "farthest_position": [of("int64 4 3"), of("int32 4 3", by_column=True)],
    "gather_elements": [of("float32 4 3", "int64 2 3")],
    "gather_nd": [of("float32 4 3 2", "int64 5 2")],
    "array_feature_extractor": [of("float32 2 5", "int64 1 3")],
    "scatter_elements": [of("float32 4 3", "int64 2 3", "float32 2 3", reduction="add")],
    "scatter_nd": [of("float32 4 3", "int64 2 1", "float32 2 3")],
    "tensor_scatter": [of("float32 2 5 3", "float32 2 2 3", "int64 2")],
    # Windows
    "conv": [of("float32 1 4 5 5", "float32 6 2 3 3", "float32 6", groups=2, pads=(1, 1, 1, 1))],
    "blocked_conv": [
        of("float32 1 2 5 5 8", "float32 16 8 3 3", "float32 16", block=8, groups=2),
        of("float32 1 3 5 5", "float32 16 3 3 3", block=16, pads=(1, 1, 1, 1)),
    ],
    "winograd_conv": [
        of("float32 1 2 5 7 4", "float32 16 8 3 3", "float32 16", block=8, pads=(1, 1, 1, 1)),
        of("float32 2 1 6 5 8", "float32 8 8 3 3", block=8, tile=2),
    ],
    "conv_transpose": [of("float32 1 4 3 3", "float32 4 2 3 3", strides=(2, 2))],
    "col2im": [of("float32 1 8 4", image=(3, 3), block=(2, 2))],
    "conv_integer": [of("uint8 1 2 4 4", "int8 3 2 3 3", "uint8")],
    "deform_conv": [of("float32 1 2 4 4", "float32 3 2 2 2", "float32 1 8 3 3")],
    "max_pool": [of("float32 1 2 5 5", kernel=(2, 2), strides=(2, 2))],
    "max_pool_with_indices": [of("float32 1 2 5 5", kernel=(3, 3))],
    "average_pool": [of("float32 1 2 5 5", kernel=(3, 3), pads=(1, 1, 1, 1))],
    "lp_pool": [of("float32 1 2 5", kernel=(2,))],
    "max_unpool": [of("float32 1 1 2 2", "int64 1 1 2 2", shape=(1, 1, 4, 4))],
    "max_roi_pool": [of("float32 1 2 6 6", "float32 3 5", pooled=(2, 2))],
    "resize": [of("float32 1 2 4 4", shape=(1, 2, 8, 8), mode="linear")],
    "grid_sample": [of("float32 1 2 4 4", "float32 1 3 3 2")],
    "affine_grid": [of("float32 2 2 3", image=(4, 5))],
    "roi_align": [of("float32 1 2 6 6", "float32 3 4", "int64 3", pooled=(2, 2), sampling=2)],
    # Attention and recurrences
    "split_heads": [of("float32 2 3 8", heads=2)],
    "merge_heads": [of("float32 2 2 3 4")],
    "query_key": [of("float32 2 2 3 4", "float32 2 2 5 4")],
    "weighted_values": [of("float32 2 2 3 5", "float32 2 2 5 4")],
    "softmax_means": [of("float32 2 2 3 5", "float32 2 2 5 4")],
    "attention": [of("float32 2 2 3 4", "float32 2 2 5 4", "float32 2 2 5 4", is_causal=True)],
    "attention_scores": [of("float32 2 2 3 4", "float32 2 2 5 4")],
    "rotary_embedding": [of("float32 2 2 3 4", "float32 2 3 2", "float32 2 3 2")],
    "linear_attention": [
        of(*["float32 2 3 2 4"] * 3, None, None, None, rule="linear"),
    ],
    "rnn": [of("float32 3 2 4", "float32 1 3 4", "float32 1 3 3")],
    "gru": [of("float32 3 2 4", "float32 1 9 4", "float32 1 9 3")],
    "lstm": [of(*_LSTM)],
    # Quantization
    "quantize_linear": [of("float32 2 3", "float32", "uint8")],
    "dequantize_linear": [of("int8 2 3", "float32 3", "int8 3")],
    "dynamic_quantize_linear": [of("float32 2 3")],
    "requantize": [of("int32 2 3", "float32", "float32", "float32", "uint8")],
    "matmul_nbits": [of("float32 2 32", "uint8 3 1 16", "float32 3 1", depth=32, columns=3)],
    # Random numbers
    "random_uniform": [of(shape=(2, 3))],
    "random_normal": [of(shape=(2, 3))],
    "bernoulli": [of("float32 2 3")],
    "multinomial": [of("float32 2 3", samples=4)],
    "dropout": [of("float32 2 3")],
    # Selection, order
    "nonzero_count": [of("float32 2 3")],
    "nonzero": [of("float32 2 3", count=0)],
    "compress_count": [of("bool 3")],
    "compress": [of("float32 3 2", "bool 3", count=0, axis=0)],
    "sort": [of("float32 2 5")],
    "top_k": [of("float32 2 5", k=2)],
    "unique_count": [of("int32 6")],
    "unique": [of("int32 6", count=1)],
    "non_max_suppression": [of("float32 1 6 4", "float32 1 2 6", "float32", "float32", most=3)],
    # Signals
    "dft": [of("float32 1 8 1")],
    "stft": [of("float32 1 16 1", None, step=4, length=8)],
    "window": [of(kind="hann", size=8)],
    "mel_weight_matrix": [of(bins=4, length=16, rate=8000, lower=0.0, upper=4000.0)],
    # Classical models, optimisers
    "tree_ensemble": [
        of(
            *("float32 2 3", "int64 3 7", "float32 3", "int64 1", "int64 2", "float32 2"),
            targets=1,
        )
    ],
    "svm_kernel": [of("float32 2 3", "float32 4 3", kind="rbf", gamma=0.5)],
    "score_transform": [of("float32 2 3", kind="softmax_zero")],
    "pairwise_probabilities": [of("float32 2 3 3")],
    "normalizer": [of("float32 2 3", norm="l2")],
    "lookup": [of("int64 2 3", "int64 4", "float32 4", "float32 1")],
    "adagrad": [of("float32", "int64", *["float32 2 3"] * 3)],
    "adam": [of("float32", "int64", *["float32 2 3"] * 4)],
    "momentum": [of("float32", "int64", *["float32 2 3"] * 3, alpha=0.9, beta=0.1)],
}
