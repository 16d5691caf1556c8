"""``tensorsmith compare``: every value inside a model against an oracle's, and who is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from tensorsmith.cli.display import out, print_json, table, working
from tensorsmith.cli.models import Fills, Inputs, Json, ModelPath, Seed, Sizes, feeds, is_compiled
from tensorsmith.errors import TensorsmithError

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
TOLERANCE: Final = 1e-4
"""Of a value's largest element: a few hundred roundings in float32."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a value of ours is from the oracle's.

    relative: the largest gap, as a share of the oracle's largest element. ours_is_nearer: to the
    value that the whole model has in float64; None where that is not known.
    """

    value: str
    node: str
    operator: str
    relative: float
    problem: str = ""
    ours_is_nearer: bool | None = None


def compare(
    model: ModelPath,
    files: Inputs = [],  # noqa: B006 - typer reads it, nobody writes it
    extents: Sizes = [],  # noqa: B006
    fills: Fills = [],  # noqa: B006
    *,
    oracle: Annotated[
        str, typer.Option(help="onnxruntime, or reference (ONNX's own, slow).")
    ] = "onnxruntime",
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Share of a value's largest element.")
    ] = TOLERANCE,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a model node by node against an oracle, and name the first node that diverges.

    Where they differ, the model is computed once more in float64 to say who is nearer. Fails if a
    value of ours differs by more than the tolerance and is not the nearer one.
    """
    if oracle not in ORACLES:
        raise TensorsmithError(
            f"there is no oracle {oracle!r}", try_=f"--oracle {' or '.join(ORACLES)}"
        )
    if is_compiled(model):
        raise TensorsmithError(f"{model} is compiled: its nodes are gone", try_="the ONNX file")
    with working(f"comparing {model.name}", quiet=as_json):
        proto = _with_all_values(model)
        ours, given = _ours(proto, files, extents, fills, seed)
        theirs = ORACLES[oracle](proto, given)
        found = differences(proto, ours, {**given, **theirs}, tolerance)
    beyond = [d for d in found if d.problem or d.relative > tolerance]
    far = [d for d in beyond if not d.ours_is_nearer]
    if as_json:
        print_json({"values": len(found), "differences": [_row(d) for d in beyond]})
    else:
        _print(found, beyond, oracle)
    if far:
        raise TensorsmithError(
            f"{far[0].node} is the first node that diverges",
            given=f"its result {far[0].value!r} {_text(far[0])}",
        )


def _with_all_values(path: Path) -> Any:
    """The model with every value of its top-level graph as an output."""
    import onnx

    from tensorsmith.frontend.onnx.limits import Limits
    from tensorsmith.frontend.onnx.load import load

    load(path, Limits())  # the checks
    model = onnx.load(path)
    known = {o.name for o in model.graph.output}
    made = [name for n in model.graph.node for name in n.output if name and name not in known]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in made)
    return model


def _ours(
    proto: Any, files: list[str], extents: list[str], fills: list[str], seed: int
) -> tuple[Values, Values]:
    """Our values by name, and the inputs they come from."""
    from tensorsmith.compiler import compile

    made = compile(proto)
    given = feeds(made, files, extents, fills, seed)
    return {name: np.asarray(value) for name, value in made.run(**given).items()}, given


