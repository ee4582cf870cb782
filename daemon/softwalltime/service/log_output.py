"""Log output of long-running commands on standard error."""

import logging
import sys

_OWN_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime"}


def set_up_logging() -> None:
    """Write one line with level and message for each record, without a time, which systemd's journal adds."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # A connection that breaks while it is returned is replaced; the pool would log a traceback.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return level, message and the fields of ``extra``, then the traceback, if any."""
        fields = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        shown = "".join(f" {name}={value}" for name, value in fields.items())
        # Escape control characters: an accounting log may contain any bytes.
        line = f"{record.levelname} {record.getMessage()}{shown}"
        line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
        return f"{line}\n{trace}" if trace else line
