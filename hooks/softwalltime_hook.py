"""Set the soft walltimes of PBS jobs.

This is a PBS server hook for the events queuejob, postqueuejob, modifyjob and runjob.  It requests the predicted
runtime of a job from the softwalltime daemon (or PostgreSQL) and sets ``Resource_List.soft_walltime``.  README.md in
this folder describes the events, the configuration and the protocol.

It runs inside pbs_server, as root, on an embedded interpreter.  The whole server waits while it runs.  Therefore:

- It uses Python 3.6 and the standard library only: every pbs_server has them, and they survive the restarts of its
  interpreter.  The functions below, the configuration, the connection to the daemon, the state of the breaker and the
  soft walltimes set by managers persist between two runs.
- It accepts every request.  An unhandled exception would reject the user's qsub.
- One deadline, on a monotonic clock, limits the total wait.
- It validates every value that it sets.  PBS validates none at postqueuejob and runjob, and a soft walltime of 0 kills
  the scheduler.
"""

# ruff: noqa: PTH105, PTH114, PTH116, PTH118, PTH120, PTH123, UP041 - on Python 3.6 socket.timeout is not TimeoutError; pathlib loads slowly.

import contextlib
import sys
import time

# pbs_server executes this file for each event in new globals without a __name__, so that of the builtins is used.
# Defining the functions below takes longer than most runs, so a module keeps them until the interpreter restarts or
# another version of this file, which has another code object, is imported.
if __name__ == "builtins":
    import pbs

    try:
        _code = sys._getframe().f_code
        _kept = sys.modules.get("softwalltime_hook_kept")
        if _kept is None or _kept.code is not _code:
            getattr(_kept, "disconnect", int)()
            _kept = type(sys)("softwalltime_hook_kept")
            _kept.code = _code
            exec(_code, _kept.__dict__)  # noqa: S102 - the code of this file
            sys.modules["softwalltime_hook_kept"] = _kept
        _kept.run(pbs, time.time())
    except BaseException as _error:  # PBS's alarm raises KeyboardInterrupt; no bug of the hook may cost a user a job.
        with contextlib.suppress(BaseException):  # Nothing is left to try.
            pbs.logmsg(pbs.LOG_WARNING, f"softwalltime: {type(_error).__name__}: the request is accepted unchanged")
    if pbs.event() is not None:
        pbs.event().accept()  # Ends the run: nothing below is executed.

import collections
import json
import os
import re
import select
import socket
from json.encoder import encode_basestring_ascii as quoted

PROTOCOL = 1
"""Version of a request, and lowest version of an answer."""
NEWEST = 2
"""Highest version of an answer.  The request names it; older daemons ignore that."""
MAX_LINE = 65536
"""Maximum length of a request or an answer in bytes, with its newline."""
RECEIVED = 4096
"""Bytes received at once; most answers have about 100, and allocating memory for the longest takes time."""
DECODE = json.JSONDecoder().decode
NO_LIMIT = 5 * 365 * 24 * 3600
"""Runtime that the scheduler assumes for a job without walltime, in seconds."""
TIMEOUTS = "SOFTWALLTIME_HOOK_TIMEOUTS"
"""Environment variable of pbs_server with the state of the breaker.

Its value is "COUNT TIME PEER": the number of timeouts in a row, the monotonic time of the last change, and the peer.
"slow" precedes the peer if slow answers opened the breaker.
"""
WARNED = "SOFTWALLTIME_HOOK_WARNED"
"""Environment variable of pbs_server with the last warning that the ordering value cannot be set.

Its value is "TIME NAME": the monotonic time of the warning and the name of the resource.
"""
WARNING_INTERVAL = 600
"""Seconds between two warnings that the ordering value cannot be set."""


# ---- Configuration -------------------------------------------------------------------------------------------------

DEFAULTS = {
    "transport": "daemon",
    "socket": "/run/softwalltime/hook.sock",
    "deadline_ms": 50,
    "breaker_failures": 3,
    "breaker_requests": 20,
    "breaker_budget_ms": 0,
    "breaker_seconds": 30,
    "minimum": 60,
    "ordering": "predicted",
    "daemon_users": ["softwalltime", "softwalltime-live"],
    "events": {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True},
    "runjob": "always",
    "runjob_fallback": "walltime",
    "jobs_without_walltime": False,
    "clean_texts": True,
    "attributes": True,
    "log": "all",
    "postgres": {"dsn": "", "psycopg_path": "", "waiting": "usage", "running": "walltime", "exclusive": "walltime"},
}


TRUSTED_FOLDERS = set()
"""Folders in which only root can write code; checked once per interpreter."""
LAST_EXCHANGE = {}
"""Duration of the last answered exchange in microseconds, with the key "us"."""
RECENT_EXCHANGES = {}
"""Durations of the last answered exchanges in seconds, as a list for each peer."""
CONFIGURATIONS = {}
"""The configuration that was read last and its errors, by the version of the file."""


def integer(least, most):
    """Return a check that accepts an integer from ``least`` to ``most``."""
    return lambda value: type(value) is int and least <= value <= most


def one_of(*words):
    """Return a check that accepts one of the words."""
    return lambda value: isinstance(value, str) and value in words


def boolean(value):
    """Accept true and false; neither 1 nor the text "False", which Python treats as true."""
    return value is True or value is False


def text(value):
    """Accept any text."""
    return isinstance(value, str)


def texts(value):
    """Accept a list of texts."""
    return isinstance(value, list) and all(text(each) for each in value)


def absolute_path(value):
    """Accept an absolute path."""
    return text(value) and value.startswith("/")


def custom_resource(value):
    """Accept a name that a custom resource may have, and the empty text."""
    return text(value) and re.match(r"([A-Za-z][A-Za-z0-9_-]*)?\Z", value) is not None and value not in BUILT_IN


def start_rule(value):
    """Accept a value of the key ``runjob``: at which job starts the hook sends a request."""
    if isinstance(value, dict):
        return list(value) == ["waited_longer_than"] and integer(0, NO_LIMIT)(value["waited_longer_than"])
    return one_of("always", "never", "if-none")(value)


BUILT_IN = (
    "walltime", "soft_walltime", "min_walltime", "max_walltime", "cput", "pcput", "mem", "vmem", "pmem", "pvmem",
    "ncpus", "nodes", "nodect", "ngpus", "select", "place", "host", "vnode", "nice", "file", "arch", "software", "site",
)  # fmt: skip
"""Resources with a meaning in PBS, which cannot hold the ordering value."""
CHECKS = {
    "transport": one_of("daemon", "postgres"),
    "socket": absolute_path,
    "deadline_ms": integer(1, 5000),
    "breaker_failures": integer(1, 1000),
    "breaker_requests": integer(1, 1000),
    "breaker_budget_ms": integer(0, 5000000),
    "breaker_seconds": integer(0, 86400),
    "minimum": integer(60, 86400),
    "ordering": custom_resource,
    "daemon_users": texts,
    "events": {"queuejob": boolean, "postqueuejob": boolean, "modifyjob": boolean, "runjob": boolean},
    "runjob": start_rule,
    "runjob_fallback": one_of("walltime", "keep"),
    "jobs_without_walltime": boolean,
    "clean_texts": boolean,
    "attributes": boolean,
    "log": one_of("all", "changes", "errors", "off"),
    "postgres": {
        "dsn": text,
        "psycopg_path": lambda value: value == "" or absolute_path(value),
        "waiting": text,
        "running": text,
        "exclusive": one_of("walltime", "waiting"),
    },
}
"""The check of each key's value."""


def merge(given, defaults, checks, prefix, errors):
    """Return the defaults with the valid values of ``given``; append a message to ``errors`` for each invalid one."""
    result = dict(defaults)
    if not isinstance(given, dict):
        errors.append(f"{prefix or 'the file'} is not an object")
        return result
    for key, value in given.items():
        name = prefix + key
        if key not in defaults:
            errors.append(f"{name}: unknown key")
        elif isinstance(defaults[key], dict):
            result[key] = merge(value, defaults[key], checks[key], name + ".", errors)
        elif checks[key](value):
            result[key] = value
        else:
            errors.append(f"{name}: invalid value {json.dumps(value)[:60]}")
    return result


