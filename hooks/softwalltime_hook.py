"""Set the soft walltimes of PBS jobs: a PBS server hook for queuejob, postqueuejob, modifyjob and runjob.

Event -> facts about its job -> one request to the softwalltime daemon -> one decision -> Resource_List.soft_walltime.
README.md in this folder describes events, settings and failures, and the facts about PBS on which this file rests.

The hook runs inside pbs_server, as root, on an embedded interpreter, and the whole server waits while it runs:

- Python 3.6 and its standard library only: other extensions do not survive the restarts of PBS's interpreter.
- It accepts every request: an unhandled exception would reject the user's qsub.
- One deadline, on a monotonic clock, limits the total wait.
- Every soft walltime passes ``Facts.fitted``: PBS checks none at postqueuejob and runjob, and 0 kills the scheduler.
"""

# ruff: noqa: PTH105, PTH114, PTH116, PTH120, PTH123, UP041 - on Python 3.6 socket.timeout is not TimeoutError; pathlib loads slowly.

import contextlib
import sys
import time

# pbs_server executes this file at each event in new globals without a __name__, so that of the builtins is used.
# Definitions take longer than most runs: a module keeps them until another version of this file, which has another
# code object, is imported or the interpreter restarts.
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
        _kept.Run(pbs, time.time()).run()
    except BaseException as _error:  # PBS's alarm raises KeyboardInterrupt; no bug of the hook may cost a user a job.
        with contextlib.suppress(BaseException):  # Nothing is left to try.
            _kept.log(pbs, pbs.LOG_WARNING, f"{type(_error).__name__}: {_error}: the request is accepted unchanged")
    if pbs.event() is not None:
        pbs.event().accept()  # Ends the run: nothing below is executed.

import json
import os
import re
import select
import socket

TO_JSON = json.JSONEncoder(separators=(",", ":")).encode
VERSION = 1  # of the protocol
MAX_LINE = 65536  # bytes of a request or an answer, with its newline
MAX_TEXT = 512  # characters of most texts in a request; the daemon refuses longer ones
MAX_COMMAND = 16384  # characters of a command line in a request
MAX_CUT = 256  # characters of each text if all together are longer than a line
NO_LIMIT = 5 * 365 * 24 * 3600  # seconds that the scheduler assumes for a job without walltime
QUEUES_AGE = 60  # seconds for which facts about queues are cached: reading them takes longer than the rest of a run


class State:
    """What persists between runs, until PBS restarts its interpreter or another version of the hook is imported."""

    configuration = None  # the version of the file, and what read_configuration() returned for it
    connection = None  # open, to the daemon
    exchange_us = None  # duration of the last answered exchange in microseconds
    recent = ()  # durations of the last answered exchanges in seconds
    queues = None, None, {}  # the module pbs, the time, and the results of queue_facts() by queue
    managers = None  # the soft walltimes set by managers
    postgres = None, None  # the path of the transport for PostgreSQL, and its module
    warned = None  # the resource for the ordering value that could not be set


# ---- Configuration: softwalltime install and doctor validate it, here only its shape is checked ---------------------

DEFAULTS = {
    "transport": "daemon", "socket": "/run/softwalltime/hook.sock", "deadline_ms": 50,
    "breaker_failures": 3, "breaker_requests": 20, "breaker_budget_ms": 0, "breaker_seconds": 30,
    "minimum": 60, "ordering": "predicted", "daemon_users": ["softwalltime", "softwalltime-live"],
    "events": {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True},
    "runjob": "always", "runjob_fallback": "walltime", "jobs_without_walltime": False,
    "clean_texts": True, "attributes": True, "log": "all",
    "postgres": {"transport_path": "", "dsn": "", "psycopg_path": "", "waiting": "usage", "running": "walltime",
                 "exclusive": "walltime"},
}  # fmt: skip
# Other values would stop pbs_server, kill the scheduler, or divide by zero.
BOUNDS = {"deadline_ms": range(1, 5001), "minimum": range(60, 86401), "breaker_requests": range(1, 1001)}


def configured(given, errors, defaults=DEFAULTS, prefix=""):
    """Return the configuration: ``given``, with the default for each value that is missing, harmful or misshapen."""
    result = {}
    for key, default in defaults.items():
        value = given.get(key, default)
        if type(value) is not type(default) or value not in BOUNDS.get(key, (value,)):
            errors.append(f"{prefix}{key}: invalid value {json.dumps(value)[:60]}")
            value = default
        result[key] = configured(value, errors, default, f"{key}.") if isinstance(default, dict) else value
    return result


