"""Ensembles of decision trees, as tables that one operator walks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tensorsmith.frontend.onnx.node import Node
from tensorsmith.frontend.onnx.scores import (
    TRANSFORMS,
    as_floats,
    labelled,
    labels_of,
    transformed,
)
from tensorsmith.frontend.onnx.types import Array
from tensorsmith.frontend.onnx.values import Read
from tensorsmith.ir import Buffer
from tensorsmith.ops.trees import AGGREGATES, COMPARISONS

MEMBER: Final = 6
"""ONNX's number of the comparison with any of several values."""

_AGGREGATES: Final = ("average", "sum", "min", "max")
"""By ONNX's number."""


@dataclass(slots=True)
class Tables:
    """Nodes of all trees, then their leaves: what `tree_ensemble` takes."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def inner(self, feature: int, comparison: int, ends: tuple[int, int], *, nan: bool) -> None:
        """Add a node that compares; its threshold is added apart."""
        self.rows.append((feature, comparison, *ends, int(nan), -1, 0))

    def leaf(self, weights: Sequence[tuple[int, float]]) -> int:
        """Add a leaf with (target, weight) pairs; gives its number."""
        self.rows.append((0, 0, 0, 0, 0, len(self.targets), len(weights)))
        self.thresholds.append(0.0)
        for target, weight in weights:
            self.targets.append(target)
            self.weights.append(weight)
        return len(self.rows) - 1

    def apply(
        self, node: Node, x: Buffer, roots: Sequence[int], targets: int, aggregate: str
    ) -> Buffer:
        """What the trees give for the rows of `x`. Numbers that are out of range are refused."""
        self._check(node, roots, targets)
        assert aggregate in AGGREGATES
        type_ = x.dtype.numpy
        constant = node.builder.constant
        return node(
            "tree_ensemble",
            x,
            constant(np.array(self.rows, np.int64).reshape(-1, 7), "nodes"),
            constant(np.array(self.thresholds).astype(type_), "thresholds"),
            constant(np.array(roots, np.int64), "roots"),
            constant(np.array(self.targets, np.int64), "targets"),
            constant(np.array(self.weights).astype(type_), "weights"),
            targets=targets,
            aggregate=aggregate,
        )

    def _check(self, node: Node, roots: Sequence[int], targets: int) -> None:
        """Refuse nodes that are not there, and trees that go in circles."""
        count = len(self.rows)
        if any(not 0 <= t < targets for t in self.targets) or targets < 1:
            node.wrong(f"a leaf has a target outside of the {targets} there are")
        if any(not 0 <= r < count for r in roots):
            node.wrong("a tree begins at a node that is not there")
        for at, row in enumerate(self.rows):
            if row[5] < 0 and (row[0] < 0 or any(not 0 <= end < count for end in row[2:4])):
                node.wrong("a node of a tree names one that is not there", given=f"node {at}")
        if self._has_circle(roots):
            node.wrong("the nodes of a tree go in a circle")

    def _has_circle(self, roots: Sequence[int]) -> bool:
        """Whether a walk from some root may never end."""
        done: set[int] = set()
        for root in roots:
            path: set[int] = set()
            pending = [(root, False)]
            while pending:
                at, is_left = pending.pop()
                if is_left:
                    path.discard(at)
                    done.add(at)
                elif at in path:
                    return True
                elif at not in done and self.rows[at][5] < 0:
                    path.add(at)
                    pending.append((at, True))
                    pending.extend((end, False) for end in self.rows[at][2:4])
        return False


def tree_ensemble(node: Node) -> Buffer:
    """The trees of ai.onnx.ml's version 5."""
    node.ignore("nodes_hitrates")
    x = node.tensor()
    tables = Tables()
    columns = _columns(node)
    members = _members(node, columns["mode"])
    weights, targets = node.array("leaf_weights"), node.integers("leaf_targetids")
    count = len(columns["feature"])
    if weights is None or weights.size != len(targets):
        node.wrong("leaves have one target and one weight each")
    first_leaf = count + sum(len(m) - 1 for m in members if m)
    links: list[tuple[int, int]] = []
    for number in range(count):
        ends = tuple(
            first_leaf + columns[f"{side}node"][number]
            if columns[f"{side}leaf"][number]
            else columns[f"{side}node"][number]
            for side in ("true", "false")
        )
        links.append((ends[0], ends[1]))
    _fill(tables, columns, members, links)
    for target, weight in zip(targets, weights.reshape(-1).tolist(), strict=True):
        tables.leaf([(target, weight)])
    aggregate = _AGGREGATES[_numbered(node, "aggregate_function", 1, len(_AGGREGATES))]
    transform = TRANSFORMS[_numbered(node, "post_transform", 0, len(TRANSFORMS))]
    made = tables.apply(node, x, node.integers("tree_roots"), node.integer("n_targets"), aggregate)
    return transformed(node, made, transform)


