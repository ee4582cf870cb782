"""Tests of snapshots and start times."""
