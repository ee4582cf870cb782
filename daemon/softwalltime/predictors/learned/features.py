"""Names and constants of the features from which the learned attention weighs past jobs.

:mod:`.gather` computes them with numpy, :mod:`.gather_kernel` compiled.  Both give the same numbers: what was known
when the job was submitted, and nothing later.
"""

import math

SAME_NAME = 16
"""The user's last jobs with the same name that count."""
MAX_PAST_JOBS = 64
"""Past jobs that count at most."""
MAX_RUNNING_JOBS = 24
"""Running jobs that count at most, the last ones to start."""
MAX_PAIRS = MAX_PAST_JOBS + MAX_RUNNING_JOBS
KEY_JOBS = 24
"""Past jobs with the same walltime, processors and queue from which averages are taken."""
SHORT = math.log(60.0)
"""Jobs below this logarithm of the runtime are short."""
BURST = 600.0
"""Seconds in which submissions count as one burst."""
LONG_AGO = math.log1p(1e6)
"""Stands for the logarithm of a time since something that never happened."""
SAME_RUNTIME, SIMILAR_RUNTIME = 0.03, 0.12
"""Differences of logarithms below which runtimes are the same, and similar."""
POWERS = (0.0, 0.35, 1.0)
"""Powers of the ratio of walltimes by which a past runtime may be scaled."""
WIDTHS = (0.1, 0.3, 1.0)
"""Widths, in ln t, of the Laplace distributions by which a past runtime may be smeared; the first choice is none."""
LARGEST = 6.0
"""Features are limited to minus and plus this."""
ENDED, CENSORED, REACHED = 0, 1, 2
"""What a past job says: it ended after its runtime, ran at least so long, or reaches the walltime asked for."""

PAIR_FEATURES = (
    "difference of walltimes", "walltime shorter or longer", "same walltime", "difference of processors",
    "same processors", "same queue", "same group", "same name", "alike", "rank", "rank among alike",
    "submissions since", "hours since end", "time since submission", "running", "killed", "short",
    "runtime against walltime asked for", "runtime against own walltime", "runtime", "reaches walltime",
    "ends while in system", "share with same runtime", "share with similar runtime", "like last outcome",
    "like last outcome of alike", "gap since last submission", "gap since last end", "same predecessor",
    "position in burst", "time of day", "last outcome then and now", "prior weight",
)  # fmt: skip
PAIR = len(PAIR_FEATURES)

JOB_FEATURES = (
    "walltime", "processors", "past jobs", "alike jobs", "jobs with same walltime", "whole hours", "whole half days",
    "gap since last submission", "gap since last end", "has past jobs", "last runtime", "second last runtime",
    "third last runtime", "last short", "second last short", "third last short", "last killed", "second last killed",
    "third last killed", "last alike runtime", "second last alike runtime", "has alike", "change of alike runtime",
    "last alike short", "last alike killed", "running", "waiting", "oldest running", "newest running", "alike running",
    "share short", "share killed", "mean runtime", "deviation of runtime", "mean alike runtime",
    "deviation of alike runtime", "site mean", "site reaches walltime", "streak of short jobs", "total prior weight",
    "project jobs", "project mean", "project reaches walltime", "queue jobs", "queue mean", "queue reaches walltime",
    "own jobs", "own mean", "own reach walltime", "position in burst", "share with same name", "name occurred",
    "like predecessor", "share alike of last",
)  # fmt: skip
JOB = len(JOB_FEATURES)

PRIORS = ("own", "project", "queue", "everybody", "reaches walltime", "uniform")
"""Parts of the prior."""
