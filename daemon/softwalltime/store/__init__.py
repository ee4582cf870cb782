"""All that speaks to PostgreSQL: completed jobs, positions in logs, malformed lines.

Take what you need from here; migrations are in :mod:`softwalltime.store.migrations`.
"""

from softwalltime.store.current import alter_current, forget_current, read_current, set_current
from softwalltime.store.daily import Quality, recent_quality, refresh
from softwalltime.store.embedded import embedded_postgres
from softwalltime.store.engine import connect
from softwalltime.store.history import last_id, read_history, read_new
from softwalltime.store.interrupted import add_interrupted
from softwalltime.store.jobs import (
    PreparedJobs,
    UnstorableJobError,
    add_jobs,
    add_prepared_jobs,
    count_jobs,
    prepare_jobs,
    read_jobs,
)
from softwalltime.store.malformed import MalformedLine, dropped_malformed, read_malformed, record_malformed
from softwalltime.store.opening import open_engine, open_store
from softwalltime.store.positions import Head, Position, Tail, read_position, read_positions, save_position
from softwalltime.store.predictions import add_decisions
from softwalltime.store.retention import Retention, forget
from softwalltime.store.teaching import set_teaching
from softwalltime.store.texts import storable_text
from softwalltime.store.upkeep import take_stock

__all__ = [
    "Head",
    "MalformedLine",
    "Position",
    "PreparedJobs",
    "Quality",
    "Retention",
    "Tail",
    "UnstorableJobError",
    "add_decisions",
    "add_interrupted",
    "add_jobs",
    "add_prepared_jobs",
    "alter_current",
    "connect",
    "count_jobs",
    "dropped_malformed",
    "embedded_postgres",
    "forget",
    "forget_current",
    "last_id",
    "open_engine",
    "open_store",
    "prepare_jobs",
    "read_current",
    "read_history",
    "read_jobs",
    "read_malformed",
    "read_new",
    "read_position",
    "read_positions",
    "recent_quality",
    "record_malformed",
    "refresh",
    "save_position",
    "set_current",
    "set_teaching",
    "storable_text",
    "take_stock",
]
