"""Train the weights of the predictor calibrated: examples from logs, the loss, the schedule."""