def _numbered(node: Node, name: str, default: int, count: int) -> int:
    number = node.integer(name, default)
    if not 0 <= number < count:
        node.wrong(f"{name} is {number}")
    return number


def _columns(node: Node) -> Mapping[str, Sequence[int]]:
    """What the attributes say of each node, of one length."""
    modes, splits = node.array("nodes_modes"), node.array("nodes_splits")
    if modes is None or splits is None:
        node.wrong("the modes or the splits of nodes are missing")
    count = modes.size
    columns: dict[str, Sequence[int]] = {
        "feature": node.integers("nodes_featureids"),
        "mode": modes.reshape(-1).tolist(),
        "split": splits.reshape(-1).tolist(),
        "truenode": node.integers("nodes_truenodeids"),
        "falsenode": node.integers("nodes_falsenodeids"),
        "trueleaf": node.integers("nodes_trueleafs"),
        "falseleaf": node.integers("nodes_falseleafs"),
        "nan": node.integers("nodes_missing_value_tracks_true", None) or (0,) * count,
    }
    if any(len(c) != count for c in columns.values()):
        node.wrong("the attributes of nodes are not of one length")
    if any(not 0 <= m <= MEMBER for m in columns["mode"]):
        node.wrong("a node has an unknown mode")
    return columns


def _members(node: Node, modes: Sequence[int]) -> list[list[float]]:
    """The values that each node compares with, where they are several."""
    given = node.array("membership_values")
    values: Array = np.zeros(0) if given is None else given.reshape(-1)
    sets: list[list[float]] = [[]]
    for value in values.tolist():
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    wanted = [n for n, m in enumerate(modes) if m == MEMBER]
    found = iter(sets)
    members: list[list[float]] = [[] for _ in modes]
    for number in wanted:
        members[number] = next(found, [])
        if not members[number]:
            node.wrong("a node compares with no value at all")
    return members


def _fill(
    tables: Tables,
    columns: Mapping[str, Sequence[int]],
    members: Sequence[Sequence[float]],
    links: Sequence[tuple[int, int]],
) -> None:
    """Add the nodes; one that compares with several values is a chain of them."""
    count = len(links)
    extra: list[tuple[int, float, tuple[int, int], bool]] = []
    for number, (true, false) in enumerate(links):
        values = members[number]
        feature, nan = columns["feature"][number], bool(columns["nan"][number])
        if columns["mode"][number] != MEMBER:
            tables.inner(feature, columns["mode"][number], (true, false), nan=nan)
            tables.thresholds.append(columns["split"][number])
            continue
        equals = COMPARISONS.index("==")
        rest = values[1:]
        following = count + len(extra)
        tables.inner(feature, equals, (true, following if rest else false), nan=nan)
        tables.thresholds.append(values[0])
        for at, value in enumerate(rest):
            last = at == len(rest) - 1
            after = false if last else following + at + 1
            extra.append((feature, value, (true, after), nan))
    for feature, value, ends, nan in extra:
        tables.inner(feature, COMPARISONS.index("=="), ends, nan=nan)
        tables.thresholds.append(value)


# --- Of versions 1 and 3 ---------------------------------------------------------------------

_MODES: Final = {
    "BRANCH_LEQ": "<=",
    "BRANCH_LT": "<",
    "BRANCH_GTE": ">=",
    "BRANCH_GT": ">",
    "BRANCH_EQ": "==",
    "BRANCH_NEQ": "!=",
}


def tree_ensemble_regressor(node: Node) -> Buffer:
    """What trees say of each target."""
    x = as_floats(node, node.tensor())
    targets = node.integer("n_targets", 1)
    aggregate = node.text("aggregate_function", "SUM", ("AVERAGE", "SUM", "MIN", "MAX"))
    made = _walked(node, x, "target", targets, aggregate.lower())
    return transformed(node, made, node.text("post_transform", "NONE", TRANSFORMS))


