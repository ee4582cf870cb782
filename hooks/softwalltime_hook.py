"""Set the soft walltimes of PBS jobs.

This is a PBS server hook for the events queuejob, postqueuejob, modifyjob and runjob.  It requests the predicted
runtime of a job from the softwalltime daemon (or PostgreSQL) and sets ``Resource_List.soft_walltime``.  README.md in
this folder describes the events, the configuration and the protocol.

It runs inside pbs_server, as root, on an embedded interpreter.  The whole server waits while it runs.  Therefore:

- It uses Python 3.6 and the standard library only: every pbs_server has them, and they survive the restarts of its
  interpreter.  Kept between two runs are the functions below, the configuration and the state of the breaker.
- It accepts every request.  An unhandled exception would reject the user's qsub.
- One deadline, on a monotonic clock, bounds all waiting.
- It checks what it sets: postqueuejob and runjob take any value, and a soft walltime of 0 kills the scheduler.
"""

# ruff: noqa: PTH114, PTH116, PTH118, PTH120, PTH123, UP041 - on Python 3.6 socket.timeout is not TimeoutError; pathlib loads slowly.

import contextlib
import sys
import time

# pbs_server executes this file for each event, in new globals without a __name__, which is then that of the builtins.
# Defining the functions below takes longer than most runs, so they are defined once, in a module that stays until the
# interpreter restarts or another version of this file, which is another code object, is imported.
if __name__ == "builtins":
    import pbs

    try:
        _code = sys._getframe().f_code
        _kept = sys.modules.get("softwalltime_hook_kept")
        if _kept is None or _kept.code is not _code:
            _kept = type(sys)("softwalltime_hook_kept")
            _kept.code = _code
            exec(_code, _kept.__dict__)  # noqa: S102 - it is this file
            sys.modules["softwalltime_hook_kept"] = _kept
        _kept.run(pbs, time.time())
    except BaseException as _error:  # PBS's alarm comes as KeyboardInterrupt, and no bug of ours may cost a user a job.
        with contextlib.suppress(BaseException):  # There is nobody left to tell.
            pbs.logmsg(pbs.LOG_WARNING, f"softwalltime: {type(_error).__name__}: the request is accepted as it is")
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
LONGEST_LINE = 65536
"""Bytes of a question or an answer, its newline included."""
NO_LIMIT = 5 * 365 * 24 * 3600
"""Seconds that the scheduler takes a job without walltime to run."""
TIMEOUTS = "SOFTWALLTIME_HOOK_TIMEOUTS"
"""Environment variable of pbs_server with the state of the breaker: timeouts in a row, when it changed last, the peer.

Before the peer stands "slow" where slow answers have opened it.
"""


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
    "events": {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True},
    "runjob": "always",
    "runjob_fallback": "walltime",
    "jobs_without_walltime": False,
    "clean_texts": True,
    "log": "all",
    "postgres": {"dsn": "", "psycopg_path": "", "waiting": "usage", "running": "walltime"},
}


TRUSTED = set()
"""Folders in which nobody but root can put code for us."""
PREVIOUS = {}
"""How many microseconds the last exchange with the peer took that was answered, under "us"."""
RECENT = {}
"""How many seconds the last exchanges took that were answered, in a list under the name of the peer."""
KNOWN = {}
"""The configuration that was read last, with the complaints about it, by the version of its file."""


def whole(least, most):
    """Accepts a whole number between the two."""
    return lambda value: type(value) is int and least <= value <= most


def one_of(*words):
    """Accepts one of the words."""
    return lambda value: isinstance(value, str) and value in words


def flag(value):
    """Accepts true and false; not 1, and not "False", which is true to Python."""
    return value is True or value is False


def text(value):
    """Accepts any text."""
    return isinstance(value, str)


def path(value):
    """Accepts an absolute path."""
    return text(value) and value.startswith("/")


def moment(value):
    """Accepts what says when to ask again at a job's start."""
    if isinstance(value, dict):
        return list(value) == ["waited_longer_than"] and whole(0, NO_LIMIT)(value["waited_longer_than"])
    return one_of("always", "never", "if-none")(value)


ACCEPTED = {
    "transport": one_of("daemon", "postgres"),
    "socket": path,
    "deadline_ms": whole(1, 5000),
    "breaker_failures": whole(1, 1000),
    "breaker_requests": whole(1, 1000),
    "breaker_budget_ms": whole(0, 5000000),
    "breaker_seconds": whole(0, 86400),
    "minimum": whole(60, 86400),
    "events": {"queuejob": flag, "postqueuejob": flag, "modifyjob": flag, "runjob": flag},
    "runjob": moment,
    "runjob_fallback": one_of("walltime", "keep"),
    "jobs_without_walltime": flag,
    "clean_texts": flag,
    "log": one_of("all", "changes", "errors", "off"),
    "postgres": {
        "dsn": text,
        "psycopg_path": lambda value: value == "" or path(value),
        "waiting": text,
        "running": text,
    },
}


def merged(given, defaults, accepted, where, complaints):
    """The defaults, replaced by what was given and makes sense; what does not make sense is complained of."""
    result = dict(defaults)
    if not isinstance(given, dict):
        complaints.append(f"{where or 'the file'} is not an object")
        return result
    for key, value in given.items():
        name = where + key
        if key not in defaults:
            complaints.append(f"{name} is not known")
        elif isinstance(defaults[key], dict):
            result[key] = merged(value, defaults[key], accepted[key], name + ".", complaints)
        elif accepted[key](value):
            result[key] = value
        else:
            complaints.append(f"{name} cannot be {json.dumps(value)[:60]}")
    return result


