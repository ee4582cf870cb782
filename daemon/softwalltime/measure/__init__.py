"""Evaluate predictors and policies on recorded jobs: replay, simulation, forecast, tuning, training, experiments."""
