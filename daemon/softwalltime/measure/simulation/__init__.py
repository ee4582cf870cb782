"""Scheduling simulator: effect of a policy on the waits of recorded jobs.

Start from :func:`.engine.simulate`.  Jobs are identified by their position in :class:`.simulated_jobs.Jobs`.  A
discipline (``backfilling``) reads :class:`.system_state.SystemState` and starts jobs only through its ``start``.
"""