def read_configuration(path):
    """Return the complete configuration in a file and its errors; the defaults if there is no file.

    Reading a file takes as long as the rest of a run without a request, so each version of it is read once.
    """
    if not path:
        return DEFAULTS, []
    errors = []
    given = {}
    version = None
    try:
        status = os.stat(path)
        version = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if version in CONFIGURATIONS:
            return CONFIGURATIONS[version]
        with open(path, "rb") as file:
            given = json.loads(file.read().decode("utf-8"))
    except Exception as error:
        errors.append(f"the file cannot be read: {error}")
    configuration = merge(given, DEFAULTS, CHECKS, "", errors), errors
    CONFIGURATIONS.clear()
    if version is not None:
        CONFIGURATIONS[version] = configuration
    return configuration


# ---- Requests ------------------------------------------------------------------------------------------------------


class NoAnswerError(Exception):
    """There is no valid answer; the message says why."""


class ClosedError(NoAnswerError):
    """The daemon closed the connection without an answer."""


class TimedOutError(NoAnswerError):
    """There is no answer within the deadline; several in a row open the breaker."""


def remaining(deadline):
    """Return the seconds until the deadline, more than 0: a socket timeout of 0 means non-blocking."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimedOutError("timed out")
    return seconds


MAX_TEXT = 512
"""Maximum characters of a text except ``select`` and ``place``; the daemon refuses longer ones."""
TEXT_FIELDS = (
    "job_id",
    "user",
    "group",
    "project",
    "account",
    "queue",
    "job_name",
    "mem",
    "select",
    "place",
    "array_indices",
    "script_path",
    "submit_host",
    "depend",
)
NUMBER_FIELDS = (
    "submitted", "walltime", "soft_walltime", "min_walltime", "max_walltime", "ncpus", "nodect", "ngpus", "interactive",
)  # fmt: skip
REQUEST_LINE = (
    '{"v":1,"accepts":2,"op":"predict","event":"%s","now":%d,"job":{'
    + ",".join(f'"{name}":%s' for name in TEXT_FIELDS + NUMBER_FIELDS)
    + '},"timeouts":%d,"previous_us":%s,"keep":true}\n'
)
"""Format of a request; formatting takes a third of the time of json.dumps."""


def encode(request):
    """Return the request as one line; truncate texts if the line is too long."""
    job = request["job"]
    numbers = ["null" if job[name] is None else str(job[name]).lower() for name in NUMBER_FIELDS]
    end = (request["timeouts"], "null" if request["previous_us"] is None else request["previous_us"])
    for longest in (MAX_LINE, 4096, 512, 64):
        most = min(longest, MAX_TEXT)
        texts = [
            "null" if job[name] is None else quoted(job[name][: longest if name in ("select", "place") else most])
            for name in TEXT_FIELDS
        ]
        line = REQUEST_LINE % (request["event"], request["now"], *texts, *numbers, *end)
        if len(line) <= MAX_LINE - 1:
            break
    return line.encode("ascii")


KEPT = {}
"""The connection that the last run left open, with the key "daemon"."""


class Connection:
    """A connection to the daemon's socket, without a request that waits for its answer.

    The hook leaves it open for the next run, because connecting takes longer than the rest of an exchange.  A request
    asks the daemon to do so as well; an older daemon closes the connection after its answer.  Only a connection whose
    last exchange was complete is left open: after a timeout or an error the answer may still come, and must not be
    taken for the answer to the next request.
    """

    def __init__(self, path, deadline):
        self.path = path
        self.process = os.getpid()
        self.used = False
        self.peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.peer.settimeout(remaining(deadline))
            self.peer.connect(path)
            self.peer.setblocking(False)
            self.poll = select.poll()
            self.poll.register(self.peer, select.POLLIN)
        except BaseException:
            self.peer.close()
            raise

    def usable(self, path):
        """Return whether this is an open connection to this path.

        It is not after the daemon closed it.  A process that pbs_server forked must not use it: each of the two could
        read the other's answer.  Nor may anything wait to be read, which would be an answer without a request.
        """
        return self.path == path and self.process == os.getpid() and not self.poll.poll(0)

    def exchange(self, line, deadline):
        """Send a request line and return what was received, up to the answer's line end.

        :raises ClosedError: if the daemon closed the connection before its answer began.
        """
        received = b""
        self.used = True
        try:
            self.send(line, deadline)
            while b"\n" not in received:
                if len(received) > MAX_LINE:
                    raise NoAnswerError("invalid answer: the line is too long")
                if not self.poll.poll(remaining(deadline) * 1000):
                    continue  # remaining() raises TimedOutError.
                part = self.peer.recv(RECEIVED)
                if not part:
                    raise ClosedError("connection closed without an answer")
                received = received + part if received else part
        except (BrokenPipeError, ConnectionResetError, ClosedError) as error:
            if received:
                raise NoAnswerError("invalid answer: half a line") from error
            raise ClosedError("connection closed without an answer") from error
        return received

    def send(self, line, deadline):
        """Send a request line; without MSG_NOSIGNAL a daemon that dies right now would send pbs_server a SIGPIPE."""
        try:
            sent = self.peer.send(line, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        while sent < len(line):
            wait_for(self.peer, True, deadline)
            with contextlib.suppress(BlockingIOError):
                sent += self.peer.send(line[sent:], socket.MSG_NOSIGNAL)

    def hang_up(self):
        """Close the connection for processes that pbs_server forked too: the daemon shall see that nobody waits."""
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()


def kept_connection(path):
    """Return the connection that the last run left open, which is forgotten here; None if it cannot be used."""
    connection = KEPT.pop("daemon", None)
    if connection is None or connection.usable(path):
        return connection
    connection.peer.close()
    return None


def keep(connection):
    """Leave a connection open for the next run."""
    disconnect()
    KEPT["daemon"] = connection


def disconnect():
    """Close the connection that the last run left open."""
    connection = KEPT.pop("daemon", None)
    if connection is not None:
        connection.peer.close()


def ask_daemon(config, make_request, deadline, connection):
    """Send one request line over the Unix socket and return the answer.

    :param make_request: called without arguments after the connection; returns the request.
    :param connection: an open connection; None: a new one is opened.
    """
    path = config["socket"]
    received = b""
    try:
        if connection is None:
            connection = Connection(path, deadline)
        # After the connection: the daemon wakes up while the hook makes the request.
        line = encode(make_request())
        again = connection.used
        try:
            received = connection.exchange(line, deadline)
        except ClosedError:
            # The daemon ended, or closed a connection without requests, after the last run looked.
            if not again:
                raise
            connection.peer.close()
            connection = Connection(path, deadline)
            received = connection.exchange(line, deadline)
    except socket.timeout as error:
        raise TimedOutError("timed out") from error
    except BlockingIOError as error:
        # The daemon has stopped accepting and its backlog is full.  This counts as a timeout without the wait.
        raise TimedOutError("the daemon accepts no connection") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoAnswerError("the daemon is not running") from error
    except OSError as error:
        raise NoAnswerError(f"the daemon cannot be reached: {error}") from error
    finally:
        if received[-1:] == b"\n" and received.find(b"\n") == len(received) - 1:
            keep(connection)
        elif connection is not None:
            connection.hang_up()
    try:
        return DECODE(received.partition(b"\n")[0].decode("utf-8"))
    except Exception as error:
        raise NoAnswerError("invalid answer: not JSON") from error


SQL = (
    b"SELECT softwalltime.soft_walltime(softwalltime.predict($1, $2, $3, $4::bigint, $5::bigint),"
    b" $4::bigint, $6::bigint)"
)


def ask_postgres(config, make_request, deadline):
    """Call the SQL functions of the published predictors in PostgreSQL.

    psycopg's Connection would wait inside libpq, where neither the deadline nor PBS's alarm interrupts it.  Therefore
    this function uses libpq's non-blocking calls and does all waiting itself.
    """
    request = make_request()
    job = request["job"]
    settings = config["postgres"]
    predictor = settings["running" if request["event"] == "runjob" else "waiting"]
    if request["event"] != "runjob" and settings["exclusive"] == "walltime" and is_exclusive(job["place"]):
        predictor = "walltime"
    if job["walltime"] is None:
        return {"v": PROTOCOL, "action": "none", "basis": "no walltime"}
    if predictor == "walltime":
        return {"v": PROTOCOL, "action": "set", "soft_walltime": job["walltime"], "basis": "the walltime"}
    pq = load_pq(settings["psycopg_path"])
    parameters = [predictor, job["user"], job["project"], job["walltime"], request["now"], config["minimum"]]
    connection = pq.PGconn.connect_start(connection_string(pq, settings["dsn"], config["deadline_ms"]))
    try:
        while True:
            if connection.status == pq.ConnStatus.BAD:
                raise NoAnswerError("PostgreSQL: " + libpq_error(connection))
            polled = connection.connect_poll()
            if polled == pq.PollingStatus.OK:
                break
            if polled == pq.PollingStatus.FAILED:
                raise NoAnswerError("PostgreSQL: " + libpq_error(connection))
            wait_for(connection.socket, polled == pq.PollingStatus.WRITING, deadline)
        connection.nonblocking = 1
        connection.send_query_params(SQL, [str(value).encode("utf-8") for value in parameters])
        while connection.flush():
            wait_for(connection.socket, True, deadline)
        while connection.is_busy():
            wait_for(connection.socket, False, deadline)
            connection.consume_input()
        result = connection.get_result()
        if result is None or result.status != pq.ExecStatus.TUPLES_OK:
            raise NoAnswerError("PostgreSQL: " + libpq_error(connection))
        seconds = result.get_value(0, 0)
    finally:
        connection.finish()
    if seconds is None:
        basis = "no prediction below the walltime by " + predictor
        if job["soft_walltime"] in (None, job["walltime"]):
            return {"v": PROTOCOL, "action": "none", "basis": basis}
        # The daemon decides likewise: PBS keeps a job's soft walltime, and only the walltime cancels it.
        return {"v": PROTOCOL, "action": "set", "soft_walltime": job["walltime"], "basis": basis}
    return {"v": PROTOCOL, "action": "set", "soft_walltime": int(seconds), "basis": predictor}


def load_pq(folder):
    """Import psycopg's wrapper of libpq in pure Python: the compiled ones do not survive an interpreter restart."""
    os.environ["PSYCOPG_IMPL"] = "python"
    if folder and folder not in TRUSTED_FOLDERS:
        problem = permission_problem(folder)
        if problem:
            raise NoAnswerError(f"psycopg cannot be loaded: {problem}")
        TRUSTED_FOLDERS.add(folder)
        sys.path.append(folder)
    try:
        from psycopg import pq
    except Exception as error:
        raise NoAnswerError(f"psycopg cannot be loaded: {error}") from error
    return pq


