"""When waiting jobs will start: the state of a PBS server, run forward by the simulator (Li et al. 2004).

Nothing here runs a command, reads a clock or opens a database: the command line does.
"""
