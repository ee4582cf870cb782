"""Log output of long-running commands on standard error, as text or JSON."""

import json
import logging
import sys
from datetime import UTC, datetime

_OWN_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime"}


def set_up_logging(form: str) -> None:
    """Write the log as text, one line with level and message each, or as JSON, one object each.

    Text has no timestamps, because systemd's journal adds them.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


class _Formatter(logging.Formatter):
    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Return level, message and the fields of ``extra``, then the traceback, if any."""
        fields = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._json:
            document = {
                **fields, "event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name,
                "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            }  # fmt: skip
            return json.dumps(document | ({"exception": trace} if trace else {}), default=str)
        shown = "".join(f" {name}={value}" for name, value in fields.items())
        # Escape control characters: an accounting log may contain any bytes.
        line = f"{record.levelname} {record.getMessage()}{shown}"
        line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
        return f"{line}\n{trace}" if trace else line
