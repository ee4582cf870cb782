"""Those who write take turns, and so do those who change the tables."""

from enum import IntEnum

from sqlalchemy import Connection, func, select

# With it the numbers below are ours: any that nothing else in the same database uses would do.
_OURS = 0x50425353


class Lock(IntEnum):
    """What only one connection does at a time."""

    WRITE = 1
    MIGRATE = 2


def lock(connection: Connection, turn: Lock = Lock.WRITE) -> None:
    """Wait until no other connection has this turn, and keep it until this transaction ends.

    One writer at a time gives out ids in the order of commits: who has seen an id has seen all before it.  And two
    that write the same jobs in different orders cannot block each other for good.
    """
    connection.execute(select(func.pg_advisory_xact_lock(_OURS, int(turn))))
