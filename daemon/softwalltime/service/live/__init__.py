"""Live values: alter the soft walltimes of jobs in PBS while they wait and run.

The daemon polls the server's jobs, predicts again, and alters the jobs whose value has changed.

:mod:`.ifl`          PBS's client library, through ctypes
:mod:`.agent`        the process that holds the connection to PBS, so that a fault in the library cannot hurt the daemon
:mod:`.connection`   the daemon's side of the agent: one request at a time, bounded in time
:mod:`.watch`        the jobs of a server as PBS reports them
:mod:`.alters`       which jobs to alter, and in which order: a pure function
:mod:`.live_options`      the table ``[live]`` of the settings
"""
