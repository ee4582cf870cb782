"""Run the benchmarks named on the command line, or all of them but those that run tests for hours."""

import sys

from tests.benchmarks import (
    bench_attacks,
    bench_attributes,
    bench_backlog,
    bench_calibrated,
    bench_clocks,
    bench_daemon,
    bench_forecasting,
    bench_gaming,
    bench_generate,
    bench_guard,
    bench_hooks,
    bench_ingest,
    bench_large,
    bench_look,
    bench_me,
    bench_mutations,
    bench_pinball,
    bench_policies,
    bench_predictors,
    bench_qsub,
    bench_ranges,
    bench_recorded_scripts,
    bench_replay,
    bench_schedules,
    bench_servers,
    bench_simulate,
    bench_spread,
    bench_start_times,
    bench_starts,
    bench_store,
    bench_training,
    bench_views,
    bench_what_if,
)

BENCHMARKS = {
    "attacks": bench_attacks.main,
    "attributes": bench_attributes.main,
    "backlog": bench_backlog.main,
    "busy": bench_store.busy,
    "calibrated": bench_calibrated.main,
    "clocks": bench_clocks.main,
    "replay": bench_replay.main,
    "simulate": bench_simulate.main,
    "spread": bench_spread.main,
    "ingest": bench_ingest.main,
    "daemon": bench_daemon.main,
    "forecasting": bench_forecasting.main,
    "gaming": bench_gaming.main,
    "generate": bench_generate.main,
    "guard": bench_guard.main,
    "hooks": bench_hooks.main,
    "large": bench_large.main,
    "look": bench_look.main,
    "me": bench_me.main,
    "mutations": bench_mutations.main,
    "pinball": bench_pinball.main,
    "policies": bench_policies.main,
    "predictors": bench_predictors.main,
    "qsub": bench_qsub.main,
    "ranges": bench_ranges.main,
    "recorded-scripts": bench_recorded_scripts.main,
    "schedules": bench_schedules.main,
    "servers": bench_servers.main,
    "start-times": bench_start_times.main,
    "starts": bench_starts.main,
    "store": bench_store.main,
    "training": bench_training.main,
    "views": bench_views.main,
    "what-if": bench_what_if.main,
}

BY_NAME_ONLY = ("clocks", "mutations")

for name in sys.argv[1:] or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]:
    if name not in BENCHMARKS:
        sys.exit(f"no benchmark is called {name!r}; there are {', '.join(BENCHMARKS)}")
    print(f"## {name}\n", flush=True)
    BENCHMARKS[name]()
    print(flush=True)