def permission_problem(folder):
    """Return why users other than root and this server's user can change the code in a folder; empty if they cannot.

    Only these two may own or write the folder, psycopg in it, and all parent folders.  Links in the path are checked
    too, because the owner of a link decides where it leads.  A parent folder may be writable if it is sticky: others
    can add files there, but cannot replace files of their owner.
    """
    trusted = (0, os.geteuid())
    for start in (folder, os.path.join(folder, "psycopg")):
        real = os.path.realpath(start)
        links = [link for link in [start, *parent_folders(start)] if os.path.islink(link)]
        for each in [real, *parent_folders(real), *links]:
            try:
                status = os.lstat(each)
            except OSError as error:
                return f"{each}: {error.strerror}"
            sticky = status.st_mode & 0o1000 and each != real
            if status.st_uid not in trusted or (status.st_mode & 0o022 and not sticky and not os.path.islink(each)):
                return f"users other than root can change {each}"
    return ""


def parent_folders(path):
    """Return all folders above a path."""
    folders = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        folders.append(path)
    return folders


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


def wait_for(descriptor, writable, deadline):
    """Wait until the connection is readable or writable."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if writable else select.POLLIN)
    if not poll.poll(remaining(deadline) * 1000):
        raise TimedOutError("timed out")


def libpq_error(connection):
    """Return libpq's error message on one line."""
    return " ".join(connection.error_message.decode("utf-8", "replace").split())


def peer_name(config):
    """Return the peer's name in the breaker's state; it has no secrets, because children of pbs_server inherit it."""
    return config["socket"] if config["transport"] == "daemon" else "postgres"


def breaker_state(peer):
    """Return a peer's timeouts in a row, whether its slow answers opened the breaker, and the seconds since then.

    The state must outlive the interpreter, which PBS restarts every hundred runs, and no user may change it.  The
    environment of the pbs_server process satisfies both (measured on OpenPBS 20.0.1 to 23.06).  Jobs do not inherit
    it, and a new pbs_server starts with a closed breaker.
    """
    state = os.environ.get(TIMEOUTS)
    if state is None:
        return 0, False, 0.0
    try:
        count, last, of = state.split(" ", 2)
        since = time.monotonic() - float(last)
        slow = of == "slow " + peer
        return (int(count), slow, since) if (slow or of == peer) and since >= 0 else (0, False, 0.0)
    except ValueError:
        return 0, False, 0.0


class Exchange:
    """One request and its answer over the configured transport, unless the breaker is open.

    The breaker opens for ``breaker_seconds`` after ``breaker_failures`` timeouts in a row, and when the last
    ``breaker_requests`` answers took more than ``breaker_budget_ms`` together (0: half of their deadlines).  Then one
    request is tried: another timeout or slow answer opens the breaker again at once.
    """

    def __init__(self, config, deadline):
        self.config = config
        self.deadline = deadline
        self.name = peer_name(config)
        self.count, self.slow, since = breaker_state(self.name)
        opened = self.slow or self.count >= config["breaker_failures"]
        self.pause = config["breaker_seconds"] - since if opened else 0
        self.connection = None
        self.started = None

    def connect(self):
        """Connect before the request is known: the daemon takes longer to wake up than the hook to read the job."""
        if self.config["transport"] == "daemon" and self.pause <= 0:
            self.started = time.monotonic()
            self.connection = kept_connection(self.config["socket"])
            if self.connection is None:
                with contextlib.suppress(OSError, NoAnswerError):  # ask() reports the error.
                    self.connection = Connection(self.config["socket"], self.deadline)

    def ask(self, make_request):
        """Send the request that ``make_request`` returns, and return the answer.

        :raises NoAnswerError: if the breaker is open or there is no answer.
        """
        if self.pause > 0:
            why = "slow answers" if self.slow else f"{self.count} timeouts"
            raise NoAnswerError(f"no request for {self.pause:.0f} s, after {why}")
        if self.config["transport"] == "postgres":
            self.load_psycopg()
        self.started = self.started or time.monotonic()
        try:
            answer = self.send(lambda: self.completed(make_request()))
        except TimedOutError:
            # The count remains after the pause: if the peer still hangs, the next timeout opens the breaker at once.
            os.environ[TIMEOUTS] = f"{self.count + 1} {time.monotonic()} {self.name}"
            raise
        except NoAnswerError:
            os.environ.pop(TIMEOUTS, None)
            raise
        except Exception as error:
            os.environ.pop(TIMEOUTS, None)
            raise NoAnswerError(f"{type(error).__name__}: {error}") from error
        self.record_duration()
        return answer

    def completed(self, request):
        """Return the request with the state of the exchange."""
        request["timeouts"] = self.count
        request["previous_us"] = LAST_EXCHANGE.get("us")
        return request

    def load_psycopg(self):
        """Load psycopg outside the deadline: it takes longer than the deadline, but once per interpreter."""
        before = time.monotonic()
        load_pq(self.config["postgres"]["psycopg_path"])
        self.deadline += time.monotonic() - before

    def record_duration(self):
        """Record the duration of the exchange; open the breaker if the last exchanges took too long."""
        took = time.monotonic() - self.started
        LAST_EXCHANGE["us"] = int(took * 1e6)
        requests = self.config["breaker_requests"]
        budget = (self.config["breaker_budget_ms"] or requests * self.config["deadline_ms"] / 2) / 1000.0
        recent = RECENT_EXCHANGES.setdefault(self.name, [])
        recent.append(took)
        del recent[:-requests]
        if sum(recent) > budget or (self.slow and took > budget / requests):
            recent.clear()
            os.environ[TIMEOUTS] = f"0 {time.monotonic()} slow {self.name}"
        elif self.slow or self.count:
            recent.clear()
            os.environ.pop(TIMEOUTS, None)

    def send(self, make_request):
        """Send the request over the configured transport and return the answer."""
        if self.config["transport"] == "daemon":
            connection, self.connection = self.connection, None
            return ask_daemon(self.config, make_request, self.deadline, connection)
        return ask_postgres(self.config, make_request, self.deadline)

    def close(self):
        """Close a connection without a request; leave it open if it is an earlier run's."""
        connection, self.connection = self.connection, None
        if connection is not None and connection.used:
            keep(connection)
        elif connection is not None:
            connection.peer.close()


