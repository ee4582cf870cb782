"""The thread that supervises the forecast process and receives its reports."""

import logging
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter

from softwalltime.core.settings import Settings
from softwalltime.core.validation import Strict, validate
from softwalltime.service.background import BackgroundThread
from softwalltime.service.status import StartsStatus

MAX_RESTART_PAUSE_S = 600.0
"""Maximum seconds between two starts of a process that keeps exiting."""
MIN_REPORT_TIMEOUT_S = 1800.0
"""Minimum seconds without a report after which the process is replaced: learning a long history takes long."""
REPORT_TIMEOUT_INTERVALS = 5
"""Minimum number of forecast intervals without a report after which the process is replaced."""
COMMAND = (sys.executable, "-m", "softwalltime.service.start_process")

log = logging.getLogger(__name__)


class StartOptions(Strict):
    """Settings of ``[starts]``; their descriptions are printed to users."""

    mode: Literal["off", "on"] = Field(default="off", description="off: no forecasts; on: forecasts in the store")
    every: int = Field(default=300, ge=10, le=86400, description="seconds between two forecasts")
    runs: int = Field(default=100, ge=0, le=10_000, description="runs with drawn runtimes for the ranges; 0: no ranges")
    jobs: int = Field(default=1000, ge=1, description="most waiting jobs to forecast, the first ones of the queue")
    predictor: str = Field(default="", description="predictor of runtimes; empty: that of softwalltime starts")
    sched_config: Path | None = Field(
        default=None, description="copy of PBS's sched_config that the daemon can read; default: that of PBS_HOME"
    )
    server: str = Field(default="", description="host of the PBS server; empty: as in [live], or /etc/pbs.conf")
    agent: Path | None = Field(
        default=None, description="socket of softwalltime-live.socket; default: as in [live], or an agent of its own"
    )
    show: bool = Field(
        default=False, description="show each waiting job's expected start to its owner in the resource predicted_start"
    )
    shows_per_minute: int = Field(default=60, ge=1, le=6000, description="most jobs altered in a minute to show it")
    change_seconds: int = Field(default=600, ge=60, description="least change of a start that is shown, seconds")


def start_options(values: Mapping[str, object]) -> StartOptions:
    """Return the validated options of the table ``[starts]``.

    :raises UsageError: names the key and what is wrong with its value.
    """
    return validate(StartOptions, "starts", values)


class ForecastThread(BackgroundThread):
    """Run the forecast process while the daemon runs; do nothing in mode off.

    :param settings: passed to the process.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__("starts")
        self._settings = settings
        self.status = StartsStatus(start_options(settings.starts).mode)
        """The last report; safe from any thread."""
        self._process: subprocess.Popen[bytes] | None = None

    def change(self, settings: Settings) -> None:
        """Restart the process with these settings if they differ from the current ones."""
        before, self._settings = self._settings, settings
        of_process = ("starts", "live", "policy", "teaching", "dsn", "server")
        if any(getattr(settings, name) != getattr(before, name) for name in of_process):
            self._wake()

    def _wake(self) -> None:
        super()._wake()
        if (process := self._process) is not None:
            process.kill()

    def _run(self) -> None:
        pause = 1.0
        while not self._stopping.is_set():
            options = start_options(self._settings.starts)
            if options.mode == "off":
                self.status = StartsStatus()
                self._changed.wait()
            else:
                reports = 0
                try:
                    reports = self._watch(options)
                except Exception as error:
                    log.exception("starts: unexpected error; trying again")
                    self._report(replace(self.status, mode="on", problem=f"unexpected error: {error}"))
                pause = 1.0 if reports or self._changed.is_set() else min(2 * pause, MAX_RESTART_PAUSE_S)
                self._changed.wait(pause)
            self._changed.clear()

    def _watch(self, options: StartOptions) -> int:
        """Start the process and read its reports until it exits; return the number of reports."""
        # Numerical libraries must not start threads on other processors.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        reports = 0
        with subprocess.Popen(  # noqa: S603 - our own module
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
        ) as process:
            self._process = process
            try:
                if process.stdin is None or process.stdout is None:
                    raise OSError("no pipes")
                if not self._changed.is_set():
                    process.stdin.write(self._settings.model_dump_json().encode() + b"\n")
                timeout = max(MIN_REPORT_TIMEOUT_S, REPORT_TIMEOUT_INTERVALS * options.every)
                waiting = b""
                while not self._changed.is_set() and select.select([process.stdout], [], [], timeout)[0]:
                    if not (part := os.read(process.stdout.fileno(), 1 << 16)):
                        break
                    *lines, waiting = (waiting + part).split(b"\n")
                    for line in lines:
                        reports += 1
                        self._report(TypeAdapter(StartsStatus).validate_json(line))
            finally:
                self._process = None
                process.kill()
        if not self._changed.is_set():
            said = f"the process that forecasts starts has ended or hangs (status {process.returncode})"
            self._report(replace(self.status, mode="on", problem=f"{said}; see the log"))
        return reports

    def _report(self, status: StartsStatus) -> None:
        before = self.status
        if status.problem:
            if status.problem != before.problem:
                log.error("starts: %s; trying again", status.problem)
            self.status = replace(before, mode=status.mode, problem=status.problem)
            return
        if before.problem:
            log.info("starts: forecast again")
        self.status = replace(status, shown=before.shown + status.shown, refused=before.refused + status.refused)
