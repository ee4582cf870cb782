"""Choose a predictor for a site from its own log."""