def read_configuration(path):
    """The configuration in the file, complete, and the complaints about it; without a file the defaults.

    Reading it takes as long as the rest of a run without a request, so it is read once for each version of the file.
    """
    if not path:
        return DEFAULTS, []
    complaints = []
    given = {}
    version = None
    try:
        status = os.stat(path)
        version = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if version in KNOWN:
            return KNOWN[version]
        with open(path, "rb") as file:
            given = json.loads(file.read().decode("utf-8"))
    except Exception as error:
        complaints.append(f"the file cannot be read: {error}")
    configuration = merged(given, DEFAULTS, ACCEPTED, "", complaints), complaints
    KNOWN.clear()
    if version is not None:
        KNOWN[version] = configuration
    return configuration


# ---- Asking --------------------------------------------------------------------------------------------------------


class NoAnswerError(Exception):
    """Nobody gave a usable answer; the message says why."""


class TimedOutError(NoAnswerError):
    """No answer within the deadline: what makes the hook ask nobody for a while if it happens again and again."""


def remaining(deadline):
    """Seconds until the deadline; more than 0, because a socket timeout of 0 means something else."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimedOutError("no answer in time")
    return seconds


LONGEST_TEXT = 512
"""Characters of a text; the daemon refuses longer ones, but for the specifications of chunks and placement."""
TEXTS = (
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
)
NUMBERS = (
    "submitted", "walltime", "soft_walltime", "min_walltime", "max_walltime", "ncpus", "nodect", "ngpus", "interactive",
)  # fmt: skip
LINE = (
    '{"v":1,"op":"predict","event":"%s","now":%d,"job":{'
    + ",".join(f'"{name}":%s' for name in TEXTS + NUMBERS)
    + '},"timeouts":%d,"previous_us":%s}\n'
)
"""A question; filling it in takes a third of the time that json.dumps takes for the same."""


def encoded(question):
    """The question as one line; where users' texts make it too long they are cut until it is short enough."""
    job = question["job"]
    numbers = ["null" if job[name] is None else str(job[name]).lower() for name in NUMBERS]
    end = (question["timeouts"], "null" if question["previous_us"] is None else question["previous_us"])
    for longest in (LONGEST_LINE, 4096, 512, 64):
        most = min(longest, LONGEST_TEXT)
        texts = [
            "null" if job[name] is None else quoted(job[name][: longest if name in ("select", "place") else most])
            for name in TEXTS
        ]
        line = LINE % (question["event"], question["now"], *texts, *numbers, *end)
        if len(line) <= LONGEST_LINE - 1:
            break
    return line.encode("ascii")


