"""The work of the commands that need numpy.  Each is imported when its command runs: help does not wait for numpy."""
