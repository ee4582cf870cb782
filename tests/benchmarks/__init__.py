"""Benchmarks: ``make bench`` runs them all, ``python -m tests.benchmarks replay`` one; ratios within one run."""