def read_configuration(path):
    """Return the configuration in a file and its errors; each version of the file is read once."""
    if not path:
        return DEFAULTS, []
    try:
        status = os.stat(path)
        version = path, status.st_ino, status.st_size, status.st_mtime_ns
        if State.configuration is None or State.configuration[0] != version:
            errors = []
            with open(path, "rb") as file:
                State.configuration = version, configured(json.loads(file.read().decode("utf-8")), errors), errors
        return State.configuration[1:]
    except Exception as error:
        return DEFAULTS, [f"the file cannot be read: {error}"]


# ---- Values of PBS objects -----------------------------------------------------------------------------------------
def integer_of(value):
    """Return a number, or the seconds of a duration, as an integer; None if it is none, as ``""``, which unsets it."""
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def walltime_of(value):
    """Return a walltime in seconds, at most NO_LIMIT; None if it is not set.  At queuejob those of queues are texts."""
    if isinstance(value, str) and ":" in value:
        value = sum(float(part) * 60**place for place, part in enumerate(reversed(value.split(":"))))
    seconds = integer_of(value)
    return None if seconds is None else min(seconds, NO_LIMIT)


def text_of(value):
    return "" if value is None else str(value)  # PBS's own types are not str.


def set_values(thing):
    """Return the dictionary of a PBS object's set values, the fast way to read them; None if this PBS has none."""
    values = getattr(thing, "__dict__", {}).get("__pad_values")
    return values if isinstance(values, dict) else None


def attributes_of(thing):
    """Return a function from an attribute's name to its value, None if it is not set or this server lacks it."""
    values = set_values(thing)
    return (lambda name: getattr(thing, name, None)) if values is None else values.get


def resources_of(thing):
    """Return a function from a requested resource's name to its value, None if it is not set or unknown."""
    resources = attributes_of(thing)("Resource_List")

    def get(name):
        try:
            return resources[name]
        except Exception:
            return None

    get("walltime")  # PBS fills the list at the first access by name.
    values = set_values(resources)
    return get if values is None else values.get


def altered(request, job):
    """Return a function from a name to its value after an alter: the request's, "" as None, or else the job's."""

    def get(name):
        value = request(name)
        return job(name) if value is None else None if isinstance(value, str) and value == "" else value

    return get


# ---- Queues --------------------------------------------------------------------------------------------------------
def queue_facts(pbs, queue):
    """Return what is known of a job submitted to this queue, as of at most QUEUES_AGE ago.

    :return: the name of the queue in which it will wait; whether its default walltime is known; this walltime or None;
        the default placement if it is exclusive in one of the possible queues, else "".
    """
    if State.queues[0] is not pbs or time.monotonic() - State.queues[1] > QUEUES_AGE:
        State.queues = pbs, time.monotonic(), {}
    if queue not in State.queues[2]:
        State.queues[2][queue] = read_queue_facts(pbs.server(), queue, pbs.QTYPE_ROUTE)
    return State.queues[2][queue]


def read_queue_facts(server, queue, route):
    queue = queue or text_of(server.default_queue)
    names = destinations(server, queue, route)
    name = names[0] if len(set(names)) == 1 else queue.partition("@")[0]
    if "" in names:
        return queue.partition("@")[0], False, None, ""
    walltimes, exclusive = set(), ""
    for found in map(server.queue, names):
        defaults = [found.resources_default, server.resources_default]
        limits = [*defaults, found.resources_max, server.resources_max]  # PBS takes the first walltime (measured).
        walltimes.add(first(walltime_of(resources["walltime"]) for resources in limits if resources is not None))
        place = text_of(first(resources["place"] for resources in defaults if resources is not None))
        exclusive = exclusive or (place if is_exclusive(place) else "")
    # Limits, access lists and load select the destination: only what all destinations have in common is known.
    known = len(walltimes) == 1
    return name, known, walltimes.pop() if known else None, exclusive


def first(values):
    return next((value for value in values if value is not None), None)


def destinations(server, queue, route, depth=0):
    """Return the execution queues to which a job in this queue may be routed; "" for an unknown one."""
    name, _, host = queue.partition("@")
    found = server.queue(name) if name and depth <= 5 and host in ("", text_of(server.name)) else None
    if found is None or found.queue_type != route:
        return ["" if found is None else name]
    nested = text_of(found.route_destinations).split(",")
    return [name for each in nested for name in destinations(server, each.strip(), route, depth + 1)]


def is_exclusive(place):
    """Return whether the scheduler compares only the soft walltime of a job with this placement to a reservation."""
    words = place.split(":")
    return ("excl" in words or "exclhost" in words) and "pack" not in words


# ---- Texts in the accounting log, where a line break would let a user forge records of others ------------------------

