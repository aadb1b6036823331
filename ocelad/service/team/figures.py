"""Figures about people: their agreement, and what each of them has answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import NamedTuple

import numpy as np

from ocelad.comparison_graph import ComparisonGraph
from ocelad.evaluation.agreement import (
    Interval,
    alpha_interval,
    cohen_kappa,
    kappa_interval,
    krippendorff_alpha,
    percent_agreement,
    percent_interval,
)
from ocelad.evaluation.answer_accuracy import Question
from ocelad.service.team.answer_index import AnswerIndex, ItemPair, PersonLog, Scope

# Of more people, the couples that share most pairs have a kappa.
MAX_COUPLES = 200
# The first answers about a pair that count in the agreement of all, and the people who are compared two by two: a pair
# with thousands of answers must not take gigabytes.
MAX_PER_PAIR = 100


class Share(NamedTuple):
    """How many of some answers are right, or equal to another one."""

    n: int
    n_equal: int


@dataclass(frozen=True, slots=True)
class CoupleFigures:
    """The agreement of two people: Cohen's kappa over the pairs that both have answered."""

    people: tuple[str, str]
    agreed: Share
    kappa: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class AgreementFigures:
    """The agreement of people about pairs that two or more of them have answered.

    Attributes
    ----------
    n_people, n_pairs, n_answers : int
    percent : float
        The share of equal answers, among all couples of answers about one pair.
    alpha : float
        Krippendorff's alpha. Numbers are NaN if there is nothing to compute them from.
    percent_interval, alpha_interval : Interval
        Bootstrap intervals of 95 %.
    """

    n_people: int
    n_pairs: int
    n_answers: int
    percent: float
    percent_interval: Interval
    alpha: float
    alpha_interval: Interval


@dataclass(frozen=True, slots=True)
class PersonFigures:
    """What a person has answered.

    Attributes
    ----------
    person : str
    n_same, n_different, n_skipped : int
        Answers that the person has not undone.
    with_others : Share
        Answers about pairs that others have answered, too; equal ones, counted for each other person.
    with_settled : Share
        Answers about pairs that a reviewer has settled.
    with_checks : Share
        Answers about pairs whose answer others imply, by the groups of the moment; the latest 1,000.
    median_seconds : float or None
        The median time between two answers without a break of five minutes; None if there are none.
    first_at, last_at : int
        Milliseconds since 1970, UTC.
    """

    person: str
    n_same: int
    n_different: int
    n_skipped: int
    with_others: Share
    with_settled: Share
    with_checks: Share
    median_seconds: float | None
    first_at: int
    last_at: int


