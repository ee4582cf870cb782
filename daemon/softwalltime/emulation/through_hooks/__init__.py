"""Replay recorded jobs through the hook file and the daemon of production.

``timeline`` makes the events of an emulated PBS server from the recorded jobs, ``daemon_process`` runs ``softwalltime
serve``, ``emulated_server`` runs the hook at each event, and ``run`` compares the outcome with the fast replay.

**How it is exact.**  The trace's times are moved into the future, by the same amount for all, so that its first job is
submitted a day from now.  The hook's clock, which the emulation sets, is the trace's.  The accounting log with the ends
of all jobs is written first: the daemon learns a job that ended in the future when the time of a question has come to
its end, neither earlier nor later.  A daemon that was killed reads all that lies ahead from its store again.

**Which events.**  A job's submission fires queuejob and then postqueuejob, its start runjob, as on OpenPBS 23 with the
hook installed for them.  An array is submitted once, each of its subjobs starts.
"""
