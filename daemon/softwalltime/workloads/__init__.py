"""Workloads and machines that exist only on paper.

====================  ==================================================================================
:mod:`.lublin`        sizes, runtimes and arrivals of batch jobs after Lublin & Feitelson (2003)
:mod:`.estimates`     the round walltimes that users request, after Tsafrir, Etsion & Feitelson (2005)
:mod:`.cluster`       when each job starts on a machine with EASY backfilling
:mod:`.workload`      the three together, with users who repeat themselves: ``generate``
====================  ==================================================================================
"""
