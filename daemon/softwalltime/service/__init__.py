"""The daemon: it connects accounting logs, store and predictors."""
