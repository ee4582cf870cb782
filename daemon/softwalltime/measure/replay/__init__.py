"""Replay recorded jobs in event order through a predictor, and measure the accuracy of its predictions."""
