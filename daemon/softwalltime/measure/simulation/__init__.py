"""Scheduling simulator: effect of a policy on the waits of recorded jobs.

Start from :func:`.engine.simulate`::

    jobs, refused = jobs_of(completed_jobs).that_fit(128)
    outcome = simulate(jobs, 128, SchedulerPolicy(order="wfp", waiting="factor:0.5", guard=3600))
    measure(jobs, outcome, 128).wait_mean

Jobs are identified by their position in :class:`.simulated_jobs.Jobs`.  A discipline (``backfilling``) reads the queue,
the running jobs and the values of :class:`.system_state.SystemState`; jobs are started only through its ``start``.
tests/simulation/oracle.py is a reference implementation of EASY.
"""
