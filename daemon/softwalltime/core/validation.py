"""Read and validate settings, with messages about what is wrong."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from softwalltime.core.errors import SourceError, UsageError, meant

Place = tuple[str | int, ...]
"""Keys and positions that lead to a value: ``("policy", "rules", 0, "queue")``."""

M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    """A model of settings: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def read_toml(file: Path, what: str) -> dict[str, Any]:
    """Return the contents of a file.

    :param what: how its errors begin.
    :raises SourceError: if it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"{what}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{what}: not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise SourceError(f"{what}: not TOML: nested too deeply") from error
    # ValueError: tomllib raises it for numbers of more than 4,300 digits.
    except ValueError as error:
        raise SourceError(f"{what}: not TOML: {error}") from error


def validate(model: type[M], table: str, values: Mapping[str, object]) -> M:
    """Return a table of the settings, or of another file if ``table`` is empty.

    :raises UsageError: names the first wrong key, and what is wrong with its value.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        place, reason = next(problems(error, model))
        raise UsageError(f"{written((table, *place))}: {reason}") from error


def problems(error: ValidationError, model: type[BaseModel], secret: str | None = None) -> Iterator[tuple[Place, str]]:
    """Yield the place of each error, and what is wrong there.

    :param secret: a key whose values are not repeated.
    """
    for problem in error.errors():
        place = tuple(problem["loc"])
        if problem["type"] == "extra_forbidden":
            yield place, f"unknown key; {hint(str(place[-1]), _known(model, place[:-1]))}"
            continue
        reason = plain(problem["msg"])
        yield place, reason if secret in place or not place else f"{reason} ({str(problem['input'])[:60]!r})"


def plain(message: str) -> str:
    """Return pydantic's message without its prefix about types."""
    return message.removeprefix("Value error, ").removeprefix("Input ").replace(" for <class 'pathlib.Path'>", "")


def hint(key: str, known: Iterable[str]) -> str:
    """Return similar known keys, else all of them."""
    known = list(known)
    return meant(key, known) or f"there are {', '.join(known)}"


def written(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _known(model: type[BaseModel], place: Place) -> Iterable[str]:
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            model = next(_models(model.model_fields[part].annotation), model)
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models inside an annotation, as in ``tuple[Rule, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
