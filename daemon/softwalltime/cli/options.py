"""Options that several commands share."""

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from softwalltime.cli.completing import complete_predictor
from softwalltime.errors import UsageError
from softwalltime.forecast.defaults import PREDICTOR
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.keys import KEYS, wrong_keys

if TYPE_CHECKING:
    from softwalltime.settings import Settings

# Policy, predictors and settings are imported where a command runs: help does not wait for pydantic.

PUBLISHED = "v1,v2,v3,v4,percentile"
"""The predictors to measure by default."""

LazySettings = Callable[..., "Settings"]
"""Reads the settings when called, with further overrides: a replay of logs needs none."""

LARGEST_MINIMUM = 366 * 86400
"""Greatest --min-soft-walltime, in seconds: a year."""


class ServerName(click.ParamType[str]):
    """The name of a PBS server: the host part of its job ids."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with a usage error."""
        from softwalltime.settings import SERVER_NAME

        if not SERVER_NAME.fullmatch(str(value)):
            return self.fail(f"{value!r} is not a server name: use letters, digits, '.', '-' and '_'", param, ctx)
        return str(value)


class Seeds(click.ParamType[tuple[int, ...]]):
    """Numbers and ranges of them, by commas."""

    name = "seeds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The seeds, each once, or a usage error."""
        if isinstance(value, tuple):
            return value
        found: dict[int, None] = {}
        for part in str(value).split(","):
            match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
            if match is None or int(match[2] or match[1]) < int(match[1]):
                self.fail(f"{part.strip()!r} is neither a number nor a range such as 31-40", param, ctx)
            found.update(dict.fromkeys(range(int(match[1]), int(match[2] or match[1]) + 1)))
        return tuple(found)


class Keys(click.ParamType[tuple[str, ...]]):
    """Fields of a submission, joined by +."""

    name = "keys"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names of the fields, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        keys = tuple(str(value).split("+"))
        if len(set(keys)) != len(keys) or not set(keys) <= set(KEYS):
            self.fail(f"{value!r}: {wrong_keys(keys)}", param, ctx)
        return keys


def log_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for the log format of a long-running command."""
    return click.option(
        "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="Format of the log on standard error.",
    )(command)  # fmt: skip


def minimum_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for the least soft walltime."""
    return click.option(
        "--min-soft-walltime", "minimum", type=click.IntRange(1, LARGEST_MINIMUM), default=MINIMUM, show_default=True,
        metavar="SECONDS", help="Least soft walltime, in seconds.",
    )(command)  # fmt: skip


def named_specs(listed: str | None, single: tuple[str, ...]) -> list[str]:
    """Return the predictors that --predictors and --predictor name, in this order."""
    from softwalltime.predictors.registry import split_specs

    return (split_specs(listed) if listed is not None else []) + list(single)


def list_of_predictors(several: str, one: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds ``--predictors`` and ``--predictor``, which are passed as ``listed`` and ``single``.

    :param several: the help of the first one.
    :param one: what the second one names.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option(
                "--predictor", "single", multiple=True, metavar="SPEC", shell_complete=complete_predictor,
                help=f"{one}; repeatable.",
            ),
            click.option(
                "--predictors", "listed", metavar="LIST", shell_complete=complete_predictor, help=several,
            ),
        ):  # fmt: skip
            command = option(command)
        return command

    return add


