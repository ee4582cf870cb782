"""How what runs for long says what it does: on standard error, for people or for programs."""

import logging
import sys

import structlog


def set_up_logging(form: str) -> None:
    """Write the log as text, a level and a sentence a line, or as JSON, an object with all its fields a line.

    Neither has a time of its own in text, because systemd's journal has one.
    """
    shared: list[structlog.typing.Processor] = [structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()]
    if form == "json":
        shared += [structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.stdlib.add_logger_name]
        last: list[structlog.typing.Processor] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    else:
        last = [_sentence]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _sentence(_logger: object, _method: str, event: structlog.typing.EventDict) -> str:
    """The level, the sentence, and the fields after it, in one line whatever they hold; then a traceback, if any."""
    level, message = str(event.pop("level")).upper(), event.pop("event")
    trace = structlog.processors.format_exc_info(_logger, _method, event).pop("exception", "")
    event.pop("exc_info", None)
    fields = "".join(f" {name}={value}" for name, value in event.items() if name != "exception")
    return _printable(f"{level} {message}{fields}") + (f"\n{trace}" if trace else "")


def _printable(text: str) -> str:
    """The text with escapes for what is not to be seen: a log that is followed may hold anything."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