def connected(path, deadline):
    """A connection to the daemon's socket."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        peer.settimeout(remaining(deadline))
        peer.connect(path)
    except BaseException:
        peer.close()
        raise
    return peer


def ask_daemon(config, question, deadline, peer):
    """Ask over the Unix socket: one line there, one line back.  There may be a connection already."""
    try:
        if peer is None:
            peer = connected(config["socket"], deadline)
        # Only now: while we put the question together, the daemon wakes up.
        line = encoded(question())
        # Without MSG_NOSIGNAL a daemon that dies right now would send pbs_server a SIGPIPE.
        peer.sendall(line, socket.MSG_NOSIGNAL)
        parts = []
        size = 0
        while True:
            peer.settimeout(remaining(deadline))
            part = peer.recv(LONGEST_LINE)
            if not part:
                raise NoAnswerError("nonsense: half a line" if parts else "connection closed without an answer")
            parts.append(part)
            size += len(part)
            if b"\n" in part:
                break
            if size > LONGEST_LINE:
                raise NoAnswerError("nonsense: a line without end")
    except socket.timeout as error:
        raise TimedOutError("no answer in time") from error
    except BlockingIOError as error:
        # The daemon has stopped accepting and its queue is full.  Waiting would not help, and counts as if we had.
        raise TimedOutError("the daemon accepts no connection") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoAnswerError("the daemon does not run") from error
    except (BrokenPipeError, ConnectionResetError) as error:
        raise NoAnswerError("connection closed without an answer") from error
    except OSError as error:
        raise NoAnswerError(f"the daemon cannot be reached: {error}") from error
    finally:
        if peer is not None:
            peer.close()
    try:
        return json.loads(b"".join(parts).split(b"\n", 1)[0].decode("utf-8"))
    except Exception as error:
        raise NoAnswerError("nonsense: not JSON") from error


SQL = (
    b"SELECT softwalltime.soft_walltime(softwalltime.predict($1, $2, $3, $4::bigint, $5::bigint),"
    b" $4::bigint, $6::bigint)"
)


def ask_postgres(config, question, deadline):
    """Ask PostgreSQL itself, which holds the published predictors as functions.

    psycopg's Connection would wait inside libpq, where neither a deadline nor PBS's alarm reaches it.  Its wrapper of
    libpq's non-blocking calls lets us do all the waiting here.
    """
    asked_of = question()
    job = asked_of["job"]
    settings = config["postgres"]
    predictor = settings["running" if asked_of["event"] == "runjob" else "waiting"]
    if job["walltime"] is None:
        return {"v": PROTOCOL, "action": "none", "basis": "no walltime"}
    if predictor == "walltime":
        return {"v": PROTOCOL, "action": "set", "soft_walltime": job["walltime"], "basis": "the walltime"}
    pq = psycopg_pq(settings["psycopg_path"])
    asked = [predictor, job["user"], job["project"], job["walltime"], asked_of["now"], config["minimum"]]
    connection = pq.PGconn.connect_start(connection_string(pq, settings["dsn"], config["deadline_ms"]))
    try:
        while True:
            if connection.status == pq.ConnStatus.BAD:
                raise NoAnswerError("PostgreSQL: " + failure(connection))
            polled = connection.connect_poll()
            if polled == pq.PollingStatus.OK:
                break
            if polled == pq.PollingStatus.FAILED:
                raise NoAnswerError("PostgreSQL: " + failure(connection))
            wait_for(connection.socket, polled == pq.PollingStatus.WRITING, deadline)
        connection.nonblocking = 1
        connection.send_query_params(SQL, [str(value).encode("utf-8") for value in asked])
        while connection.flush():
            wait_for(connection.socket, True, deadline)
        while connection.is_busy():
            wait_for(connection.socket, False, deadline)
            connection.consume_input()
        result = connection.get_result()
        if result is None or result.status != pq.ExecStatus.TUPLES_OK:
            raise NoAnswerError("PostgreSQL: " + failure(connection))
        seconds = result.get_value(0, 0)
    finally:
        connection.finish()
    if seconds is None:
        basis = predictor + " knows nothing better"
        if job["soft_walltime"] in (None, job["walltime"]):
            return {"v": PROTOCOL, "action": "none", "basis": basis}
        # As the daemon decides: PBS keeps the soft walltime that a job has, only the walltime takes it back.
        return {"v": PROTOCOL, "action": "set", "soft_walltime": job["walltime"], "basis": basis}
    return {"v": PROTOCOL, "action": "set", "soft_walltime": int(seconds), "basis": predictor}


def psycopg_pq(folder):
    """The wrapper of libpq in psycopg, in pure Python: the compiled ones do not survive an interpreter restart."""
    os.environ["PSYCOPG_IMPL"] = "python"
    if folder and folder not in TRUSTED:
        distrust = reason_to_distrust(folder)
        if distrust:
            raise NoAnswerError(f"psycopg cannot be loaded: {distrust}")
        TRUSTED.add(folder)
        sys.path.append(folder)
    try:
        from psycopg import pq
    except Exception as error:
        raise NoAnswerError(f"psycopg cannot be loaded: {error}") from error
    return pq


def reason_to_distrust(folder):
    """Why code of a folder may be that of others than root and this server's own user; empty if it cannot be.

    Of the folder, psycopg in it, and all above them, nobody else may own one or write in one.  Links on the way count,
    because who owns one decides where it leads.  Nobody can replace what is another's in a sticky folder, but anybody
    can put something of his own there.
    """
    trusted = (0, os.geteuid())
    for start in (folder, os.path.join(folder, "psycopg")):
        real = os.path.realpath(start)
        for each in [real] + above(real) + [link for link in [start, *above(start)] if os.path.islink(link)]:
            try:
                status = os.lstat(each)
            except OSError as error:
                return f"{each}: {error.strerror}"
            sticky = status.st_mode & 0o1000 and each != real
            if status.st_uid not in trusted or (status.st_mode & 0o022 and not sticky and not os.path.islink(each)):
                return f"others than root can change {each}"
    return ""


def above(path):
    """All folders above a path."""
    folders = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        folders.append(path)
    return folders


def connection_string(pq, dsn, deadline_ms):
    """The DSN with what keeps libpq from waiting longer than we do, unless the administrator says otherwise."""
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
    """Wait until the connection can go on."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if writable else select.POLLIN)
    if not poll.poll(remaining(deadline) * 1000):
        raise TimedOutError("no answer in time")


def failure(connection):
    """What libpq says went wrong, on one line."""
    return " ".join(connection.error_message.decode("utf-8", "replace").split())


def peer_name(config):
    """Who is asked, as the counter of timeouts remembers it; no secrets: children of pbs_server inherit it."""
    return config["socket"] if config["transport"] == "daemon" else "postgres"


def breaker_state(peer):
    """Timeouts of that peer in a row, whether its slow answers have opened the breaker, and seconds since either.

    This must outlive the interpreter, which PBS restarts every hundred runs, and no user may change it.  The
    environment of the pbs_server process does (measured on OpenPBS 20.0.1 to 23.06); jobs do not get it, and a fresh
    pbs_server starts from nothing.
    """
    try:
        count, last, of = os.environ.get(TIMEOUTS, "").split(" ", 2)
        since = time.monotonic() - float(last)
        slow = of == "slow " + peer
        return (int(count), slow, since) if (slow or of == peer) and since >= 0 else (0, False, 0.0)
    except ValueError:
        return 0, False, 0.0


