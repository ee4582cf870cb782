"""Random forests in TRIP's frame; needs scikit-learn to fit, and nothing to predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from softwalltime.predict.predictors.regression.class_regression import ClassRegression, ClassRegressionOptions, Floats

# Importing it takes a second and much memory, which only a command that fits should spend.
if find_spec("sklearn") is None:
    raise ImportError("scikit-learn is missing: pip install 'pbs-softwalltime[learned]'", name="sklearn")


class RandomForestOptions(ClassRegressionOptions):
    every: int = Field(default=7, ge=1, le=365, description="days between two fits")
    trees: int = Field(default=20, ge=1, le=1000, description="number of trees")
    leaf: int = Field(default=2, ge=1, le=1000, description="least number of jobs in a leaf")
    seed: int = Field(default=1, ge=0, le=2**32 - 1, description="of the random draws")


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees as one array of nodes.  A leaf is its own child, with its prediction in seconds as ``value``."""

    roots: NDArray[np.int32]
    feature: NDArray[np.int8]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    depth: int

    def predict(self, row: Sequence[float]) -> float:
        return float(self.of_trees(row).mean())

    def of_trees(self, row: Sequence[float]) -> NDArray[np.float64]:
        """Return each tree's prediction for a job with these features."""
        # The trees were fitted with 32-bit numbers.
        x = np.array(row, np.float32)
        node = self.roots
        for _ in range(self.depth):
            node = np.where(x[self.feature[node]] <= self.threshold[node], self.left[node], self.right[node])
        return self.value[node]


class RandomForest(ClassRegression):
    """A random forest for each class of jobs, in place of TRIP's Tobit model."""

    name: ClassVar[str] = "random-forest"
    summary: ClassVar[str] = "random forest over the jobs with the same user, project and name"
    source: ClassVar[str] = "Fan, Rich, Allcock, Papka & Lan 2017, section V; Breiman 2001"
    options: RandomForestOptions

    def _train(self, x: Floats, y: Floats) -> Forest:
        from sklearn.ensemble import RandomForestRegressor  # type: ignore[import-untyped]  # it has no types

        options = self.options
        fit = RandomForestRegressor(
            n_estimators=options.trees, min_samples_leaf=options.leaf, random_state=options.seed
        )
        return forest_of([estimator.tree_ for estimator in fit.fit(x.astype(np.float32), y).estimators_])


def forest_of(trees: list[Any]) -> Forest:
    counts = [tree.node_count for tree in trees]
    roots = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int32)
    own = [first + np.arange(count, dtype=np.int32) for first, count in zip(roots, counts, strict=True)]

    def children(name: str) -> NDArray[np.int32]:
        places = [getattr(tree, name) for tree in trees]
        return np.concatenate(
            [
                np.where(place < 0, mine, place + first)
                for place, mine, first in zip(places, own, roots, strict=True)
            ]
        ).astype(np.int32)  # fmt: skip

    return Forest(
        roots,
        np.concatenate([np.maximum(tree.feature, 0) for tree in trees]).astype(np.int8),
        np.concatenate([tree.threshold for tree in trees]),
        children("children_left"), children("children_right"),
        np.concatenate([tree.value[:, 0, 0] for tree in trees]),
        max(tree.max_depth for tree in trees),
    )  # fmt: skip