class TeamFigures:
    """Computes figures from an index that is up to date and held by the caller."""

    def __init__(self, index: AnswerIndex) -> None:
        self._index = index

    def agreement(self, scope: Scope = "all") -> AgreementFigures:
        """Return the agreement of all people; with the scope "repeated", on pairs that were asked again on purpose.

        Those were drawn at random. Other pairs that several people have answered are often such that were asked again
        because answers contradict each other.
        """
        opinions = [opinions for _, opinions in self._shared(scope)]
        width = min(max(map(len, opinions), default=2), MAX_PER_PAIR)
        ratings = np.full((len(opinions), width), -1)
        for row, each in enumerate(opinions):
            given = list(map(int, each.values()))[:width]
            ratings[row, : len(given)] = sorted(given)
        return AgreementFigures(
            n_people=len({person for each in opinions for person in each}),
            n_pairs=len(opinions),
            n_answers=sum(map(len, opinions)),
            percent=percent_agreement(ratings),
            percent_interval=percent_interval(ratings),
            alpha=krippendorff_alpha(ratings),
            alpha_interval=alpha_interval(ratings),
        )

    def couples(self) -> list[CoupleFigures]:
        """Return the agreement of each two of the people who share most pairs with others, the most pairs first."""
        tables: dict[tuple[str, str], Counter[tuple[int, int]]] = {}
        n_shared = Counter(person for _, opinions in self._shared("all") for person in opinions)
        compared = frozenset(sorted(n_shared, key=lambda person: (-n_shared[person], person))[:MAX_PER_PAIR])
        for _, opinions in self._shared("all"):
            for first, second in combinations(sorted(compared.intersection(opinions)), 2):
                table = tables.setdefault((first, second), Counter())
                table[int(opinions[first]), int(opinions[second])] += 1
        chosen = sorted(tables, key=lambda couple: (-tables[couple].total(), couple))[:MAX_COUPLES]
        return [_couple_figures(couple, tables[couple]) for couple in chosen]

    def _shared(self, scope: Scope) -> Iterable[tuple[ItemPair, dict[str, bool]]]:
        """Yield the pairs that two people or more have answered, with their opinions."""
        index = self._index
        for pair in index.shared:
            if scope == "all" or "repeat" in index.sources(pair).values():
                yield pair, index.opinions(pair)

    def people(self, graph: ComparisonGraph | None) -> list[PersonFigures]:
        """Return the figures of all people, by name; ``graph`` has the answers and what they imply."""
        index = self._index
        others = dict.fromkeys(index.people, Share(0, 0))
        settled: dict[str, list[bool]] = {person: [] for person in index.people}
        for _, opinions in self._shared("all"):
            counts = Counter(opinions.values())  # not each two people: there may be thousands
            for person, same in opinions.items():
                n, n_equal = others[person]
                others[person] = Share(n + len(opinions) - 1, n_equal + counts[same] - 1)
        for pair in index.pairs():
            decision = index.settled(pair)
            if decision is not None and decision.same is not None:
                for person, same in index.opinions(pair).items():
                    settled[person].append(same == decision.same)
        return [
            _person_figures(name, log, others[name], _share(settled[name]), _check_share(log, graph))
            for name, log in sorted(index.people.items())
            if any(log.counts.values())
        ]

    def questions(self) -> list[Question]:
        """Return the answers about pairs that several people have answered, or that are settled."""
        index, found = self._index, []
        for pair in index.pairs():
            decision, opinions = index.settled(pair), index.opinions(pair)
            truth = None if decision is None else decision.same
            if opinions and len(opinions) + (truth is not None) >= 2:
                found.append(Question(opinions, truth))
        return found


def _couple_figures(couple: tuple[str, str], table: Mapping[tuple[int, int], int]) -> CoupleFigures:
    cells = list(table)
    first, second = np.repeat(np.array(cells).T, [table[cell] for cell in cells], axis=1)
    agreed = Share(len(first), int((first == second).sum()))
    return CoupleFigures(couple, agreed, cohen_kappa(first, second), kappa_interval(first, second))


def _person_figures(
    name: str, log: PersonLog, with_others: Share, with_settled: Share, with_checks: Share
) -> PersonFigures:
    return PersonFigures(
        person=name,
        n_same=log.counts["same"],
        n_different=log.counts["different"],
        n_skipped=log.counts["skip"],
        with_others=with_others,
        with_settled=with_settled,
        with_checks=with_checks,
        median_seconds=median(log.gaps) / 1000 if log.gaps else None,
        first_at=log.first_at,
        last_at=log.last_at,
    )


def _share(equal: list[bool]) -> Share:
    return Share(len(equal), sum(equal))


def _check_share(log: PersonLog, graph: ComparisonGraph | None) -> Share:
    """Return how many checks agree with what the groups imply; a pair whose groups say nothing is left out."""
    equal = []
    for pair, given in log.checks if graph is not None else ():
        assert graph is not None
        if given.given and given.same is not None and all(item in graph for item in pair):
            (first, second), apart = graph.partition(list(pair))
            if min(first, second) >= 0 and (first == second or apart[first, second]):
                equal.append(given.same == (first == second))
    return _share(equal)
