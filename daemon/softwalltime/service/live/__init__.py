"""Live values: read PBS's queue through its client library, and alter the soft walltimes of jobs."""