def tree_ensemble_classifier(node: Node) -> tuple[Read, ...]:
    """The class that trees give the most weight, and the weights of all."""
    x = as_floats(node, node.tensor())
    labels, named = labels_of(node)
    transform = node.text("post_transform", "NONE", TRANSFORMS)
    used = set(node.integers("class_ids"))
    if len(labels) != 2 or len(used) != 1:
        scores = _walked(node, x, "class", len(labels), "sum")
        position = node("argmax", scores, axis=1, keep_dims=False)
        return labelled(node, position, labels, named=named), transformed(node, scores, transform)
    (only,) = used
    both = _walked(node, x, "class", max(2, only + 1), "sum")
    score = node("slice", both, starts=(only,), extents=(1,), axes=(1,))
    weights = _weights(node, "class")
    positive = bool((weights >= 0).all())
    border = 0.5 if positive else 0.0
    chosen = node("greater", score, node.builder.scalar(border, "float32"))
    position = node("reshape", node("cast", chosen, dtype="int64"), shape=score.shape[:1])
    one = node.builder.scalar(1.0, "float32")
    if transform == "NONE":
        other = node("sub", one, score) if positive else node("neg", score)
        pair = node("concat", other, score, axis=1)
    elif transform == "LOGISTIC" and not positive:
        likely = transformed(node, score, transform)
        pair = node("concat", node("sub", one, likely), likely, axis=1)
    else:
        other = node("sub", one, score) if positive else node("neg", score)
        pair = transformed(node, node("concat", other, score, axis=1), transform)
    return labelled(node, position, labels, named=named), pair


def _weights(node: Node, what: str) -> Array:
    given = node.array(f"{what}_weights_as_tensor")
    if given is not None:
        return given.reshape(-1)
    return np.array(node.numbers(f"{what}_weights"), np.float32)


def _walked(node: Node, x: Buffer, what: str, targets: int, aggregate: str) -> Buffer:
    """The sums of the leaves' weights. what: 'target' or 'class', as attributes are called."""
    node.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    trees, ids = node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    number_of = {key: n for n, key in enumerate(zip(trees, ids, strict=True))}
    leaves: dict[tuple[int, int], list[tuple[int, float]]] = {}
    weights = _weights(node, what).tolist()
    columns = [node.integers(f"{what}_{c}") for c in ("treeids", "nodeids", "ids")]
    for tree, at, target, weight in zip(*columns, weights, strict=True):
        leaves.setdefault((tree, at), []).append((target, weight))
    tables = Tables()
    _old_rows(node, tables, number_of, leaves)
    firsts: dict[int, int] = {}
    for (tree, _), number in number_of.items():
        firsts.setdefault(tree, number)
    roots = tuple(firsts.values())
    made = tables.apply(node, x, roots, targets, aggregate)
    given = node.array("base_values_as_tensor")
    base = node.numbers("base_values", ()) if given is None else given.reshape(-1).tolist()
    if not len(base):
        return made
    return node("add", made, node.builder.constant(np.array(base, np.float32), "base_values"))


def _old_rows(
    node: Node,
    tables: Tables,
    number_of: Mapping[tuple[int, int], int],
    leaves: Mapping[tuple[int, int], Sequence[tuple[int, float]]],
) -> None:
    """Add the nodes of all trees, which are in the order of their attributes."""
    modes = node.texts("nodes_modes")
    features = node.integers("nodes_featureids")
    ends = node.integers("nodes_truenodeids"), node.integers("nodes_falsenodeids")
    given = node.array("nodes_values_as_tensor")
    values = node.numbers("nodes_values", ()) if given is None else given.reshape(-1).tolist()
    nan = node.integers("nodes_missing_value_tracks_true", None) or (0,) * len(modes)
    lengths = {len(c) for c in (number_of, modes, features, *ends, values, nan)}
    if len(lengths) > 1:
        node.wrong("the attributes of nodes are not of one length, or name a node twice")
    for key, number in number_of.items():
        if modes[number] == "LEAF":
            tables.leaf(leaves.get(key, ()))
            continue
        if modes[number] not in _MODES:
            node.wrong(f"a node has the unknown mode {modes[number]!r}")
        true, false = (number_of.get((key[0], side[number]), -1) for side in ends)
        comparison = COMPARISONS.index(_MODES[modes[number]])
        tables.inner(features[number], comparison, (true, false), nan=bool(nan[number]))
        tables.thresholds.append(values[number])
