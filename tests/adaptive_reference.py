"""A brute-force program of the adaptive ensemble to test against: slow, dense and plain.

Every expert is a matrix A and a logistic fit: the log odds of "same" of a difference x are ``offset - slope x'Ax /
level``. Second moments are held as they are, forgotten in every round, and inverted afresh whenever they are needed;
COMID learners are those of the definition. Only the numbers that were chosen are the package's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log, sqrt

import numpy as np

from ocelad import Comid, Metric
from ocelad._typing import Floats
from ocelad.adaptive.adaptive_bank import COMID_STEPS, N_MEMORIES, WINDOWS
from ocelad.adaptive.kernels import cusum, experts, platt
from ocelad.ensemble import weight_updates
from ocelad.ensemble.weighting import DiscountedHedge
from ocelad.pairs import Event


def clipped(value: float, most: float) -> float:
    return min(max(value, -most), most)


def probability(odds: float) -> float:
    return 1.0 / (1.0 + exp(-odds))


def log_loss(odds: float, y: float) -> float:
    return -log(max(probability(y * odds), platt.LEAST_PROBABILITY))


def usual_part(far: float) -> float:
    """How much a pair counts that is so far apart, where 1 is usual."""
    return min(1.0, experts.USUAL / far) if far > 0.0 else 1.0


@dataclass
class Fit:
    """A logistic regression on (1, -distance), by Newton steps; its second derivatives are forgotten."""

    offset: float = 1.0
    slope: float = 1.0
    level: float = 1.0
    curvature: Floats = field(default_factory=lambda: platt.PSEUDO * np.eye(2))

    def copy(self) -> Fit:
        return Fit(self.offset, self.slope, self.level, self.curvature.copy())

    def relative(self, square: float) -> float:
        return clipped(square / self.level, platt.FARTHEST)

    def odds(self, square: float) -> float:
        return clipped(self.offset - self.slope * self.relative(square), platt.MOST_ODDS)

    def learn(self, square: float, y: float, t: int, levelled: bool) -> None:
        p, inputs = probability(self.odds(square)), np.array([1.0, -self.relative(square)])
        steepness = max(p * (1.0 - p), platt.LEAST_CURVATURE)
        pull = platt.PSEUDO / platt.HORIZON * np.eye(2)
        self.curvature = (1.0 - 1.0 / platt.HORIZON) * self.curvature
        self.curvature += steepness * np.outer(inputs, inputs) + pull
        step = np.linalg.solve(self.curvature, (p - (y > 0.0)) * inputs)
        self.offset = clipped(self.offset - step[0], platt.MOST_ODDS)
        self.slope = min(max(self.slope - step[1], 0.0), platt.MOST_ODDS)
        if levelled:
            share = max(1.0 / platt.HORIZON, 1.0 / t)
            self.level = max((1.0 - share) * self.level + share * abs(square), platt.LEAST_LEVEL)


class Moments:
    """Second moments of pairs with a ridge, forgotten in every round."""

    def __init__(self, ridge: float, window: float, spread: Floats) -> None:
        self.ridge, self.keep = ridge, 1.0 - 2.0 / (window + 1.0)
        self.S, self.count = np.diag(ridge * spread), 0.0
        self.ridge_left = 1.0  # what is left of the ridge since it was last held up

    def inverse_mean(self) -> Floats:
        """The inverse of the mean; 0 for features that have never differed."""
        inverse, met = np.zeros_like(self.S), np.flatnonzero(np.diag(self.S) > 0.0)
        inverse[np.ix_(met, met)] = np.linalg.inv(self.S[np.ix_(met, met)]) * (self.count + self.ridge)
        return inverse

    def meet(self, feature: int, spread: float) -> None:
        self.S[feature, feature] = self.ridge_left * self.ridge * spread

    def forget(self) -> None:
        self.S, self.count = self.keep * self.S, self.keep * self.count
        self.ridge_left *= self.keep

    def add(self, x: Floats, weight: float) -> None:
        self.S, self.count = self.S + weight * np.outer(x, x), self.count + weight

    def hold_up(self, feature: int, spread: Floats) -> None:
        """What was lost of the ridge in all features is given back to one of them, n times."""
        self.S[feature, feature] += (1.0 - self.ridge_left) * self.ridge * len(spread) * spread[feature]
        self.ridge_left = 1.0


@dataclass
class Memory:
    matrix: Floats
    used: float = 1.0


@dataclass
class Near:
    """How often the nearest pairs are the same, by one way to measure."""

    bound: float = 0.0
    same: float = 0.0
    seen: float = 0.0

    def look(self, nearness: float, size: float, same: float, t: int) -> None:
        if t <= experts.WATCHED + 20:
            self.bound = nearness if t <= experts.WATCHED + 1 else max(self.bound, nearness)
            return
        near = nearness > self.bound
        if near:
            kept = 1.0 - 1.0 / experts.NEAR_MEMORY
            self.same, self.seen = kept * self.same + same, kept * self.seen + 1.0
        self.bound += size * max(0.02, 1.0 / t) * (near - experts.NEAR_SHARE)


class AdaptiveReference:
    """The ensemble; ``step`` tells what each expert lost and the ensemble's margin. n_restarts counts what happened."""

    def __init__(self, n_features: int) -> None:
        self.n, self.t = n_features, 0
        self.unit = 0.0
        self.watched: list[tuple[Floats, float]] = []
        self.spread, self.spread_count = np.zeros(n_features), 0.0
        self.windows: list[Moments] = []
        start = Metric(np.eye(n_features) / n_features, threshold=1.0)
        self.comids = [
            Comid(start, step_size=step / n_features**2, loss="logistic", regularizer=None) for step in COMID_STEPS
        ]
        self.memories: list[Memory | None] = [None] * N_MEMORIES
        self.n_experts = len(WINDOWS) + len(COMID_STEPS) + experts.N_PRIORS + N_MEMORIES
        self.fits: list[Fit] = []
        self.logarithms = np.zeros(self.n_experts)
        self.asides: list[tuple[Floats, float]] = []
        self.drift = 0.0
        self.evidence, self.since, self.told = 0.0, 1, False
        self.changes: list[tuple[int, int, float]] = []
        self.n_memorised = self.n_restarts = 0
        self.recent: dict[int, tuple[Floats, float]] = {}
        self.near_prior, self.near_own = Near(), Near()
        self.share_same, self.prior_likelihoods = 0.0, np.zeros(experts.N_PRIORS)

    def step(self, event: Event) -> tuple[Floats, float]:
        self.t += 1
        if self.unit == 0.0:
            self.watch(event)
            losses = np.full(self.n_experts, log(2.0))
            self.weigh(losses)
            return losses, 0.0
        x, y, t = event.u * self.unit, event.y, self.t
        self.meet_features(x)
        s = self.seen_by_comid(x)
        matrices = self.matrices()
        squares = np.array([x @ A @ x for A in matrices])
        for k, comid in enumerate(self.comids, start=len(WINDOWS)):
            squares[k] = s @ comid.play().matrix @ s
        if not self.fits:
            self.fits = [Fit(level=max(abs(square), platt.LEAST_LEVEL)) for square in squares]
        odds = np.array([fit.odds(square) for fit, square in zip(self.fits, squares, strict=True)])
        shares = self.shares()
        losses = np.array([log_loss(each, y) for each in odds])
        said = float(shares @ odds)
        likely = float(shares @ [probability(each) for each in odds])
        self.look_near(said, squares, y, losses)
        self.learn(x, s, y, squares, shares)
        self.recent[t] = (x, y)
        self.look_for_change(log(max(likely, 1e-12) / max(1.0 - likely, 1e-12)), y)
        if t % experts.ASIDE == 0:
            self.set_aside(shares)
        self.weigh(losses)
        return losses, y * said

    def watch(self, event: Event) -> None:
        self.watched = [*self.watched, (event.u, event.y)][-experts.ASIDE :]
        U = np.array([u for u, _ in self.watched])
        size = sqrt(np.mean(U**2))
        if self.t < experts.WATCHED or size == 0.0:
            return
        self.unit = 2.0 ** -np.frexp(size)[1]
        self.spread, self.spread_count = np.mean((U * self.unit) ** 2, axis=0), float(len(U))
        self.windows = [Moments(experts.RIDGE, length, self.spread) for length in WINDOWS]
        self.everything = Moments(experts.RIDGE_ALL, experts.ALL_WINDOW, self.spread)
        for at, (u, y) in enumerate(self.watched, start=1):
            self.learn_moments(u * self.unit, y, at)
        self.spread_count = float(len(U))

    def meet_features(self, x: Floats) -> None:
        for i in np.flatnonzero((self.spread == 0.0) & (x != 0.0)):
            self.spread[i] = x[i] ** 2 / (self.spread_count + 1.0)
            for moments in (*self.windows, self.everything):
                moments.meet(i, self.spread[i])

    def roots(self) -> Floats:
        """What features are multiplied by to have a mean square of 1."""
        return np.array([1.0 / sqrt(square) if square > 0.0 else 0.0 for square in self.spread])

    def seen_by_comid(self, x: Floats) -> Floats:
        s = x * self.roots()
        return s * min(1.0, sqrt(100.0 * self.n / max(s @ s, 1e-300)))

    def matrices(self) -> list[Floats]:
        """The squared distance of every expert, in the unit of the first pairs."""
        whitened, by_spread = self.everything.inverse_mean(), np.outer(self.roots(), self.roots())
        windows = [moments.inverse_mean() - experts.TAKEN_AWAY * whitened for moments in self.windows]
        return [
            *windows,
            *(comid.play().matrix * by_spread for comid in self.comids),
            *(np.eye(self.n), np.diag(np.diag(by_spread)), whitened),
            *(windows[-1] if memory is None else memory.matrix for memory in self.memories),
        ]

    def mixture(self, shares: Floats) -> tuple[Floats, float]:
        """The ensemble's log odds are ``offset - x'Ax``: A and the offset."""
        parts = zip(shares, self.fits, self.matrices(), strict=True)
        A = sum(share * fit.slope / fit.level * matrix for share, fit, matrix in parts)
        return np.asarray(A), float(shares @ [fit.offset for fit in self.fits])

    def shares(self) -> Floats:
        return np.exp(self.logarithms) / np.exp(self.logarithms).sum()

    def weigh(self, losses: Floats) -> None:
        self.logarithms = (1.0 - 1.0 / DiscountedHedge.horizon) * self.logarithms - losses
        self.logarithms = np.maximum(self.logarithms - self.logarithms.max(), weight_updates.FAINTEST)

    def learn(self, x: Floats, s: Floats, y: float, squares: Floats, shares: Floats) -> None:
        memories = [None] * (self.n_experts - N_MEMORIES) + self.memories
        for fit, square, memory, share in zip(self.fits, squares, memories, shares, strict=True):
            fit.learn(square, y, self.t, levelled=memory is None)
            if memory is not None:
                memory.used = 1e-3 + 0.99 * memory.used + share
        for comid in self.comids:
            comid.update(Event(s, y))
        self.learn_moments(x, y, self.t)

    def learn_window(self, moments: Moments, x: Floats, y: float, t: int) -> None:
        moments.forget()
        if y > 0.0:
            moments.add(x, usual_part(x @ moments.inverse_mean() @ x / self.n))
        if y > 0.0 or t % experts.PATIENCE == 0:
            moments.hold_up(t % self.n, self.spread)

    def learn_moments(self, x: Floats, y: float, t: int) -> None:
        feature = t % self.n
        for moments in self.windows:
            self.learn_window(moments, x, y, t)
        part = usual_part(x @ self.everything.inverse_mean() @ x / self.n)
        self.everything.forget()
        self.everything.add(x, part)
        self.everything.hold_up(feature, self.spread)
        self.spread_count = experts.SPREAD_KEPT * self.spread_count + 1.0
        self.spread = np.where(self.spread > 0.0, self.spread + (x**2 - self.spread) / self.spread_count, 0.0)

    def look_for_change(self, odds: float, y: float) -> None:
        """A likelihood ratio: of odds that are only a part of those that were given, to those that were given."""
        sure = clipped(odds, cusum.SUREST)
        self.evidence += log_loss(sure, y) - log_loss(cusum.TEMPERED * sure, y)
        if self.evidence <= 0.0 or self.t < cusum.FIRST:
            self.evidence, self.since, self.told = 0.0, self.t + 1, False
        elif self.evidence > cusum.CONVINCING:
            if self.changes and self.t - self.changes[-1][1] <= cusum.APART:
                began, found, strength = self.changes.pop()
                self.changes.append((began, found, max(strength, self.evidence)))
            else:
                self.changes.append((self.since, self.t, self.evidence))
            self.restart()
            self.evidence, self.since, self.told = 0.0, self.t + 1, False
        elif self.evidence > cusum.POSSIBLE and not self.told:
            self.told = True
            self.memorise()

    def memorise(self) -> None:
        if len(self.asides) < 2:
            return
        place = min(range(N_MEMORIES), key=lambda j: 0.0 if (memory := self.memories[j]) is None else memory.used)
        matrix, offset = self.asides[-2]
        self.memories[place] = Memory(matrix)
        self.fits[self.n_experts - N_MEMORIES + place] = Fit(offset=offset)
        self.n_memorised += 1

    def restart(self) -> None:
        for k in range(experts.FIRST_RESTARTED, len(self.windows)):
            self.windows[k] = Moments(experts.RIDGE, WINDOWS[k], self.spread)
            self.fits[k] = self.fits[0].copy()
            for t in range(max(self.since, self.t - experts.ASIDE + 1), self.t + 1):
                self.learn_window(self.windows[k], *self.recent[t], t)
        self.n_restarts += 1

    def set_aside(self, shares: Floats) -> None:
        A, offset = self.mixture(shares)
        if self.asides:
            scale = np.outer(self.spread, self.spread)
            moved, size = np.sum(scale * (A - self.asides[-1][0]) ** 2), np.sum(scale * A**2)
            self.drift = sqrt(min(moved / size, 1e6)) / experts.ASIDE
        self.asides.append((A, offset))

    def look_near(self, said: float, squares: Floats, y: float, losses: Floats) -> None:
        """How often near pairs are the same; and which prior does best."""
        priors = slice(len(WINDOWS) + len(COMID_STEPS), len(WINDOWS) + len(COMID_STEPS) + experts.N_PRIORS)
        trust = np.exp(self.prior_likelihoods - self.prior_likelihoods.max())
        distances = [fit.relative(square) for fit, square in zip(self.fits[priors], squares[priors], strict=True)]
        same = float(y > 0.0)
        self.share_same += max(1.0 / (self.t + 1.0), 1.0 / experts.PRIOR_HORIZON) * (same - self.share_same)
        self.near_prior.look(-float(trust @ distances / trust.sum()), 0.5, same, self.t)
        self.near_own.look(said, 2.0, same, self.t)
        kept = 1.0 - 1.0 / experts.PRIOR_HORIZON
        self.prior_likelihoods = kept * self.prior_likelihoods - losses[priors]