class Exchange:
    """A request and its response by the configured transport, unless the breaker is open.

    The breaker opens for ``breaker_seconds`` after ``breaker_failures`` timeouts in a row, and when the last
    ``breaker_requests`` answers took more than ``breaker_budget_ms`` together (0: half of their deadlines).  Then one
    request is tried: another timeout or slow answer opens it again at once.
    """

    def __init__(self, config, deadline):
        self.config = config
        self.deadline = deadline
        self.name = peer_name(config)
        self.count, self.slow, since = breaker_state(self.name)
        opened = self.slow or self.count >= config["breaker_failures"]
        self.pause = config["breaker_seconds"] - since if opened else 0
        self.peer = None
        self.begun = None

    def begin(self):
        """Connect, because a request is likely: the daemon takes longer to wake up than the hook to read the job."""
        if self.config["transport"] == "daemon" and self.pause <= 0:
            self.begun = time.monotonic()
            with contextlib.suppress(OSError, NoAnswerError):  # The request will report it.
                self.peer = connected(self.config["socket"], self.deadline)

    def ask(self, question):
        """The answer to what the function ``question`` returns; it is called when there is somebody to ask."""
        if self.pause > 0:
            why = "slow answers" if self.slow else f"{self.count} timeouts"
            raise NoAnswerError(f"no request for {self.pause:.0f} s, after {why}")
        if self.config["transport"] == "postgres":
            self.load()
        self.begun = self.begun or time.monotonic()
        try:
            answer = self.put(lambda: dict(question(), timeouts=self.count, previous_us=PREVIOUS.get("us")))
        except TimedOutError:
            # The count stays when the pause is over: if the peer still hangs, the next timeout pauses again at once.
            os.environ[TIMEOUTS] = f"{self.count + 1} {time.monotonic()} {self.name}"
            raise
        except NoAnswerError:
            os.environ.pop(TIMEOUTS, None)
            raise
        except Exception as error:
            os.environ.pop(TIMEOUTS, None)
            raise NoAnswerError(f"{type(error).__name__}: {error}") from error
        self.answered()
        return answer

    def load(self):
        """Load psycopg outside the deadline: it takes longer than that, once in the life of an interpreter."""
        before = time.monotonic()
        psycopg_pq(self.config["postgres"]["psycopg_path"])
        self.deadline += time.monotonic() - before

    def answered(self):
        """Note how long the answer took, and open the breaker where the last ones took too long."""
        took = time.monotonic() - self.begun
        PREVIOUS["us"] = int(took * 1e6)
        requests = self.config["breaker_requests"]
        budget = (self.config["breaker_budget_ms"] or requests * self.config["deadline_ms"] / 2) / 1000.0
        recent = RECENT.setdefault(self.name, [])
        recent.append(took)
        del recent[:-requests]
        if sum(recent) > budget or (self.slow and took > budget / requests):
            recent.clear()
            os.environ[TIMEOUTS] = f"0 {time.monotonic()} slow {self.name}"
        elif self.slow or self.count:
            recent.clear()
            os.environ.pop(TIMEOUTS, None)

    def put(self, question):
        """Ask by the transport that there is."""
        if self.config["transport"] == "daemon":
            return ask_daemon(self.config, question, self.deadline, self.peer)
        return ask_postgres(self.config, question, self.deadline)

    def end(self):
        """Close what nothing was asked by."""
        if self.peer is not None:
            self.peer.close()


def understood(answer):
    """Seconds to set, or None for none, and what that rests on; anything else is nonsense."""
    if not isinstance(answer, dict) or type(answer.get("v")) is not int or answer["v"] != PROTOCOL:
        raise NoAnswerError(f"nonsense: not an answer of version {PROTOCOL}")
    if "error" in answer:
        raise NoAnswerError(f"the peer says: {answer['error']}")
    basis = answer.get("basis")
    basis = basis if isinstance(basis, str) else ""
    seconds = answer.get("soft_walltime")
    if answer.get("action") == "none":
        return None, basis
    if answer.get("action") == "set" and type(seconds) is int and seconds > 0:
        return seconds, basis
    raise NoAnswerError("nonsense: neither none nor a number of seconds to set")


# ---- What PBS says -------------------------------------------------------------------------------------------------


def seconds_of(value):
    """A duration in seconds; None if there is none (None), or if the request unsets it ("").

    PBS shows durations as numbers, but at queuejob those of queues and server as texts (hours:minutes:seconds).
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
    """Return the dictionary of the values of a PBS object that are set; None where this PBS keeps them elsewhere.

    OpenPBS's attributes are descriptors written in Python: a look into the dictionary behind them takes a tenth of the
    time, above all for what is not set.
    """
    values = getattr(thing, "__dict__", {}).get("__pad_values")
    return values if isinstance(values, dict) else None


def attributes_of(thing):
    """Return a function from the name of an attribute to its value, None for none; older servers lack some."""
    values = set_values(thing)
    return (lambda name: getattr(thing, name, None)) if values is None else values.get


def resources_of(thing):
    """Return a function from the name of a requested resource to its value, None for none or an unknown one."""
    resources = attributes_of(thing)("Resource_List")
    if resources is None:
        return lambda name: None

    def get(name):
        try:
            return resources[name]
        except Exception:
            return None

    get("walltime")  # PBS fills the list when the first one is asked for by its name.
    values = set_values(resources)
    return get if values is None else values.get


def first(name, getters):
    """The first value of that name that is set to something."""
    for get in getters:
        value = get(name)
        if value is not None and not (isinstance(value, str) and value == ""):
            return value
    return None


def whole_of(value):
    """A number, or None."""
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def text_of(value):
    """A text; PBS's own types are no str, and only str() says what they hold."""
    return "" if value is None else str(value)


