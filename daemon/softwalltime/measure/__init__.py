"""What predictors and policies do to recorded jobs: replay, simulation, forecast, tuning, training, experiments."""
