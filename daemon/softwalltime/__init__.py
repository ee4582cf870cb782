"""Soft walltimes for PBS: how long will this job really run?"""

from importlib.metadata import version

__version__ = version("pbs-softwalltime")
