"""Says what a search over settings costs before it starts: each fit of each candidate on each fold is a charge.

The charges of all fits add up. A row of a k-fold search is in the training rows of k - 1 folds, so it loses less than
the sum that the ledger of the estimator shows; both are said. What a search reads beside its fits has no noise: the
scores of candidates are exact figures of private rows, and so is the choice among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.api.estimator_base import HAS_SKLEARN
from dpsql.api.estimators import DPForestClassifier, DPForestRegressor
from dpsql.errors import BudgetExceeded, ParameterError, UsageError
from dpsql.ledger.amount import Amount, format_epsilon, parse_epsilon
from dpsql.notebook_html import html_table, html_text

#: What is said of every search on private rows, in words.
EXACT = (
    "The scores of the candidates are exact figures of the rows that they are measured on, and the choice follows "
    "them: no epsilon covers that. Search on public rows, or show nobody the scores and the choice."
)


@dataclass(frozen=True)
class SearchCost:
    """What a search costs, in nano-epsilon: `charged` by all fits, and at most `lost` by one row.

    `candidates` are the settings that are tried, on `folds` folds each; with `refit` the best one is fitted once more,
    and costs as much as the most expensive. `left` is what the estimator's cap leaves, None without a cap.
    """

    candidates: int
    folds: int
    refit: bool
    charged: int
    lost: int
    left: int | None = None

    @property
    def fits(self) -> int:
        """The number of fits."""
        return self.candidates * self.folds + int(self.refit)

    @property
    def does_fit(self) -> bool:
        """Whether the estimator's cap leaves enough for all fits."""
        return self.left is None or self.charged <= self.left

    @property
    def charged_text(self) -> str:
        """What all fits charge, as decimal text."""
        return format_epsilon(self.charged)

    @property
    def lost_text(self) -> str:
        """The most that one row loses, as decimal text."""
        return format_epsilon(self.lost)

    def __str__(self) -> str:
        return "\n".join([f"{name}: {value}" for name, value in self._facts()] + [EXACT])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(("search", "cost"), self._facts()) + html_text(EXACT)

    def _facts(self) -> list[tuple[str, str]]:
        once_more = " and once more with the best" if self.refit else ""
        facts = [
            ("fits", f"{self.fits} ({self.candidates} candidates on {self.folds} folds{once_more})"),
            ("charged", f"epsilon {self.charged_text} by all fits together"),
            ("lost", f"epsilon {self.lost_text} at most by one row: it is not in every fold"),
        ]
        if self.left is not None:
            verdict = "enough" if self.does_fit else "NOT enough: fits beyond it are refused"
            facts.append(("cap", f"leaves epsilon {format_epsilon(self.left)}: {verdict}"))
        return facts


def search_cost(search: Any, X: Any = None, y: Any = None, *, groups: Any = None, cv: Any = None) -> SearchCost:  # noqa: N803
    """Return what `search.fit(X, y)` would cost. Fits nothing, charges nothing, reads no row.

    `search` is a GridSearchCV or RandomizedSearchCV over a DPForestClassifier or DPForestRegressor, alone or as a step
    of a Pipeline; or such an estimator by itself, for `cross_val_score(search, X, y, cv=cv)`. X, y and groups are
    needed only where the folds depend on them, as with LeaveOneOut.
    """
    if not HAS_SKLEARN:
        raise UsageError("searches are scikit-learn's, which is not installed.", hint="pip install scikit-learn")
    from sklearn.model_selection import check_cv

    is_search = hasattr(search, "estimator") and hasattr(search, "cv")
    estimator = search.estimator if is_search else search
    path, forest = _forest_in(estimator)
    splitter = check_cv(search.cv if is_search else cv, y, classifier=isinstance(forest, DPForestClassifier))
    folds = int(splitter.get_n_splits(X, y, groups))
    epsilons = _epsilons(search, path, forest) if is_search else [parse_epsilon(forest.epsilon)]
    refit = is_search and search.refit is not False
    once_more = max(epsilons) if refit else 0
    left = None if forest.cap is None else forest.budget_.left
    return SearchCost(
        candidates=len(epsilons),
        folds=folds,
        refit=refit,
        charged=sum(epsilons) * folds + once_more,
        lost=sum(epsilons) * _folds_of_a_row(splitter, folds) + once_more,
        left=left,
    )


