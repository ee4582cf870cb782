"""Set the soft walltimes of PBS jobs: a PBS server hook for queuejob, postqueuejob, modifyjob and runjob.

It also cleans the texts of reservations, at resvsub and modifyresv.

Event -> facts about its job -> one request to the softwalltime daemon -> one decision -> Resource_List.soft_walltime.
README.md in this folder describes events, settings and failures, and the facts about PBS on which this file rests.

The hook runs inside pbs_server, as root, on an embedded interpreter, and the whole server waits while it runs:

- Python 3.6 and its standard library only: other extensions do not survive the restarts of PBS's interpreter.
- It accepts every request: an unhandled exception would reject the user's qsub.
- One deadline, on a monotonic clock, limits the total wait.
- Every soft walltime passes ``Job.fitted``: PBS checks none at postqueuejob and runjob, and 0 kills the scheduler.
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
        _kept.run(pbs, time.time())
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
MAX_JOBS, MAX_VALUES = 1000, 4  # jobs with a manager's soft walltime, and values of each, that are stored
QUEUES_AGE = 60  # seconds for which facts about queues are cached: reading them takes longer than the rest of a run


class State:
    """What persists between runs, until PBS restarts its interpreter or another version of the hook is imported."""

    configuration = None  # the version of the file, and what read_configuration() returned for it
    connection = None  # open, to the daemon
    exchange_us = None  # duration of the last answered exchange in microseconds
    recent = ()  # durations of the last answered exchanges in seconds
    queues = None, None, {}  # the module pbs, the time, and the results of queue_facts() by queue
    managers = None, {}  # the result of managers_values()
    postgres = None, None  # the path of the transport for PostgreSQL, and its module
    warned = None  # the resource for the ordering value that could not be set


# ---- Configuration: softwalltime install and doctor validate it, here only its shape is checked ---------------------

DEFAULTS = {
    "transport": "daemon", "socket": "/run/softwalltime/hook.sock", "deadline_ms": 50, "breaker_failures": 3,
    "breaker_seconds": 30, "minimum": 60, "ordering": "predicted",
    "daemon_users": ["softwalltime", "softwalltime-live"],
    "events": {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True, "resvsub": True,
               "modifyresv": True},
    "runjob_fallback": "walltime", "jobs_without_walltime": False, "attributes": True, "log": "all",
    "postgres": {"transport_path": "", "dsn": "", "psycopg_path": "", "waiting": "usage", "running": "walltime",
                 "exclusive": "walltime"},
}  # fmt: skip
# Other values would stop pbs_server or kill the scheduler.
BOUNDS = {"deadline_ms": range(1, 5001), "minimum": range(60, 86401)}


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
    """Return the value as a text, empty for None; PBS's own types are not str."""
    return "" if value is None else str(value)


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
    """Return the result of :func:`queue_facts`, read from the server."""
    queue = queue or text_of(server.default_queue)
    names = destinations(server, queue, route)
    name = names[0] if len(set(names)) == 1 else queue.partition("@")[0]
    if "" in names:
        return queue.partition("@")[0], False, None, ""
    walltimes, exclusive = set(), ""
    for found in map(server.queue, names):
        defaults = found.resources_default, server.resources_default
        # PBS takes the first walltime (measured).
        walltimes.add(walltime_of(first("walltime", *defaults, found.resources_max, server.resources_max)))
        place = text_of(first("place", *defaults))
        exclusive = exclusive or (place if is_exclusive(place) else "")
    # Limits, access lists and load select the destination: only what all destinations have in common is known.
    known = len(walltimes) == 1
    return name, known, walltimes.pop() if known else None, exclusive


