"""Log output of long-running commands on standard error, as text or JSON."""

import logging
import sys

import structlog


def set_up_logging(form: str) -> None:
    """Write the log as text, one line with level and message each, or as JSON, one object each.

    Text has no timestamps, because systemd's journal adds them.
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
    """Return level, message and fields in one line, then the traceback, if any."""
    level, message = str(event.pop("level")).upper(), event.pop("event")
    trace = structlog.processors.format_exc_info(_logger, _method, event).pop("exception", "")
    event.pop("exc_info", None)
    fields = "".join(f" {name}={value}" for name, value in event.items() if name != "exception")
    return _printable(f"{level} {message}{fields}") + (f"\n{trace}" if trace else "")


def _printable(text: str) -> str:
    """Return the text with unprintable characters escaped: an accounting log may contain anything."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
