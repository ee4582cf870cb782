"""Data, errors and settings shared by all packages; no I/O except settings files and atomic writes."""
