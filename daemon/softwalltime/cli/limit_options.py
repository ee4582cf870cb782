"""Options for the limits that a recommended policy keeps."""

from typing import TYPE_CHECKING

import click

from softwalltime.cli.parameters import option, options

if TYPE_CHECKING:
    from softwalltime.reports.recommendation import WaitLimits

_GROWTH = click.FloatRange(0, 1000)


@options
class LimitOptions:
    """What a policy may do to waits and promises, in percent of what the site runs."""

    max_tail: float = option(
        "Greatest growth of the mean and the 99th percentile wait of each class of jobs, in percent.",
        type=_GROWTH, default=5.0, metavar="PERCENT",
    )  # fmt: skip
    max_longest: float = option(
        "Greatest growth of the longest wait, in percent.", type=_GROWTH, default=10.0, metavar="PERCENT"
    )
    max_broken: float = option(
        "Greatest share of the promised starts that a policy may break more than the site does now, in percent.",
        type=click.FloatRange(0, 50), default=5.0, metavar="PERCENT",
    )  # fmt: skip

    @property
    def shares(self) -> "WaitLimits":
        from softwalltime.reports.recommendation import WaitLimits

        return WaitLimits(self.max_tail / 100, self.max_longest / 100, self.max_broken / 100)