QUEUES_AGE = 60
"""Seconds for which queues and their defaults are remembered: asking PBS for them takes longer than all the rest."""
QUEUES = {}
"""What is remembered of queues: the server's module, the time, and by a queue's name what :func:`queue_facts` found."""


def queue_facts(pbs, queue):
    """Where a job submitted to that queue will wait, "" if unknown, and its default walltime, None for none.

    PBS looks at resources_default of the queue, then of the server, then at resources_max of the queue, then of the
    server (measured; the last two are easily forgotten).

    :return: name of the queue, whether the default walltime is known, the default walltime in seconds.
    """
    now = time.monotonic()
    if QUEUES.get("pbs") is not pbs or now - QUEUES["at"] > QUEUES_AGE:
        QUEUES.update(pbs=pbs, at=now, facts={})
    found = QUEUES["facts"].get(queue)
    if found is None:
        found = QUEUES["facts"][queue] = look_queue_up(pbs, queue)
    return found


def look_queue_up(pbs, queue):
    """As queue_facts, from PBS."""
    server = pbs.server()
    queue = queue or text_of(server.default_queue)
    names = destinations(pbs, server, queue, 0)
    limits = []
    for name in names:
        found = server.queue(name) if name else None
        if found is None:
            return queue.partition("@")[0], False, None
        lists = (found.resources_default, server.resources_default, found.resources_max, server.resources_max)
        walltimes = [seconds_of(resources["walltime"]) for resources in lists if resources is not None]
        limits.append(next((walltime for walltime in walltimes if walltime is not None), None))
    # Which destination takes the job depends on limits, access lists and load: only if it does not matter do we know.
    name = names[0] if len(set(names)) == 1 else queue.partition("@")[0]
    return (name, True, limits[0]) if limits and len(set(limits)) == 1 else (name, False, None)


def destinations(pbs, server, queue, depth):
    """The execution queues into which a job in that queue may come; "" for one that cannot be known."""
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


# ---- Texts that PBS writes into the accounting log ------------------------------------------------------------------

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that end a line, or look like it, for programs that read the log."""
UNUSUAL = re.compile("[^A-Za-z0-9._-]")
LOGGED_AT_SUBMISSION = ("Account_Name", "project", "Job_Name", "gridname")
"""Texts that Q, S, E and R records hold as the user gave them, besides the requested resources (seen on OpenPBS).

Most are checked by qsub, but not by the server: another client can send any text.
"""
LOGGED_AT_ALTER = (
    *LOGGED_AT_SUBMISSION, "stagein", "stageout", "Join_Path", "Keep_Files", "Mail_Users", "Mail_Points", "depend",
    "Shell_Path_List", "User_List", "group_list", "Output_Path", "Error_Path", "Checkpoint", "Hold_Types", "comment",
    "tolerate_node_failures", "Submit_arguments", "executable", "argument_list", "Submit_Host", "credential_id",
    "sandbox", "Remove_Files", "cred", "forward_x11_cookie", "node_set",
)  # fmt: skip
"""Texts that an alter may give: its record holds whatever the request holds.

Not Variable_List: where a hook runs at modifyjob, PBS leaves the job's variables as they were (seen on OpenPBS).
"""


def clean_texts(event, name):
    """Replace control characters in the texts of a submission or an alter; return the names of those that had some."""
    job = event.job
    cleaned = []
    get = attributes_of(job)
    for field in LOGGED_AT_SUBMISSION if name == "queuejob" else LOGGED_AT_ALTER:
        value = get(field)
        if value is not None and not str(value).isprintable():
            clean_one(job, field, value, setattr, cleaned)
    resources = get("Resource_List")
    if resources is not None:
        resources_of(job)
        values = set_values(resources)
        for field in list(resources.keys() if values is None else values):
            value = resources[field] if values is None else values[field]
            if value is not None and not isinstance(value, int) and not str(value).isprintable():
                clean_one(resources, field, value, type(resources).__setitem__, cleaned)
    return cleaned


def clean_one(thing, field, value, assign, cleaned):
    """Replace the control characters of one value.

    PBS checks what a hook sets: where the rest does not fit the field either, only letters and digits stay, or nothing.
    """
    text = str(value)
    replaced = CONTROL.sub("_", text)
    if replaced == text:
        return
    kind = str if isinstance(value, str) else type(value)
    for candidate in (replaced, UNUSUAL.sub("_", text)[:200], None):
        try:
            assign(thing, field, None if candidate is None else kind(candidate))
        except Exception:  # noqa: S112 - the next candidate is tried.
            continue
        cleaned.append(field)
        return
    cleaned.append(field + " (not possible)")


# ---- The events ----------------------------------------------------------------------------------------------------

LEAVE, REMOVE = "leave", "remove"
"""What a decision does to the soft walltime where it is not a number of seconds."""
VALID = "valid"
"""In the table: the valid soft walltime nearest to what the job has; mostly that is what it has."""

Decision = collections.namedtuple("Decision", "value reason basis")
Decision.__doc__ = """What to do with the soft walltime and why.

