"""Replay: recorded jobs drive a predictor in the order in which things happened, and its predictions are judged."""
