"""Find predictors, and create them from specs such as ``percentile:p=95,keys=user+project,window=30d``.

The registry has the classes in this package's modules, and those of other installed packages with entry points in the
group ``softwalltime.predict.predictors``.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from pydantic import ValidationError

import softwalltime.predict.predictors as package
from softwalltime.core.errors import OptionError, meant
from softwalltime.core.extras import what_to_install
from softwalltime.predict.predictors.base import Options, Predictor
from softwalltime.predict.predictors.baselines import RequestedWalltime

ENTRY_POINT_GROUP = "softwalltime.predict.predictors"
BASELINE = RequestedWalltime.name
"""The baseline predictor, which never predicts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A predictor in the registry, loaded or with the reason why it cannot be loaded."""

    name: str
    origin: str
    predictor: type[Predictor] | None
    problem: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.predictor.aliases) if self.predictor else (self.name,)


@cache
def entries() -> tuple[Entry, ...]:
    """Return all predictors, those of this package first; the first one with a name keeps it."""
    registered: list[Entry] = []
    taken: dict[str, str] = {}
    for entry in (*_own(), *_foreign()):
        clash = next((name for name in entry.names if name in taken), None)
        if clash is None:
            registered.append(entry)
            taken.update(dict.fromkeys(entry.names, entry.origin))
        else:
            problem = f"its name {clash!r} is taken by {taken[clash]}"
            registered.append(Entry(entry.name, entry.origin, None, problem))
    return tuple(registered)


def available() -> tuple[type[Predictor], ...]:
    return tuple(entry.predictor for entry in entries() if entry.predictor)


def find(name: str) -> type[Predictor]:
    """Return the predictor with this name or alias.

    :raises OptionError: if there is none, or it cannot be loaded; the message has the known names or the reason.
    """
    for entry in entries():
        if name in entry.names and entry.predictor:
            return entry.predictor
    for entry in entries():
        if name == entry.name:
            raise OptionError(f"predictor {name!r} of {entry.origin} cannot be used: {entry.problem}")
    names = [name for entry in entries() if entry.predictor for name in entry.names]
    known = meant(name, names) or f"there are {', '.join(names)}"
    raise OptionError(f"no predictor is called {name!r}; {known}")


def make(spec: str) -> Predictor:
    """Make a predictor from a spec: a name, or ``name:option=value,option=value``.

    The first value may omit its name if the predictor has a main option.

    >>> make("percentile:p=95,keys=user,window=7d").options.window
    604800
    >>> make("factor:0.5").options.share
    0.5

    :raises OptionError: if the spec is wrong; names the option, its value and the allowed values.
    """
    name, _, listed = spec.partition(":")
    predictor = find(name.strip())
    given: dict[str, str] = {}
    for item in (item.strip() for item in listed.split(",")) if listed.strip() else ():
        option, equals, value = item.partition("=")
        if not equals and predictor.main_option and not given:
            option, equals, value = predictor.main_option, "=", item
        if not equals:
            raise OptionError(f"{spec!r}: {item!r} is not of the form option=value")
        if option in given:
            raise OptionError(f"{spec!r}: option {option!r} is given twice")
        given[option] = value
    return predictor(_options(predictor, spec, given))


def contents_of(spec: str) -> str:
    """Return a digest of the files that a predictor with this spec reads; empty if it reads none or cannot be made."""
    try:
        return make(spec).contents
    # Another package's predictor may raise any exception; it is reported when the predictor is created for use.
    except Exception:
        return ""


def split_specs(text: str) -> list[str]:
    """Split a list such as ``v1,percentile:p=95,keys=user,v3``, in which both lists and options use commas.

    A part with ``=`` before any ``:`` continues the options of the predictor before it.

    >>> split_specs("v1,percentile:p=95,keys=user,v3")
    ['v1', 'percentile:p=95,keys=user', 'v3']

    :raises OptionError: if an entry is empty.
    """
    specs: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            raise OptionError(f"the list of predictors {text!r} has an empty entry: name a predictor or remove a comma")
        if specs and ":" in specs[-1] and "=" in part.partition(":")[0]:
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    return specs


def _options(predictor: type[Predictor], spec: str, given: dict[str, str]) -> Options:
    fields = predictor.options_type.model_fields
    for option in given:
        if option not in fields:
            known = meant(option, fields) or (f"it takes {', '.join(fields)}" if fields else "it takes none")
            raise OptionError(f"{spec!r}: {predictor.name} has no option {option!r}; {known}")
    try:
        return predictor.options_type.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]) if first["loc"] else "options"
        reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        raise OptionError(f"{spec!r}: {option}={given.get(option, '')}: {reason}") from error


def _own() -> Iterable[Entry]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        try:
            imported = importlib.import_module(module.name)
        # An optional package that is missing or damaged must not disable the other predictors.
        except Exception as error:
            # By convention such a module has one predictor, with the module's name and "-" for "_".
            problem = f"{type(error).__name__}: {error}"
            if isinstance(error, ImportError):
                problem = what_to_install(error) or str(error)
            yield Entry(module.name.rpartition(".")[2].replace("_", "-"), "softwalltime", None, problem)
            continue
        for _, member in inspect.getmembers(imported, inspect.isclass):
            if member.__module__ == module.name and issubclass(member, Predictor) and not inspect.isabstract(member):
                yield Entry(member.name, "softwalltime", member)


def _foreign() -> Iterable[Entry]:
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        origin = point.dist.name if point.dist else point.value
        try:
            member = _check(point.load(), point.name)
        # Another package may raise any exception: list it with the error and continue.
        except Exception as error:
            yield Entry(point.name, origin, None, f"{type(error).__name__}: {error}")
        else:
            yield Entry(point.name, origin, member)


def _check(member: object, name: str) -> type[Predictor]:
    """Refuse an object that is not a predictor; the conformance suite has all other requirements."""
    if not inspect.isclass(member):
        raise TypeError(f"{member!r} is not a class")
    if not issubclass(member, Predictor):
        raise TypeError(f"{member.__qualname__} is not a subclass of softwalltime.predict.predictors.base.Predictor")
    missing = [part for part in ("name", "summary", "source") if not hasattr(member, part)]
    if missing or inspect.isabstract(member):
        raise TypeError(f"{member.__qualname__} lacks {', '.join((*missing, *member.__abstractmethods__))}")
    if member.name != name:
        raise TypeError(f"{member.__qualname__} is called {member.name!r}, its entry point {name!r}")
    return member