``value`` is a number of seconds, LEAVE or REMOVE.  ``reason`` is a code; those of softwalltime.reasons have the same
text there.  ``basis`` is the sentence for the log: the daemon's, or the hook's own.
"""

STOP, ASK, ASK_AT_START = "stop", "ask", "ask at start"

# The first row whose condition holds decides.  The soft walltime becomes what the second column says, before anybody is
# asked, so that the request stays valid whatever happens then.  ASK: the answer replaces it; without one it stays.
# ASK_AT_START: without an answer the configuration's runjob_fallback decides.
DECISIONS = {
    # event: ((condition, soft walltime, then, reason), ...)
    "queuejob": (
        ("gives_soft_walltime", LEAVE, STOP, "requested"),
        ("shrink_to_fit", LEAVE, STOP, "shrink_to_fit"),
        ("destination_unknown", LEAVE, STOP, "destination_unknown"),
        ("no_walltime", LEAVE, STOP, "no_walltime"),
        ("otherwise", LEAVE, ASK, ""),
    ),
    "postqueuejob": (
        ("shrink_to_fit", LEAVE, STOP, "shrink_to_fit"),
        ("has_valid", LEAVE, STOP, "has_one"),
        # Moved into a queue whose default walltime is lower: PBS leaves the soft walltime above it.
        ("no_walltime", VALID, STOP, "no_walltime"),
        ("otherwise", VALID, ASK, ""),
    ),
    # PBS refuses a walltime below the soft walltime, and shrink-to-fit with one: the user's request would fail.
    "modifyjob": (
        ("gives_zero", REMOVE, STOP, "zero"),
        ("gives_soft_walltime", LEAVE, STOP, "requested"),
        ("unseen", REMOVE, STOP, "job_unseen"),
        ("shrink_to_fit", REMOVE, STOP, "shrink_to_fit"),
        ("keeps_walltime", LEAVE, STOP, ""),
        ("loses_walltime", REMOVE, STOP, "no_walltime"),
        # A prediction for waiting jobs may be bold, and promises already rest on a running job.
        ("runs", VALID, STOP, "running"),
        ("otherwise", VALID, ASK, ""),
    ),
    # What is set at the start counts from then on: bold while the job waited, careful once it runs.
    "runjob": (
        ("shrink_to_fit", LEAVE, STOP, "shrink_to_fit"),
        ("no_walltime", LEAVE, STOP, "no_walltime"),
        ("start_not_asked", VALID, STOP, "start_not_asked"),
        ("otherwise", VALID, ASK_AT_START, ""),
    ),
}


REASONS = {
    "predicted": "a prediction below the walltime",
    "no_walltime": "the job has no walltime",
    "shrink_to_fit": "a shrink-to-fit job may have no soft walltime",
    "requested": "the request gives a soft walltime",
    "has_one": "the job has a valid soft walltime",
    "zero": "a soft walltime of 0 would kill the scheduler",
    "job_unseen": "the job cannot be seen",
    "destination_unknown": "the walltime depends on where the job is routed",
    "running": "the job runs",
    "start_not_asked": "the configuration disables requests at this start",
    "unanswered": "no answer",
}
"""Every reason of a decision, with its sentence."""


class Facts:
    """What an event tells of its job; each condition of DECISIONS is a method.

    ``has`` is the soft walltime in seconds that the job will have if the hook does nothing, UNSEEN where that cannot be
    known; ``walltime`` the walltime that it will have, None for none.
    """

    UNSEEN = -1

    def __init__(self, hook):
        self.pbs = hook.pbs
        self.config = hook.config
        self.now = hook.now
        # Where attributes and requested resources are looked for, in this order.
        self.attributes = (hook.attributes,)
        self.resources = (resources_of(hook.event.job),)
        self.requested = first("soft_walltime", self.resources)
        self.has = seconds_of(self.requested)
        self.walltime = seconds_of(first("walltime", self.resources))
        self.flexible = first("min_walltime", self.resources) is not None

    def destination_unknown(self):
        """Work out the default walltime; whether that is impossible because it is not known where the job will wait."""
        if self.walltime is not None:
            return False
        _, known, self.walltime = queue_facts(self.pbs, text_of(first("queue", self.attributes)))
        return not known

    def gives_soft_walltime(self):
        """The request itself gives a soft walltime, or takes it away: only managers may."""
        return self.requested is not None

    def gives_zero(self):
        """The request gives a soft walltime of 0."""
        return self.requested is not None and self.has == 0

    def shrink_to_fit(self):
        """The scheduler may shorten the job's walltime."""
        return self.flexible

    def has_valid(self):
        """The job has a soft walltime that PBS can work with: a default, a manager's, or from before a move."""
        return self.has is not None and self.valid() == self.has

    def no_walltime(self):
        """The job has no walltime, and the site wants no questions about such jobs."""
        return self.walltime is None and not self.config["jobs_without_walltime"]

    def start_not_asked(self):
        """The configuration disables requests at this start."""
        when = self.config["runjob"]
        if isinstance(when, dict):
            since = next(
                (at for at in (first(name, self.attributes) for name in ("etime", "qtime", "ctime")) if at), None
            )
            return since is None or self.now - int(since) <= when["waited_longer_than"]
        return when == "never" or (when == "if-none" and self.has is not None)

    def otherwise(self):
        """Always."""
        return True

    def valid(self):
        """The valid soft walltime nearest to the job's, None for none; the walltime in place of 0, to be careful."""
        soft, walltime = self.has, self.walltime
        if soft is None or 0 < soft <= (NO_LIMIT if walltime is None else walltime):
            return soft
        return None if walltime is None else self.fitted(walltime, walltime)

    def fitted(self, seconds, walltime):
        """The nearest value between the minimum and the walltime; None where there is no such value."""
        least = self.config["minimum"]
        return min(max(seconds, least), walltime) if least <= walltime else None