def parse_answer(answer):
    """Return the seconds to set, or None, the basis, and the ordering value, or None.

    :raises NoAnswerError: if the answer is an error or violates the protocol.
    """
    if not isinstance(answer, dict) or type(answer.get("v")) is not int or not PROTOCOL <= answer["v"] <= NEWEST:
        raise NoAnswerError(f"invalid answer: not of protocol versions {PROTOCOL} to {NEWEST}")
    if "error" in answer:
        raise NoAnswerError(f"the daemon reports: {answer['error']}")
    basis = answer.get("basis")
    basis = basis if isinstance(basis, str) else ""
    seconds = answer.get("soft_walltime")
    ordering = answer.get("ordering")
    if ordering is not None and (type(ordering) is not int or ordering < 1):
        raise NoAnswerError("invalid answer: ordering is not a number of seconds")
    if answer.get("action") == "none":
        return None, basis, ordering
    if answer.get("action") == "set" and type(seconds) is int and seconds > 0:
        return seconds, basis, ordering
    raise NoAnswerError("invalid answer: neither none nor a number of seconds")


# ---- Values of PBS objects -----------------------------------------------------------------------------------------


def seconds_of(value):
    """Return a duration in seconds; None if it is not set (None) or the request unsets it ("").

    PBS represents durations as numbers; at queuejob those of queues and the server are texts (hours:minutes:seconds).
    """
    if value is None or value == "":
        return None
    if isinstance(value, int):
        return int(value)
    seconds = 0.0
    for part in str(value).split(":"):
        seconds = 60 * seconds + float(part)
    return int(seconds)


def set_values(thing):
    """Return the dictionary with the values of a PBS object that are set; None if this PBS has no such dictionary.

    OpenPBS's attributes are descriptors written in Python: reading their dictionary takes a tenth of the time, most of
    all for values that are not set.
    """
    values = getattr(thing, "__dict__", {}).get("__pad_values")
    return values if isinstance(values, dict) else None


def attributes_of(thing):
    """Return a function from an attribute's name to its value, None if it is not set or this server lacks it."""
    values = set_values(thing)
    return (lambda name: getattr(thing, name, None)) if values is None else values.get


def resources_of(thing):
    """Return a function from a requested resource's name to its value, None if it is not set or unknown."""
    resources = attributes_of(thing)("Resource_List")
    if resources is None:
        return lambda name: None

    def get(name):
        try:
            return resources[name]
        except Exception:
            return None

    get("walltime")  # PBS fills the list at the first access by name.
    values = set_values(resources)
    return get if values is None else values.get


def integer_of(value):
    """Return the value as an integer, None if it is none."""
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def text_of(value):
    """Return the value as a text, empty for None; PBS's own types are not str and need str()."""
    return "" if value is None else str(value)


MAX_ARGUMENTS = 65536
"""Maximum characters of a command line that is read."""
OPTIONS_WITH_VALUE = "aACcejJklMmNopPqrRSuvW"
"""Options of qsub (OpenPBS, PBS Professional, TORQUE) that have a value; the others are flags."""
ARGUMENT, ARGUMENT_END = "<jsdl-hpcpa:Argument>", "</jsdl-hpcpa:Argument>"
ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


def arguments_of(value):
    """Return the arguments of a command line that PBS wrote as XML; those before the first one that is no argument."""
    arguments = []
    if 0 < len(value) <= MAX_ARGUMENTS:
        for part in value.split(ARGUMENT_END):
            if not part.startswith(ARGUMENT):
                break
            part = part[len(ARGUMENT) :]
            if "&" in part:
                for entity, character in ENTITIES:
                    part = part.replace(entity, character)
            arguments.append(part)
    return arguments


def script_operand(arguments):
    """Return the script in the arguments of qsub as it is given; "" without one, as from standard input."""
    following = iter(arguments)
    for argument in following:
        if argument[:1] != "-":
            return argument
        if argument in ("-", "--"):
            break
        for place, letter in enumerate(argument[1:], 2):
            if letter in OPTIONS_WITH_VALUE:
                if place == len(argument):
                    next(following, None)
                break
    return ""


def script_path(attribute):
    """Return what a job executes, the last characters of a long text; "" if unknown.

    It is the absolute path of the script, or the executable with its first argument.  qsub sends the script's text
    after queuejob, into PBS's database, where no hook can read it.
    """
    executable = text_of(attribute("executable"))
    if executable:
        arguments = arguments_of(text_of(attribute("argument_list")))
        return " ".join([executable, *arguments[:1]])[-MAX_TEXT:]
    script = script_operand(arguments_of(text_of(attribute("Submit_arguments"))))
    if script.startswith("./"):
        script = script[2:]
    if script and not script.startswith("/"):
        variables = attribute("Variable_List")
        folder = variables.get("PBS_O_WORKDIR") if isinstance(variables, dict) else None
        # After qalter -v the request's variables hide those of the submission: another path would be another script.
        script = f"{folder}/{script}" if folder else ""
    return script[-MAX_TEXT:]


QUEUES_AGE = 60
"""Seconds for which the facts about queues are cached: reading them takes longer than the rest of a run."""
QUEUES = {}
"""Cached facts about queues: the module ``pbs``, the time, and the results of :func:`queue_facts` by queue."""


def queue_facts(pbs, queue):
    """Find out where a job submitted to this queue will wait, and its default walltime.

    PBS uses resources_default of the queue, then of the server, then resources_max of the queue, then of the server
    (measured).

    :return: the name of the queue, "" if unknown; whether the default walltime is known; the default walltime in
        seconds, None if there is none; the default placement if it is exclusive in one of the possible queues.
    """
    now = time.monotonic()
    if QUEUES.get("pbs") is not pbs or now - QUEUES["at"] > QUEUES_AGE:
        QUEUES.update(pbs=pbs, at=now, facts={})
    found = QUEUES["facts"].get(queue)
    if found is None:
        found = QUEUES["facts"][queue] = read_queue_facts(pbs, queue)
    return found


def read_queue_facts(pbs, queue):
    """Return the result of :func:`queue_facts` without the cache."""
    server = pbs.server()
    queue = queue or text_of(server.default_queue)
    names = destinations(pbs, server, queue, 0)
    limits = []
    places = []
    for name in names:
        found = server.queue(name) if name else None
        if found is None:
            return queue.partition("@")[0], False, None, ""
        lists = (found.resources_default, server.resources_default, found.resources_max, server.resources_max)
        walltimes = [seconds_of(resources["walltime"]) for resources in lists if resources is not None]
        limits.append(next((walltime for walltime in walltimes if walltime is not None), None))
        defaults = [text_of(resources["place"]) for resources in lists[:2] if resources is not None]
        places.append(next((place for place in defaults if place), ""))
    place = next((place for place in places if is_exclusive(place)), "")
    # Limits, access lists and load select the destination, so the result is known only if all destinations agree.
    name = names[0] if len(set(names)) == 1 else queue.partition("@")[0]
    return (name, True, limits[0], place) if limits and len(set(limits)) == 1 else (name, False, None, place)


