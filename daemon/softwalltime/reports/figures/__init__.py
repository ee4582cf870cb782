"""Figures of the report: functions from analysis results to pictures with captions."""
