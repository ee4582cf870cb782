"""The options of a command as a frozen dataclass: click's parameters and their values are made from its fields.

A field with :func:`option` or :func:`argument` is a parameter; its type says what click converts to.  ``X | None``,
``bool`` and collections have an obvious default; any other field without ``default`` is required.  A field whose type
is another such class is a group of options, which several commands share.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

import click

T = TypeVar("T")
FILE = click.Path(dir_okay=False, path_type=Path)
"""A file; the type of each field with a path, unless it names another one."""
FOLDER = click.Path(file_okay=False, path_type=Path)
_KEY = "parameter"
_EMPTY: Mapping[Any, Any] = {bool: False, tuple: (), frozenset: frozenset(), Mapping: {}}
"""Defaults of types that have an obvious one."""


@dataclass(frozen=True, slots=True)
class ParameterField:
    """One option or argument: its names on the command line, and click's settings for it."""

    kind: type[click.Parameter]
    names: tuple[str, ...]
    settings: Mapping[str, Any]

    def field(self, hint: Any) -> Any:
        metadata = {_KEY: self}
        if "default" in self.settings:
            return field(default=self.settings["default"], metadata=metadata)
        plain, optional = _plain(hint)
        origin = get_origin(plain) or plain
        if optional or origin in _EMPTY:
            return field(default_factory=lambda: None if optional else _EMPTY[origin], metadata=metadata)
        return field(metadata=metadata)

    def parameter(self, name: str, hint: Any) -> click.Parameter:
        """Return click's parameter, which passes its value under a name."""
        settings = dict(self.settings)
        (plain, optional), least = _plain(hint), settings.pop("least", None)
        origin = get_origin(plain) or plain
        if origin in (tuple, frozenset) and "type" not in settings:
            (plain, *_), is_option = get_args(plain), self.kind is click.Option
            settings |= {"multiple": True} if is_option else {"nargs": -1}
        if plain is bool:
            settings |= {"is_flag": True} | ({"default": None} if optional else {})
        elif least is not None:
            settings["type"] = click.IntRange(least) if plain is int else click.FloatRange(least)
        elif "type" not in settings:
            settings["type"] = FILE if plain is Path else plain
        required = not optional and "default" not in settings and origin not in _EMPTY
        if self.kind is click.Argument:
            return click.Argument([name], **{"required": required, **settings})
        if plain is not bool and settings.get("default") not in (None, ""):
            settings.setdefault("show_default", True)
        names = self.names or (f"--{name.rpartition('__')[2].replace('_', '-')}",)
        return click.Option([*names, name], **{"required": required, **settings})


def option(text: str, *names: str, **settings: Any) -> Any:
    """Return the default of a field that is an option.

    :param text: its help: a verb and an object, or what the value means, with unit and default.
    :param names: on the command line; without them the field's name.
    :param settings: those of ``click.option``; ``least`` is the least number.
    """
    return ParameterField(click.Option, names, {"help": text, **settings})


def argument(metavar: str | None = None, **settings: Any) -> Any:
    """Return the default of a field that is an argument, with the settings of ``click.argument``."""
    return ParameterField(click.Argument, (), {"metavar": metavar, **settings})


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(kind: type[T]) -> type[T]:
    """Make a class of options: a frozen dataclass whose fields are parameters and groups of them."""
    hints = get_type_hints(kind)
    for name, value in list(vars(kind).items()):
        if isinstance(value, ParameterField):
            setattr(kind, name, value.field(hints[name]))
    return dataclass(frozen=True, kw_only=True)(kind)


def parameters(kind: type, prefix: str = "") -> Iterator[click.Parameter]:
    hints = get_type_hints(kind)
    for item in fields(kind):
        if _KEY in item.metadata:
            yield item.metadata[_KEY].parameter(prefix + item.name, hints[item.name])
        elif has_parameters(hints[item.name]):
            yield from parameters(hints[item.name], f"{prefix}{item.name}__")


def has_parameters(hint: Any) -> bool:
    marked = getattr(hint, "__dataclass_fields__", {})
    return any(_KEY in item.metadata or has_parameters(item.type) for item in marked.values())


def build(kind: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    """Return the options with the values from click; the class method ``given``, if there is one, creates them."""
    hints, chosen = get_type_hints(kind), {}
    for item in fields(kind):  # type: ignore[arg-type]  # a class made by options()
        hint = hints[item.name]
        if has_parameters(hint):
            chosen[item.name] = build(hint, values, f"{prefix}{item.name}__")
        elif _KEY in item.metadata and (value := values[prefix + item.name]) is not None:
            chosen[item.name] = frozenset(value) if get_origin(hint) is frozenset else value
    made: T = getattr(kind, "given", kind)(**chosen)
    return made


def _plain(hint: Any) -> tuple[Any, bool]:
    """Return a type without ``None``, and whether ``None`` was in it."""
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        (plain,) = (member for member in get_args(hint) if member is not NoneType)
        return plain, True
    return hint, False
