"""The sweep: many predictors on many workloads, on all cores or a cluster, with results that outlive an interruption.

A grid of specs (:mod:`grid`) and a snapshot of each source's jobs (:mod:`snapshot`) make tasks, each of which any
process can do by itself (:mod:`evaluation`); :mod:`workers` has them done, and :mod:`results` keeps the rows as they
come.
"""
