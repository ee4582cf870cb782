"""All that speaks to PostgreSQL: completed jobs, positions in logs, malformed lines.

Take what you need from here; migrations are in :mod:`softwalltime.store.migrations`.
"""

from softwalltime.store.embedded import embedded_postgres
from softwalltime.store.engine import connect
from softwalltime.store.history import last_id, read_history, read_new
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
from softwalltime.store.positions import Head, Position, read_position, read_positions, save_position
from softwalltime.store.predictions import add_decisions
from softwalltime.store.texts import storable_text
from softwalltime.store.upkeep import take_stock

__all__ = [
    "Head",
    "MalformedLine",
    "Position",
    "PreparedJobs",
    "UnstorableJobError",
    "add_decisions",
    "add_jobs",
    "add_prepared_jobs",
    "connect",
    "count_jobs",
    "dropped_malformed",
    "embedded_postgres",
    "last_id",
    "open_engine",
    "open_store",
    "prepare_jobs",
    "read_history",
    "read_jobs",
    "read_malformed",
    "read_new",
    "read_position",
    "read_positions",
    "record_malformed",
    "save_position",
    "storable_text",
    "take_stock",
]
