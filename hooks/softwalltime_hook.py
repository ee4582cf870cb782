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
        _kept.run(pbs, time.time())
    except BaseException as _error:  # PBS's alarm raises KeyboardInterrupt; no bug of the hook may cost a user a job.
        with contextlib.suppress(BaseException):  # Nothing is left to try.
            pbs.logmsg(pbs.LOG_WARNING, f"softwalltime: {type(_error).__name__}: the request is accepted unchanged")
    if pbs.event() is not None:
        pbs.event().accept()  # Ends the run: nothing below is executed.

import json
import os
import re
import select
import socket

TO_JSON = json.JSONEncoder(separators=(",", ":")).encode
VERSION, NEWEST_ANSWER = 1, 2  # of the protocol: of a request, and the highest of an answer
MAX_LINE = 65536  # bytes of a request or an answer, with its newline
MAX_TEXT = 512  # characters of a text in a request except select and place; the daemon refuses longer ones
NO_LIMIT = 5 * 365 * 24 * 3600  # seconds that the scheduler assumes for a job without walltime
QUEUES_AGE = 60  # seconds for which facts about queues are cached: reading them takes longer than the rest of a run
WARNED, WARNING_INTERVAL = "SOFTWALLTIME_HOOK_WARNED", 600  # "TIME RESOURCE" in the environment; seconds


class State:
    """What persists between runs, until PBS restarts its interpreter or another version of the hook is imported."""

    configuration = None  # the version of the file, and what read_configuration() returned for it
    connection = None  # open, to the daemon
    exchange_us = None  # duration of the last answered exchange in microseconds
    recent = None, []  # a peer, and the durations of its last answered exchanges in seconds
    queues = None, None, {}  # the module pbs, the time, and the results of queue_facts() by queue
    managers = None  # the soft walltimes set by managers
    postgres = None, None  # the path of the transport for PostgreSQL, and its module


# ---- Configuration: softwalltime install and doctor validate it, here it must only do no harm ------------------------

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
BOUNDS = {"deadline_ms": range(1, 5001), "minimum": range(60, 86401), "breaker_requests": range(1, 1001)}
# Resources with a meaning in PBS, which cannot hold the ordering value.
BUILT_IN = re.compile(
    "(soft_|min_|max_)?walltime|p?cput|p?v?mem|ncpus|nodes|nodect|ngpus|select|place|host|vnode|nice|file|arch"
    "|software|site"
)


def harmless(key, value, default):
    """Return whether a value has the type of its default and can do no harm."""
    if key == "runjob" and isinstance(value, dict):
        return type(value.get("waited_longer_than")) is int
    if type(value) is not type(default) or value not in BOUNDS.get(key, (value,)):
        return False
    return not BUILT_IN.fullmatch(value) if key == "ordering" else value[:1] in "/" if key.endswith("_path") else True


def configured(given, errors, defaults=DEFAULTS, prefix=""):
    """Return the configuration: ``given``, with the default in place of each missing or harmful value."""
    if not isinstance(given, dict):
        errors.append(f"{prefix[:-1] or 'the file'} is not an object")
        given = {}
    result = {}
    for key, default in defaults.items():
        value = result[key] = given.get(key, default)
        if isinstance(default, dict):
            result[key] = configured(value, errors, default, f"{prefix}{key}.")
        elif not harmless(key, value, default):
            errors.append(f"{prefix}{key}: invalid value {json.dumps(value)[:60]}")
            result[key] = default
    errors.extend(f"{prefix}{key}: unknown key" for key in given if key not in defaults)
    return result


def read_configuration(path):
    """Return the configuration in a file and its errors; each version of the file is read once."""
    errors = []
    try:
        if not path:
            return configured({}, errors), errors
        status = os.stat(path)
        version = path, status.st_ino, status.st_size, status.st_mtime_ns
        if State.configuration is None or State.configuration[0] != version:
            with open(path, "rb") as file:
                given = json.loads(file.read().decode("utf-8"))
            State.configuration = version, configured(given, errors), errors
        return State.configuration[1:]
    except Exception as error:
        return configured({}, []), [f"the file cannot be read: {error}"]