class AlterFacts(Facts):
    """The same of an altered job: the request says what changes, ``job_o`` the rest."""

    def __init__(self, hook):
        Facts.__init__(self, hook)
        self.original = getattr(hook.event, "job_o", None)
        request = self.resources[0]
        # As the request says it: "" takes one away.
        self.requested = request("soft_walltime")
        self.changes_walltime = request("walltime") is not None
        if self.original is None:
            self.has = self.has if self.requested is not None else self.UNSEEN
            return
        job = (attributes_of(self.original),)
        had = (resources_of(self.original),)
        self.attributes += job
        self.resources += had
        if self.requested is None:
            self.has = seconds_of(first("soft_walltime", had))
        self.flexible = self.flexible or first("min_walltime", had) is not None
        self.before = seconds_of(first("walltime", had))
        self.state = first("job_state", job)
        if self.changes_walltime and self.walltime is None:
            # qalter -l walltime= : the job gets the default of its queue again.
            self.walltime = queue_facts(self.pbs, text_of(first("queue", job)))[2]

    def unseen(self):
        """PBS does not say what the job was."""
        return self.original is None

    def keeps_walltime(self):
        """The request leaves the walltime as it is."""
        return not self.changes_walltime

    def loses_walltime(self):
        """No walltime is known any more."""
        return self.walltime is None

    def runs(self):
        """The job does not wait; an array that has begun still has subjobs that wait."""
        pbs = self.pbs
        waits = (pbs.JOB_STATE_QUEUED, pbs.JOB_STATE_HELD, pbs.JOB_STATE_WAITING, pbs.JOB_STATE_BEGUN)
        return self.state not in waits

    def valid(self):
        """As of any job; raised to the walltime at its start, the soft walltime stays with the walltime."""
        if self.has is not None and self.before is not None and self.has >= self.before and self.runs():
            return self.fitted(self.walltime, self.walltime)
        return Facts.valid(self)


