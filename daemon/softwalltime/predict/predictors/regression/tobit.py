"""Left-censored regression (Tobit type I) by maximum likelihood, with an elastic net on the coefficients."""

import math
from dataclasses import dataclass
from operator import mul

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MAX_SWEEPS = 10
"""Maximum sweeps of coordinate descent per round; the next round continues from there."""
_TAIL = -12.0
"""Standard deviations below which the ratio of density and distribution is computed by its asymptotic series."""


@dataclass(frozen=True, slots=True)
class TobitFit:
    """The parameters of y* = intercept + x b + u, with u normal around 0 with standard deviation ``sigma``."""

    intercept: float
    coefficients: Floats
    sigma: float


def fit_tobit(
    x: Floats, y: Floats, lower: float, l1: float, l2: float, *, least_sigma: float = 1e-6, tolerance: float = 1e-4,
    rounds: int = 200, start: TobitFit | None = None,
) -> TobitFit:  # fmt: skip
    """Return the parameters that maximise the penalised likelihood of the left-censored y = max(y*, lower).

    The maximum is of (Fan et al. 2017, eq. 4; phi and Phi are the normal density and distribution)

        sum of log(phi((y - mu) / sigma) / sigma) over the rows with y > lower
        + sum of log(Phi((lower - mu) / sigma)) over the rows with y <= lower
        - l1 sum |b| - l2 sum b^2

    with mu = intercept + x b and without a penalty on the intercept.  It is found by expectation-maximisation: the
    censored rows get the mean and variance of a normal variable that is known to be at most ``lower``, then
    coordinate descent finds the coefficients and the residuals give sigma.  No round lowers the likelihood.

    :param x: one row a job, one column a feature.
    :param least_sigma: lower bound of sigma, without which an exact fit would have an infinite likelihood.
    :param start: parameters to start from, such as those for other penalties.
    :param tolerance: relative change of the parameters below which the rounds end.
    """
    censored = np.flatnonzero(y <= lower)
    centre = x.mean(axis=0)
    xc = x - centre
    gram = xc.T @ xc
    latent = y.astype(np.float64)
    coefficients = np.zeros(x.shape[1])
    level, sigma = float(latent.mean()), max(float(latent.std()), least_sigma)
    shift = np.zeros(len(y))
    if start is not None:
        coefficients, level, sigma = (
            start.coefficients,
            start.intercept + float(centre @ start.coefficients),
            start.sigma,
        )
        shift = xc @ coefficients
    for _ in range(rounds):
        hidden = 0.0
        if len(censored):
            mu = level + shift[censored]
            z = (lower - mu) / sigma
            ratio = _ratio(z)
            latent[censored] = mu - sigma * ratio
            hidden = sigma * sigma * float(np.maximum(1.0 - z * ratio - ratio * ratio, 0.0).sum())
        before, level_before, sigma_before = coefficients, level, sigma
        coefficients = _elastic_net(gram, xc.T @ latent, coefficients, sigma * sigma * l1, sigma * sigma * l2)
        level, shift = float(latent.mean()), xc @ coefficients
        residual = latent - level - shift
        sigma = max(math.sqrt((float(residual @ residual) + hidden) / len(y)), least_sigma)
        moved = max(float(np.abs(coefficients - before).max()), abs(level - level_before), abs(sigma - sigma_before))
        if moved <= tolerance * sigma:
            break
    return TobitFit(level - float(centre @ coefficients), coefficients, sigma)


def _elastic_net(gram: Floats, target: Floats, start: Floats, l1: float, l2: float) -> Floats:
    """Return b that lowers b G b / 2 - target b + l1 |b| + l2 b^2, nearly always its minimum.

    Sweeps of coordinate descent find out which coefficients are not 0, and of which sign; given that, the minimum is
    the solution of linear equations.
    """
    coefficients = start
    rows, wanted = gram.tolist(), target.tolist()
    for _ in range(_MAX_SWEEPS):
        coefficients = np.array(_sweep(rows, wanted, coefficients.tolist(), l1, 2.0 * l2))
        active = np.flatnonzero(coefficients)
        signs = np.sign(coefficients[active])
        try:
            part = gram[np.ix_(active, active)] + 2.0 * l2 * np.eye(len(active))
            solution = np.linalg.solve(part, target[active] - l1 * signs)
        except np.linalg.LinAlgError:
            continue
        if (np.sign(solution) == signs).all():
            coefficients = np.zeros(len(target))
            coefficients[active] = solution
            slope = np.abs(target - gram @ coefficients)
            slope[active] = 0.0
            if (slope <= l1 + 1e-9 * np.abs(target).max()).all():
                break
    return coefficients


def _sweep(
    gram: list[list[float]], target: list[float], coefficients: list[float], l1: float, ridge: float
) -> list[float]:
    for place, row in enumerate(gram):
        own = row[place]
        pull = target[place] - sum(map(mul, row, coefficients)) + own * coefficients[place]
        if own + ridge <= 0.0 or -l1 <= pull <= l1:
            coefficients[place] = 0.0
        else:
            coefficients[place] = (pull - l1 if pull > 0.0 else pull + l1) / (own + ridge)
    return coefficients


def _ratio(z: Floats) -> Floats:
    """phi(z) / Phi(z), the inverse Mills ratio of a variable known to be below z."""
    ratios = []
    for value in z.tolist():
        if value < _TAIL:
            square = value * value
            ratios.append(-value / (1.0 - 1.0 / square + 3.0 / (square * square)))
        else:
            distribution = 0.5 * math.erfc(-value / math.sqrt(2.0))
            ratios.append(math.exp(-0.5 * value * value) / math.sqrt(2.0 * math.pi) / distribution)
    return np.array(ratios)