# ---- Values of PBS objects -----------------------------------------------------------------------------------------


def seconds_of(value):
    """Return a duration in seconds: a number or HH:MM:SS; None if it is not set, or "", which unsets it."""
    if value is None or value == "":
        return None
    if isinstance(value, int):
        return int(value)
    parts = reversed(str(value).split(":"))
    return int(sum(float(part) * 60**place for place, part in enumerate(parts)))


def walltime_of(value):
    """Return a walltime in seconds, at most NO_LIMIT; None if it is not set."""
    seconds = seconds_of(value)
    return None if seconds is None else min(seconds, NO_LIMIT)


def integer_of(value):
    """Return the value as an integer, None if it is none."""
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


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
    facts = State.queues[2]
    if queue not in facts:
        facts[queue] = read_queue_facts(pbs.server(), queue, pbs.QTYPE_ROUTE)
    return facts[queue]


def read_queue_facts(server, queue, route):
    """Return the result of :func:`queue_facts` from the server."""
    queue = queue or text_of(server.default_queue)
    names = destinations(server, queue, route)
    name = names[0] if len(set(names)) == 1 else queue.partition("@")[0]
    if "" in names:
        return queue.partition("@")[0], False, None, ""
    walltimes, places = set(), []
    for found in map(server.queue, names):
        defaults = [found.resources_default, server.resources_default]
        limits = [*defaults, found.resources_max, server.resources_max]  # PBS takes the first walltime (measured).
        walltimes.add(first(walltime_of(resources["walltime"]) for resources in limits if resources is not None))
        places.append(first(resources["place"] for resources in defaults if resources is not None))
    # Limits, access lists and load select the destination: only what all destinations have in common is known.
    known = len(walltimes) == 1
    exclusive = first(place for place in map(text_of, places) if is_exclusive(place))
    return name, known, walltimes.pop() if known else None, exclusive or ""


def first(values):
    """Return the first value that is not None, else None."""
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


# ---- What a job executes -------------------------------------------------------------------------------------------

MAX_ARGUMENTS = 65536  # characters of a command line that is read
OPTIONS_WITH_VALUE = "aACcejJklMmNopPqrRSuvW"  # of qsub (OpenPBS, PBS Professional, TORQUE); the others are flags
ARGUMENT, ARGUMENT_END = "<jsdl-hpcpa:Argument>", "</jsdl-hpcpa:Argument>"
ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


def arguments_of(value):
    """Return the arguments of a command line that PBS wrote as XML; those before the first one that is no argument."""
    arguments = []
    for part in value.split(ARGUMENT_END) if len(value) <= MAX_ARGUMENTS else ():
        if not part.startswith(ARGUMENT):
            break
        part = part[len(ARGUMENT) :]
        for entity, character in ENTITIES if "&" in part else ():
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
        # The value of an option is the rest of the argument, or the next one.
        if next((at for at, letter in enumerate(argument) if letter in OPTIONS_WITH_VALUE), 0) == len(argument) - 1:
            next(following, None)
    return ""


def script_path(attribute):
    """Return the absolute path of a job's script, or the executable with its first argument; "" if unknown.

    qsub sends the script's text after queuejob, into PBS's database, where no hook can read it.
    """
    executable = text_of(attribute("executable"))
    if executable:
        return " ".join([executable, *arguments_of(text_of(attribute("argument_list")))[:1]])[-MAX_TEXT:]
    script = script_operand(arguments_of(text_of(attribute("Submit_arguments"))))
    if script.startswith("./"):
        script = script[2:]
    if script and not script.startswith("/"):
        variables = attribute("Variable_List")
        folder = variables.get("PBS_O_WORKDIR") if isinstance(variables, dict) else None
        # After qalter -v the request's variables hide those of the submission: another path would be another script.
        script = f"{folder}/{script}" if folder else ""
    return script[-MAX_TEXT:]


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
    cleaned = []
    attribute = attributes_of(job)
    for field in fields:
        if attribute(field) is not None:
            clean_value(job, field, attribute(field), setattr, cleaned)
    resources = attribute("Resource_List")
    if resources is not None:
        resource, values = resources_of(job), set_values(resources)
        for field in list(resources.keys() if values is None else values):
            assign = type(resources).__setitem__
            clean_value(resources, field, resource(field), assign, cleaned, field in USERS_RESOURCES)
    return cleaned


