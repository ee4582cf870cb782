"""The Tobit fit: known coefficients, and the maximum that a general optimiser finds for the likelihood as written."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_ndtr

from softwalltime.predict.predictors.regression.tobit import TobitFit, fit_tobit

Floats = NDArray[np.float64]
TRUE = np.array([2.0, -1.0, 0.0, 0.5])


def sample(rows: int, seed: int = 1) -> tuple[Floats, Floats]:
    """Rows with correlated features, and y* = 1 + x b + u with a standard deviation of 1.5, before censoring."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, len(TRUE)))
    x[:, 1] += 0.9 * x[:, 0]
    return x, 1.0 + x @ TRUE + draw.normal(scale=1.5, size=rows)


def penalised(fit: TobitFit, x: Floats, y: Floats, lower: float, l1: float, l2: float) -> float:
    """The paper's equation (4), as written; l2 times the squared norm."""
    mu = fit.intercept + x @ fit.coefficients
    seen = y > lower
    z = (y[seen] - mu[seen]) / fit.sigma
    likelihood = -0.5 * z @ z - seen.sum() * np.log(fit.sigma * np.sqrt(2 * np.pi))
    likelihood += log_ndtr((lower - mu[~seen]) / fit.sigma).sum()
    return float(likelihood - l1 * np.abs(fit.coefficients).sum() - l2 * fit.coefficients @ fit.coefficients)


def optimised(x: Floats, y: Floats, lower: float, l1: float, l2: float) -> TobitFit:
    """The maximum by scipy: coefficients as differences of two that are not negative, so that |b| is smooth."""
    m = x.shape[1]

    def unpack(values: Floats) -> TobitFit:
        return TobitFit(float(values[0]), values[1 : m + 1] - values[m + 1 : 2 * m + 1], float(np.exp(values[-1])))

    def loss(values: Floats) -> float:
        both = values[1 : 2 * m + 1]
        fit = unpack(values)
        return -penalised(fit, x, y, lower, 0.0, l2) + l1 * float(both.sum())

    bounds = [(None, None), *[(0, None)] * (2 * m), (None, None)]
    start = np.concatenate(([y.mean()], np.full(2 * m, 0.1), [0.0]))
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 5000, "maxfun": 10**6})
    return unpack(found.x)


def test_it_finds_the_known_coefficients_behind_left_censored_values_where_least_squares_does_not() -> None:
    x, latent = sample(20_000)
    lower = float(np.quantile(latent, 0.4))
    y = np.maximum(latent, lower)
    fit = fit_tobit(x, y, lower, 0.0, 0.0, tolerance=1e-8, rounds=2000)
    assert fit.coefficients == pytest.approx(TRUE, abs=0.06)
    assert (fit.intercept, fit.sigma) == pytest.approx((1.0, 1.5), abs=0.06)
    plain = np.linalg.lstsq(np.column_stack((np.ones(len(y)), x)), y, rcond=None)[0]
    assert abs(plain[1] - TRUE[0]) > 0.5


@pytest.mark.parametrize("censored", [0.0, 0.35])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (8.0, 0.0), (0.0, 5.0), (20.0, 10.0), (400.0, 1.0)])
def test_it_maximises_the_penalised_likelihood(censored: float, l1: float, l2: float) -> None:
    x, latent = sample(300, seed=7)
    lower = float(np.quantile(latent, censored)) if censored else float(latent.min()) - 1.0
    y = np.maximum(latent, lower)
    fit = fit_tobit(x, y, lower, l1, l2, tolerance=1e-10, rounds=5000)
    reference = optimised(x, y, lower, l1, l2)
    assert penalised(fit, x, y, lower, l1, l2) >= penalised(reference, x, y, lower, l1, l2) - 1e-6
    assert fit.coefficients == pytest.approx(reference.coefficients, abs=2e-3)
    assert (fit.intercept, fit.sigma) == pytest.approx((reference.intercept, reference.sigma), abs=2e-3)
    if l1 >= 20:
        assert (fit.coefficients == 0.0).any(), "L1 selects features"


def test_an_exact_fit_and_constant_features_stay_finite() -> None:
    x = np.column_stack((np.arange(20.0), np.zeros(20)))
    fit = fit_tobit(x, 3.0 * x[:, 0], 0.0, 0.1, 0.0, least_sigma=0.05)
    assert fit.coefficients == pytest.approx([3.0, 0.0], abs=0.01)
    assert fit.sigma == pytest.approx(0.05)


def test_values_far_above_the_bound_that_are_censored_stay_finite() -> None:
    # The last row is expected some 200 standard deviations above the bound at which it was seen.
    x = np.array([[0.0], [1.0], [2.0], [3.0], [400.0]])
    y = np.array([0.1, 1.0, 2.1, 2.9, 0.0])
    fit = fit_tobit(x, y, 0.0, 0.0, 0.0, least_sigma=0.1)
    assert np.isfinite([fit.intercept, fit.sigma, *fit.coefficients]).all()
