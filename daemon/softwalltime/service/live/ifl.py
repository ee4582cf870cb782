"""PBS's client library ``libpbs`` through ctypes: read the attributes of jobs, and alter a job.

PBS's Programmer's Guide, chapter "Batch Interface Library (IFL)", and ``pbs_ifl.h``.  One connection serves many calls:
an alter takes 0.3 to 0.5 ms that way, and 6 to 10 ms as a qalter of its own.  Calls block, and a fault in the library
ends the process, so only :mod:`softwalltime.service.live.agent` loads this module.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.pbs_conf import USUAL, conf_file, read_conf

NO_JOB = frozenset({15001, 15016, 15139})
"""PBSE_UNKJOBID, PBSE_BADSTATE and PBSE_HISTJOBID of pbs_error.h: the job ended, or is in another state by now."""
NO_PERMISSION = frozenset({15003, 15007})
"""PBSE_ATTRRO and PBSE_PERM: this user may not set the attribute."""
REFUSED = frozenset({15004, 15014, 15015, 15180})
"""PBSE_IVALREQ, PBSE_BADATVAL, PBSE_MODATRRUN and PBSE_SOFTWT_STF: PBS refuses this value for this job."""

_DELETE, _RESOURCE = 1, 5
"""MGR_CMD_DELETE and MGR_OBJ_RSC of ``pbs_ifl.h``."""
_IMPOSSIBLE_RESOURCE = b"?"
"""No resource can have this name."""
UNKNOWN_RESOURCE = 15035
"""Error number of an unknown resource (PBSE_UNKRESC in pbs_error.h)."""


class IflError(SoftwalltimeError):
    """A call to PBS failed.

    :ivar code: PBS's error number (``pbs_error.h``); 0 if the library gave none.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class _Attribute(ctypes.Structure):
    """``struct attrl``."""


class _Status(ctypes.Structure):
    """``struct batch_status``."""


_Attribute._fields_ = (
    ("next", ctypes.POINTER(_Attribute)),
    ("name", ctypes.c_char_p),
    ("resource", ctypes.c_char_p),
    ("value", ctypes.c_char_p),
    ("op", ctypes.c_int),
)
_Status._fields_ = (
    ("next", ctypes.POINTER(_Status)),
    ("name", ctypes.c_char_p),
    ("attribs", ctypes.POINTER(_Attribute)),
    ("text", ctypes.c_char_p),
)

KINDS = {
    "vnodes": "pbs_statvnode", "queues": "pbs_statque", "server": "pbs_statserver", "reservations": "pbs_statresv",
    "schedulers": "pbs_statsched",
}  # fmt: skip
"""Functions by kind of object, for :meth:`Ifl.objects`."""
_OF_ALL = {"server", "schedulers"}
"""Kinds whose functions take no object name."""

_FREE = ctypes.CDLL(None).free
"""``free``: the caller frees memory that the library returns as one block."""
_FREE.argtypes, _FREE.restype = [ctypes.c_void_p], None

Attributes = dict[str, str]
"""Attributes of a job by name; a resource's name follows a dot, as in ``Resource_List.walltime``."""


