"""Names of orders, kinds of backfilling, shakes and classes: help prints them without importing numpy."""

ORDERS = ("fcfs", "sjf", "ljf", "wfp", "xf", "f1", "f2", "f3", "f4", "fairshare", "formula", "powers")
"""The keys of :data:`softwalltime.measure.simulation.orders.ORDERS`."""
BACKFILLS = ("none", "easy", "sjbf", "conservative", "pbs", "slack")
"""The keys of :data:`softwalltime.measure.simulation.backfilling.DISCIPLINES`."""
SHAKES = ("week", "jitter")
"""Kinds of shaken workloads (:mod:`softwalltime.measure.simulation.shaking`)."""
CLASSES = ("runtime", "size", "queue", "user", "month")
"""What jobs can be classified by, for separate figures."""
BASELINES = ("today", "as delivered", "WFP", "fair share")
"""The keys of :data:`softwalltime.reports.candidates.BASELINES`."""