def is_exclusive(place):
    """Return whether the scheduler compares only the soft walltime of a job with this placement to a reservation."""
    words = place.split(":")
    return ("excl" in words or "exclhost" in words) and "pack" not in words


def destinations(pbs, server, queue, depth):
    """Return the execution queues to which a job in this queue may be routed; "" for an unknown one."""
    name, _, host = queue.partition("@")
    if not name or depth > 5 or host not in ("", text_of(server.name)):
        return [""]
    found = server.queue(name)
    if found is None:
        return [""]
    if found.queue_type != pbs.QTYPE_ROUTE:
        return [name]
    nested = [
        destinations(pbs, server, destination.strip(), depth + 1)
        for destination in text_of(found.route_destinations).split(",")
    ]
    return [name for names in nested for name in names]


# ---- Texts in the accounting log ------------------------------------------------------------------------------------

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and line separators, which programs that read the log may take for the end of a line."""
UNUSUAL = re.compile("[^A-Za-z0-9._-]")
LOGGED_AT_SUBMISSION = ("Account_Name", "project", "Job_Name", "gridname")
"""Texts of the user that Q, S, E and R records contain unchanged, besides the requested resources (seen on OpenPBS).

qsub checks most of them, but the server does not: another client can send any text.
"""
LOGGED_AT_ALTER = (
    *LOGGED_AT_SUBMISSION, "stagein", "stageout", "Join_Path", "Keep_Files", "Mail_Users", "Mail_Points", "depend",
    "Shell_Path_List", "User_List", "group_list", "Output_Path", "Error_Path", "Checkpoint", "Hold_Types", "comment",
    "tolerate_node_failures", "Submit_arguments", "executable", "argument_list", "Submit_Host", "credential_id",
    "sandbox", "Remove_Files", "cred", "forward_x11_cookie", "node_set",
)  # fmt: skip
"""Texts that an alter may set: its record contains every text of the request.

Variable_List is missing: if a hook runs at modifyjob, PBS does not change the job's variables (seen on OpenPBS).
"""


CLEANED_RESOURCES = (
    "software", "site", "pgov", "resc", "vntype", "arch", "host", "vnode", "select", "place", "nodes", "file",
)  # fmt: skip
"""Resources that every user may request, with a text."""


def clean_texts(event, name):
    """Replace control characters in the texts of a submission or an alter; return the names of the changed fields."""
    job = event.job
    cleaned = []
    get = attributes_of(job)
    for field in LOGGED_AT_SUBMISSION if name == "queuejob" else LOGGED_AT_ALTER:
        value = get(field)
        if value is not None and not str(value).isprintable():
            clean_value(job, field, value, setattr, cleaned)
    resources = get("Resource_List")
    if resources is not None:
        resources_of(job)
        values = set_values(resources)
        for field in list(resources.keys() if values is None else values):
            value = resources[field] if values is None else values[field]
            if value is not None and not isinstance(value, int) and not str(value).isprintable():
                # PBS takes what a hook sets, also on a resource that only managers may set: a site's own is unset.
                clean_value(resources, field, value, type(resources).__setitem__, cleaned, field in CLEANED_RESOURCES)
    return cleaned


def clean_value(thing, field, value, assign, cleaned, keep=True):
    """Replace the control characters of one value, or unset it without ``keep``.

    PBS checks what a hook sets: if it refuses the result, only letters, digits and ``._-`` remain; else the field is
    unset.
    """
    text = str(value)
    replaced = CONTROL.sub("_", text)
    if replaced == text:
        return
    kind = str if isinstance(value, str) else type(value)
    for candidate in (replaced, UNUSUAL.sub("_", text)[:200], None) if keep else (None,):
        try:
            assign(thing, field, None if candidate is None else kind(candidate))
        except Exception:  # noqa: S112 - try the next candidate.
            continue
        cleaned.append(field)
        return
    cleaned.append(field + " (not possible)")


# ---- Soft walltimes set by managers ---------------------------------------------------------------------------------

MANAGERS = {}
"""What the file with the soft walltimes set by managers contains, by its path: (values, number of lines)."""
MAX_MANAGERS = 1000
"""Maximum number of jobs in the file; if there are more, the older half is dropped."""
MAX_VALUES = 4
"""Maximum number of values of one job: PBS may refuse an alter, so earlier values stay."""


def managers_file(pbs):
    """Return the path of the file with the soft walltimes set by managers, beside the configuration; None if none.

    Only root can write there.  The file survives restarts of interpreter and server, and a failover.
    """
    path = getattr(pbs, "hook_config_filename", None)
    return path.rpartition(".")[0] + ".kept" if path else None


def managers_values(pbs):
    """Return the soft walltimes set by managers, a list of seconds by job id; read the file once per interpreter."""
    path = managers_file(pbs)
    if path not in MANAGERS:
        values = {}
        lines = 0
        with contextlib.suppress(OSError, ValueError, TypeError), open(path) as file:
            for line in file:
                lines += 1
                job_id, seconds = line.split()
                add_value(values, job_id, int(seconds))
        MANAGERS.clear()
        MANAGERS[path] = values, lines
    return MANAGERS[path][0]


def add_value(values, job_id, seconds):
    """Add the newest value of a job; drop its oldest if there are more than MAX_VALUES."""
    earlier = [value for value in values.get(job_id, ()) if value != seconds]
    values[job_id] = [*earlier, seconds][-MAX_VALUES:]


def remember(pbs, job_id, seconds):
    """Store the soft walltime that a manager sets on a job; with None remove those of the job.

    A value counts only while the job has it.  One line is appended for each value; the file is written anew when it
    has more than twice as many lines as values.
    """
    values = managers_values(pbs)
    path = managers_file(pbs)
    if path is None or (seconds is None and job_id not in values):
        return
    if seconds is None:
        del values[job_id]
    else:
        add_value(values, job_id, seconds)
        if len(values) > MAX_MANAGERS:
            for old in list(values)[: len(values) // 2]:
                del values[old]
        elif MANAGERS[path][1] < 2 * sum(map(len, values.values())):
            MANAGERS[path] = values, MANAGERS[path][1] + 1
            write_lines(path, os.O_APPEND, [(job_id, seconds)])
            return
    rows = [(job_id, seconds) for job_id, given in values.items() for seconds in given]
    write_lines(path + ".new", os.O_TRUNC, rows)
    os.replace(path + ".new", path)
    MANAGERS[path] = values, len(rows)


def write_lines(path, how, rows):
    """Write rows of job id and seconds to a file that only root can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "w") as file:
        file.writelines(f"{job_id} {seconds}\n" for job_id, seconds in rows)


def is_manager(pbs, event):
    """Return whether PBS lets the requestor set a soft walltime: root, and users in the server's ``managers``."""
    user, host = text_of(event.requestor), text_of(event.requestor_host)
    if user == "root":
        return True
    for entry in text_of(pbs.server().managers).split(","):
        name, _, place = entry.strip().partition("@")
        if name == user and (
            place in ("", "*", host)
            or (place.startswith("*") and host.endswith(place[1:]))
            or place.partition(".")[0] == host.partition(".")[0]
        ):
            return True
    return False


# ---- The events ----------------------------------------------------------------------------------------------------

LEAVE, REMOVE = "leave", "remove"
"""Values of a decision besides a number of seconds."""
LEAST, UNCHANGED = "least", "unchanged"
"""In the rows of modifyjob: the lowest valid soft walltime, and the one before the alter."""
VALID, OUTGROWN = "valid", "outgrown"
"""In the table: the valid soft walltime nearest to the job's, equal in most cases; and the walltime, for a job whose
soft walltime was predicted from other attributes than it has now."""

Decision = collections.namedtuple("Decision", "value reason basis")
Decision.__doc__ = """The new soft walltime and its reason.

``value`` is a number of seconds, LEAVE or REMOVE.  ``reason`` is a code; a code that softwalltime.reasons has too has
the same sentence there.  ``basis`` is the sentence for the log: the daemon's or the hook's.
"""

