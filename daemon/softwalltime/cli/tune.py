"""``softwalltime tune``: choose a predictor, or an order of the queue, for a site from its own log."""

from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.tune_options import TuneOptions

if TYPE_CHECKING:
    from softwalltime.cli.tune_order import OrderDocument
    from softwalltime.cli.tune_predictor import TuneDocument


@command({"": "a predictor", "--order": "an order and part of the log"})
def tune(options: TuneOptions) -> Result["TuneDocument"] | Result["OrderDocument"]:
    """Choose a predictor for a site from its own log.

    A SOURCE is the same as for replay.  All predictors are tried with several options.  The earlier part of the log
    chooses among them, and the figures are of the later, held-out part.  The best few are simulated on the newest jobs
    beside the policies of softwalltime report, with the same verdict: switch a policy on, do not, or the simulation
    cannot tell.

    With --order the orders of the queue are searched in which powers of wait, length and size count.  The earlier part
    finds those that shorten waits within the limits, the middle part chooses among them, and the last part decides
    whether the chosen one is recommended, or none.

    \b
    Example:
      softwalltime tune accounting --predictors v1,v3,percentile --simulated-jobs 1000
      softwalltime tune /var/spool/pbs/server_priv/accounting --keep tune.jsonl
      softwalltime tune accounting --order --simulated-jobs 300 --seeds 31-32 --write plan.toml
    """
    from softwalltime.cli.tune_order import find_order
    from softwalltime.cli.tune_predictor import choose_predictor

    return find_order(options) if options.order else choose_predictor(options)
