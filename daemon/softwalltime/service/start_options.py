"""The table ``[starts]`` of the settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from softwalltime.validation import validate


class StartOptions(BaseModel):
    """Whether and how often the daemon forecasts starts, and where it shows them; the descriptions are for users."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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

    @property
    def shows_per_forecast(self) -> int:
        """The budget of alters after one forecast."""
        return max(1, self.shows_per_minute * self.every // 60)


def start_options(values: Mapping[str, object]) -> StartOptions:
    """The options of the table ``[starts]``.

    :raises UsageError: names the key and what is wrong with its value.
    """
    return validate(StartOptions, "starts", values)