# Control characters and line separators, which programs that read the log may take for the end of a line.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
UNUSUAL = re.compile("[^A-Za-z0-9._-]")
# Texts of the user in Q, S, E and R records, besides the requested resources; clients can send any text.
LOGGED_AT_SUBMISSION = ("Account_Name", "project", "Job_Name", "gridname")
# An alter's record has every text of the request.  Where a hook runs at modifyjob, PBS does not change Variable_List.
LOGGED_AT_ALTER = (
    *LOGGED_AT_SUBMISSION, "stagein", "stageout", "Join_Path", "Keep_Files", "Mail_Users", "Mail_Points", "depend",
    "Shell_Path_List", "User_List", "group_list", "Output_Path", "Error_Path", "Checkpoint", "Hold_Types", "comment",
    "tolerate_node_failures", "Submit_arguments", "executable", "argument_list", "Submit_Host", "credential_id",
    "sandbox", "Remove_Files", "cred", "forward_x11_cookie", "node_set",
)  # fmt: skip
# PBS takes what a hook sets, also on a resource that only managers may set: a site's own is unset, not cleaned.
USERS_RESOURCES = (
    "software", "site", "pgov", "resc", "vntype", "arch", "host", "vnode", "select", "place", "nodes", "file",
)  # fmt: skip


def clean_texts(job, fields):
    """Replace control characters in these texts and the requested resources; return the names of the changed ones."""
    attribute, resource = attributes_of(job), resources_of(job)
    texts = [(setattr, job, field, attribute(field), True) for field in fields]
    resources = attribute("Resource_List")
    if resources is not None:
        values, assign = set_values(resources), type(resources).__setitem__
        names = list(resources.keys() if values is None else values)
        texts += [(assign, resources, name, resource(name), name in USERS_RESOURCES) for name in names]
    return [clean(*text) for text in texts if text[3] is not None and CONTROL.search(text_of(text[3]))]


def clean(assign, thing, field, value, keep):
    """Replace the control characters of one value, or unset it without ``keep``; return its name.

    If PBS refuses the result, only letters, digits and ``._-`` remain, or nothing.
    """
    text, kind = text_of(value), str if isinstance(value, str) else type(value)
    for candidate in (CONTROL.sub("_", text), UNUSUAL.sub("_", text)[:200], None) if keep else (None,):
        with contextlib.suppress(Exception):
            assign(thing, field, None if candidate is None else kind(candidate))
            return field
    return field + " (not possible)"


