"""All experiments by name, paper after paper. A new paper is one more name in `PAPERS`."""

from __future__ import annotations

from dpsql import UnknownName
from examples.papers import fletcher_islam_2015, fletcher_islam_2017, huang_2022, jagannathan_2012
from examples.papers.experiment import Experiment

PAPERS = (jagannathan_2012, fletcher_islam_2015, fletcher_islam_2017, huang_2022)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for paper in PAPERS for experiment in paper.EXPERIMENTS
}


def find_experiments(names: list[str]) -> list[Experiment]:
    """Return the experiments of these names; `all` names every one, a paper's file name all of its own."""
    papers = {
        paper.__name__.rpartition(".")[2]: [experiment.name for experiment in paper.EXPERIMENTS] for paper in PAPERS
    }
    names_of = {"all": list(EXPERIMENTS), **papers, **{name: [name] for name in EXPERIMENTS}}
    for name in names:
        if name not in names_of:
            raise UnknownName("experiment called", name, names_of)
    found_names = dict.fromkeys(experiment for name in names for experiment in names_of[name])
    return [EXPERIMENTS[name] for name in found_names]