STOP, ASK, ASK_AT_START = "stop", "ask", "ask at start"

# The first row whose condition is true decides.  The hook sets the soft walltime of the second column before it sends a
# request, which keeps PBS's request valid whatever happens then.  ASK: the answer replaces it; without an answer it
# remains.  ASK_AT_START: without an answer the key runjob_fallback decides.
DECISIONS = {
    # event: ((condition, soft walltime, then, reason), ...)
    "queuejob": (
        ("gives_soft_walltime", LEAVE, STOP, "requested"),
        ("shrink_to_fit", LEAVE, STOP, "shrink_to_fit"),
        ("destination_unknown", LEAVE, STOP, "destination_unknown"),
        ("no_walltime", LEAVE, STOP, "no_walltime"),
        ("always", LEAVE, ASK, ""),
    ),
    "postqueuejob": (
        ("shrink_to_fit", LEAVE, STOP, "shrink_to_fit"),
        ("managers_own", VALID, STOP, "managers_own"),
        # After a move into a queue with another default walltime, PBS leaves the soft walltime as it was.
        ("no_walltime", REMOVE, STOP, "no_walltime"),
        ("always", OUTGROWN, ASK, ""),
    ),
    # A user's alter would fail: PBS refuses a walltime below the soft walltime, and shrink-to-fit with a soft walltime.
    "modifyjob": (
        ("gives_too_little", LEAST, STOP, "below_minimum"),
        ("overrides_manager", UNCHANGED, STOP, "managers_own"),
        ("gives_soft_walltime", LEAVE, STOP, "requested"),
        ("job_unknown", REMOVE, STOP, "job_unknown"),
        ("shrink_to_fit", REMOVE, STOP, "shrink_to_fit"),
        ("changes_nothing", LEAVE, STOP, ""),
        ("loses_walltime", REMOVE, STOP, "no_walltime"),
        # Predictions for waiting jobs may be too low for a running job, on which promised starts already depend.
        ("runs", VALID, STOP, "running"),
        ("managers_own", VALID, STOP, "managers_own"),
        # What was predicted from the old attributes would let a user buy a place with attributes that he then changes.
        ("always", OUTGROWN, ASK, ""),
    ),
    # The value set at the start counts from then on; it may be more careful than that for the waiting job.
    "runjob": (
        ("shrink_to_fit", LEAVE, STOP, "shrink_to_fit"),
        ("no_walltime", LEAVE, STOP, "no_walltime"),
        ("managers_own", VALID, STOP, "managers_own"),
        ("no_request_at_start", VALID, STOP, "no_request_at_start"),
        ("always", VALID, ASK_AT_START, ""),
    ),
}


REASONS = {
    "predicted": "a prediction below the walltime",
    "no_walltime": "the job has no walltime",
    "shrink_to_fit": "a shrink-to-fit job may have no soft walltime",
    "requested": "the request gives a soft walltime",
    "below_minimum": "the request gives less than the minimum, and a soft walltime of 0 would kill the scheduler",
    "managers_own": "a manager set this soft walltime",
    "job_unknown": "PBS does not show the job",
    "destination_unknown": "the walltime depends on where the job is routed",
    "running": "the job runs",
    "no_request_at_start": "the configuration disables requests at this start",
    "unanswered": "no answer",
}
"""The sentence of each reason."""


SUBJOB = re.compile(r"\[[0-9]+\]")
"""The index in the id of a subjob."""
PREDICTED_FROM = ("project", "group_list", "Account_Name", "Job_Name", "depend")
PREDICTED_FROM_RESOURCES = (
    "walltime", "min_walltime", "max_walltime", "place", "select", "nodes", "ncpus", "nodect", "ngpus", "mem",
)  # fmt: skip
"""Attributes and resources in a request from which runtimes are predicted, and that an alter may change."""


class Facts:
    """The job of an event; each condition of DECISIONS is a method.

    ``soft_walltime`` is what the job will have if the hook does nothing, in seconds, None if none and UNKNOWN if PBS
    does not show the job; ``walltime`` is the walltime that it will have, at most NO_LIMIT, None if none.
    ``ordering`` is the ordering value of the answer, and after it was set that value; ``ordered`` is the value that
    the job has.
    """

    UNKNOWN = -1

    def __init__(self, hook):
        self.pbs = hook.pbs
        self.event = hook.event
        self.name = hook.name
        self.job = hook.job
        self.config = hook.config
        self.now = hook.now
        self.ordering = None
        self.ordered = None
        # The functions to look attributes and requested resources up with.
        self.attribute, self.resource = hook.attributes, resources_of(hook.job)
        self.requested = self.resource("soft_walltime")
        self.soft_walltime = seconds_of(self.requested)
        self.walltime = self.own_walltime = limited(seconds_of(self.resource("walltime")))
        if self.name == "postqueuejob" and self.config["ordering"]:
            self.ordered = integer_of(self.resource(self.config["ordering"]))

    def destination_unknown(self):
        """Determine the default walltime; return whether it is unknown because the destination queue is."""
        if self.walltime is not None:
            return False
        _, known, walltime, _ = queue_facts(self.pbs, text_of(self.attribute("queue")))
        self.walltime = limited(walltime)
        return not known

    def gives_soft_walltime(self):
        """The request sets or unsets a soft walltime, which only managers may."""
        return self.requested is not None

    def managers_own(self):
        """A manager set the soft walltime that the job has."""
        return self.is_managers(self.soft_walltime)

    def is_managers(self, seconds):
        """Return whether a manager set this soft walltime on the job or on its array."""
        given = managers_values(self.pbs)
        if not given or seconds is None:
            return False
        job_id = text_of(self.job.id)
        array = SUBJOB.sub("[]", job_id, 1)
        return seconds in given.get(job_id, ()) or seconds in given.get(array, ())

    def shrink_to_fit(self):
        """The scheduler may shorten the job's walltime."""
        return seconds_of(self.resource("min_walltime")) is not None

    def no_walltime(self):
        """The job has no walltime, and the configuration disables requests for such jobs."""
        return self.walltime is None and not self.config["jobs_without_walltime"]

    def no_request_at_start(self):
        """The configuration disables requests at this start."""
        when = self.config["runjob"]
        if isinstance(when, dict):
            since = next((at for at in map(self.attribute, ("etime", "qtime", "ctime")) if at), None)
            return since is None or self.now - int(since) <= when["waited_longer_than"]
        return when == "never" or (when == "if-none" and self.soft_walltime is not None)

    def always(self):
        """True."""
        return True

    def limit(self):
        """Return the highest valid soft walltime."""
        return NO_LIMIT if self.walltime is None else self.walltime

    def fitted(self, seconds):
        """Return the nearest valid soft walltime; None if there is none.  Every value that is set passes here."""
        least = self.config["minimum"]
        return min(max(seconds, least), self.limit()) if least <= self.limit() else None

    def valid(self):
        """Return the valid soft walltime nearest to the job's, None if none; for 0 the walltime, which is safe."""
        soft = self.soft_walltime
        if soft is None or 0 < soft <= self.limit():
            return soft
        return None if self.walltime is None else self.fitted(self.walltime)

    def outgrown(self):
        """Return the walltime for a job that has a soft walltime; None for one that has none, or no walltime."""
        return None if None in (self.soft_walltime, self.walltime) else self.fitted(self.walltime)

    def may_be_ordered(self):
        """An ordering value may be set, and no later change of the walltime can escape the hook."""
        return self.name == "postqueuejob" or (self.name == "queuejob" and self.own_walltime is not None)

    def longest(self):
        """Return the ordering value of a job without a prediction: the longest time that it may run; None if any."""
        return max(self.walltime or 0, limited(seconds_of(self.resource("max_walltime"))) or 0) or self.walltime


