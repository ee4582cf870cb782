"""Teach predictors that are fitted."""

from softwalltime.core.jobs import CompletedJob
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import make


def taught(spec: str, jobs: list[CompletedJob]) -> Predictor:
    """Return a predictor that has learnt these jobs, fitted before each one: as drivers do, but more often."""
    model = make(spec)
    for each in jobs:
        model.fit(each.end)
        model.learn(each)
    return model
