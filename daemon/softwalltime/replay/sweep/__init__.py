"""The sweep: many predictors on many workloads, on all cores or a cluster; it continues after an interruption.

A grid of specs (:mod:`grid`) and a snapshot of each source's jobs (:mod:`snapshot`) make independent tasks
(:mod:`evaluation`). :mod:`workers` runs them in processes, and :mod:`kept_lines` keeps each row as it is computed.
"""