def first(name, *resources):
    """Return the first value of this resource that is set in one of the lists; None if it is set in none."""
    return next((found[name] for found in resources if found is not None and found[name] is not None), None)


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
LOGGED_OF_RESERVATION = ("Account_Name", "Reserve_Name")
LOGGED = {
    "queuejob": LOGGED_AT_SUBMISSION, "modifyjob": LOGGED_AT_ALTER, "resvsub": LOGGED_OF_RESERVATION,
    "modifyresv": LOGGED_OF_RESERVATION,
}  # fmt: skip
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


# ---- Soft walltimes that managers set ------------------------------------------------------------------------------


def managers_values(pbs):
    """Return the file ``PBS_HOME/server_priv/hooks/softwalltime.kept`` and the soft walltimes in it, by job.

    Only root can write there, and it survives restarts of interpreter and server; an interpreter reads it once.  A job
    has several values, the newest last, because PBS may refuse an alter; a value counts while the job has it.
    """
    path = getattr(pbs, "hook_config_filename", None)
    path = path.rpartition(".")[0] + ".kept" if path else None
    if State.managers[0] != path:
        values = {}
        with contextlib.suppress(OSError, ValueError, TypeError), open(path) as file:
            values.update((name, [int(seconds) for seconds in numbers]) for name, *numbers in map(str.split, file))
        State.managers = path, values
    return State.managers


def is_managers(pbs, job_id, seconds):
    """Return whether a manager set this soft walltime on the job or on its array."""
    values = seconds is not None and managers_values(pbs)[1]
    return values and any(seconds in values.get(name, ()) for name in (job_id, re.sub(r"\[[0-9]+\]", "[]", job_id)))


def remember(job, lowered):
    """Store the soft walltime that a manager gives in this alter, or that was ``lowered``; forget a removed one."""
    given = job.requested is not None and job.requestor not in job.config["daemon_users"]
    given = given and is_manager(job.pbs, job.event)
    path, values = managers_values(job.pbs)
    if path is None or not (given or lowered) or (job.soft is None and job.id not in values):
        return
    earlier = [value for value in values.pop(job.id, ()) if value != job.soft]
    if job.soft is not None:
        values[job.id] = [*earlier, job.soft][-MAX_VALUES:]
    for oldest in list(values)[:-MAX_JOBS]:
        del values[oldest]
    try:
        with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.writelines(f"{name} {' '.join(map(str, numbers))}\n" for name, numbers in values.items())
        os.replace(path + ".new", path)
    except OSError as error:
        log(job.pbs, job.pbs.LOG_WARNING, f"cannot store the soft walltime set by a manager: {error}")


def is_manager(pbs, event):
    """Return whether PBS lets the requestor set a soft walltime: root, and users in the server's ``managers``."""
    user, host = text_of(event.requestor), text_of(event.requestor_host)
    for entry in text_of(pbs.server().managers).split(",") if user != "root" else ():
        name, _, place = entry.strip().partition("@")
        near = not place or place.partition(".")[0] == host.partition(".")[0]
        if name == user and (near or (place.startswith("*") and host.endswith(place[1:]))):
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


