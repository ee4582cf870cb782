"""Replay recorded jobs through the hook file and the daemon of production.

::

    timeline    the recorded jobs as the life of an emulated PBS server: submissions, alters, starts, ends
                (alters are read from the logs again: completed jobs do not show them)
    daemon      ``softwalltime serve`` in a separate process, with its folder, and its accounting log, which is written
                before virtual time reaches it
    server      the emulated server, which fires the events and notes what comes of each
    run         one predictor driven through hook and daemon, and compared with the fast replay, job by job

**How it is exact.**  The trace's times are moved into the future, by the same amount for all, so that its first job is
submitted a day from now.  The daemon learns a job that ended in the future when the time of a question has come to its
end; the hook's clock, which the emulation sets, is the trace's.  So E records may be written ahead: each is learnt when
virtual time passes its end, neither earlier nor later, however fast events follow one another.  A daemon that was
killed reads all that lies ahead from its store again.

**Which events.**  A job's submission fires queuejob and then postqueuejob, its start runjob and an alter modifyjob, as
all of them do on OpenPBS 23 with the hook installed for all four: what the hook leaves to the other event, or gets
wrong between the two, is seen.  A server without postqueuejob, as before OpenPBS 23, can be had instead.  An array
is submitted once, each of its subjobs starts.
"""