class AlterFacts(Facts):
    """The job of an alter: the request has the changes, ``job_o`` the job before it."""

    def __init__(self, hook):
        Facts.__init__(self, hook)
        # The request's own values: "" unsets one.
        attribute, resource = self.attribute, self.resource
        self.changes_walltime = resource("walltime") is not None
        self.changed = any(attribute(name) is not None for name in PREDICTED_FROM) or any(
            resource(name) is not None for name in PREDICTED_FROM_RESOURCES
        )
        self.original = None
        if not self.changed and self.requested is None:
            return
        self.original = getattr(hook.event, "job_o", None)
        if self.original is None:
            # So it is where a text of the request is not UTF-8; PBS carries the request out all the same.
            with contextlib.suppress(Exception):
                self.original = self.pbs.server().job(text_of(self.job.id))
        if self.original is None:
            self.soft_walltime = self.soft_walltime if self.requested is not None else self.UNKNOWN
            return
        job, had = attributes_of(self.original), resources_of(self.original)
        self.attribute = altered(attribute, job)
        self.resource = altered(resource, had)
        self.previous = seconds_of(had("soft_walltime"))
        if self.requested is None:
            self.soft_walltime = self.previous
        self.before = limited(seconds_of(had("walltime")))
        self.state = job("job_state")
        if not self.changes_walltime:
            self.walltime = self.before
        elif self.walltime is None:
            # After qalter -l walltime= the job gets the default of its queue again.
            self.walltime = limited(queue_facts(self.pbs, text_of(job("queue")))[2])
        # PBS refuses to alter a custom resource of a running job: the user's request would fail.
        if self.config["ordering"] and not self.runs():
            self.ordered = integer_of(had(self.config["ordering"]))

    def gives_too_little(self):
        """A manager's request sets a soft walltime below the minimum; PBS refuses that of others."""
        given = self.requested is not None and self.soft_walltime is not None
        return given and self.soft_walltime < self.config["minimum"] and is_manager(self.pbs, self.event)

    def overrides_manager(self):
        """The daemon would replace a soft walltime that a manager set."""
        ours = self.requested is not None and text_of(self.event.requestor) in self.config["daemon_users"]
        return ours and self.original is not None and self.is_managers(self.previous)

    def managers_own(self):
        """A manager set the soft walltime that the job has, and no user has raised the walltime since."""
        if not Facts.managers_own(self):
            return False
        raised = self.before is not None and (self.walltime is None or self.walltime > self.before)
        return not raised or is_manager(self.pbs, self.event)

    def job_unknown(self):
        """PBS does not show the job before the alter."""
        return self.original is None

    def changes_nothing(self):
        """The request changes nothing that a prediction rests on."""
        return not self.changed

    def loses_walltime(self):
        """The job will have no walltime."""
        return self.walltime is None

    def runs(self):
        """The job is running; an array that has begun still has waiting subjobs and does not count."""
        pbs = self.pbs
        waits = (pbs.JOB_STATE_QUEUED, pbs.JOB_STATE_HELD, pbs.JOB_STATE_WAITING, pbs.JOB_STATE_BEGUN)
        return self.state not in waits

    def least(self):
        """Return the lowest soft walltime that PBS accepts for the job; None if none."""
        return None if self.original is None or self.shrink_to_fit() else self.fitted(self.config["minimum"])

    def unchanged(self):
        """Return the soft walltime before the alter; None if none."""
        return self.previous

    def valid(self):
        """As for any job, but a soft walltime that was raised to the walltime at the start follows the walltime."""
        raised = self.soft_walltime is not None and self.before is not None and self.soft_walltime >= self.before
        if raised and self.runs():
            return self.fitted(self.walltime)
        return Facts.valid(self)

    def may_be_ordered(self):
        """The job waits and the request changes what its ordering value was predicted from."""
        return self.changed and self.original is not None and not self.runs()


def altered(request, had):
    """Return a function from a name to the value after an alter: the request's, "" as None, or else the job's."""

    def get(name):
        value = request(name)
        if value is None:
            return had(name)
        return None if isinstance(value, str) and value == "" else value

    return get


def limited(walltime):
    """Return a walltime that is no longer than the scheduler's limit for jobs without one; None for None."""
    return None if walltime is None else min(walltime, NO_LIMIT)


EVENTS = {}
"""The names of the events by their types."""


def event_name(pbs, kind):
    """Return the name of an event; empty if this hook does not handle it."""
    if kind not in EVENTS:
        EVENTS[kind] = next((name for name in DEFAULTS["events"] if kind == getattr(pbs, name.upper(), None)), "")
    return EVENTS[kind]