def remaining(deadline):
    """Return the seconds until the deadline; raise socket.timeout if there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise socket.timeout("timed out")
    return seconds


class Connection:
    """A connection to the daemon's socket, connected by the first exchange.

    It stays open for the next run, because connecting takes longer than the rest of an exchange, but only after a
    complete exchange: a late answer must not be taken for the answer to the next request.
    """

    def __init__(self, path):
        self.path, self.process, self.idle = path, os.getpid(), False
        self.peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.peer.setblocking(False)

    def usable(self, path):
        """Return whether it is open, leads there, and has no answer without a request; a fork must open its own."""
        return self.idle and self.path == path and self.process == os.getpid() and not ready(self.peer, select.POLLIN)

    def exchange(self, line, deadline):
        """Send the line of a request and return the line of the answer, without its newline."""
        if not self.idle:
            self.peer.connect(self.path)  # It never waits: a full backlog is an error.
        received, self.idle = b"", False
        self.peer.settimeout(remaining(deadline))
        # Without MSG_NOSIGNAL a daemon that dies right now would send pbs_server a SIGPIPE.
        self.peer.sendall(line, socket.MSG_NOSIGNAL)
        while b"\n" not in received:
            if len(received) >= MAX_LINE:
                raise NoAnswerError("invalid answer: the line is too long")
            self.peer.settimeout(remaining(deadline))
            part = self.peer.recv(4096)  # Most answers have 100 bytes, and allocating memory takes time.
            if not part:
                raise ConnectionResetError("connection closed without an answer")
            received += part
        answer, _, more = received.partition(b"\n")
        self.idle = not more
        return answer


def disconnect():
    """Close the connection, also for forks of pbs_server: the daemon shall see that nobody waits."""
    connection, State.connection = State.connection, None
    if connection is not None:
        with contextlib.suppress(OSError):
            if connection.process == os.getpid():
                connection.peer.shutdown(socket.SHUT_RDWR)
        connection.peer.close()


class Breaker:
    """Prevents requests to a peer for a while, after timeouts in a row or slow answers.

    Its state "COUNT TIME PEER" is in the environment of pbs_server: it outlives the interpreter, no user can change it,
    and jobs do not inherit it.  "slow" precedes the peer after slow answers.  The peer's name has no secrets.
    """

    VARIABLE = "SOFTWALLTIME_HOOK_TIMEOUTS"
    ANSWERS = 20  # The last ones may take half of their deadlines together.

    def __init__(self, config):
        self.config, self.count, self.slow, self.pause = config, 0, False, 0
        self.peer = config["socket"] if config["transport"] == "daemon" else "PostgreSQL"
        with contextlib.suppress(ValueError):
            count, last, name = os.environ.get(self.VARIABLE, "0 0 -").split(" ", 2)
            since = time.monotonic() - float(last)
            if since >= 0 and name in (self.peer, "slow " + self.peer):
                self.count, self.slow = int(count), name != self.peer
                opened = self.slow or self.count >= config["breaker_failures"]
                self.pause = max(0, config["breaker_seconds"] - since) if opened else 0

    def record(self, count, kind=""):
        """Record a timeout or slow answers; the count remains after the pause: the next one opens the breaker again."""
        os.environ[self.VARIABLE] = f"{count} {time.monotonic()} {kind}{self.peer}"

    def answered(self, seconds):
        """Record the duration of an exchange; open if the last ones took too long."""
        half = self.config["deadline_ms"] / 2000.0
        State.exchange_us = int(seconds * 1e6)
        State.recent = [*State.recent, seconds][-self.ANSWERS :]
        if sum(State.recent) > self.ANSWERS * half or (self.slow and seconds > half):
            State.recent = ()
            self.record(0, "slow ")
        elif self.slow or self.count:
            os.environ.pop(self.VARIABLE, None)


def ask(config, breaker, request, deadline):
    """Return the configured transport's answer; raise NoAnswerError if the breaker is open or there is no answer."""
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
        if kept:  # The daemon ended, or closed an idle connection, just now.
            return ask_daemon(path, line, deadline)
        raise
    except ValueError as error:
        raise NoAnswerError("invalid answer: not JSON") from error
    finally:
        if State.connection is not None and not State.connection.idle:
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
    """Return seconds to set, basis and ordering value, None if not given; raise NoAnswerError if it is not valid."""
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


