"""All experiments by name, paper after paper. A new paper is one more name in `PAPERS`."""

from __future__ import annotations

from dpsql import UnknownName
from examples.papers import fletcher_islam_2015, fletcher_islam_2017, huang_2022, jagannathan_2012
from examples.papers.experiment import Experiment

PAPERS = (jagannathan_2012, fletcher_islam_2015, fletcher_islam_2017, huang_2022)
EXPERIMENTS: dict[str, Experiment] = {one.name: one for paper in PAPERS for one in paper.EXPERIMENTS}


def named(names: list[str]) -> list[Experiment]:
    """Return the experiments of these names; `all` names every one, a paper's file name all of its own."""
    papers = {paper.__name__.rpartition(".")[2]: [one.name for one in paper.EXPERIMENTS] for paper in PAPERS}
    known = {"all": list(EXPERIMENTS), **papers, **{name: [name] for name in EXPERIMENTS}}
    for name in names:
        if name not in known:
            raise UnknownName("experiment called", name, known)
    return [EXPERIMENTS[one] for one in dict.fromkeys(one for name in names for one in known[name])]
