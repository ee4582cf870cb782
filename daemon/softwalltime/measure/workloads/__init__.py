"""Synthetic workloads: start from :func:`.synthetic.generate`."""