class Hook:
    """One run of the hook."""

    def __init__(self, pbs, event, now, started):
        self.pbs = pbs
        self.event = event
        self.now = now
        self.started = started
        self.name = next((name for name in DEFAULTS["events"] if event.type == getattr(pbs, name.upper(), None)), "")
        self.config, self.complaints = read_configuration(getattr(pbs, "hook_config_filename", None))
        self.deadline = started + self.config["deadline_ms"] / 1000.0
        self.attributes = None
        self.changed = False
        self.failed = False
        self.exchange = None

    def run(self):
        """Decide, and log the decision."""
        if self.complaints and self.config["log"] != "off":
            message = "configuration: " + "; ".join(self.complaints) + ": the defaults are used"
            log(self.pbs, self.pbs.LOG_WARNING, message)
        if not self.config["events"].get(self.name):
            return
        self.attributes = attributes_of(self.event.job)
        if self.config["clean_texts"] and self.name in ("queuejob", "modifyjob"):
            self.clean_texts()
        facts = getattr(self, self.name)()
        if facts is None:
            return
        had = facts.has
        decision = self.decide(facts)
        wanted = {"all": True, "changes": self.changed or self.failed, "errors": self.failed, "off": False}
        if decision.reason and wanted[self.config["log"]]:
            who = text_of(self.event.job.id) or self.event.requestor
            elapsed = 1000 * (time.monotonic() - self.started)
            words = in_words(decision, had, facts)
            log(self.pbs, self.pbs.EVENT_DEBUG2, f"{self.name} {who}: {words} ({elapsed:.2f} ms)")

    def clean_texts(self):
        """Replace control characters in what PBS writes into the accounting log as it is, and log it.

        With a line break in it a user could forge the records of others.
        """
        cleaned = clean_texts(self.event, self.name)
        if cleaned and self.config["log"] != "off":
            who = text_of(self.event.job.id) or "a new job"
            message = (
                f"{self.name} {who} of {self.event.requestor}: control characters replaced in {', '.join(cleaned)}"
            )
            log(self.pbs, self.pbs.LOG_WARNING, message)

    def queuejob(self):
        """A job is submitted: its defaults are not applied yet, and it has no id.

        Where postqueuejob is in use it is the better moment: everything is known, and nothing set there can make the
        user's qsub fail.  It is no use for arrays, though: PBS drops what a hook sets on an array then.
        """
        array = first("array_indices_submitted", (self.attributes,)) is not None
        if self.config["events"]["postqueuejob"] and hasattr(self.pbs, "POSTQUEUEJOB") and not array:
            return None
        self.begin()
        return Facts(self)

    def postqueuejob(self):
        """A job has come into a queue: submitted, routed, moved, or a subjob made to be started."""
        if "[" in text_of(self.event.job.id):
            return None  # An array: see queuejob.  A subjob: starts now, and runjob comes next.
        if self.attributes("queue_type") != self.pbs.QTYPE_EXECUTION:
            return None  # In a routing queue: comes again from the queue that it is routed to.
        self.begin()
        return Facts(self)

    def modifyjob(self):
        """A job is altered."""
        request = resources_of(self.event.job)
        if all(request(name) is None for name in ("walltime", "min_walltime", "soft_walltime")):
            return None
        return AlterFacts(self)

    def runjob(self):
        """A job starts."""
        if self.config["runjob"] == "always":
            self.begin()
        return Facts(self)

    def begin(self):
        """Begin to ask, because it is likely that something will be asked."""
        self.exchange = Exchange(self.config, self.deadline)
        self.exchange.begin()

    def end(self):
        """End what was begun."""
        if self.exchange is not None:
            self.exchange.end()

    def decide(self, facts):
        """Look the decision up in DECISIONS, ask where it says so, and apply it; return the last one."""
        row = next(row for row in DECISIONS[self.name] if getattr(facts, row[0])())
        _, value, then, reason = row
        if value == VALID:
            valid = facts.valid()
            value = LEAVE if valid == facts.has else REMOVE if valid is None else valid
        decision = Decision(value, reason, REASONS.get(reason, ""))
        self.apply(decision, facts)
        if then == STOP:
            return decision
        try:
            asked = self.ask(facts)
        except NoAnswerError as error:
            self.failed = True
            if then == ASK_AT_START:
                value = self.at_start_unanswered(facts, value)
            asked = Decision(value, "unanswered", f"no answer: {error}")
        self.apply(asked, facts)
        return asked

    def ask(self, facts):
        """Return the decision of the daemon or of PostgreSQL.

        :raises NoAnswerError: if there is no usable answer.
        """
        if self.exchange is None:
            self.exchange = Exchange(self.config, self.deadline)
        seconds, basis = understood(self.exchange.ask(lambda: self.question(facts)))
        if seconds is not None:
            limit = NO_LIMIT if facts.walltime is None else facts.walltime
            if seconds > limit:
                raise NoAnswerError("nonsense: more than the walltime")
            seconds = facts.fitted(seconds, limit)
        if seconds in (None, facts.has) or (facts.has is None and seconds == facts.walltime):
            return Decision(LEAVE, "answered", basis)
        return Decision(seconds, "answered", basis)

    def at_start_unanswered(self, facts, value):
        """A bold guess for a waiting job must not become what promises rest on, unless the site wants to keep it."""
        soft, walltime = facts.has, facts.walltime
        if soft is None or soft == walltime or self.config["runjob_fallback"] == "keep":
            return value
        fitted = None if walltime is None else facts.fitted(walltime, walltime)
        return REMOVE if fitted is None else fitted

    def apply(self, decision, facts):
        """Do to the job what was decided."""
        if decision.value == LEAVE:
            return
        seconds = None if decision.value == REMOVE else decision.value
        if seconds == facts.has:
            return
        self.event.job.Resource_List["soft_walltime"] = None if seconds is None else self.pbs.duration(seconds)
        self.changed = True
        facts.has = seconds

    def question(self, facts):
        """What is asked about the job."""
        attributes, resources = facts.attributes, facts.resources
        queue = text_of(first("queue", attributes))
        if self.name == "queuejob":
            queue = queue_facts(self.pbs, queue)[0] or queue
            user = text_of(self.event.requestor)
            group = text_of(first("group_list", attributes)).partition(",")[0].partition("@")[0]
        else:
            user = text_of(first("euser", attributes))
            group = text_of(first("egroup", attributes))
        return {
            "event": self.name,
            "now": int(self.now),
            "job": {
                "job_id": text_of(self.event.job.id),
                "user": user,
                "group": group,
                # What the accounting log will say of a job that names no project.
                "project": text_of(first("project", attributes)) or "_pbs_project_default",
                "account": text_of(first("Account_Name", attributes)),
                "queue": queue,
                "job_name": text_of(first("Job_Name", attributes)),
                "submitted": whole_of(first("ctime", attributes)),
                "walltime": facts.walltime,
                "soft_walltime": seconds_of(first("soft_walltime", resources)),
                "min_walltime": seconds_of(first("min_walltime", resources)),
                "max_walltime": seconds_of(first("max_walltime", resources)),
                "ncpus": whole_of(first("ncpus", resources)),
                "nodect": whole_of(first("nodect", resources)),
                "ngpus": whole_of(first("ngpus", resources)),
                "mem": text_of(first("mem", resources)) or None,
                "select": text_of(first("select", resources)),
                "place": text_of(first("place", resources)),
                "array_indices": text_of(first("array_indices_submitted", attributes)),
                "interactive": bool(whole_of(first("interactive", attributes))),
            },
        }


def in_words(decision, had, facts):
    """A decision for the log; ``had`` is the soft walltime that the job had before."""
    if facts.has == had or facts.has == Facts.UNSEEN:
        what = "left without" if facts.has is None else f"left at {facts.has}"
    else:
        what = "removed" if facts.has is None else f"set {facts.has} of {facts.walltime}"
    return what + (": " + decision.basis if decision.basis else "")


UNPRINTABLE = re.compile("[^ -~]")


def log(pbs, level, message):
    """One line in the server log; users' texts may hold line breaks, and a daemon's sentence anything."""
    pbs.logmsg(level, "softwalltime: " + UNPRINTABLE.sub("?", message[:1000]))


def run(pbs, now):
    """One run in pbs_server; ``now`` is the time in epoch seconds.  Accepting the event is left to the caller."""
    started = time.monotonic()
    event = pbs.event()
    hook = None
    try:
        hook = Hook(pbs, event, now, started)
        hook.run()
    except BaseException as error:  # As above, but it can be said better.
        with contextlib.suppress(BaseException):  # There is nobody left to tell.
            log(pbs, pbs.LOG_WARNING, f"{type(error).__name__}: {error}: the request is accepted as it is")
    finally:
        with contextlib.suppress(BaseException):
            if hook is not None:
                hook.end()
