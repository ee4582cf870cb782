"""The mutations that no test can notice, and why: by file, line before the change, and line after it."""

FIELDS = "daemon/softwalltime/accounting/fields.py"
PBS = "daemon/softwalltime/accounting/pbs_records.py"
LIKE_JOBS = "daemon/softwalltime/predict/predictors/like_jobs.py"
HOOK = "hooks/softwalltime_hook.py"
PREDICT = "def predict(self, submission: Submission, now: int, elapsed: int = {}) -> Prediction | NoPrediction:"
FAST_PATH = "it chooses between a fast path and the general one, which gives the same values"
UNUSED_ELAPSED = "the predictor does not use the parameter, which the base class declares"

REASONS: dict[tuple[str, str, str], str] = {
    (FIELDS, "next_double: int = 0", "next_double: int = 1"): "a value begins after its name, at position 2 or later",
    **{
        (PBS, line, line.replace("9", "10")): "no machine has nodes, processors or GPUs of ten digits"
        for line in (
            'count = int((match.group(1) or "1")[:9])',
            "ncpus += count * (int(ppn.group(1)[:9]) if ppn else 1)",
            "ngpus += count * (int(gpus.group(1)[:9]) if gpus else 0)",
        )
    },
    (
        PBS,
        "for index, (name, value) in enumerate(zip(_FIELDS, texts, strict=True)):",
        "for index, (name, value) in enumerate(zip(_FIELDS, texts, strict=False)):",
    ): "both have the same length",
    (PBS, "@lru_cache(maxsize=10_000)", "@lru_cache(maxsize=10001)"): "the size of a cache",
    (
        FIELDS,
        'pairs = [pair.split("=", 1) for pair in message.split(" ")]',
        'pairs = [pair.split("=", 2) for pair in message.split(" ")]',
    ): FAST_PATH,
    (LIKE_JOBS, "if not by_end or by_end[-1][0] <= end:", "if not by_end or (by_end[-1][0] < end):"): FAST_PATH,
    (LIKE_JOBS, "if by_end[0][0] < oldest:", "if (by_end[0][0] <= oldest):"): FAST_PATH,
    (
        LIKE_JOBS,
        "return like.sorted if like.by_end[0][0] >= oldest else like.since(oldest)",
        "return like.sorted if (like.by_end[0][0] > oldest) else like.since(oldest)",
    ): FAST_PATH,
    **{
        (HOOK, "return values if isinstance(values, dict) else None", after): FAST_PATH
        for after in ("return None", "return values if (not (isinstance(values, dict))) else None")
    },
    (
        HOOK,
        "part = self.peer.recv(4096) # Most answers have 100 bytes, and allocating memory takes time.",
        "part = self.peer.recv(4097) # Most answers have 100 bytes, and allocating memory takes time.",
    ): "the size of one read; the next one gets the rest",
    (
        HOOK,
        "elapsed = 1000 * (time.monotonic() - started)",
        "elapsed = 1001 * (time.monotonic() - started)",
    ): "a thousandth of a duration in the log, which varies more from run to run",
    **{
        (f"daemon/softwalltime/predict/predictors/{name}.py", PREDICT.format(0), PREDICT.format(1)): UNUSED_ELAPSED
        for name in ("last2", "usage")
    },
}
