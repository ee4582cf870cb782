"""Scheduling simulated: what a policy does to waits, on recorded jobs.

Start from :func:`.engine.simulate`::

    jobs, refused = jobs_of(completed_jobs).that_fit(128)
    outcome = simulate(jobs, 128, SchedulerPolicy(order="wfp", waiting="factor:0.5", guard=3600))
    measure(jobs, outcome, 128).wait_mean

===================  ==========================================================================================
:mod:`.jobs`         the jobs as columns, in order of submission; which records cannot be simulated
:mod:`.policies`     ``SchedulerPolicy``: order, backfilling, values, guard, correction, as plain data
:mod:`.engine`       the event loop: ends, submissions, one scheduling pass; ``simulate`` and its outcome
:mod:`.system_state` what waits and runs at an instant, and what has become of each job: what disciplines change
:mod:`.machine`      what is free and whether a job fits: processors, or anything with the same methods
:mod:`.vnodes`       a machine of vnodes with several resources, chunks and placement, for PBS's cycle
:mod:`.queue`        the waiting jobs in order of submission, or of a priority that stays
:mod:`.running`      the running jobs by planned end; shadow and extra processors
:mod:`.order`        what an order is; :mod:`.orders`, :mod:`.fairshare` and :mod:`.formula` are the orders
:mod:`.backfilling`  the scheduling pass of EASY and SJBF, and the kinds of backfilling by name
:mod:`.conservative` reservations for many waiting jobs
:mod:`.pbs_cycle`    PBS's own cycle
:mod:`.planning`     the calendar of the last two: free processors as planned
:mod:`.corrections`  the planned end of a job that runs longer than estimated
:mod:`.values`       waiting, running and ordering values: all that asks and teaches predictors
:mod:`.metrics`      waits, slowdowns and promises of a schedule, also by class of job
:mod:`.shaking`      the same jobs at other times, for statistics over more than one schedule
:mod:`.differences`  paired differences of metrics with 95% confidence intervals
:mod:`.tasks`        simulations as independent tasks; :mod:`.result_cache` keeps their figures in a file
:mod:`.batsim`       a schedule as rows with Batsim's column names
===================  ==========================================================================================

A job is its position in :class:`.jobs.Jobs` everywhere inside.  A discipline (:class:`.backfilling.Discipline`) reads
the queue, the running jobs and the values of :class:`.system_state.SystemState`, and starts jobs through its ``start``;
nothing else moves them.  tests/simulation/oracle.py holds the rules of EASY in their plainest form.
"""
