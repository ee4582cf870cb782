"""Which jobs of the store the daemon's predictors learn at its start."""

from functools import partial

import pytest
from sqlalchemy import Engine

from softwalltime.predict.predictors.base import EVERYTHING, History, needed_history
from softwalltime.store.learning_jobs import last_ended_since
from tests.samples import job
from tests.store.stored import add_jobs

NOW = 1_700_000_000
DAY = 86400


@pytest.mark.postgres
def test_it_is_what_all_of_them_need_and_of_the_jobs_by_time_no_more_than_are_enough(engine: Engine) -> None:
    with engine.begin() as connection:
        add_jobs(connection, [job(job_id=f"{day}.srv", end=NOW - day * DAY) for day in range(30)])
    both, few = History(2, 20 * DAY), History(5, 25 * DAY, most=10)
    with engine.connect() as connection:

        def found(*histories: History) -> tuple[int | None, int | None]:
            return needed_history(histories, NOW, partial(last_ended_since, connection, now=NOW))

        assert found(History()) == (0, None)
        assert found(both) == (2, NOW - 20 * DAY)
        assert found(few) == (5, NOW - 10 * DAY + 1)
        assert found(few, both) == (5, NOW - 20 * DAY)
        assert found(History(5, 25 * DAY, most=100), both) == (5, NOW - 25 * DAY)
        assert found(few, EVERYTHING) == (None, None)