def _onnxruntime(proto: Any, given: Values) -> Values:
    try:
        import onnxruntime
    except ImportError as error:
        raise TensorsmithError(
            "onnxruntime is not installed", try_="pip install onnxruntime, or --oracle reference"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def _reference(proto: Any, given: Values) -> Values:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(proto)
    return dict(zip(evaluator.output_names, evaluator.run(None, given), strict=True))


ORACLES: Final[Mapping[str, Callable[[Any, Values], Values]]] = {
    "onnxruntime": _onnxruntime,
    "reference": _reference,
}


def differences(proto: Any, ours: Values, theirs: Values, tolerance: float) -> list[Difference]:
    """The difference of each value, in the order in which the nodes compute them.

    theirs: the oracle's values, and the inputs.
    """
    exact = InFloat64(proto, theirs)
    found = []
    for number, node in enumerate(proto.graph.node):
        label = f"{node.op_type} {node.name!r} (node {number})"
        for value in node.output:
            if value not in ours or not isinstance(theirs.get(value), np.ndarray):
                continue
            difference = _difference(value, label, node.op_type, ours[value], theirs[value])
            if difference.relative > tolerance and not difference.problem:
                right = exact.value(value, number)
                nearer = None if right is None else _is_nearer(ours[value], theirs[value], right)
                difference = replace(difference, ours_is_nearer=nearer)
            found.append(difference)
    return found


def _is_nearer(ours: Array, theirs: Array, right: Array) -> bool:
    gaps = [
        float(np.nanmax(np.abs(x.astype(np.float64) - right), initial=0.0)) for x in (ours, theirs)
    ]
    return gaps[0] <= gaps[1]


class InFloat64:
    """The values of a model computed in float64 by ONNX's reference, as far as they are asked for.

    given: the inputs; other values in it are not used.
    """

    def __init__(self, proto: Any, given: Values) -> None:
        from onnx import numpy_helper

        inputs = {i.name for i in proto.graph.input}
        initial = {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}
        known = {**initial, **{n: x for n, x in given.items() if n in inputs}}
        self.proto = proto
        self.values = {name: _widened(x) for name, x in known.items()}
        self.done = 0

    def value(self, name: str, number: int) -> Array | None:
        """The value that node `number` gives; None if it or what it needs cannot be computed."""
        while self.done <= number:
            self._compute(self.proto.graph.node[self.done])
            self.done += 1
        found = self.values.get(name)
        return None if found is None else np.asarray(found, np.float64)

    def _compute(self, node: Any) -> None:
        from onnx import TensorProto, helper
        from onnx.reference import ReferenceEvaluator

        names = [name for name in node.input if name]
        if any(name not in self.values for name in names):
            return
        wide = type(node)()
        wide.CopyFrom(node)
        for attribute in wide.attribute:
            if node.op_type == "Cast" and attribute.i in (TensorProto.FLOAT, TensorProto.FLOAT16):
                attribute.i = TensorProto.DOUBLE
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in ((n, self.values[n]) for n in dict.fromkeys(names))
        ]
        outputs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
        graph = helper.make_graph([wide], "one", inputs, outputs)
        model = helper.make_model(graph, opset_imports=list(self.proto.opset_import))
        try:
            evaluator = ReferenceEvaluator(model)
            results = evaluator.run(None, {n: self.values[n] for n in names})
        except Exception:  # noqa: BLE001 - an operator that the reference lacks, or not in float64
            return
        self.values.update(
            {
                n: _widened(np.asarray(x))
                for n, x in zip(evaluator.output_names, results, strict=True)
            }
        )


def _difference(value: str, label: str, operator: str, a: Array, b: Array) -> Difference:
    if a.shape != b.shape or a.dtype != b.dtype:
        problem = f"is {a.dtype}{list(a.shape)}, and {b.dtype}{list(b.shape)} by the oracle"
        return Difference(value, label, operator, float("inf"), problem)
    if a.dtype.kind not in "fiub" or not a.size:
        same = bool(np.array_equal(a, b))
        return Difference(value, label, operator, 0.0 if same else float("inf"))
    if np.any(np.isnan(a) != np.isnan(b)) if a.dtype.kind == "f" else False:
        return Difference(value, label, operator, float("inf"), "has NaN in other places")
    wide, other = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(other)
    if np.any(wide[~finite & ~np.isnan(other)] != other[~finite & ~np.isnan(other)]):
        return Difference(value, label, operator, float("inf"), "has infinities in other places")
    scale = max(float(np.max(np.abs(other[finite]), initial=0.0)), 1e-30)
    gap = float(np.max(np.abs(wide - other)[finite], initial=0.0))
    return Difference(value, label, operator, gap / scale)


def _widened(x: Array) -> Array:
    narrow = x.dtype in (np.float32, np.float16)
    return x.astype(np.float64) if narrow else x


def _row(d: Difference) -> dict[str, Any]:
    return {
        "value": d.value,
        "node": d.node,
        "relative": d.relative,
        "problem": d.problem,
        "ours_is_nearer": d.ours_is_nearer,
    }


def _text(d: Difference) -> str:
    if d.problem:
        return d.problem
    judge = {None: "", True: "; ours is nearer to float64", False: "; the oracle is nearer"}
    return f"differs by {d.relative:.1e} of its largest element{judge[d.ours_is_nearer]}"


def _print(found: list[Difference], far: list[Difference], oracle: str) -> None:
    worst = sorted((d for d in found if not d.problem), key=lambda d: -d.relative)[:5]
    rows = [(d.node, d.value, f"{d.relative:.1e}") for d in worst]
    table(("node", "value", "share of largest"), rows, "the values that differ most")
    out().print(f"{len(found)} values compared with {oracle}, {len(far)} beyond the tolerance")
    for d in far[:10]:
        out().print(f"  {d.node}: {d.value!r} {_text(d)}", markup=False)