class Hook:
    """One run of the hook."""

    def __init__(self, pbs, event, now, started):
        self.pbs = pbs
        self.event = event
        self.now = now
        self.started = started
        self.job = None
        self.name = event_name(pbs, event.type)
        self.config, self.errors = read_configuration(getattr(pbs, "hook_config_filename", None))
        self.deadline = started + self.config["deadline_ms"] / 1000.0
        self.attributes = None
        self.changed = False
        self.failed = False
        self.exchange = None

    def run(self):
        """Decide, and log the decision."""
        if self.errors and self.config["log"] != "off":
            message = "configuration: " + "; ".join(self.errors) + "; using the defaults"
            log(self.pbs, self.pbs.LOG_WARNING, message)
        if not self.config["events"].get(self.name):
            return
        self.job = self.event.job
        self.attributes = attributes_of(self.job)
        if self.config["clean_texts"] and self.name in ("queuejob", "modifyjob"):
            self.clean_texts()
        facts = getattr(self, self.name)()
        if facts is None:
            return
        before = facts.soft_walltime
        decision = self.decide(facts)
        wanted = {"all": True, "changes": self.changed or self.failed, "errors": self.failed, "off": False}
        if decision.reason and wanted[self.config["log"]]:
            who = text_of(self.job.id) or self.event.requestor
            elapsed = 1000 * (time.monotonic() - self.started)
            text = describe(decision, before, facts)
            log(self.pbs, self.pbs.EVENT_DEBUG2, f"{self.name} {who}: {text} ({elapsed:.2f} ms)")

    def clean_texts(self):
        """Replace control characters in texts that PBS writes into the accounting log unchanged; log a warning.

        With line breaks in them a user could forge records of others.
        """
        cleaned = clean_texts(self.event, self.name)
        if cleaned and self.config["log"] != "off":
            who = text_of(self.job.id) or "a new job"
            message = (
                f"{self.name} {who} of {self.event.requestor}: control characters replaced in {', '.join(cleaned)}"
            )
            log(self.pbs, self.pbs.LOG_WARNING, message)

    def queuejob(self):
        """Handle the submission of a job, which has no id and no defaults yet.

        If postqueuejob is enabled, it handles the job instead: everything is known then, and no value set there makes
        the user's qsub fail.  But PBS drops what a hook sets on an array at postqueuejob.
        """
        array = text_of(self.attributes("array_indices_submitted")) != ""
        if self.config["events"]["postqueuejob"] and hasattr(self.pbs, "POSTQUEUEJOB") and not array:
            return None
        self.connect()
        return Facts(self)

    def postqueuejob(self):
        """Handle a job that has entered a queue: submitted, routed, moved, or a subjob that PBS creates to start it."""
        if "[" in text_of(self.job.id):
            return None  # queuejob handles an array, and runjob follows for a subjob.
        if self.attributes("queue_type") != self.pbs.QTYPE_EXECUTION:
            return None  # This event comes again when the job is routed to an execution queue.
        self.connect()
        return Facts(self)

    def modifyjob(self):
        """Handle the alter of a job; None if it changes nothing that a prediction rests on."""
        facts = AlterFacts(self)
        return None if facts.requested is None and facts.changes_nothing() else facts

    def runjob(self):
        """Handle the start of a job."""
        if self.config["runjob"] == "always":
            self.connect()
        return Facts(self)

    def connect(self):
        """Connect to the daemon, because a request is likely."""
        self.exchange = Exchange(self.config, self.deadline)
        self.exchange.connect()

    def close(self):
        """Close the connection, if there is one."""
        if self.exchange is not None:
            self.exchange.close()

    def decide(self, facts):
        """Look up the decision in DECISIONS, send a request if the row requires it, apply and return the decision."""
        row = next(row for row in DECISIONS[self.name] if getattr(facts, row[0])())
        _, value, then, reason = row
        if value not in (LEAVE, REMOVE):
            seconds = getattr(facts, value)()
            value = LEAVE if seconds == facts.soft_walltime else REMOVE if seconds is None else seconds
        decision = Decision(value, reason, REASONS.get(reason, ""))
        self.apply(decision, facts)
        if then == STOP:
            self.order(facts)
            if self.name == "modifyjob" and reason in ("requested", "below_minimum", "managers_own"):
                self.remember(facts)
            return decision
        try:
            decision = self.ask(facts)
        except NoAnswerError as error:
            self.failed = True
            if then == ASK_AT_START:
                value = self.start_fallback(facts, value)
            decision = Decision(value, "unanswered", f"no answer: {error}")
        self.apply(decision, facts)
        self.order(facts)
        return decision

    def remember(self, facts):
        """Remember the soft walltime that a manager sets, and its new value if the walltime lowers it."""
        if facts.requested is not None:
            if text_of(self.event.requestor) in self.config["daemon_users"] or not is_manager(self.pbs, self.event):
                return
        elif not self.changed:
            return
        try:
            remember(self.pbs, text_of(self.job.id), facts.soft_walltime)
        except OSError as error:
            log(self.pbs, self.pbs.LOG_WARNING, f"cannot store the soft walltime set by a manager: {error}")

    def order(self, facts):
        """Set the ordering value, by which job_sort_formula may order the job: the answer's, or the walltime.

        A value never outlives the attributes that it was predicted from.  A job without a walltime of its own gets no
        value at queuejob: a move to another queue would change the walltime, and no event could change the value.
        """
        name = self.config["ordering"]
        value, facts.ordering = facts.ordering, None
        if not name or not facts.may_be_ordered():
            return
        if value is None and facts.ordered is not None:
            value = facts.longest()
        if value == facts.ordered:
            return
        try:
            self.job.Resource_List[name] = value
        except Exception as error:  # The resource does not exist, or has another type.
            self.warn_of_ordering(name, error)
        else:
            facts.ordering, self.changed = value, True

    def warn_of_ordering(self, name, error):
        """Log that the ordering value cannot be set, but not for each job."""
        now = time.monotonic()
        last, _, of = os.environ.get(WARNED, "").partition(" ")
        if of == name and 0 <= now - float(last) < WARNING_INTERVAL:
            return
        os.environ[WARNED] = f"{now} {name}"
        if self.config["log"] != "off":
            message = f"resource {name}: cannot be set: {error}; jobs get no ordering value"
            log(self.pbs, self.pbs.LOG_WARNING, message)

    def ask(self, facts):
        """Return the decision of the daemon or of PostgreSQL.

        :raises NoAnswerError: if there is no valid answer.
        """
        if self.exchange is None:
            self.exchange = Exchange(self.config, self.deadline)
        seconds, basis, ordering = parse_answer(self.exchange.ask(lambda: self.request(facts)))
        if max(seconds or 0, ordering or 0) > facts.limit():
            raise NoAnswerError("invalid answer: more than the walltime")
        facts.ordering = ordering
        if seconds is not None:
            seconds = facts.fitted(seconds)
        if seconds in (None, facts.soft_walltime) or (facts.soft_walltime is None and seconds == facts.walltime):
            return Decision(LEAVE, "answered", basis)
        return Decision(seconds, "answered", basis)

    def start_fallback(self, facts, value):
        """Return the value at a start without an answer: the walltime, or what the job has if the site configures that.

        Promised starts of other jobs depend on it, and a prediction for a waiting job may be too low.
        """
        soft, walltime = facts.soft_walltime, facts.walltime
        if soft is None or soft == walltime or self.config["runjob_fallback"] == "keep":
            return value
        return REMOVE if walltime is None else walltime

    def apply(self, decision, facts):
        """Change the job according to the decision."""
        if decision.value == LEAVE:
            return
        seconds = None if decision.value == REMOVE else facts.fitted(decision.value)
        if seconds == facts.soft_walltime:
            return
        self.job.Resource_List["soft_walltime"] = None if seconds is None else self.pbs.duration(seconds)
        self.changed = True
        facts.soft_walltime = seconds

    def request(self, facts):
        """Return the request about the job; ``encode`` needs ``timeouts`` and ``previous_us`` too."""
        attribute, resource = facts.attribute, facts.resource
        script = host = depend = None
        if self.config["attributes"]:
            script, host, depend = self.submission_attributes(attribute)
        queue = text_of(attribute("queue"))
        place = text_of(resource("place"))
        if self.name == "queuejob":
            name, _, _, default = queue_facts(self.pbs, queue)
            queue = name or queue
            # PBS converts an old node specification after this event.
            place = place or ("scatter:excl" if "#excl" in text_of(resource("nodes")) else default)
            user = text_of(self.event.requestor)
            group = text_of(attribute("group_list")).partition(",")[0].partition("@")[0]
        else:
            user = text_of(attribute("euser"))
            group = text_of(attribute("egroup"))
        return {
            "event": self.name,
            "now": int(self.now),
            "job": {
                "job_id": text_of(self.job.id),
                "user": user,
                "group": group,
                # The accounting log has this name for a job without a project.
                "project": text_of(attribute("project")) or "_pbs_project_default",
                "account": text_of(attribute("Account_Name")),
                "queue": queue,
                "job_name": text_of(attribute("Job_Name")),
                "submitted": integer_of(attribute("ctime")),
                "walltime": facts.walltime,
                # The answer to a change must hold for the new attributes, whatever the job has.
                "soft_walltime": facts.soft_walltime if self.name == "runjob" else None,
                "min_walltime": seconds_of(resource("min_walltime")),
                "max_walltime": seconds_of(resource("max_walltime")),
                "ncpus": integer_of(resource("ncpus")),
                "nodect": integer_of(resource("nodect")),
                "ngpus": integer_of(resource("ngpus")),
                "mem": text_of(resource("mem")) or None,
                "select": text_of(resource("select")),
                "place": place,
                "array_indices": text_of(attribute("array_indices_submitted")),
                "script_path": script,
                "submit_host": host,
                "depend": depend,
                "interactive": bool(integer_of(attribute("interactive"))),
            },
        }

    def submission_attributes(self, attribute):
        """Return what the job executes, the host from which it was submitted, and its dependencies; "" if unknown."""
        try:
            host = self.event.requestor_host if self.name == "queuejob" else attribute("Submit_Host")
            return script_path(attribute), text_of(host), text_of(attribute("depend"))
        except Exception:  # A prediction without them is better than none.
            return None, None, None


def describe(decision, before, facts):
    """Return a decision as a text for the log; ``before`` is the previous soft walltime."""
    if facts.soft_walltime == before or facts.soft_walltime == Facts.UNKNOWN:
        what = "left without" if facts.soft_walltime is None else f"left at {facts.soft_walltime}"
    else:
        what = "removed" if facts.soft_walltime is None else f"set {facts.soft_walltime} of {facts.walltime}"
    if facts.ordering is not None:
        what += f", ordering {facts.ordering}"
    return what + (": " + decision.basis if decision.basis else "")


UNPRINTABLE = re.compile("[^ -~]")


def log(pbs, level, message):
    """Write one line to the server log; replace all characters but printable ASCII, because texts come from users."""
    pbs.logmsg(level, "softwalltime: " + UNPRINTABLE.sub("?", message[:1000]))


def run(pbs, now):
    """Run the hook for the current event; ``now`` is the time in epoch seconds.  The caller accepts the event."""
    started = time.monotonic()
    event = pbs.event()
    hook = None
    try:
        hook = Hook(pbs, event, now, started)
        hook.run()
    except BaseException as error:  # PBS's alarm raises KeyboardInterrupt; here the message is known too.
        with contextlib.suppress(BaseException):  # Nothing is left to try.
            log(pbs, pbs.LOG_WARNING, f"{type(error).__name__}: {error}: the request is accepted unchanged")
    finally:
        with contextlib.suppress(BaseException):
            if hook is not None:
                hook.close()