def fit_search(search: Any, X: Any, y: Any = None, *, say: Callable[[str], object] = print, **given: Any) -> Any:  # noqa: N803
    """Say what a search costs, fit it, and return it; refuse it where the cap leaves too little for all fits.

    `given` goes to `search.fit`. Nothing is fitted and nothing is charged before the cost was said.
    """
    cost = search_cost(search, X, y, groups=given.get("groups"))
    if not hasattr(search, "estimator"):
        raise UsageError("this is an estimator, not a search.", hint="its own fit(X, y)")
    if not cost.does_fit:
        raise BudgetExceeded(
            "the estimator's cap",
            needed=cost.charged_text,
            left=format_epsilon(cost.left or 0),
            cap=str(_forest_in(search.estimator)[1].cap),
            hint="fewer candidates or folds, a smaller epsilon, or a larger cap=",
        )
    say(str(cost))
    return search.fit(X, y, **given)


def _forest_in(estimator: Any) -> tuple[str, DPForestClassifier | DPForestRegressor]:
    """Return the private forest in an estimator, and the prefix of its settings there."""
    if isinstance(estimator, DPForestClassifier | DPForestRegressor):
        return "", estimator
    parts = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    forests = [
        (f"{name}__", part) for name, part in parts.items() if isinstance(part, DPForestClassifier | DPForestRegressor)
    ]
    if len(forests) != 1:
        raise UsageError(
            f"a search needs one DPForestClassifier or DPForestRegressor; {type(estimator).__name__} has "
            f"{len(forests)}.",
            hint="search_cost(GridSearchCV(DPForestClassifier(epsilon=0.1), {…}))",
        )
    return forests[0]


def _epsilons(search: Any, path: str, forest: Any) -> list[int]:
    """Return what one fit of each candidate costs, in nano-epsilon; where candidates are drawn, the most it can."""
    from sklearn.model_selection import ParameterGrid

    name = f"{path}epsilon"
    if hasattr(search, "param_grid") and not hasattr(search, "factor"):
        return [parse_epsilon(candidate.get(name, forest.epsilon)) for candidate in ParameterGrid(search.param_grid)]
    if hasattr(search, "param_distributions") and hasattr(search, "n_iter"):
        return [_most_epsilon(search.param_distributions, name, forest.epsilon)] * int(search.n_iter)
    raise ParameterError(
        "search",
        allowed="a GridSearchCV, a RandomizedSearchCV or an estimator",
        given=type(search).__name__,
        hint="how often others fit is not known before they start",
    )


def _most_epsilon(distributions: Mapping[str, Any] | Iterable[Mapping[str, Any]], name: str, own: Amount) -> int:
    """Return the largest epsilon that a candidate can be drawn with."""
    most = 0
    for group in [distributions] if isinstance(distributions, Mapping) else distributions:
        values = group.get(name, [own])
        if not isinstance(values, list | tuple):
            raise ParameterError(name, allowed="a list of values, so that its largest is known", given="a distribution")
        most = max([most, *(parse_epsilon(value) for value in values)])
    return most


def _folds_of_a_row(splitter: Any, folds: int) -> int:
    """Return in how many folds one row can be trained on: all but the one that tests it, where tests are disjoint."""
    from sklearn import model_selection

    disjoint = (
        model_selection.KFold,
        model_selection.StratifiedKFold,
        model_selection.GroupKFold,
        model_selection.StratifiedGroupKFold,
        model_selection.LeaveOneOut,
        model_selection.LeaveOneGroupOut,
    )
    return folds - 1 if isinstance(splitter, disjoint) else folds
