"""Which jobs teach, for the predictors in SQL."""

from collections.abc import Collection

from sqlalchemy import Connection, delete, insert, select

from softwalltime.states import State
from softwalltime.store.locks import lock
from softwalltime.store.tables import teaching_states


def set_teaching(connection: Connection, states: Collection[State]) -> bool:
    """Let the jobs that ended so, and no others, teach the predictors in SQL; whether that is a change."""
    known = set(connection.execute(select(teaching_states.c.state)).scalars())
    if known == set(states):
        return False
    lock(connection)
    connection.execute(delete(teaching_states))
    if states:
        connection.execute(insert(teaching_states), [{"state": state.value} for state in states])
    return True
