"""The papers by the name of their command."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softwalltime.experiments import chlumsky2022, fan2017, li2004, rubio2021, tang2013
from softwalltime.experiments.study import Study
from softwalltime.experiments.tables import PaperResults


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper: its citation, and the function that repeats its experiment.

    The function is given a study and further predictors to compare, as specifications; ``compares``: whether the paper
    compares predictors at all.
    """

    citation: str
    repeat: Callable[[Study, Sequence[str]], PaperResults]
    compares: bool = True


PAPERS = {
    module.__name__.rpartition(".")[2]: Paper(module.CITATION, module.repeat, module is not tang2013)
    for module in (tang2013, chlumsky2022, fan2017, rubio2021, li2004)
}
"""The papers by the name of their command."""


def repeat(name: str, study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat a paper's experiment on a trace.

    :param name: one of :data:`PAPERS`.
    :param more: further predictors, which the papers that compare predictors run as well.
    """
    return PAPERS[name].repeat(study, more)