class Job:
    """The job as it will be if the hook does nothing, and the values that the hook sets.

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
        given = [*map(attribute, PREDICTED_FROM), *map(resource, PREDICTED_FROM_RESOURCES)]
        self.changed = any(value is not None for value in given)
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
        self.walltime = walltime_of(self.resource("walltime"))
        if self.walltime is None and resource("walltime") is not None:
            # After qalter -l walltime= the job gets the default of its queue again.
            self.walltime = queue_facts(pbs, text_of(job("queue")))[2]
        # An array that has begun still has waiting subjobs.
        waits = (pbs.JOB_STATE_QUEUED, pbs.JOB_STATE_HELD, pbs.JOB_STATE_WAITING, pbs.JOB_STATE_BEGUN)
        self.runs = job("job_state") not in waits
        # PBS refuses to alter a custom resource of a running job: the user's request would fail.
        self.orderable = self.changed and not self.runs
        self.ordered = integer_of(had(self.config["ordering"]))

    def managers_own(self):
        """Return whether a manager set the soft walltime that the job has, and no user raises the walltime now."""
        raised = self.before is not None and self.walltime > self.before
        return is_managers(self.pbs, self.id, self.soft) and (not raised or is_manager(self.pbs, self.event))

    def fitted(self, seconds):
        """Return the nearest valid soft walltime; None if there is none, or no soft walltime is given."""
        least = self.config["minimum"]
        return None if seconds is None or least > self.limit else min(max(seconds, least), self.limit)

    def outgrown(self):
        """Return the walltime for a job with a soft walltime, which was predicted from other attributes; else None."""
        return None if self.soft is None else self.fitted(self.walltime)

    def valid(self):
        """Return the job's soft walltime if it is valid, else the walltime, which is safe; None if it has none."""
        return self.soft if self.soft is None or 0 < self.soft <= self.limit else self.outgrown()

    def request(self, now, timeouts):
        """Return the request about the job at ``now``, in epoch seconds, after so many timeouts in a row."""
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
            "max_walltime": walltime_of(resource("max_walltime")), "ncpus": integer_of(resource("ncpus")),
            "nodect": integer_of(resource("nodect")), "ngpus": integer_of(resource("ngpus")),
            "mem": text(resource("mem")) or None, "select": text_of(resource("select")), "place": place,
            "nodes": text_of(resource("nodes")),
            "interactive": bool(integer_of(attribute("interactive"))),
        }  # fmt: skip
        if self.config["attributes"]:  # The daemon finds the script in them.
            variables = attribute("Variable_List")
            job["workdir"] = text(variables.get("PBS_O_WORKDIR") if isinstance(variables, dict) else None)
            for name in ("Submit_arguments", "executable", "argument_list"):
                job[name.lower()] = text_of(attribute(name))[:MAX_COMMAND]
        head = {"v": VERSION, "op": "predict", "event": self.name, "now": int(now), "keep": True}
        return dict(head, timeouts=timeouts, previous_us=State.exchange_us, job=job)

    def set(self, seconds):
        """Set the soft walltime to the nearest valid one, None: remove it."""
        fitted = seconds if seconds == self.soft else self.fitted(seconds)  # What the job has may be below the minimum.
        if fitted != self.soft:
            self.event.job.Resource_List["soft_walltime"] = None if fitted is None else self.pbs.duration(fitted)
            self.soft = fitted

    def order(self, value):
        """Set the ordering value: the answer's, or a changed job's longest runtime; return what was set, or None."""
        name, pbs = self.config["ordering"], self.pbs
        if value is None and self.ordered is not None:
            value = max(self.walltime or 0, walltime_of(self.resource("max_walltime")) or 0) or self.walltime
        if not name or not self.orderable or value == self.ordered:
            return None
        try:
            self.event.job.Resource_List[name] = value
        except Exception as error:  # The resource does not exist, or has another type.
            if State.warned != name:
                State.warned = name
                log(pbs, pbs.LOG_WARNING, f"resource {name}: cannot be set: {error}; jobs get no ordering value")
            return None
        return value


# ---- One decision, and the run that applies it ---------------------------------------------------------------------

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
        return job.valid() if job.name == "runjob" else job.outgrown(), ""
    # PBS refuses an alter to a walltime below the soft walltime, and to shrink-to-fit with a soft walltime.
    if job.requested is not None:
        # PBS refuses a user's; with the hook's own right a user would get the minimum.
        if job.soft is not None and job.soft < config["minimum"] and is_manager(job.pbs, job.event):
            value = job.fitted(0) if job.shown and not job.shrinks else None
            return value, "the request gives less than the minimum, and a soft walltime of 0 would kill the scheduler"
        overrides = job.requestor in config["daemon_users"] and is_managers(job.pbs, job.id, job.previous)
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


