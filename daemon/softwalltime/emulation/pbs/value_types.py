"""The types of PBS's values in a hook.

Most are no ``str``, although they print like one: ``job.Job_Name == "x"`` is false whatever the name, and only
``str(job.Job_Name)`` can be compared.  Those that are (``pbs_str``) or count as ``int`` (``pbs_int``, ``duration``) are
the exceptions.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self


class EventIncompatibleError(AttributeError):
    """The event lacks this parameter."""


class UnsetAttributeNameError(Exception):
    """There is no attribute of that name to set."""


class BadAttributeValueTypeError(Exception):
    """A value of this type cannot be given to the attribute."""


class BadAttributeValueError(Exception):
    """The attribute cannot have this value, or cannot be set."""


class UnsetResourceNameError(Exception):
    """There is no resource of that name to set."""


class BadResourceValueTypeError(Exception):
    """A value of this type cannot be given to the resource."""


class BadResourceValueError(Exception):
    """The resource cannot have this value."""


_TIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+)(?:\.(\d*))?", re.ASCII)
_MAX_SECONDS = 2**63 - 2


def seconds(text: str) -> int:
    """Seconds of ``[[hours:]minutes:]seconds[.fraction]``; half a second and more rounds up, and ``""`` is 0.

    >>> seconds("01:00:30.5")
    3631
    """
    if not text:
        return 0
    match = _TIME.fullmatch(text)
    if match is None:
        raise BadResourceValueError(f"input value {text} not of the right format for 'walltime'")
    hours, minutes, rest, fraction = match.groups()
    result = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(rest)
    result += int((fraction or "0").ljust(3, "0")[:3]) >= 500
    if result > _MAX_SECONDS:
        raise BadResourceValueError(f"input value {text} not of the right format for 'walltime'")
    return result


class Generic:
    """A value that can only be printed: a comparison with a text is always false."""

    _value: object

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return str(self._value)

    __repr__ = __str__


_TRUTH: Final = {
    **dict.fromkeys(("True", "true", "TRUE", "t", "T", "y", "1"), 1),
    **dict.fromkeys(("False", "false", "FALSE", "f", "F", "n", "0"), 0),
}


class PbsBool(Generic):
    """True or False; prints as 1 or 0."""

    def __init__(self, value: object) -> None:
        if str(value) not in _TRUTH:
            raise BadAttributeValueError(f"input value {value} not of the right format for 'Rerunable'")
        super().__init__(_TRUTH[str(value)])

    def __bool__(self) -> bool:
        return self._value == 1

    def __int__(self) -> int:
        return int(bool(self))


class Duration(int):
    """Seconds that print in the given notation."""

    _text: str

    def __new__(cls, value: object) -> Self:
        text = str(value)
        self = super().__new__(cls, seconds(text))
        self._text = text
        return self

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return int.__repr__(self)


class Size(Generic):
    """Memory or disk space: ``4gb``, ``100kw`` (words of 8 bytes), 4096."""

    def __init__(self, value: object) -> None:
        text = str(value)
        match = re.fullmatch(r"(\d+)([kmgtp]?)([bw]?)", text.lower(), re.ASCII)
        if match is None:
            raise BadResourceValueError(f"Bad size value: {text}")
        number, unit, word = match.groups()
        super().__init__(text if unit or word else f"{number}b")


class PbsEnv(dict[str, str]):
    """Variable_List: a dict whose ``PBS_O_`` entries a hook may not change."""

    def __init__(self, text: str) -> None:
        entries = re.split(r"(?<!\\),", text) if text else []
        super().__init__(entry.split("=", 1) for entry in entries if "=" in entry)

    def __setitem__(self, name: str, value: str) -> None:
        if name.startswith("PBS_") or name == "TMPDIR":
            raise BadAttributeValueError(f"env variable '{name}' is readonly")
        super().__setitem__(name, value)

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.items())


def _state(words: Mapping[str, int], unknown: int = -1) -> type[int]:
    """Return the type of a state: a number in hooks, a letter or a word in PBS's output."""

    class _State(int):
        def __new__(cls, value: object) -> Self:
            return super().__new__(cls, words.get(value, unknown) if isinstance(value, str) else int(str(value)))

    return _State


_TEXT_TOO: Final = ("name", "project", "path", "sandbox")
_PRINTED_NAMES: Final = """
    name project path sandbox acl args checkpoint depend email_list exec_host exec_vnode generic group_list hold_types
    job_sort_formula join_path keep_files license_count mail_points node_group_key path_list pbs_list place priority
    range route_destinations select software staging_list state_count user_list version
"""
_PRINTED: Final = _PRINTED_NAMES.split()
TYPES: Final[dict[str, type[Any]]] = {
    **{name: type(name, (Generic,), {"__doc__": f"PBS's type {name}."}) for name in _PRINTED},
    "pbs_bool": PbsBool,
    "pbs_int": type("PbsInt", (int,), {}),
    "pbs_float": type("PbsFloat", (float,), {}),
    **dict.fromkeys(("pbs_str", "vnode", "resv"), type("PbsStr", (str,), {})),
    "pbs_env": PbsEnv,
    "duration": Duration,
    "size": Size,
    "str": str,
    # Q is pbs.JOB_STATE_QUEUED, and so on.
    "job_state": _state({**{letter: number for number, letter in enumerate("TQHWREXBMF")}, "S": 400, "U": 410}),
    # A job's own R is -1, as on the server.
    "queue_type": _state({"E": 1, "Execution": 1, "Route": 2}),
    "server_state": _state({"Hot_Start": 2, "Active": 3, "Terminating_Delay": 4, "Terminating": 5}, unknown=0),
}
"""The type of each kind of value."""
_ALSO: Final[dict[str, tuple[type[Any], ...]]] = {
    **dict.fromkeys(_PRINTED, (Generic,)),
    **dict.fromkeys(_TEXT_TOO, (Generic, str)),
    "priority": (Generic, int),
    "pbs_bool": (bool,),
    "pbs_int": (int, float),
    "pbs_float": (int, float),
    "pbs_str": (str,),
    "duration": (int,),
}


def loaded(kind: str, text: str) -> Any:
    """Convert PBS's value to the hook's type. An empty text, which unsets a value, remains a text."""
    return TYPES[kind](text) if text else text


def assigned(kind: str, value: object, wrong: Callable[[str], Exception]) -> Any:
    """Convert a value that a hook assigns; ``wrong`` makes the error for a type that PBS refuses."""
    if value is None:
        return ""
    own = TYPES[kind]
    if isinstance(value, own):
        return value
    if not isinstance(value, _ALSO.get(kind, ())):
        raise wrong(f"must be 'None' or a {own.__name__}, not {value!r}")
    return own(value)


def as_seconds(value: object) -> int | None:
    """Return a duration in seconds; ``None`` if it is not set or unset."""
    return None if value is None or value == "" else seconds(str(value))


def resource_list(pairs: Iterable[tuple[str, object]]) -> str:
    """Return resources as one text, in PBS's print format."""
    printed = ((name, str(value)) for name, value in pairs)
    return ",".join(
        f'{name}="{text}"' if "," in text and '"' not in text else f"{name}={text}" for name, text in printed
    )
