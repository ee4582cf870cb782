"""Scheduling simulated: what a policy does to waits, on recorded jobs.

Start from :func:`.engine.simulate`::

    jobs, refused = jobs_of(completed_jobs).that_fit(128)
    outcome = simulate(jobs, 128, SchedulerPolicy(order="wfp", waiting="factor:0.5", guard=3600))
    measure(jobs, outcome, 128).wait_mean

A job is its position in :class:`.simulated_jobs.Jobs` everywhere inside.  A discipline (``backfilling``) reads
the queue, the running jobs and the values of :class:`.system_state.SystemState`, and starts jobs through its ``start``;
nothing else moves them.  tests/simulation/oracle.py holds the rules of EASY in their plainest form.
"""