class Ifl:
    """One connection to a PBS server.

    Each method raises an :class:`IflError` if PBS refuses or the connection is lost.

    :param server: host name; empty for the server of ``/etc/pbs.conf``.
    :raises IflError: if the library cannot be loaded or the server does not answer.
    """

    def __init__(self, server: str = "") -> None:
        self._library = _load(default_library())
        # getattr, because Python would mangle a name with two underscores inside a class.
        self._errno_location = getattr(self._library, "__pbs_errno_location")
        self._errno_location.restype = ctypes.POINTER(ctypes.c_int)
        self._connection = self._library.pbs_connect(server.encode() or None)
        if self._connection <= 0:
            raise IflError(
                f"the PBS server cannot be reached (error {self._errno()}): start it (systemctl start pbs), or run "
                "this on a host where qstat works"
            )

    def close(self) -> None:
        self._library.pbs_disconnect(self._connection)

    def ids(self) -> list[str]:
        """Return the ids of all jobs that have not ended, in the server's order; of an array that of the whole."""
        selected = self._library.pbs_selectjob(self._connection, None, None)
        # Without jobs there is no list.
        if not selected and (code := self._errno()):
            raise self._error("the jobs cannot be listed", code)
        try:
            return [job_id.decode(errors="replace") for job_id in takewhile(bool, selected or ())]
        finally:
            _FREE(ctypes.cast(selected, ctypes.c_void_p))

    def jobs(
        self, names: Sequence[str], ids: Sequence[str] = (), *, subjobs: bool = False
    ) -> Iterator[tuple[str, Attributes]]:
        """Yield the ids of jobs and those of the named attributes that they have.

        :param ids: only these jobs; without any all jobs of the server.  Jobs that ended are left out.
        :param subjobs: subjobs of arrays too, as ``qstat -t``.
        """
        wanted = _chain([(name, "", "") for name in names])
        extend = b"t" if subjobs else None
        status = self._library.pbs_statjob(self._connection, ",".join(ids).encode() or None, wanted, extend)
        if not status and (code := self._errno()) and not (ids and code in NO_JOB):
            raise self._error("the jobs cannot be read", code)
        yield from self._read(status)

    def objects(self, kind: str) -> Iterator[tuple[str, Attributes]]:
        """Yield names and all attributes of the server's objects of a kind of :data:`KINDS`."""
        call = getattr(self._library, KINDS[kind])
        status = call(self._connection, *([None] if kind in _OF_ALL else [None, None]), None)
        # A server without reservations is no error.
        if not status and (code := self._errno()) and kind != "reservations":
            raise self._error(f"the {kind} cannot be read", code)
        yield from self._read(status)

    def _read(self, first: "ctypes._Pointer[_Status]") -> Iterator[tuple[str, Attributes]]:
        try:
            entry = first
            while entry:
                status = entry.contents
                yield status.name.decode(errors="replace"), _attributes(status.attribs)
                entry = status.next
        finally:
            if first:
                self._library.pbs_statfree(first)

    def alter(self, job_id: str, resources: Mapping[str, str]) -> None:
        """Set resources of a job, as ``qalter -l`` does.

        :raises IflError: if PBS refuses, or the job is gone (``code`` in :data:`NO_JOB`).
        """
        given = _chain([("Resource_List", name, value) for name, value in resources.items()])
        if code := self._library.pbs_alterjob(self._connection, job_id.encode(), given, None):
            raise self._error(f"{job_id} cannot be altered", code)

    def is_manager(self) -> bool:
        """Return whether PBS gives this user manager privilege.

        Requests to delete a resource that cannot exist: PBS checks the privilege first.  The server's ``managers`` list
        may contain patterns, so reading it is not sufficient.

        :raises IflError: if PBS answers anything else or the connection is lost.
        """
        code = self._library.pbs_manager(self._connection, _DELETE, _RESOURCE, _IMPOSSIBLE_RESOURCE, None, None)
        if code not in {*NO_PERMISSION, UNKNOWN_RESOURCE}:
            raise self._error("the manager right cannot be tried", code)
        return code not in NO_PERMISSION

    def _errno(self) -> int:
        return int(self._errno_location().contents.value)

    def _error(self, what: str, code: int) -> IflError:
        said = self._library.pbs_geterrmsg(self._connection)
        return IflError(f"{what}: {said.decode(errors='replace').strip() if said else f'error {code}'}", code)


def default_library() -> Path:
    """Return the library of the PBS that ``/etc/pbs.conf`` names.

    :raises IflError: if there is none.
    """
    file = conf_file()
    folder = Path(read_conf(file).get("PBS_EXEC") or USUAL) / "lib"
    for name in ("libpbs.so.0", "libpbs.so"):
        if (folder / name).exists():
            return folder / name
    raise IflError(f"{folder}: no libpbs.so (PBS_EXEC of {file}); run this on a host that has PBS's commands")


def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise IflError(f"PBS's library cannot be loaded: {error}") from error
    number, text = ctypes.c_int, ctypes.c_char_p
    attributes, status = ctypes.POINTER(_Attribute), ctypes.POINTER(_Status)
    signatures: dict[str, tuple[list[Any], Any]] = {
        "pbs_connect": ([text], number),
        "pbs_disconnect": ([number], number),
        "pbs_selectjob": ([number, attributes, text], ctypes.POINTER(text)),
        "pbs_statjob": ([number, text, attributes, text], status),
        "pbs_statfree": ([status], None),
        "pbs_alterjob": ([number, text, attributes, text], number),
        "pbs_manager": ([number, number, number, text, ctypes.c_void_p, text], number),
        "pbs_geterrmsg": ([number], text),
    }
    for kind, name in KINDS.items():
        signatures[name] = [number, *([] if kind in _OF_ALL else [text]), attributes, text], status
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


def _chain(entries: Sequence[tuple[str, str, str]]) -> "ctypes.Array[_Attribute] | None":
    """Return a linked list of attributes: name, resource, value."""
    if not entries:
        return None
    chain = (_Attribute * len(entries))()
    for number, (name, resource, value) in enumerate(entries):
        link = chain[number]
        link.name, link.resource, link.value = name.encode(), resource.encode() or None, value.encode()
        if number + 1 < len(entries):
            link.next = ctypes.pointer(chain[number + 1])
    return chain


def _attributes(first: "ctypes._Pointer[_Attribute]") -> Attributes:
    """Return a linked list of attributes; PBS gives several limits of one name as several attributes.

    >>> limits = [("max_run", "", "[o:PBS_ALL=9]"), ("max_run", "", "[u:bob=4]")]
    >>> chain = _chain([*limits, ("Resource_List", "ncpus", "2")])
    >>> _attributes(ctypes.pointer(chain[0]))
    {'max_run': '[o:PBS_ALL=9],[u:bob=4]', 'Resource_List.ncpus': '2'}
    """
    attributes: Attributes = {}
    link = first
    while link:
        attribute = link.contents
        name, resource = attribute.name.decode(), attribute.resource
        key = f"{name}.{resource.decode(errors='replace')}" if resource else name
        value = attribute.value.decode(errors="replace") if attribute.value else ""
        attributes[key] = f"{attributes[key]},{value}" if key in attributes and value.startswith("[") else value
        link = attribute.next
    return attributes
