"""A brute-force RICE-OCELAD for the tests: slow, dense and plain.

Sections III and IV of Greenewald, Kelley and Hero, "Dynamic metric learning
from pairwise comparisons".  Every interval is an object, every learner is a
dictionary entry, every step is a dense eigendecomposition.

All three divergences are Bregman divergences of a spectral function psi:

    frobenius     psi(M) = 1/2 ||M||_F^2        gradient  M
    von_neumann   psi(M) = tr(M log M - M)      gradient  log M
    burg          psi(M) = -logdet M            gradient  -inv(M)

so a COMID step (eq. 4) from M_t is, with H = gradient psi(M_t) - eta G,

    argmin over PSD M of  psi(M) - <H, M> + eta rho r(M).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, wrightomega

LOSSES = ("hinge", "squared_hinge", "logistic")
DIVERGENCES = ("frobenius", "von_neumann", "burg")
REGULARIZERS = ("nuclear", "l1", None)
FINEST = ("carry", "ensemble", "reset")


# --------------------------------------------------------------------------
# Loss of one pair
# --------------------------------------------------------------------------


def loss_of(loss: str, margin: float) -> float:
    """Return the loss l(m) of the margin m = y (mu - u'Mu)."""
    if loss == "hinge":
        return max(0.0, 1.0 - margin)
    if loss == "squared_hinge":
        return 0.5 * max(0.0, 1.0 - margin) ** 2
    return float(np.logaddexp(0.0, -margin))


def slope_of(loss: str, margin: float) -> float:
    """Return g = -l'(m), which is never negative."""
    if loss == "hinge":
        return 1.0 if margin < 1.0 else 0.0
    if loss == "squared_hinge":
        return max(0.0, 1.0 - margin)
    return float(expit(-margin))


# --------------------------------------------------------------------------
# The COMID step
# --------------------------------------------------------------------------


def symmetric(X: np.ndarray) -> np.ndarray:
    """Return the symmetric part of X."""
    return (X + X.T) / 2.0


def gradient(divergence: str, M: np.ndarray) -> np.ndarray:
    """Return the gradient of psi at M; von Neumann and Burg need M positive definite."""
    if divergence == "frobenius":
        return M.copy()
    values, V = np.linalg.eigh(M)
    if values[0] <= 0.0:
        raise ArithmeticError(f"{divergence}: the estimate is numerically singular")
    image = np.log(values) if divergence == "von_neumann" else -1.0 / values
    return symmetric((V * image) @ V.T)


def in_domain(divergence: str, X: np.ndarray) -> bool:
    """Return whether psi(M) - <X, M> has a minimiser: for Burg, if X is negative definite."""
    return divergence != "burg" or np.linalg.eigvalsh(X)[-1] < 0.0


def minimizer(divergence: str, X: np.ndarray) -> np.ndarray:
    """Return the argmin over PSD M of psi(M) - <X, M>, eigenvalue by eigenvalue."""
    x, V = np.linalg.eigh(X)
    if divergence == "frobenius":
        values = np.maximum(x, 0.0)
    elif divergence == "von_neumann":
        values = np.exp(x)
    else:
        values = -1.0 / x
    return symmetric((V * values) @ V.T)


def comid_step(
    M: np.ndarray,
    mu: float,
    u: np.ndarray,
    y: float,
    eta: float,
    *,
    loss: str,
    rho: float,
    regularizer: str | None,
    divergence: str,
    max_norm: float | None,
) -> tuple[np.ndarray, float]:
    """Return M and mu after one COMID step (eq. 4) of one learner on one pair."""
    g = slope_of(loss, y * (mu - u @ M @ u))
    G = g * y * np.outer(u, u)
    identity = np.eye(len(u))

    start = gradient(divergence, M)
    if divergence == "burg":
        while np.linalg.eigvalsh(-start + eta * G + eta * rho * identity)[0] <= 0.0:
            eta = eta / 2.0

    H = start - eta * G
    if g == 0.0 and rho == 0.0:
        new_M = M.copy()
    elif regularizer == "l1" and rho > 0.0:
        new_M = l1_step(divergence, H, eta * rho, slope_scale(divergence, M))
    else:
        # On PSD matrices the nuclear norm is the trace.
        new_M = minimizer(divergence, H - eta * rho * identity)
    new_mu = max(1.0, mu + eta * g * y)

    if max_norm is not None:
        norm = np.linalg.norm(new_M)
        if norm > max_norm:
            new_M = new_M * (max_norm / norm)
    return new_M, new_mu


# --------------------------------------------------------------------------
# The COMID step with the elementwise L1 norm
#
# M is the minimiser of psi(M) - <H, M> + lam ||M||_1 over PSD matrices when a
# symmetric Z with |Z_ij| <= lam exists such that
#     M = minimizer(H - Z)   and   Z_ij = lam sign(M_ij) wherever M_ij != 0.
# For any c > 0 the second condition reads Z = clip(Z + c M, -lam, lam).
# Newton's method on these equations is tried first; if it does not reach a
# solution, ADMM supplies better starting points until it does.  The result
# always satisfies the conditions, so it does not matter which method found it.
# --------------------------------------------------------------------------


def slope_scale(divergence: str, M: np.ndarray) -> float:
    """Return the typical size of d gradient(M) / dM near M, used only to balance scales."""
    if divergence == "frobenius":
        return 1.0
    mean = np.trace(M) / len(M)
    return 1.0 / mean if divergence == "von_neumann" else 1.0 / mean**2


def l1_step(divergence: str, H: np.ndarray, lam: float, c: float) -> np.ndarray:
    """Return the argmin over PSD M of psi(M) - <H, M> + lam ||M||_1, to about rounding error."""
    n = len(H)
    M = newton(divergence, H, lam, c, lam * np.eye(n))
    if M is not None:
        return M

    sparse = np.zeros((n, n))
    dual = lam * np.eye(n) / c
    for iteration in range(1, 20001):
        full = proximal(divergence, H, c, sparse - dual)
        moved = full + dual
        sparse = np.sign(moved) * np.maximum(np.abs(moved) - lam / c, 0.0)
        dual = moved - sparse
        if iteration % 20 == 0:
            M = newton(divergence, H, lam, c, np.clip(c * dual, -lam, lam))
            if M is not None:
                return M
    raise ArithmeticError("the L1 step found no certified solution")


def proximal(divergence: str, H: np.ndarray, c: float, near: np.ndarray) -> np.ndarray:
    """Return the argmin over PSD M of psi(M) - <H, M> + c/2 ||M - near||_F^2."""
    x, V = np.linalg.eigh(symmetric(H + c * near))
    if divergence == "frobenius":
        values = np.maximum(x, 0.0) / (1.0 + c)
    elif divergence == "von_neumann":  # log m + c m = x
        values = wrightomega(x + math.log(c)) / c
    else:  # c m - 1/m = x
        values = 2.0 / (np.sqrt(x**2 + 4.0 * c) - x)
    return (V * values) @ V.T


def newton(divergence: str, H: np.ndarray, lam: float, c: float, Z: np.ndarray) -> np.ndarray | None:
    """Solve Z = clip(Z + c M, -lam, lam) with M = minimizer(H - Z) by Newton's method.

    Entries clipped to +-lam are set there; for the others M_ij = 0 is linearised.
    Returns M, or None if the conditions do not hold at the end.
    """
    n = len(H)
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    if not in_domain(divergence, H - Z):
        return None
    allowed = 1e-12
    if divergence == "burg":  # the error of an inverse grows with the condition number
        allowed += 1e-16 * np.linalg.cond(H - Z)

    best, best_error, since_best = None, math.inf, 0
    for _ in range(60):
        M = minimizer(divergence, H - Z)
        target = np.clip(Z + c * M, -lam, lam)
        size = np.abs(M).max()
        if divergence == "frobenius":
            size = max(size, np.abs(H).max())  # M is a difference of such numbers
        error = np.abs(Z - target).max() / (c * size) if size > 0.0 else 0.0
        if error < best_error:
            best = np.where(np.abs(target) < lam, 0.0, M)
            if divergence == "frobenius":
                best[np.abs(best) <= 1e-15 * size] = 0.0
            best_error, since_best = error, 0
        else:
            since_best += 1
        if error <= 1e-17 or (since_best >= 3 and best_error <= allowed):
            break

        clipped = [k for k, (i, j) in enumerate(pairs) if abs(target[i, j]) >= lam]
        free = [k for k in range(len(pairs)) if k not in clipped]
        change = np.zeros(len(pairs))
        for k in clipped:
            change[k] = target[pairs[k]] - Z[pairs[k]]
        if free:
            J = jacobian(divergence, H - Z, pairs)
            wanted = np.array([-M[pairs[k]] for k in free])
            wanted = wanted - J[np.ix_(free, clipped)] @ change[clipped]
            square = J[np.ix_(free, free)]
            change[free] = np.linalg.lstsq(square, wanted, rcond=1e-13)[0]

        step = np.zeros((n, n))
        for k, (i, j) in enumerate(pairs):
            step[i, j] = step[j, i] = change[k]
        length = 1.0
        while not in_domain(divergence, H - Z - length * step):
            length = length / 2.0
            if length < 1e-9:
                return best if best_error <= allowed else None
        Z = Z + length * step

    return best if best_error <= allowed else None


def jacobian(divergence: str, X: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Return d minimizer(X - Z)_pair / dZ_pair at Z = 0, by divided differences."""
    x, V = np.linalg.eigh(X)
    n = len(x)
    slopes = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            slopes[i, j] = divided_difference(divergence, x[i], x[j])
    J = np.zeros((len(pairs), len(pairs)))
    for column, (i, j) in enumerate(pairs):
        E = np.outer(V[i], V[j])
        if i != j:
            E = E + E.T
        D = -V @ (slopes * E) @ V.T
        for row, pair in enumerate(pairs):
            J[row, column] = D[pair]
    return J


def divided_difference(divergence: str, a: float, b: float) -> float:
    """Return (f(a) - f(b)) / (a - b) for the f of `minimizer`, or f'(a) if a = b."""
    low, high = min(a, b), max(a, b)
    if divergence == "frobenius":
        if low > 0.0:
            return 1.0
        return high / (high - low) if high > 0.0 else 0.0
    if divergence == "von_neumann":
        gap = high - low
        return math.exp(high) * (-math.expm1(-gap) / gap if gap > 0.0 else 1.0)
    return 1.0 / (a * b)


# --------------------------------------------------------------------------
# RICE: the intervals
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """The rounds first..last of one learner; `length` is the length of its level."""

    level: int
    length: int
    first: int
    last: int

    def contains(self, t: int) -> bool:
        """Return whether the learner of this interval is active in round t."""
        return self.first <= t <= self.last

    @property
    def rate(self) -> float:
        """eta_I, the initial weight and the rate of its changes (section IV)."""
        return min(0.5, 1.0 / math.sqrt(self.length))


def all_intervals(rounds: int, shortest: int, n_scales: int | None) -> list[Interval]:
    """Return every interval that starts in rounds 1..rounds."""
    intervals = []
    if shortest > 1:
        intervals.append(Interval(0, shortest, 1, shortest - 1))
    level = 0
    while shortest * 2**level <= rounds and (n_scales is None or level < n_scales):
        length = shortest * 2**level
        for first in range(length, rounds + 1, length):
            intervals.append(Interval(level, length, first, first + length - 1))
        level += 1
    return intervals


def active(intervals: list[Interval], t: int) -> dict[int, Interval]:
    """Return the interval of each level that contains round t, in order of level."""
    found = {i.level: i for i in intervals if i.contains(t)}
    return dict(sorted(found.items()))


# --------------------------------------------------------------------------
# OCELAD: the rounds
# --------------------------------------------------------------------------


@dataclass
class State:
    """The state just before a round's pair is seen, and the losses on that pair.

    `matrix` and `threshold` are the ensemble's play; `weights`, `learners` (pairs of
    M and mu) and `losses` have one entry per active level, in order of level.
    """

    matrix: np.ndarray
    threshold: float
    weights: list[float]
    learners: list[tuple[np.ndarray, float]]
    losses: list[float] | None


def weighted_average(learners: list[tuple[np.ndarray, float]], weights: list[float]) -> tuple[np.ndarray, float]:
    """Return the ensemble's M and mu (eq. 6)."""
    total = sum(weights)
    M = sum(w * M for w, (M, _) in zip(weights, learners, strict=True)) / total
    mu = sum(w * mu for w, (_, mu) in zip(weights, learners, strict=True)) / total
    return M, mu


def updated_weights(weights: list[float], losses: list[float], rates: list[float]) -> list[float]:
    """Return the weights after a round (eq. 5), unchanged if all losses are equal."""
    mean = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    regrets = [mean - loss for loss in losses]
    largest = max(abs(r) for r in regrets)
    if largest <= 1e-12 * max(1.0, max(losses)):
        return list(weights)
    return [w * (1.0 + rate * r / largest) for w, rate, r in zip(weights, rates, regrets, strict=True)]


def run(
    events: Sequence[tuple[np.ndarray, float]],
    n_features: int,
    *,
    loss: str = "hinge",
    step_size: float = 3e-3,
    shrinkage: float = 0.0,
    regularizer: str | None = "nuclear",
    divergence: str = "frobenius",
    shortest_interval: int = 1,
    n_scales: int | None = None,
    finest: str = "carry",
    initial_scale: float | None = None,
    initial_threshold: float = 1.0,
    max_norm: float | None = None,
) -> list[State]:
    """Play every event (u, y); states[t] is the state before event number t + 1.

    The starts of round t + 1 are part of states[t]; the last state, one past the
    last event, has no losses.
    """
    for value, allowed in (
        (loss, LOSSES),
        (divergence, DIVERGENCES),
        (regularizer, REGULARIZERS),
        (finest, FINEST),
    ):
        if value not in allowed:
            raise ValueError(f"{value!r} is not one of {allowed}")

    rho = 0.0 if regularizer is None else shrinkage
    scale = 1.0 / n_features if initial_scale is None else initial_scale
    M0, mu0 = scale * np.eye(n_features), float(initial_threshold)

    intervals = all_intervals(len(events) + 1, shortest_interval, n_scales)
    estimate: dict[Interval, tuple[np.ndarray, float]] = {}
    weight: dict[Interval, float] = {}
    states = []

    for t in range(1, len(events) + 2):
        before = active(intervals, t - 1)
        now = active(intervals, t)

        for level, interval in now.items():
            if interval.first != t:
                continue
            if level > 0:
                estimate[interval] = estimate[before[level - 1]]
            elif t == 1 or finest == "reset":
                estimate[interval] = (M0, mu0)
            elif finest == "carry":
                estimate[interval] = estimate[before[0]]
            else:
                estimate[interval] = weighted_average(
                    [estimate[i] for i in before.values()],
                    [weight[i] for i in before.values()],
                )
            weight[interval] = interval.rate

        learners = [estimate[i] for i in now.values()]
        weights = [weight[i] for i in now.values()]
        played_M, played_mu = weighted_average(learners, weights)
        state = State(
            matrix=played_M,
            threshold=played_mu,
            weights=list(weights),
            learners=[(M.copy(), mu) for M, mu in learners],
            losses=None,
        )
        states.append(state)
        if t == len(events) + 1:
            break

        u, y = np.asarray(events[t - 1][0], dtype=float), float(events[t - 1][1])
        losses = [float(loss_of(loss, y * (mu - u @ M @ u))) for M, mu in learners]
        state.losses = losses
        new_weights = updated_weights(weights, losses, [i.rate for i in now.values()])
        for interval, new_weight in zip(now.values(), new_weights, strict=True):
            weight[interval] = new_weight
            M, mu = estimate[interval]
            estimate[interval] = comid_step(
                M,
                mu,
                u,
                y,
                step_size / math.sqrt(interval.length),
                loss=loss,
                rho=rho,
                regularizer=regularizer,
                divergence=divergence,
                max_norm=max_norm,
            )

    return states