def clean_value(thing, field, value, assign, cleaned, keep=True):
    """Replace the control characters of one value, or unset it without ``keep``.

    If PBS refuses the result, only letters, digits and ``._-`` remain, or nothing.
    """
    text = text_of(value)
    replaced = CONTROL.sub("_", text)
    if replaced == text:
        return
    kind = str if isinstance(value, str) else type(value)
    for candidate in (replaced, UNUSUAL.sub("_", text)[:200], None) if keep else (None,):
        with contextlib.suppress(Exception):
            assign(thing, field, None if candidate is None else kind(candidate))
            cleaned.append(field)
            return
    cleaned.append(field + " (not possible)")


# ---- Soft walltimes set by managers ---------------------------------------------------------------------------------


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
                job_id, seconds = line.split()
                self.add(job_id, int(seconds))

    def add(self, job_id, seconds):
        """Add the newest value of a job."""
        earlier = [value for value in self.values.get(job_id, ()) if value != seconds]
        self.values[job_id] = [*earlier, seconds][-self.MAX_VALUES :]

    def has(self, job_id, seconds):
        """Return whether a manager set this soft walltime on the job or on its array."""
        array = re.sub(r"\[[0-9]+\]", "[]", job_id) if self.values else ""
        return any(seconds in self.values.get(name, ()) for name in (job_id, array))

    def store(self, job_id, seconds):
        """Store the soft walltime that a manager sets on a job; None: forget the job."""
        if self.path is None or (seconds is None and job_id not in self.values):
            return
        if seconds is None:
            del self.values[job_id]
        else:
            self.add(job_id, seconds)
        if len(self.values) > self.MAX_JOBS:
            for old in list(self.values)[: len(self.values) // 2]:
                del self.values[old]
        new = os.open(self.path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(new, "w") as file:
            file.writelines(f"{name} {value}\n" for name, values in self.values.items() for value in values)
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
        """Send a request line and return the line of the answer."""
        received, self.complete = b"", False
        try:
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
                    raise ConnectionResetError
                received += part
        except ConnectionError as error:
            if received:
                raise NoAnswerError("invalid answer: half a line") from error
            raise ConnectionResetError("connection closed without an answer") from error
        answer, _, more = received.partition(b"\n")
        self.complete = not more
        return answer

    def close(self):
        """Close it, also for forks of pbs_server: the daemon shall see that nobody waits."""
        if self.process == os.getpid():
            with contextlib.suppress(OSError):
                self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()


def disconnect(successor=None):
    """Close the connection that was left open, and leave another one open in its place."""
    connection, State.connection = State.connection, successor
    if connection is not None:
        connection.close()


class Breaker:
    """Prevents requests to a peer for a while, after timeouts in a row or slow answers.

    Its state "COUNT TIME PEER" is in the environment of pbs_server: it outlives the interpreter, no user can change it,
    and jobs do not inherit it.  "slow" precedes the peer after slow answers.  The peer's name has no secrets.
    """

    VARIABLE = "SOFTWALLTIME_HOOK_TIMEOUTS"

    def __init__(self, config, peer):
        self.config, self.peer = config, peer
        self.count, self.slow, since = 0, False, 0.0
        with contextlib.suppress(ValueError):
            count, last, name = os.environ.get(self.VARIABLE, "0 0 -").split(" ", 2)
            since = time.monotonic() - float(last)
            if since >= 0 and name in (peer, "slow " + peer):
                self.count, self.slow = int(count), name != peer
        opened = self.slow or self.count >= config["breaker_failures"]
        self.pause = max(0, config["breaker_seconds"] - since) if opened else 0

    def timed_out(self):
        """Count a timeout; the count remains after the pause, so the next one opens the breaker again at once."""
        os.environ[self.VARIABLE] = f"{self.count + 1} {time.monotonic()} {self.peer}"

    def reset(self):
        """Forget timeouts and slow answers."""
        os.environ.pop(self.VARIABLE, None)

    def answered(self, seconds):
        """Record the duration of an exchange; open if the last ones took too long."""
        State.exchange_us = int(seconds * 1e6)
        requests = self.config["breaker_requests"]
        budget = (self.config["breaker_budget_ms"] or requests * self.config["deadline_ms"] / 2) / 1000.0
        if State.recent[0] != self.peer:
            State.recent = self.peer, []
        recent = State.recent[1]
        recent.append(seconds)
        del recent[:-requests]
        if sum(recent) > budget or (self.slow and seconds > budget / requests):
            recent.clear()
            os.environ[self.VARIABLE] = f"0 {time.monotonic()} slow {self.peer}"
        elif self.slow or self.count:
            self.reset()


class Exchange:
    """One request and its answer over the configured transport, unless the breaker is open."""

    def __init__(self, config, deadline):
        self.config, self.deadline = config, deadline
        self.path = config["socket"] if config["transport"] == "daemon" else None
        self.breaker = Breaker(config, self.path or "postgres")
        self.connection = self.started = None

    def connect(self):
        """Connect before the request is known: the daemon takes longer to wake up than the hook to read the job."""
        if self.path is not None and not self.breaker.pause:
            self.started = time.monotonic()
            with contextlib.suppress(OSError):  # ask() reports the error.
                self.open()

    def open(self):
        """Take the connection of the last run, or a new one."""
        if State.connection is not None and State.connection.usable(self.path):
            self.connection, State.connection = State.connection, None
        else:
            self.connection = Connection(self.path)

    def close(self):
        """Leave the connection open for the next run, if that can be."""
        connection, self.connection = self.connection, None
        if connection is not None and connection.complete:
            disconnect(connection)
        elif connection is not None:
            connection.close()

    def ask(self, make_request):
        """Send the request that ``make_request`` returns and return the answer.

        :raises NoAnswerError: if the breaker is open or there is no answer.
        """
        if self.breaker.pause:
            why = "slow answers" if self.breaker.slow else f"{self.breaker.count} timeouts"
            raise NoAnswerError(f"no request for {self.breaker.pause:.0f} s, after {why}")
        if self.path is None:
            before = time.monotonic()
            postgres = load_postgres(self.config["postgres"])
            self.deadline += time.monotonic() - before  # It takes longer than the deadline, once per interpreter.
        self.started = self.started or time.monotonic()
        try:
            if self.path is None:
                answer = postgres.ask(self.config, make_request(), self.deadline)
            else:
                answer = self.ask_daemon(make_request)
        except (socket.timeout, BlockingIOError) as error:
            self.breaker.timed_out()
            full = isinstance(error, BlockingIOError)  # Its backlog is full: a timeout without the wait.
            raise NoAnswerError("the daemon accepts no connection" if full else "timed out") from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            self.breaker.reset()
            raise NoAnswerError("the daemon is not running") from error
        except Exception as error:
            self.breaker.reset()
            cause = "the daemon cannot be reached" if isinstance(error, OSError) else type(error).__name__
            raise NoAnswerError(str(error) if isinstance(error, NoAnswerError) else f"{cause}: {error}") from error
        self.breaker.answered(time.monotonic() - self.started)
        return answer

    def ask_daemon(self, make_request):
        """Send one line over the Unix socket and return the answer."""
        if self.connection is None:
            self.open()
        again = self.connection.complete
        line = encode(make_request())  # The daemon wakes up in the meantime.
        try:
            answer = self.connection.exchange(line, self.deadline)
        except ConnectionResetError:  # The daemon ended, or closed an idle connection, after the last run looked.
            if not again:
                raise
            self.close()
            self.open()
            answer = self.connection.exchange(line, self.deadline)
        try:
            return json.loads(answer.decode("utf-8"))
        except Exception as error:
            raise NoAnswerError("invalid answer: not JSON") from error


def load_postgres(settings):
    """Return the transport for PostgreSQL: the module in the file ``transport_path``, with psycopg loaded."""
    path = settings["transport_path"]
    if State.postgres[0] != path:
        problem = permission_problem(path) if path else "postgres.transport_path is not set"
        if problem:
            raise NoAnswerError(f"the transport cannot be loaded: {problem}")
        module = type(sys)("softwalltime_postgres")
        try:
            with open(path, "rb") as file:
                exec(compile(file.read(), path, "exec"), module.__dict__)  # noqa: S102 - only root can change it
        except Exception as error:
            raise NoAnswerError(f"the transport cannot be loaded: {error}") from error
        State.postgres = path, module
    State.postgres[1].load_pq(settings["psycopg_path"])
    return State.postgres[1]


def permission_problem(path):
    """Return why users other than root and this server's user can change what is at a path; empty if they cannot.

    Only these two may own or write it and the folders above.  Links count too: their owner decides where they lead.
    Folders above may be sticky, as /tmp is: there nobody can replace another's files.
    """

    def above(name):
        return [name] if os.path.dirname(name) == name else [name, *above(os.path.dirname(name))]

    real = os.path.realpath(path)
    for place in [*above(real), *filter(os.path.islink, above(path))]:
        try:
            status = os.lstat(place)
        except OSError as error:
            return f"{place}: {error.strerror}"
        safe = os.path.islink(place) or (status.st_mode & 0o1000 and place != real)
        if status.st_uid not in (0, os.geteuid()) or (status.st_mode & 0o022 and not safe):
            return f"users other than root can change {place}"
    return ""


def encode(request):
    """Return the request as one line; cut texts if the line is too long."""
    line = TO_JSON(request)
    for longest in (4096, MAX_TEXT, 64):
        if len(line) < MAX_LINE:
            break
        job = {name: value[:longest] if isinstance(value, str) else value for name, value in request["job"].items()}
        line = TO_JSON(dict(request, job=job))
    return (line + "\n").encode("ascii")


def parse_answer(answer):
    """Return the seconds to set, or None, the basis, and the ordering value, or None.

    :raises NoAnswerError: if the answer is an error or violates the protocol.
    """
    if not isinstance(answer, dict) or type(answer.get("v")) is not int or not VERSION <= answer["v"] <= NEWEST_ANSWER:
        raise NoAnswerError(f"invalid answer: not of protocol versions {VERSION} to {NEWEST_ANSWER}")
    if "error" in answer:
        raise NoAnswerError(f"the daemon reports: {answer['error']}")
    action, seconds, ordering, basis = map(answer.get, ("action", "soft_walltime", "ordering", "basis"))
    if ordering is not None and (type(ordering) is not int or ordering < 1):
        raise NoAnswerError("invalid answer: ordering is not a number of seconds")
    if action != "none" and (action != "set" or type(seconds) is not int or seconds < 1):
        raise NoAnswerError("invalid answer: neither none nor a number of seconds")
    return None if action == "none" else seconds, basis if isinstance(basis, str) else "", ordering


# ---- The job of an event -------------------------------------------------------------------------------------------

UNKNOWN = "unknown"
# Attributes and resources from which runtimes are predicted and that an alter may change.
PREDICTED_FROM = ("project", "group_list", "Account_Name", "Job_Name", "depend")
PREDICTED_FROM_RESOURCES = (
    "walltime", "min_walltime", "max_walltime", "place", "select", "nodes", "ncpus", "nodect", "ngpus", "mem",
)  # fmt: skip


class Facts:
    """The job as it will be if the hook does nothing.

    ``soft`` is its soft walltime, UNKNOWN if PBS does not show the job, ``walltime`` its walltime, at most NO_LIMIT,
    ``ordered`` its ordering value; None: it has none.  ``requested`` is the soft walltime in an alter or submission.
    """

    def __init__(self, pbs, event, name, config, now):
        self.pbs, self.event, self.name, self.config, self.now = pbs, event, name, config, now
        self.id = text_of(event.job.id)
        self.attribute, self.resource = attributes_of(event.job), resources_of(event.job)
        self.requested = self.resource("soft_walltime")
        self.soft = seconds_of(self.requested)
        self.walltime = walltime_of(self.resource("walltime"))
        self.before = self.previous = self.ordered = None  # before an alter: walltime, soft walltime
        # At queuejob a job without a walltime gets no ordering value: no event could change it after a move.
        self.orderable = name == "postqueuejob" or (name == "queuejob" and self.walltime is not None)
        if name == "postqueuejob":
            self.ordered = self.ordering_value(self.resource)
        if name == "modifyjob":
            self.read_original()

    def ordering_value(self, resource):
        """Return the ordering value among these resources."""
        return integer_of(resource(self.config["ordering"])) if self.config["ordering"] else None

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
        self.before, self.previous = walltime_of(had("walltime")), seconds_of(had("soft_walltime"))
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
        self.ordered = None if self.runs else self.ordering_value(had)

    def destination_unknown(self):
        """Determine the default walltime; return whether it is unknown because the destination queue is."""
        if self.walltime is not None:
            return False
        _, known, self.walltime, _ = queue_facts(self.pbs, text_of(self.attribute("queue")))
        return not known

    def shrinks(self):
        """Return whether the job is shrink-to-fit: PBS refuses a soft walltime on it."""
        return seconds_of(self.resource("min_walltime")) is not None

    def is_managers(self, seconds):
        """Return whether a manager set this soft walltime on the job."""
        return seconds is not None and managers_values(self.pbs).has(self.id, seconds)

    def managers_own(self):
        """Return whether a manager set the soft walltime that the job has, and no user raises the walltime now."""
        raised = self.before is not None and self.walltime > self.before
        return self.is_managers(self.soft) and (not raised or is_manager(self.pbs, self.event))

    def from_daemon(self):
        """Return whether the daemon alters the job, or another of ``daemon_users``."""
        return text_of(self.event.requestor) in self.config["daemon_users"]

    def no_request_at_start(self):
        """Return whether the configuration disables requests at this start."""
        when = self.config["runjob"]
        if isinstance(when, dict):
            since = first(map(self.attribute, ("etime", "qtime", "ctime")))
            return since is None or self.now - int(since) <= when["waited_longer_than"]
        return when == "never" or (when == "if-none" and self.soft is not None)

    def limit(self):
        """Return the highest valid soft walltime."""
        return NO_LIMIT if self.walltime is None else self.walltime

    def fitted(self, seconds):
        """Return the nearest valid soft walltime; None if there is none."""
        least = self.config["minimum"]
        return min(max(seconds, least), self.limit()) if least <= self.limit() else None

    def valid(self):
        """Return the job's soft walltime if it is valid, else the walltime, which is safe; None if it has none."""
        if self.soft is None or 0 < self.soft <= self.limit():
            return self.soft
        return None if self.walltime is None else self.fitted(self.walltime)

    def outgrown(self):
        """Return the walltime for a job with a soft walltime, which was predicted from other attributes; else None."""
        return None if None in (self.soft, self.walltime) else self.fitted(self.walltime)

    def longest(self):
        """Return the longest time that the job may run, None if any."""
        return max(self.walltime or 0, walltime_of(self.resource("max_walltime")) or 0) or self.walltime

    def has_no_limit(self):
        """Return whether the job has no walltime, and the configuration disables requests for such jobs."""
        return self.walltime is None and not self.config["jobs_without_walltime"]

    def gives_too_little(self):
        """Return whether a manager's alter gives a soft walltime below the minimum; PBS refuses that of others."""
        little = None not in (self.requested, self.soft) and self.soft < self.config["minimum"]
        return little and is_manager(self.pbs, self.event)

    def least(self):
        """Return the lowest soft walltime that PBS accepts for the job; None if none."""
        return self.fitted(self.config["minimum"]) if self.shown and not self.shrinks() else None


# ---- One decision --------------------------------------------------------------------------------------------------

NO_WALLTIME = "the job has no walltime"
SHRINK_TO_FIT = "a shrink-to-fit job may have no soft walltime"
REQUESTED = "the request gives a soft walltime"
BELOW_MINIMUM = "the request gives less than the minimum, and a soft walltime of 0 would kill the scheduler"
MANAGERS_OWN = "a manager set this soft walltime"


def rule(job):
    """Return the soft walltime that keeps PBS's request valid whatever happens then, and why the daemon is not asked.

    The reason is empty if it is asked; without an answer the soft walltime stays.
    """
    if job.name != "modifyjob":
        if job.name == "queuejob" and job.requested is not None:
            return job.soft, REQUESTED
        if job.shrinks():
            return job.soft, SHRINK_TO_FIT
        if job.name == "queuejob" and job.destination_unknown():
            return job.soft, "the walltime depends on where the job is routed"
        if job.managers_own():
            return job.valid(), MANAGERS_OWN
        if job.has_no_limit():
            # After a move into a queue with another default walltime, PBS leaves the soft walltime as it was.
            return None if job.name == "postqueuejob" else job.valid(), NO_WALLTIME
        if job.name == "runjob":
            return job.valid(), "the configuration disables requests at this start" if job.no_request_at_start() else ""
        return job.outgrown(), ""
    # PBS refuses an alter to a walltime below the soft walltime, and to shrink-to-fit with a soft walltime.
    if job.gives_too_little():
        return job.least(), BELOW_MINIMUM
    if job.requested is not None:
        overrides = job.shown and job.from_daemon() and job.is_managers(job.previous)
        return (job.previous, MANAGERS_OWN) if overrides else (job.soft, REQUESTED)
    if not job.shown:
        return None, "PBS does not show the job"
    if job.shrinks():
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
    """One run of the hook."""

    def __init__(self, pbs, now):
        self.started = time.monotonic()
        self.pbs, self.now, self.event = pbs, now, pbs.event()
        names = (name for name in DEFAULTS["events"] if self.event.type == getattr(pbs, name.upper(), None))
        self.name = next(names, "")
        self.config, self.errors = read_configuration(getattr(pbs, "hook_config_filename", None))
        self.job = self.exchange = None
        self.ordering = None  # that of the answer, later the one that was set
        self.changed = self.failed = False

    def run(self):
        """Decide about the job of the event."""
        if self.errors:
            self.warn("configuration: " + "; ".join(self.errors) + "; using the defaults")
        if not self.config["events"].get(self.name):
            return
        if self.config["clean_texts"] and self.name in ("queuejob", "modifyjob"):
            fields = LOGGED_AT_SUBMISSION if self.name == "queuejob" else LOGGED_AT_ALTER
            cleaned = clean_texts(self.event.job, fields)
            if cleaned:
                who = f"{text_of(self.event.job.id) or 'a new job'} of {self.event.requestor}"
                self.warn(f"{self.name} {who}: control characters replaced in {', '.join(cleaned)}")
        if self.left_to_another_event():
            return
        if self.name != "modifyjob" and (self.name != "runjob" or self.config["runjob"] == "always"):
            self.prepare().connect()  # A request is likely.
        job = self.job = Facts(self.pbs, self.event, self.name, self.config, self.now)
        if self.name == "modifyjob" and not job.changed and job.requested is None:
            return
        before = job.soft
        value, reason = rule(job)
        self.set(value)
        text = reason or self.ask()
        self.order()
        if self.name == "modifyjob" and reason in (REQUESTED, BELOW_MINIMUM, MANAGERS_OWN):
            self.remember()
        self.report(before, text)

    def prepare(self):
        """Return the exchange of this run."""
        if self.exchange is None:
            self.exchange = Exchange(self.config, self.started + self.config["deadline_ms"] / 1000.0)
        return self.exchange

    def left_to_another_event(self):
        """Return whether another event handles the job."""
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
        job = self.job
        try:
            seconds, basis, ordering = parse_answer(self.prepare().ask(self.request))
            if max(seconds or 0, ordering or 0) > job.limit():
                raise NoAnswerError("invalid answer: more than the walltime")
        except NoAnswerError as error:
            self.failed = True
            # At a start promises depend on the value, and that for a waiting job may be too low.
            if self.name == "runjob" and job.soft is not None and self.config["runjob_fallback"] == "walltime":
                self.set(job.walltime)
            return f"no answer: {error}"
        self.ordering = ordering
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
            value = job.longest()
        if value == job.ordered:
            return
        try:
            self.event.job.Resource_List[name] = value
            self.ordering, self.changed = value, True
        except Exception as error:  # The resource does not exist, or has another type.
            last, _, of = os.environ.get(WARNED, "").partition(" ")
            if of != name or time.monotonic() - float(last) >= WARNING_INTERVAL:
                os.environ[WARNED] = f"{time.monotonic()} {name}"
                self.warn(f"resource {name}: cannot be set: {error}; jobs get no ordering value")

    def remember(self):
        """Store the soft walltime that a manager sets, or the value to which the walltime lowers it."""
        managers = not self.job.from_daemon() and is_manager(self.pbs, self.event)
        if managers if self.job.requested is not None else self.changed:
            try:
                managers_values(self.pbs).store(self.job.id, self.job.soft)
            except OSError as error:
                self.warn(f"cannot store the soft walltime set by a manager: {error}")

    def request(self):
        """Return the request about the job."""
        job, attribute, resource = self.job, self.job.attribute, self.job.resource

        def text(value):
            return text_of(value)[:MAX_TEXT]

        queue, place = text(attribute("queue")), text_of(resource("place"))
        user, group, host = map(attribute, ("euser", "egroup", "Submit_Host"))
        if self.name == "queuejob":  # PBS sets these, and converts an old node specification, after this event.
            name, _, _, default = queue_facts(self.pbs, queue)
            place = place or ("scatter:excl" if "#excl" in text_of(resource("nodes")) else default)
            queue = name or queue
            user, host = self.event.requestor, self.event.requestor_host
            group = text_of(attribute("group_list")).partition(",")[0].partition("@")[0]
        submission = None, None, None
        if self.config["attributes"]:
            with contextlib.suppress(Exception):  # A prediction without them is better than none.
                submission = script_path(attribute), text(host), text(attribute("depend"))
        head = {"v": VERSION, "accepts": NEWEST_ANSWER, "op": "predict", "event": self.name, "now": int(self.now)}
        return dict(head, timeouts=self.exchange.breaker.count, previous_us=State.exchange_us, keep=True, job={
            "job_id": text(job.id), "user": text(user), "group": text(group),
            # The accounting log has this name for a job without a project.
            "project": text(attribute("project")) or "_pbs_project_default",
            "account": text(attribute("Account_Name")), "queue": queue, "job_name": text(attribute("Job_Name")),
            "submitted": integer_of(attribute("ctime")), "walltime": job.walltime,
            # The answer to a change must hold for the new attributes, whatever the job has.
            "soft_walltime": job.soft if self.name == "runjob" else None,
            "min_walltime": walltime_of(resource("min_walltime")),
            "max_walltime": walltime_of(resource("max_walltime")),
            "ncpus": integer_of(resource("ncpus")), "nodect": integer_of(resource("nodect")),
            "ngpus": integer_of(resource("ngpus")), "mem": text(resource("mem")) or None,
            "select": text_of(resource("select")), "place": place,
            "array_indices": text(attribute("array_indices_submitted")),
            "script_path": submission[0], "submit_host": submission[1], "depend": submission[2],
            "interactive": bool(integer_of(attribute("interactive"))),
        })  # fmt: skip

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
            line = f"{self.name} {job.id or self.event.requestor}: {what}{text and ': ' + text} ({elapsed:.2f} ms)"
            log(self.pbs, self.pbs.EVENT_DEBUG2, line)

    def warn(self, message):
        """Log a problem."""
        if self.config["log"] != "off":
            log(self.pbs, self.pbs.LOG_WARNING, message)


def log(pbs, level, message):
    """Write one line to the server log; replace all characters but printable ASCII, because texts come from users."""
    pbs.logmsg(level, "softwalltime: " + re.sub("[^ -~]", "?", message[:1000]))


def run(pbs, now):
    """Run the hook for the current event; ``now`` is the time in epoch seconds.  The caller accepts the event."""
    hook = None
    try:
        hook = Run(pbs, now)
        hook.run()
    except BaseException as error:  # PBS's alarm raises KeyboardInterrupt; here the message is known too.
        with contextlib.suppress(BaseException):  # Nothing is left to try.
            log(pbs, pbs.LOG_WARNING, f"{type(error).__name__}: {error}: the request is accepted unchanged")
    finally:
        with contextlib.suppress(BaseException):
            hook.exchange.close()  # There may be none.
