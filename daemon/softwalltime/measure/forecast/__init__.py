"""Forecast the starts of waiting jobs: simulate the scheduler from the state of a PBS server (Li et al. 2004).

This package runs no commands, reads no clock and opens no database.
"""