class ManagersValues:
    """The soft walltimes that managers set, and their file ``PBS_HOME/server_priv/hooks/softwalltime.kept``.

    Only root can write there, and it survives restarts of interpreter and server.  A job has several values, the newest
    last, because PBS may refuse an alter; a value counts while the job has it.
    """

    MAX_JOBS, MAX_VALUES = 1000, 4

    def __init__(self, path):
        self.path, self.values = path, {}
        with contextlib.suppress(OSError, ValueError, TypeError), open(path) as file:
            for line in file:
                job_id, *values = line.split()
                self.values[job_id] = [int(seconds) for seconds in values]

    def has(self, job_id, seconds):
        """Return whether a manager set this soft walltime on the job or on its array."""
        array = re.sub(r"\[[0-9]+\]", "[]", job_id) if self.values else ""
        return any(seconds in self.values.get(name, ()) for name in (job_id, array))

    def store(self, job_id, seconds):
        """Store the soft walltime that a manager sets on a job; None: forget the job."""
        if self.path is None or (seconds is None and job_id not in self.values):
            return
        earlier = [value for value in self.values.pop(job_id, ()) if value != seconds]
        if seconds is not None:
            self.values[job_id] = [*earlier, seconds][-self.MAX_VALUES :]
        for oldest in list(self.values)[: -self.MAX_JOBS]:
            del self.values[oldest]
        new = os.open(self.path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(new, "w") as file:
            file.writelines(f"{name} {' '.join(map(str, values))}\n" for name, values in self.values.items())
        os.replace(self.path + ".new", self.path)


def managers_values(pbs):
    """Return the soft walltimes set by managers; their file, beside the configuration, is read once per interpreter."""
    path = getattr(pbs, "hook_config_filename", None)
    path = path.rpartition(".")[0] + ".kept" if path else None
    if State.managers is None or State.managers.path != path:
        State.managers = ManagersValues(path)
    return State.managers


def is_manager(pbs, event):
    """Return whether PBS lets the requestor set a soft walltime: root, and users in the server's ``managers``."""
    user, host = text_of(event.requestor), text_of(event.requestor_host)
    for entry in text_of(pbs.server().managers).split(",") if user != "root" else ():
        name, _, place = entry.strip().partition("@")
        if name == user and (
            place in ("", "*", host)
            or (place.startswith("*") and host.endswith(place[1:]))
            or place.partition(".")[0] == host.partition(".")[0]
        ):
            return True
    return user == "root"


# ---- One request ---------------------------------------------------------------------------------------------------
class NoAnswerError(Exception):
    """There is no valid answer; the message says why."""


def ready(descriptor, events, seconds=0.0):
    """Return whether one of the events of poll happens within this time."""
    poll = select.poll()
    poll.register(descriptor, events)
    return bool(poll.poll(seconds * 1000))


def wait_for(descriptor, events, deadline):
    """Wait until one of the events of poll happens; raise socket.timeout at the deadline."""
    seconds = deadline - time.monotonic()
    if seconds <= 0 or not ready(descriptor, events, seconds):
        raise socket.timeout("timed out")


class Connection:
    """A connection to the daemon's socket.

    It stays open for the next run, because connecting takes longer than the rest of an exchange, but only after a
    complete exchange: a late answer must not be taken for the answer to the next request.
    """

    def __init__(self, path):
        self.path, self.process, self.complete = path, os.getpid(), False
        self.peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.peer.setblocking(False)
            self.peer.connect(path)  # It never waits: a full backlog is an error.
        except BaseException:
            self.peer.close()
            raise

    def usable(self, path):
        """Return whether it is open, leads there, and has no answer without a request; a fork must open its own."""
        return self.path == path and self.process == os.getpid() and not ready(self.peer, select.POLLIN)

    def exchange(self, line, deadline):
        received, self.complete = b"", False
        while line:
            try:  # Without MSG_NOSIGNAL a daemon that dies right now would send pbs_server a SIGPIPE.
                line = line[self.peer.send(line, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                wait_for(self.peer, select.POLLOUT, deadline)
        while b"\n" not in received:
            if len(received) >= MAX_LINE:
                raise NoAnswerError("invalid answer: the line is too long")
            wait_for(self.peer, select.POLLIN, deadline)
            part = self.peer.recv(4096)  # Most answers have 100 bytes, and allocating memory takes time.
            if not part:
                raise ConnectionResetError("connection closed without an answer")
            received += part
        answer, _, more = received.partition(b"\n")
        self.complete = not more
        return answer

    def close(self):
        """Close it, also for forks of pbs_server: the daemon shall see that nobody waits."""
        if self.process == os.getpid():
            with contextlib.suppress(OSError):
                self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()


def disconnect():
    connection, State.connection = State.connection, None
    if connection is not None:
        connection.close()


class Breaker:
    """Prevents requests to a peer for a while, after timeouts in a row or slow answers.

    Its state "COUNT TIME PEER" is in the environment of pbs_server: it outlives the interpreter, no user can change it,
    and jobs do not inherit it.  "slow" precedes the peer after slow answers.  The peer's name has no secrets.
    """

    VARIABLE = "SOFTWALLTIME_HOOK_TIMEOUTS"

    def __init__(self, config):
        self.config, self.count, self.slow, since = config, 0, False, 0.0
        self.peer = config["socket"] if config["transport"] == "daemon" else "PostgreSQL"
        with contextlib.suppress(ValueError):
            count, last, name = os.environ.get(self.VARIABLE, "0 0 -").split(" ", 2)
            since = time.monotonic() - float(last)
            if since >= 0 and name in (self.peer, "slow " + self.peer):
                self.count, self.slow = int(count), name != self.peer
        opened = self.slow or self.count >= config["breaker_failures"]
        self.pause = max(0, config["breaker_seconds"] - since) if opened else 0

    def record(self, count, kind=""):  # The count remains after the pause: the next timeout opens the breaker again.
        os.environ[self.VARIABLE] = f"{count} {time.monotonic()} {kind}{self.peer}"

    def answered(self, seconds):
        """Record the duration of an exchange; open if the last ones took too long."""
        State.exchange_us = int(seconds * 1e6)
        requests = self.config["breaker_requests"]
        budget = (self.config["breaker_budget_ms"] or requests * self.config["deadline_ms"] / 2) / 1000.0
        State.recent = [*State.recent, seconds][-requests:]
        if sum(State.recent) > budget or (self.slow and seconds > budget / requests):
            State.recent = ()
            self.record(0, "slow ")
        elif self.slow or self.count:
            os.environ.pop(self.VARIABLE, None)


def ask(config, breaker, request, deadline):
    """Send the request over the configured transport and return the answer.

    :raises NoAnswerError: if the breaker is open or there is no answer.
    """
    if breaker.pause:
        why = "slow answers" if breaker.slow else f"{breaker.count} timeouts"
        raise NoAnswerError(f"no request for {breaker.pause:.0f} s, after {why}")
    before = time.monotonic()
    try:
        if config["transport"] == "daemon":
            answer = ask_daemon(config["socket"], encode(request), deadline)
        else:
            postgres = load_postgres(config["postgres"])
            loading = time.monotonic() - before  # It takes longer than the deadline, once per interpreter.
            before += loading
            answer = postgres.ask(config, request, deadline + loading)
    except (socket.timeout, BlockingIOError) as error:  # BlockingIOError: the backlog is full.
        breaker.record(breaker.count + 1)
        raise NoAnswerError(str(error)) from error
    except Exception as error:
        os.environ.pop(breaker.VARIABLE, None)
        known = isinstance(error, NoAnswerError)
        raise error if known else NoAnswerError(f"{breaker.peer}: {type(error).__name__}: {error}") from error
    breaker.answered(time.monotonic() - before)
    return answer


def ask_daemon(path, line, deadline):
    """Send one line over the Unix socket and return the answer; leave the connection open after one line of answer."""
    kept = State.connection is not None and State.connection.usable(path)
    if not kept:
        disconnect()
        State.connection = Connection(path)
    try:
        return json.loads(State.connection.exchange(line, deadline).decode("utf-8"))
    except ConnectionError:
        if not kept:
            raise
        disconnect()  # The daemon ended, or closed an idle connection, just now.
        return ask_daemon(path, line, deadline)
    except ValueError as error:
        raise NoAnswerError("invalid answer: not JSON") from error
    finally:
        if State.connection is not None and not State.connection.complete:
            disconnect()


def load_postgres(settings):
    """Return the transport for PostgreSQL: the module in the file ``transport_path``, with psycopg loaded."""
    path = settings["transport_path"]
    if State.postgres[0] != path:
        check_permissions(path)
        module = type(sys)("softwalltime_postgres")
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec"), module.__dict__)  # noqa: S102 - only root can change it
        State.postgres = path, module
    State.postgres[1].load_pq(settings["psycopg_path"])
    return State.postgres[1]


def check_permissions(path):
    """Raise NoAnswerError if users other than root and this server's user can change what is at an absolute path.

    Only these two may own or write it and the folders above.  Links count too: their owner decides where they lead.
    Folders above may be sticky, as /tmp is: there nobody can replace another's files.
    """

    def above(name):
        return [name] if os.path.dirname(name) == name else [name, *above(os.path.dirname(name))]

    if not path.startswith("/"):
        raise NoAnswerError(f"{path!r} cannot be loaded: not an absolute path")
    real = os.path.realpath(path)
    for place in [*above(real), *filter(os.path.islink, above(path))]:
        status = os.lstat(place)
        safe = os.path.islink(place) or (status.st_mode & 0o1000 and place != real)
        if status.st_uid not in (0, os.geteuid()) or (status.st_mode & 0o022 and not safe):
            raise NoAnswerError(f"{path} cannot be loaded: users other than root can change {place}")


def encode(request):
    """Return the request as one line; cut its texts if the line is too long."""
    line = TO_JSON(request)
    if len(line) >= MAX_LINE:
        job = {name: value[:MAX_CUT] if isinstance(value, str) else value for name, value in request["job"].items()}
        line = TO_JSON(dict(request, job=job))
    return (line + "\n").encode("ascii")


def parse_answer(answer, limit):
    """Return the seconds to set, or None, the basis, and the ordering value, or None.

    :raises NoAnswerError: if the answer is an error, violates the protocol, or has a value above the limit.
    """
    if not isinstance(answer, dict) or answer.get("v") != VERSION:
        raise NoAnswerError(f"invalid answer: not of protocol version {VERSION}")
    if "error" in answer:
        raise NoAnswerError(f"the daemon reports: {answer['error']}")
    action, seconds, ordering, basis = map(answer.get, ("action", "soft_walltime", "ordering", "basis"))
    numbers = [seconds] * (action == "set") + [ordering] * (ordering is not None)
    if action not in ("set", "none") or any(type(value) is not int or not 1 <= value <= limit for value in numbers):
        raise NoAnswerError(f"invalid answer: neither none nor seconds from 1 to {limit}")
    return seconds if action == "set" else None, basis if isinstance(basis, str) else "", ordering


# ---- The job of an event -------------------------------------------------------------------------------------------

UNKNOWN = "unknown"
# Attributes and resources from which runtimes are predicted and that an alter may change.
PREDICTED_FROM = ("project", "group_list", "Account_Name", "Job_Name")
PREDICTED_FROM_RESOURCES = (
    "walltime", "min_walltime", "max_walltime", "place", "select", "nodes", "ncpus", "nodect", "ngpus", "mem",
)  # fmt: skip


class Facts:
    """The job as it will be if the hook does nothing.

    ``soft`` is its soft walltime, UNKNOWN if PBS does not show the job, ``walltime`` its walltime, at most NO_LIMIT,
    ``ordered`` its ordering value; None: it has none.  ``requested`` is the soft walltime in an alter or submission.
    """

    def __init__(self, pbs, event, name, config):
        self.pbs, self.event, self.name, self.config = pbs, event, name, config
        self.id, self.requestor = text_of(event.job.id), text_of(event.requestor)
        self.attribute, self.resource = attributes_of(event.job), resources_of(event.job)
        self.requested = self.resource("soft_walltime")
        self.soft = integer_of(self.requested)
        self.walltime = walltime_of(self.resource("walltime"))
        self.before = self.previous = None  # before an alter: walltime, soft walltime
        self.changed = self.destination_known = True
        # At queuejob a job without a walltime gets no ordering value: no event could change it after a move.
        self.orderable = name == "postqueuejob" or (name == "queuejob" and self.walltime is not None)
        self.ordered = integer_of(self.resource(config["ordering"])) if name == "postqueuejob" else None
        if name == "queuejob" and self.walltime is None:
            _, self.destination_known, self.walltime, _ = queue_facts(pbs, text_of(self.attribute("queue")))
        if name == "modifyjob":
            self.read_original()
        self.shrinks = integer_of(self.resource("min_walltime")) is not None  # PBS refuses a soft walltime then.
        self.limit = NO_LIMIT if self.walltime is None else self.walltime

    def read_original(self):
        """Complete the request of an alter by the job before it."""
        attribute, resource, pbs = self.attribute, self.resource, self.pbs
        self.changed = any(attribute(name) is not None for name in PREDICTED_FROM) or any(
            resource(name) is not None for name in PREDICTED_FROM_RESOURCES
        )
        if not self.changed and self.requested is None:
            return
        original = getattr(self.event, "job_o", None)
        if original is None:  # A text of the request is not UTF-8; PBS carries the request out all the same.
            with contextlib.suppress(Exception):
                original = pbs.server().job(self.id)
        self.shown = original is not None
        if not self.shown:
            self.soft = UNKNOWN if self.requested is None else self.soft
            return
        job, had = attributes_of(original), resources_of(original)
        self.attribute, self.resource = altered(attribute, job), altered(resource, had)
        self.before, self.previous = walltime_of(had("walltime")), integer_of(had("soft_walltime"))
        self.soft = self.previous if self.requested is None else self.soft
        if resource("walltime") is None:
            self.walltime = self.before
        elif self.walltime is None:  # After qalter -l walltime= the job gets the default of its queue again.
            self.walltime = queue_facts(pbs, text_of(job("queue")))[2]
        # An array that has begun still has waiting subjobs.
        waits = (pbs.JOB_STATE_QUEUED, pbs.JOB_STATE_HELD, pbs.JOB_STATE_WAITING, pbs.JOB_STATE_BEGUN)
        self.runs = job("job_state") not in waits
        # PBS refuses to alter a custom resource of a running job: the user's request would fail.
        self.orderable = self.changed and not self.runs
        self.ordered = None if self.runs else integer_of(had(self.config["ordering"]))

    def is_managers(self, seconds):
        return seconds is not None and managers_values(self.pbs).has(self.id, seconds)

    def managers_own(self):
        """Return whether a manager set the soft walltime that the job has, and no user raises the walltime now."""
        raised = self.before is not None and self.walltime > self.before
        return self.is_managers(self.soft) and (not raised or is_manager(self.pbs, self.event))

    def fitted(self, seconds):
        """Return the nearest valid soft walltime; None if there is none."""
        least = self.config["minimum"]
        return min(max(seconds, least), self.limit) if least <= self.limit else None

    def valid(self):
        """Return the job's soft walltime if it is valid, else the walltime, which is safe; None if it has none."""
        if self.soft is None or 0 < self.soft <= self.limit:
            return self.soft
        return None if self.walltime is None else self.fitted(self.walltime)

    def outgrown(self):
        """Return the walltime for a job with a soft walltime, which was predicted from other attributes; else None."""
        return None if None in (self.soft, self.walltime) else self.fitted(self.walltime)

    def request(self, now, timeouts):
        attribute, resource = self.attribute, self.resource

        def text(value):
            return text_of(value)[:MAX_TEXT]

        queue, place = text(attribute("queue")), text_of(resource("place"))
        user, group = attribute("euser"), attribute("egroup")
        if self.name == "queuejob":  # PBS sets these, and converts an old node specification, after this event.
            name, _, _, default = queue_facts(self.pbs, queue)
            place = place or ("scatter:excl" if "#excl" in text_of(resource("nodes")) else default)
            queue, user = name or queue, self.requestor
            group = text_of(attribute("group_list")).partition(",")[0].partition("@")[0]
        job = {
            "job_id": text(self.id), "user": text(user), "group": text(group),
            # The accounting log has this name for a job without a project.
            "project": text(attribute("project")) or "_pbs_project_default",
            "account": text(attribute("Account_Name")), "queue": queue, "job_name": text(attribute("Job_Name")),
            "submitted": integer_of(attribute("ctime")), "walltime": self.walltime,
            # The answer to a change must hold for the new attributes, whatever the job has.
            "soft_walltime": self.soft if self.name == "runjob" else None,
            "min_walltime": walltime_of(resource("min_walltime")),
            "max_walltime": walltime_of(resource("max_walltime")),
            "ncpus": integer_of(resource("ncpus")), "nodect": integer_of(resource("nodect")),
            "ngpus": integer_of(resource("ngpus")), "mem": text(resource("mem")) or None,
            "select": text_of(resource("select")), "place": place,
            "interactive": bool(integer_of(attribute("interactive"))),
        }  # fmt: skip
        if self.config["attributes"]:  # The daemon finds the script in them.
            variables = attribute("Variable_List")
            job["workdir"] = text(variables.get("PBS_O_WORKDIR") if isinstance(variables, dict) else None)
            for name in ("Submit_arguments", "executable", "argument_list"):
                job[name.lower()] = text_of(attribute(name))[:MAX_COMMAND]
        head = {"v": VERSION, "op": "predict", "event": self.name, "now": int(now), "keep": True}
        return dict(head, timeouts=timeouts, previous_us=State.exchange_us, job=job)


# ---- One decision --------------------------------------------------------------------------------------------------

NO_WALLTIME = "the job has no walltime"
SHRINK_TO_FIT = "a shrink-to-fit job may have no soft walltime"
REQUESTED = "the request gives a soft walltime"
MANAGERS_OWN = "a manager set this soft walltime"


def rule(job):
    """Return the soft walltime that keeps PBS's request valid whatever happens then, and why the daemon is not asked.

    The reason is empty if it is asked; without an answer the soft walltime stays.
    """
    config = job.config
    if job.name != "modifyjob":
        if job.name == "queuejob" and job.requested is not None:
            return job.soft, REQUESTED
        if job.shrinks:
            return job.soft, SHRINK_TO_FIT
        if not job.destination_known:
            return job.soft, "the walltime depends on where the job is routed"
        if job.managers_own():
            return job.valid(), MANAGERS_OWN
        if job.walltime is None and not config["jobs_without_walltime"]:
            # After a move into a queue with another default walltime, PBS leaves the soft walltime as it was.
            return None if job.name == "postqueuejob" else job.valid(), NO_WALLTIME
        if job.name == "runjob":
            disabled = config["runjob"] == "never" or (config["runjob"] == "if-none" and job.soft is not None)
            return job.valid(), "the configuration disables requests at this start" if disabled else ""
        return job.outgrown(), ""
    # PBS refuses an alter to a walltime below the soft walltime, and to shrink-to-fit with a soft walltime.
    if job.requested is not None:
        # PBS refuses a user's; with the hook's own right a user would get the minimum.
        if job.soft is not None and job.soft < config["minimum"] and is_manager(job.pbs, job.event):
            value = job.fitted(0) if job.shown and not job.shrinks else None
            return value, "the request gives less than the minimum, and a soft walltime of 0 would kill the scheduler"
        overrides = job.requestor in config["daemon_users"] and job.is_managers(job.previous)
        return (job.previous, MANAGERS_OWN) if overrides else (job.soft, REQUESTED)
    if not job.shown:
        return None, "PBS does not show the job"
    if job.shrinks:
        return None, SHRINK_TO_FIT
    if job.walltime is None:
        return None, NO_WALLTIME
    if job.runs:
        # A prediction for a waiting job may be too low, and promised starts depend on this job already.
        # A soft walltime that was raised to the walltime at the start follows it.
        raised = None not in (job.soft, job.before) and job.soft >= job.before
        return job.fitted(job.walltime) if raised else job.valid(), "the job runs"
    if job.managers_own():
        return job.valid(), MANAGERS_OWN
    # What was predicted from the old attributes would let a user buy a place with attributes that he then changes.
    return job.outgrown(), ""


class Run:
    """One run of the hook at ``now``, in epoch seconds."""

    def __init__(self, pbs, now):
        self.now, self.started = now, time.monotonic()
        self.pbs, self.event = pbs, pbs.event()
        names = (name for name in DEFAULTS["events"] if self.event.type == getattr(pbs, name.upper(), None))
        self.name = next(names, "")
        self.config, self.errors = read_configuration(getattr(pbs, "hook_config_filename", None))
        self.job = None
        self.ordering = None  # that of the answer, later the one that was set
        self.changed = self.failed = False

    def run(self):
        if self.errors:
            self.warn("configuration: " + "; ".join(self.errors) + "; using the defaults")
        if not self.config["events"].get(self.name):
            return
        if self.config["clean_texts"] and self.name in ("queuejob", "modifyjob"):
            cleaned = clean_texts(self.event.job, LOGGED_AT_SUBMISSION if self.name == "queuejob" else LOGGED_AT_ALTER)
            if cleaned:
                who = f"{text_of(self.event.job.id) or 'a new job'} of {self.event.requestor}"
                self.warn(f"{self.name} {who}: control characters replaced in {', '.join(cleaned)}")
        if self.left_to_another_event():
            return
        job = self.job = Facts(self.pbs, self.event, self.name, self.config)
        if not job.changed and job.requested is None:
            return
        before = job.soft
        value, reason = rule(job)
        self.set(value)
        text = reason or self.ask()
        self.order()
        if self.name == "modifyjob" and (job.requested is not None or reason == MANAGERS_OWN):
            self.remember()
        self.report(before, text)

    def left_to_another_event(self):
        attribute = attributes_of(self.event.job)
        if self.name == "queuejob":
            # Everything is known at postqueuejob, but PBS drops what a hook sets on an array there.
            later = self.config["events"]["postqueuejob"] and hasattr(self.pbs, "POSTQUEUEJOB")
            return later and not text_of(attribute("array_indices_submitted"))
        # postqueuejob comes again when a job is routed; runjob follows for a subjob.
        waits = attribute("queue_type") == self.pbs.QTYPE_EXECUTION
        return self.name == "postqueuejob" and (not waits or "[" in text_of(self.event.job.id))

    def ask(self):
        """Set the daemon's answer, and return its basis or why there is none."""
        job, config = self.job, self.config
        breaker, deadline = Breaker(config), self.started + config["deadline_ms"] / 1000.0
        try:
            answer = ask(config, breaker, job.request(self.now, breaker.count), deadline)
            seconds, basis, self.ordering = parse_answer(answer, job.limit)
        except NoAnswerError as error:
            self.failed = True
            # At a start promises depend on the value, and that for a waiting job may be too low.
            if self.name == "runjob" and job.soft is not None and config["runjob_fallback"] == "walltime":
                self.set(job.walltime)
            return f"no answer: {error}"
        seconds = None if seconds is None else job.fitted(seconds)
        if seconds is not None and (job.soft is not None or seconds != job.walltime):
            self.set(seconds)
        return basis

    def set(self, seconds):
        """Set the job's soft walltime to the nearest valid one, None: remove it."""
        if seconds == self.job.soft:
            return
        seconds = None if seconds is None else self.job.fitted(seconds)
        if seconds != self.job.soft:
            self.event.job.Resource_List["soft_walltime"] = None if seconds is None else self.pbs.duration(seconds)
            self.job.soft, self.changed = seconds, True

    def order(self):
        """Set the ordering value for job_sort_formula: the answer's, or the longest time that a changed job may run."""
        name, job = self.config["ordering"], self.job
        value, self.ordering = self.ordering, None
        if not name or not job.orderable:
            return
        if value is None and job.ordered is not None:
            value = max(job.walltime or 0, walltime_of(job.resource("max_walltime")) or 0) or job.walltime
        if value == job.ordered:
            return
        try:
            self.event.job.Resource_List[name] = value
            self.ordering, self.changed = value, True
        except Exception as error:  # The resource does not exist, or has another type.
            if State.warned != name:
                State.warned = name
                self.warn(f"resource {name}: cannot be set: {error}; jobs get no ordering value")

    def remember(self):
        """Store the soft walltime that a manager sets, or the value to which the walltime lowers it."""
        managers = self.job.requestor not in self.config["daemon_users"] and is_manager(self.pbs, self.event)
        if managers if self.job.requested is not None else self.changed:
            try:
                managers_values(self.pbs).store(self.job.id, self.job.soft)
            except OSError as error:
                self.warn(f"cannot store the soft walltime set by a manager: {error}")

    def report(self, before, text):
        """Log the decision; ``before`` is the previous soft walltime."""
        job = self.job
        if job.soft == before:
            what = "left without" if job.soft is None else f"left at {job.soft}"
        else:
            what = "removed" if job.soft is None else f"set {job.soft} of {job.walltime}"
        what += "" if self.ordering is None else f", ordering {self.ordering}"
        if {"changes": self.changed or self.failed, "errors": self.failed, "off": False}.get(self.config["log"], True):
            elapsed = 1000 * (time.monotonic() - self.started)
            line = f"{self.name} {job.id or job.requestor}: {what}{text and ': ' + text} ({elapsed:.2f} ms)"
            log(self.pbs, self.pbs.EVENT_DEBUG2, line)

    def warn(self, message):
        if self.config["log"] != "off":
            log(self.pbs, self.pbs.LOG_WARNING, message)


def log(pbs, level, message):
    pbs.logmsg(level, "softwalltime: " + re.sub("[^ -~]", "?", message[:1000]))  # Texts come from users.
