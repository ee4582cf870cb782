"""When waiting jobs will start: the state of a PBS server, run forward by the simulator (Li et al. 2004).

===================  ==========================================================================================
:mod:`.snapshot`     the state of a server as a value: jobs, vnodes, queues, reservations, scheduler; save, load
:mod:`.pbs_json`     output of PBS's commands in JSON, also where it is not valid JSON
:mod:`.pbs_state`    from that output to a snapshot
:mod:`.runtimes`     the distribution of each job's runtime, from any predictor and its own past errors
:mod:`.queue_model`  a snapshot as jobs, machine and policy of the simulator, ready to run forward
:mod:`.start_times`  the expected start and the ranges of each waiting job
:mod:`.waits_for`    what a job waits for, in one sentence
:mod:`.what_if`      jobs that are not yet submitted
:mod:`.history`      what completed jobs teach; :mod:`.like_waits` is the statistical baseline
:mod:`.calibration`  forecasts corrected by the errors of past ones
:mod:`.judgement`    forecasts over a schedule, held against what happened
===================  ==========================================================================================

Nothing here runs a command, reads a clock or opens a database: the command line does.
"""
