"""Emulator of PBS's hook interface: run a hook file as pbs_server does, thousands of times a second.

::

    script = HookScript(Path("hooks/softwalltime_hook.py"))
    site = Site(queues={"short": {"queue_type": "Execution", "resources_max": {"walltime": "02:00:00"}}})
    outcome = script.run(postqueued(submission, site=site), configuration=Path("softwalltime_hook.json"))
    outcome.accepted            # would the user's request have passed, by the hook and by PBS's own rules?
    outcome.soft_walltime       # what the job has now, in seconds, or None

The hook file is compiled once and executed for each event in fresh globals, in which ``import pbs`` finds the emulated
module.  That module is strict, as PBS is: a misspelt attribute, resource or ``pbs.*`` name raises, also one that exists
in PBS but not here, and so does setting what the event may not set.  As in PBS, an exception that leaves the hook
rejects the request (save at postqueuejob, where it is too late), ``accept`` and ``reject`` raise SystemExit, the alarm
comes as KeyboardInterrupt, most values are no ``str``, and a resource that is not set is ``None``.

Not emulated: other events, vnodes, reservations, routing, several hooks for one event, and the validation of texts.
"""