def run(pbs, now):
    """Handle the event at ``now``, in epoch seconds."""
    started, event = time.monotonic(), pbs.event()
    config, errors = read_configuration(getattr(pbs, "hook_config_filename", None))
    if errors:
        log(pbs, pbs.LOG_WARNING, "configuration: " + "; ".join(errors) + "; using the defaults")
    name = next((name for name in DEFAULTS["events"] if event.type == getattr(pbs, name.upper(), None)), "")
    if not config["events"].get(name):
        return
    reservation = LOGGED.get(name) is LOGGED_OF_RESERVATION
    if name in LOGGED:
        cleaned = clean_texts(event.resv if reservation else event.job, LOGGED[name])
        if cleaned:
            what = "a reservation" if reservation else text_of(event.job.id) or "a new job"
            who = f"{what} of {event.requestor}"
            log(pbs, pbs.LOG_WARNING, f"{name} {who}: control characters replaced in {', '.join(cleaned)}")
    if reservation or left_to_another_event(pbs, event, name, config):
        return
    job = Job(pbs, event, name, config)
    if not job.changed and job.requested is None:
        return
    before = job.soft
    value, reason = rule(job)
    job.set(value)
    answered, text, ordering = (True, reason, None) if reason else ask_about(job, now, started)
    ordering = job.order(ordering)
    if name == "modifyjob":
        remember(job, lowered=job.requested is None and reason == MANAGERS_OWN and job.soft != before)
    if answered and config["log"] == "problems":
        return
    what = "removed" if job.soft is None else f"set {job.soft} of {job.walltime}"
    if job.soft == before:
        what = "left without" if job.soft is None else f"left at {job.soft}"
    what += "" if ordering is None else f", ordering {ordering}"
    elapsed = 1000 * (time.monotonic() - started)
    log(pbs, pbs.EVENT_DEBUG2, f"{name} {job.id or job.requestor}: {what}{text and ': ' + text} ({elapsed:.2f} ms)")


def left_to_another_event(pbs, event, name, config):
    """Return whether another event handles the job."""
    attribute = attributes_of(event.job)
    if name == "queuejob":
        # Everything is known at postqueuejob, but PBS drops what a hook sets on an array there.
        later = config["events"]["postqueuejob"] and hasattr(pbs, "POSTQUEUEJOB")
        return later and not text_of(attribute("array_indices_submitted"))
    # postqueuejob comes again when a job is routed; runjob follows for a subjob.
    return name == "postqueuejob" and (attribute("queue_type") != pbs.QTYPE_EXECUTION or "[" in text_of(event.job.id))


def ask_about(job, now, started):
    """Set the daemon's answer; return whether there is one, its basis or why there is none, and its ordering value."""
    breaker, deadline = Breaker(job.config), started + job.config["deadline_ms"] / 1000.0
    try:
        answer = ask(job.config, breaker, job.request(now, breaker.count), deadline)
        seconds, basis, ordering = parse_answer(answer, job.limit)
    except NoAnswerError as error:
        # At a start promises depend on the value, and that for a waiting job may be too low.
        if job.name == "runjob" and job.soft is not None and job.config["runjob_fallback"] == "walltime":
            job.set(job.walltime)
        return False, f"no answer: {error}", None
    seconds = job.fitted(seconds)
    if seconds is not None and (job.soft is not None or seconds != job.walltime):
        job.set(seconds)
    return True, basis, ordering


def log(pbs, level, message):
    """Write a line to the server log; replace all characters but printable ASCII, because texts come from users."""
    pbs.logmsg(level, "softwalltime: " + re.sub("[^ -~]", "?", message[:1000]))
