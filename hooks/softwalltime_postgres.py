"""Ask the SQL functions of the published predictors in PostgreSQL: the hook's transport for sites without the daemon.

softwalltime_hook.py loads this file, if ``transport`` is "postgres", as it loads psycopg: only root may change it.

psycopg's Connection would wait inside libpq, where neither the deadline nor PBS's alarm interrupts it.  Therefore this
file uses libpq's non-blocking calls and does all waiting itself.
"""

import os
import select
import sys

from softwalltime_hook_kept import NoAnswerError, check_permissions, is_exclusive, ready, remaining

SQL = (
    b"SELECT softwalltime.soft_walltime(softwalltime.predict($1, $2, $3, $4::bigint, $5::bigint),"
    b" $4::bigint, $6::bigint)"
)
TRUSTED_FOLDERS = set()
"""Folders of psycopg that only root can change; checked once per interpreter."""


def ask(config, request, deadline):
    """Return the answer to a request, as the daemon gives it.

    :param deadline: on the monotonic clock.
    :raises NoAnswerError: if there is none.
    """
    job, settings, starts = request["job"], config["postgres"], request["event"] == "runjob"
    predictor = settings["running" if starts else "waiting"]
    if not starts and settings["exclusive"] != "waiting" and is_exclusive(job["place"]):
        predictor = "walltime"
    if job["walltime"] is None:
        return answer(None, "no walltime")
    if predictor == "walltime":
        return answer(job["walltime"], "the walltime")
    parameters = [predictor, job["user"], job["project"], job["walltime"], request["now"], config["minimum"]]
    seconds = query(settings, config["deadline_ms"], parameters, deadline)
    if seconds is not None:
        return answer(int(seconds), predictor)
    # The daemon decides likewise: PBS keeps a job's soft walltime, and only the walltime cancels it.
    seconds = None if job["soft_walltime"] in (None, job["walltime"]) else job["walltime"]
    return answer(seconds, "no prediction below the walltime by " + predictor)


def answer(seconds, basis):
    """Return an answer that sets these seconds, or nothing."""
    return {"v": 1, "action": "none" if seconds is None else "set", "soft_walltime": seconds, "basis": basis}


def query(settings, deadline_ms, parameters, deadline):
    """Return the value of SQL with these parameters."""
    pq = load_pq(settings["psycopg_path"])
    connection = pq.PGconn.connect_start(connection_string(pq, settings["dsn"], deadline_ms))
    try:
        polled = None
        while polled != pq.PollingStatus.OK:
            if connection.status == pq.ConnStatus.BAD or polled == pq.PollingStatus.FAILED:
                raise NoAnswerError("PostgreSQL: " + libpq_error(connection))
            if polled is not None:
                writes = polled == pq.PollingStatus.WRITING
                wait_for(connection.socket, select.POLLOUT if writes else select.POLLIN, deadline)
            polled = connection.connect_poll()
        connection.nonblocking = 1
        connection.send_query_params(SQL, [str(value).encode("utf-8") for value in parameters])
        while connection.flush():
            wait_for(connection.socket, select.POLLOUT, deadline)
        while connection.is_busy():
            wait_for(connection.socket, select.POLLIN, deadline)
            connection.consume_input()
        result = connection.get_result()
        if result is None or result.status != pq.ExecStatus.TUPLES_OK:
            raise NoAnswerError("PostgreSQL: " + libpq_error(connection))
        return result.get_value(0, 0)
    finally:
        connection.finish()


def wait_for(descriptor, events, deadline):
    """Wait until one of the events of poll happens; raise socket.timeout at the deadline."""
    while not ready(descriptor, events, remaining(deadline)):
        pass


def load_pq(folder):
    """Import psycopg's wrapper of libpq in pure Python: the compiled ones do not survive an interpreter restart."""
    os.environ["PSYCOPG_IMPL"] = "python"
    if folder and folder not in TRUSTED_FOLDERS:
        check_permissions(folder)
        check_permissions(folder + "/psycopg")
        TRUSTED_FOLDERS.add(folder)
        sys.path.append(folder)
    from psycopg import pq

    return pq


def connection_string(pq, dsn, deadline_ms):
    """Return the DSN with timeouts for libpq and the server, unless the DSN sets them itself."""
    values = {
        "application_name": "softwalltime hook",
        "gssencmode": "disable",
        "tcp_user_timeout": str(deadline_ms),
        "options": f"-c statement_timeout={deadline_ms}",
    }
    for option in pq.Conninfo.parse(dsn.encode("utf-8")):
        if option.val is not None:
            values[option.keyword.decode("ascii")] = option.val.decode("utf-8")
    escaped = {key: value.replace("\\", "\\\\").replace("'", "\\'") for key, value in values.items()}
    return " ".join(f"{key}='{value}'" for key, value in escaped.items()).encode("utf-8")


def libpq_error(connection):
    """Return libpq's error message on one line."""
    return " ".join(connection.error_message.decode("utf-8", "replace").split())