def predictors_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name predictors; pass ``specs`` without duplicates, the baseline first."""

    @list_of_predictors(f"Predictors, separated by commas.  Default: {PUBLISHED}.", "One predictor")
    @wraps(command)
    def wrapped(*args: Any, listed: str | None, single: tuple[str, ...], **kwargs: Any) -> Any:
        from softwalltime.predictors.registry import BASELINE, make, split_specs

        specs = tuple(dict.fromkeys((BASELINE, *(named_specs(listed, single) or split_specs(PUBLISHED)))))
        # Fail before minutes of reading.
        for spec in specs:
            make(spec)
        return command(*args, specs=specs, **kwargs)

    return wrapped


runtimes_option = click.option(
    "--predictor", "spec", default=PREDICTOR, show_default=True, metavar="SPEC", shell_complete=complete_predictor,
    help="Predictor of runtimes.",
)  # fmt: skip
"""Names the predictor of runtimes, which is passed as ``spec``."""


max_broken_option = click.option(
    "--max-broken",
    type=click.FloatRange(0, 50),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="Greatest share of promised starts, in percent, that a recommended policy may break in the simulation, beyond "
    "those that the site breaks now.",
)
"""Names the limit of broken promises in percent, which is passed as ``max_broken``."""
write_option = click.option(
    "--write",
    "plan",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the recommended policy and its promise into this plan file, for policy set and verify.",
)
"""Names the plan file to write, which is passed as ``plan``."""


def share_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds the option for the share of the users, which is passed as ``share``.

    :param text: its help.
    """
    return click.option("--share", type=click.FloatRange(0, 1, min_open=True), metavar="SHARE", help=text)


change_date_option = click.option(
    "--change-date",
    "split",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Compare waits before and from this day on (UTC).  Default: the first soft walltime.",
)
"""Names the day on which a policy was switched on, which is passed as ``split``."""
site_order_option = click.option(
    "--order", type=click.Choice(["fcfs", "wfp"]), default="fcfs", show_default=True, help="Order of the site's queue."
)
"""Names the order of the queue today, of those that a report can simulate."""


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--waiting`` and ``--running``: predictors as a site's policy names them, with those of ``--predictors``.

    The command gets the predictors for waiting jobs as ``specs``, the baseline first, and the one for running jobs, or
    ``walltime`` or ``keep``, as ``running``, which is ``None`` where neither option was given.
    """

    @predictors_options
    @click.option(
        "--waiting",
        metavar="SPEC",
        shell_complete=complete_predictor,
        help="The predictor for waiting jobs, in place of --predictors.",
    )
    @click.option(
        "--running", metavar="SPEC", shell_complete=complete_predictor,
        help="Predict at the start too, by this predictor, or walltime, or keep.  Default with --waiting: walltime.",
    )  # fmt: skip
    @wraps(command)
    def wrapped(*args: Any, specs: tuple[str, ...], waiting: str | None, running: str | None, **kwargs: Any) -> Any:
        from softwalltime.policy.site import KEEP, WALLTIME
        from softwalltime.predictors.registry import BASELINE, make

        if waiting is not None:
            given = click.get_current_context().get_parameter_source
            if ParameterSource.COMMANDLINE in (given("listed"), given("single")):
                raise UsageError("--waiting: cannot be combined with --predictors or --predictor")
            make(waiting)
            specs = tuple(dict.fromkeys((BASELINE, waiting)))
            running = running or WALLTIME
        if running not in (None, WALLTIME, KEEP):
            make(running)
        return command(*args, specs=specs, running=running, **kwargs)

    return wrapped


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select the store; pass them as ``settings``."""

    @click.option(
        "--dsn", metavar="DSN",
        help="PostgreSQL of the store.  Default: SOFTWALLTIME_DSN, the settings file, else an embedded PostgreSQL.",
    )  # fmt: skip
    @click.option(
        "--data-dir", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
        help="Use the embedded PostgreSQL in this folder.  Default: ~/.local/share/softwalltime.",
    )  # fmt: skip
    @click.option(
        "--config", type=click.Path(dir_okay=False, path_type=Path),
        help="Settings file.  Default: ~/.config/softwalltime.toml and /etc/softwalltime/softwalltime.toml.",
    )  # fmt: skip
    @wraps(command)
    def wrapped(*args: Any, dsn: str | None, data_dir: Path | None, config: Path | None, **kwargs: Any) -> Any:
        def settings(**more: object) -> "Settings":
            from softwalltime.settings import load_settings

            loaded = load_settings(config, dsn=dsn, data_dir=data_dir, **more)
            # --data-dir means the embedded PostgreSQL, also where the settings file names another store.
            return loaded.model_copy(update={"dsn": None}) if data_dir is not None and dsn is None else loaded

        return command(*args, settings=settings, **kwargs)

    return wrapped
