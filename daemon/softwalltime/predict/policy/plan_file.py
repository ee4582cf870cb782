"""Read and write the plan file (TOML): recommendation of ``report --write``, for ``policy set`` and ``verify``."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from softwalltime.core.errors import UsageError
from softwalltime.core.validation import Strict, read_toml, validate
from softwalltime.predict.policy.presets import UNDO, PresetName
from softwalltime.predict.policy.site import Spec, site_policy

_HEADER: Final = "# What softwalltime report recommends for this site, and what it promises."
_COMMANDS: Final = {
    "softwalltime policy set {}": "list all changes",
    "softwalltime policy set {} --apply": "make them; --share 0.1: for a tenth of the users first",
    "softwalltime verify {}": "compare recorded waits with the promise, a week or more later",
    UNDO: "undo it",
}
_ABOUT: Final = {
    "policy": "[policy] of the settings",
    "live": "[live] of the settings",
    "pbs": "Settings of PBS; policy set lists the others, which every preset needs",
    "promised": "What the simulation promises: waits in seconds, shares from 0 to 1, changes with their 95% interval",
    "promised.classes": "Waits of classes of jobs; longer: beyond the 95% interval",
}


class PlannedPolicy(Strict):
    """The values of ``[policy]``; those below ``preset`` only with preset custom."""

    preset: Annotated[PresetName, Field(description="a preset, or custom: the values below")]
    share: float = Field(default=1.0, gt=0, le=1)
    mode: Literal["on"] | None = None
    waiting: Spec | None = None
    running: Spec | None = None
    ordering: Spec | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        values = [self.mode, self.waiting, self.running]
        if self.preset == "custom" and None in values:
            raise ValueError("preset custom needs mode, waiting and running")
        if self.preset != "custom" and any(value is not None for value in (*values, self.ordering)):
            raise ValueError(f"preset {self.preset} has values of its own: remove mode, waiting, running and ordering")
        return self

    def values(self) -> dict[str, Any]:
        return {"preset": self.preset, **self.model_dump(exclude_none=True)}


class PlannedLive(Strict):
    """The values of ``[live]``."""

    mode: Literal["off", "on"]
    guard: int | Literal["off"]


class PlannedPbs(Strict):
    """PBS settings that the recommended policy needs."""

    job_sort_formula: str


class PromisedChange(Strict):
    """A relative change and its 95% interval."""

    mean: float
    low: float
    high: float


class PromisedClass(Strict):
    """The mean wait of a class of jobs, in seconds."""

    kind: str
    name: str
    jobs: int
    wait_before: float
    wait_after: float
    change: PromisedChange | None = None
    longer: bool = False


class Promised(Strict):
    """The simulated effect; waits in seconds.

    ``baseline``: name of the site's current policy.  ``scheduler``: its values in the simulator that are not defaults;
    empty: unknown.  ``broken_before`` and ``broken_after``: shares of promised starts that are late.
    """

    baseline: str
    scheduler: dict[str, Any] = Field(default_factory=dict)
    wait_before: float
    wait_after: float
    change: PromisedChange
    broken_before: float
    broken_after: float
    jobs: int
    processors: int
    first_submission: AwareDatetime
    last_submission: AwareDatetime
    classes: tuple[PromisedClass, ...] = ()


class Plan(Strict):
    """A recommended policy, and its predicted effect."""

    written: AwareDatetime
    version: str
    setting: str
    recommendation: str
    policy: PlannedPolicy
    live: PlannedLive
    pbs: PlannedPbs | None = None
    promised: Promised

    @property
    def promised_until(self) -> int:
        """The last simulated submission, epoch seconds: the policy was not in use before."""
        return int(self.promised.last_submission.timestamp())


def moment_of(epoch: int) -> datetime:
    """Return epoch seconds as a TOML date and time."""
    return datetime.fromtimestamp(epoch, UTC)


def read_plan(file: Path) -> Plan:
    """Read a plan file.

    :raises UsageError: if it is none; names the file, the key and its value.
    """
    values = read_toml(file, str(file))
    try:
        plan = validate(Plan, "", values)
        site_policy(plan.policy.values())
    except UsageError as error:
        raise UsageError(f"{file}: {error}; softwalltime report --write writes a plan") from error
    return plan


def plan_text(plan: Plan, name: str) -> str:
    """Return a plan as the text of its file, whose name the commands in its first lines have."""
    commands = {command.format(name): does for command, does in _COMMANDS.items()}
    width = max(map(len, commands))
    lines = [_HEADER, *(f"#   {command:<{width}}   {does}" for command, does in commands.items()), ""]
    return "\n".join([*lines, *_table("", plan.model_dump(exclude_none=True))]) + "\n"


def _table(path: str, values: Mapping[str, Any]) -> Iterator[str]:
    tables = {
        key: value
        for key, value in values.items()
        if (isinstance(value, Mapping) and not path) or (isinstance(value, tuple | list) and value)
    }
    yield from (f"{key} = {toml_value(value)}" for key, value in values.items() if key not in tables)
    for key, value in tables.items():
        inner = f"{path}.{key}" if path else key
        several = not isinstance(value, Mapping)
        for number, table in enumerate(value if several else (value,)):
            yield from ("", f"# {_ABOUT[inner]}")[: 1 if number else 2]
            yield f"[[{inner}]]" if several else f"[{inner}]"
            yield from _table(inner, table)


def toml_value(value: object) -> str:
    """Return a value in TOML syntax, which has no null: such keys are left out.

    >>> toml_value({"mean": -0.25, "wide": True}), toml_value('a "b"'), toml_value(({"most": 1}, 2))
    ('{mean = -0.25, wide = true}', '"a \\\\"b\\\\""', '[{most = 1}, 2]')
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {toml_value(inner)}' for key, inner in value.items() if inner is not None)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON strings are TOML strings, except for the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
