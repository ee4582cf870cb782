"""Synthetic workloads.

====================  ==================================================================================
:mod:`.lublin`        sizes, runtimes and arrivals of batch jobs after Lublin & Feitelson (2003)
:mod:`.estimates`     requested round walltimes after Tsafrir, Etsion & Feitelson (2005)
:mod:`.cluster`       start times with EASY backfilling
:mod:`.synthetic`     a workload of all three, with sessions of users: ``generate``
====================  ==================================================================================
"""
