"""Decoders of common shapes, with noise for weights.

They are written as exporters write them: tokens and positions, and the keys and values of what came
before, go in; logits, and the keys and values with the new ones appended, come out. All of batch,
length and past are open. Weights lie beside the model file, in `.cache`.

    python bench/language_models.py               # list them
    python bench/language_models.py gpt2-small    # build one, print where it lies
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from models import CACHE

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
OPSET: Final = 21
ALIGN: Final = 4096
"""Bytes that divide the place of each weight in the file beside the model."""
BLOCK: Final = 32
"""Elements a scale of weights of few bits."""
SIZES: Final[Mapping[str, Sizes]] = {
    "prefill": {"batch": 1, "length": 128, "past": 0},
    "decode": {"batch": 1, "length": 1, "past": 128},
}
"""Reading a text of 128 tokens, and adding one token to it."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """The shape of a decoder.

    family: 'gpt2' (layer norms, learned positions, GELU) or 'llama' (RMS norms, rotary positions,
    SwiGLU). kv_heads: of keys and values, each for a group of heads. bits: of the weights of the
    linear layers, by MatMulNBits; 32 for plain floats. is_large: whether it takes gigabytes.
    """

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    bits: int = 32
    is_large: bool = False

    @property
    def head(self) -> int:
        """Elements of a head."""
        return self.hidden // self.heads


def _gpt2(bits: int) -> LanguageModel:
    return LanguageModel("gpt2", 12, 768, 12, 12, 3072, 50_257, bits)


def _llama(bits: int) -> LanguageModel:
    return LanguageModel("llama", 16, 2048, 32, 8, 8192, 32_000, bits, is_large=True)


MODELS: Final[Mapping[str, LanguageModel]] = {
    "gpt2-small": _gpt2(32),
    "gpt2-small-q8": _gpt2(8),
    "gpt2-small-q4": _gpt2(4),
    "llama-1b": _llama(32),
    "llama-1b-q8": _llama(8),
    "llama-1b-q4": _llama(4),
}
"""By name; those that are large are built on demand alone."""


# --- Files ------------------------------------------------------------------------------------


def path(name: str) -> Path:
    """Where the model lies; built when it is not there yet."""
    return built(MODELS[name], CACHE / "language" / name)


def built(shape: LanguageModel, folder: Path, seed: int = 0) -> Path:
    """The file of a model of this shape, in this folder."""
    import onnx

    place = folder / "model.onnx"
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "weights.bin").open("wb") as weights:
            model = _Writer(shape, weights, np.random.default_rng(seed)).model()
        part = folder / "part.onnx"
        onnx.save(model, part)
        part.replace(place)
    return place


def inputs(shape: LanguageModel, sizes: Sizes) -> dict[str, Array]:
    """Arrays by name for these sizes."""
    rng = np.random.default_rng(1)
    batch, length, past = sizes["batch"], sizes["length"], sizes["past"]
    ids = rng.integers(0, shape.vocabulary, (batch, length), dtype=np.int64)
    positions = np.broadcast_to(np.arange(past, past + length, dtype=np.int64), (batch, length))
    found: dict[str, Array] = {"input_ids": ids, "position_ids": np.ascontiguousarray(positions)}
    held = (batch, shape.kv_heads, past, shape.head)
    for layer in range(shape.layers):
        for what in ("key", "value"):
            found[f"past_{what}_{layer}"] = rng.standard_normal(held, dtype=np.float32)
    return found


def case_names(*, large: bool = False) -> list[str]:
    """The cases, 'model@prefill' and 'model@decode'; of the large models, too, on request."""
    return [f"{n}@{w}" for n, m in MODELS.items() if large or not m.is_large for w in SIZES]


def case(name: str) -> tuple[Path, dict[str, Array]]:
    """The model file of a case, and its inputs."""
    model, _, which = name.partition("@")
    return path(model), inputs(MODELS[model], SIZES[which])


# --- Graphs -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """One model on its way: nodes and weights in order."""

    shape: LanguageModel
    weights: BinaryIO
    rng: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    count: int = 0

    # Parts of a graph

    def __call__(self, op: str, *operands: str, domain: str = "", **attrs: Any) -> str:
        """A node with one result."""
        return self.several(op, 1, *operands, domain=domain, **attrs)[0]

    def several(self, op: str, count: int, *operands: str, **attrs: Any) -> list[str]:
        """A node with so many results."""
        from onnx import helper

        self.count += 1
        names = [f"{op.lower()}_{self.count}_{k}" for k in range(count)]
        self.nodes.append(helper.make_node(op, list(operands), names, **attrs))
        return names

    def small(self, value: object, dtype: str = "int64") -> str:
        """A constant that lies in the model file."""
        from onnx import numpy_helper

        self.count += 1
        name = f"c_{self.count}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def held(self, data: Array) -> str:
        """A constant that lies beside the model file."""
        from onnx import TensorProto, helper

        self.weights.write(bytes(-self.weights.tell() % ALIGN))
        self.count += 1
        tensor = TensorProto(
            name=f"w_{self.count}",
            data_type=helper.np_dtype_to_tensor_dtype(data.dtype),
            dims=data.shape,
            data_location=TensorProto.EXTERNAL,
        )
        place = {"location": "weights.bin", "offset": self.weights.tell(), "length": data.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self.weights.write(memoryview(np.ascontiguousarray(data)).cast("B"))
        self.initializers.append(tensor)
        return tensor.name

    def noise(self, *shape: int, around: float = 0.0) -> Array:
        """Weights."""
        data = self.rng.standard_normal(shape, dtype=np.float32)
        data *= 0.02
        return data + np.float32(around) if around else data

    def linear(self, x: str, given: int, made: int, *, bias: bool = False) -> str:
        """``x @ w``, and a bias."""
        bits = self.shape.bits
        if bits == 32:
            y = self("MatMul", x, self.held(self.noise(given, made)))
        else:
            blocks = given // BLOCK
            packed = self.rng.integers(0, 256, (made, blocks, BLOCK * bits // 8), dtype=np.uint8)
            scales = self.rng.uniform(0.5, 1.5, made * blocks).astype(np.float32)
            scales *= np.float32(0.04 / 2 ** (bits - 1))
            attrs = {"K": given, "N": made, "bits": bits, "block_size": BLOCK}
            held = (self.held(packed), self.held(scales))
            y = self("MatMulNBits", x, *held, domain="com.microsoft", **attrs)
        return self("Add", y, self.held(self.noise(made))) if bias else y

    # Layers

    def norm(self, x: str) -> str:
        """By layers, or by root mean squares alone."""
        scale = self.held(self.noise(self.shape.hidden, around=1.0))
        if self.shape.family == "gpt2":
            shift = self.held(self.noise(self.shape.hidden))
            return self("LayerNormalization", x, scale, shift, epsilon=1e-5)
        mean = self("ReduceMean", self("Mul", x, x), self.small([-1]), keepdims=1)
        root = self("Sqrt", self("Add", mean, self.small(1e-5, "float32")))
        return self("Mul", self("Div", x, root), scale)

    def heads(self, x: str, count: int) -> str:
        """(batch, length, count * head) as (batch, count, length, head)."""
        apart = self("Reshape", x, self.small([0, 0, count, self.shape.head]))
        return self("Transpose", apart, perm=[0, 2, 1, 3])

    def turned(self, x: str, cos: str, sin: str) -> str:
        """Rotary positions: halves of each head are turned against each other."""
        first, second = self.several("Split", 2, x, axis=-1, num_outputs=2)
        other = self("Concat", self("Neg", second), first, axis=-1)
        return self("Add", self("Mul", x, cos), self("Mul", other, sin))

    def spread(self, x: str) -> str:
        """Heads of keys or values, one for each head of a group."""
        shape = self.shape
        each = shape.heads // shape.kv_heads
        if each == 1:
            return x
        sizes = self("Shape", x)
        batch, length = (self("Gather", sizes, self.small([d])) for d in (0, 2))
        count, head = self.small([shape.kv_heads]), self.small([shape.head])
        wide = self("Concat", batch, count, self.small([each]), length, head, axis=0)
        flat = self("Concat", batch, self.small([shape.heads]), length, head, axis=0)
        return self("Reshape", self("Expand", self("Unsqueeze", x, self.small([2])), wide), flat)

    def attention(self, x: str, layer: int, mask: str, turns: Sequence[str]) -> str:
        """Attention to what came before and to the new tokens."""
        shape = self.shape
        own = shape.kv_heads * shape.head
        if shape.family == "gpt2":
            joined = self.linear(x, shape.hidden, 3 * shape.hidden, bias=True)
            parts = self.several("Split", 3, joined, axis=-1, num_outputs=3)
        else:
            parts = [self.linear(x, shape.hidden, n) for n in (shape.hidden, own, own)]
        q, k, v = (
            self.heads(p, shape.heads if at == 0 else shape.kv_heads) for at, p in enumerate(parts)
        )
        if turns:
            q, k = (self.turned(t, *turns) for t in (q, k))
        keys, values = (
            self.appended(f"{what}_{layer}", new) for what, new in (("key", k), ("value", v))
        )
        keys = self("Transpose", self.spread(keys), perm=[0, 1, 3, 2])
        scores = self("Mul", self("MatMul", q, keys), self.small(shape.head**-0.5, "float32"))
        weights = self("Softmax", self("Add", scores, mask), axis=-1)
        together = self(
            "Transpose", self("MatMul", weights, self.spread(values)), perm=[0, 2, 1, 3]
        )
        flat = self("Reshape", together, self.small([0, 0, shape.hidden]))
        return self.linear(flat, shape.hidden, shape.hidden, bias=shape.family == "gpt2")

    def appended(self, name: str, new: str) -> str:
        """What is held of a layer with the new part: a result of the model."""
        from onnx import helper

        whole = f"present_{name}"
        self.nodes.append(helper.make_node("Concat", [f"past_{name}", new], [whole], axis=2))
        return whole

    def feed_forward(self, x: str) -> str:
        """The layers of each token by itself."""
        shape = self.shape
        if shape.family == "gpt2":
            inner = self.linear(x, shape.hidden, shape.inner, bias=True)
            made = self("Gelu", inner, approximate="tanh")
            return self.linear(made, shape.inner, shape.hidden, bias=True)
        gate, up = (self.linear(x, shape.hidden, shape.inner) for _ in range(2))
        made = self("Mul", self("Mul", gate, self("Sigmoid", gate)), up)
        return self.linear(made, shape.inner, shape.hidden)

    def mask(self) -> str:
        """0 where a token attends, else minus infinity: (batch, 1, length, past + length)."""
        past = self("Gather", self("Shape", "past_key_0"), self.small(2))
        length = self("Gather", self("Shape", "input_ids"), self.small(1))
        zero, one = self.small(0), self.small(1)
        places = self("Range", zero, self("Add", past, length), one)
        own = self("Unsqueeze", "position_ids", self.small([1, 3]))
        later = self("Greater", places, own)
        floats = (self.small(x, "float32") for x in (-np.inf, 0))
        return self("Where", later, *floats)

    def turns(self) -> list[str]:
        """The cosines and sines of the positions."""
        head = self.shape.head
        rates = 10_000.0 ** (-np.arange(0, head, 2) / head)
        positions = self("Cast", self("Unsqueeze", "position_ids", self.small([1, 3])), to=1)
        half = self("Mul", positions, self.small(rates, "float32"))
        angles = self("Concat", half, half, axis=-1)
        return [self("Cos", angles), self("Sin", angles)]

    def model(self) -> Any:
        """The whole model."""
        from onnx import TensorProto, helper

        shape = self.shape
        embedding = self.held(self.noise(shape.vocabulary, shape.hidden))
        x = self("Gather", embedding, "input_ids")
        turns: list[str] = []
        if shape.family == "gpt2":
            x = self(
                "Add", x, self("Gather", self.held(self.noise(1024, shape.hidden)), "position_ids")
            )
        else:
            turns = self.turns()
        mask = self.mask()
        for layer in range(shape.layers):
            x = self("Add", x, self.attention(self.norm(x), layer, mask, turns))
            x = self("Add", x, self.feed_forward(self.norm(x)))
        last = self.norm(x)
        if shape.family == "gpt2":
            logits = self("MatMul", last, self("Transpose", embedding, perm=[1, 0]))
        else:
            logits = self.linear(last, shape.hidden, shape.vocabulary)
        self.nodes.append(helper.make_node("Identity", [logits], ["logits"]))

        def value(name: str, kind: int, *dims: int | str) -> Any:
            return helper.make_tensor_value_info(name, kind, dims)

        held = [f"{w}_{n}" for n in range(shape.layers) for w in ("key", "value")]
        ints, floats = TensorProto.INT64, TensorProto.FLOAT
        given = [value(n, ints, "batch", "length") for n in ("input_ids", "position_ids")]
        tail = (shape.kv_heads, "past", shape.head), (shape.kv_heads, "total", shape.head)
        given += [value(f"past_{n}", floats, "batch", *tail[0]) for n in held]
        made = [value("logits", floats, "batch", "length", shape.vocabulary)]
        made += [value(f"present_{n}", floats, "batch", *tail[1]) for n in held]
        graph = helper.make_graph(self.nodes, shape.family, given, made, self.initializers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def main() -> None:
    """List the models, or build some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[[], *MODELS])
    for name in parser.parse_args().models or MODELS:
        print(path(name) if parser.parse_args().models else name)


if __name__ == "__main__":
    main()
