"""Data, errors and settings that all rooms share; no I/O except files of settings, and files written as a whole."""
