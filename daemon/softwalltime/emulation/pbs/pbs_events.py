"""Events of PBS as plain data: the kind of event, the job, and the site."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from softwalltime.accounting.conversions import clock
from softwalltime.core.jobs import DEFAULT_PROJECT, Submission

Attributes: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Attributes of a job, queue or server in PBS's print format; resource lists are mappings."""
Name: TypeAlias = Literal["queuejob", "postqueuejob", "modifyjob", "runjob"]

NAMES: Final[tuple[Name, ...]] = ("queuejob", "postqueuejob", "modifyjob", "runjob")
_NOTHING: Final[Mapping[str, str]] = {}
_MAYBE_EMPTY: Final = ("Job_Name", "queue", "Account_Name", "interactive", "euser", "egroup")


@dataclass(frozen=True, slots=True)
class Site:
    """The server with its queues and jobs.

    ``resources`` are the site's custom resources with their types; ``managers`` have the rights of managers;
    ``postqueuejob``: whether the server has this event, which servers before OpenPBS 23 lack.
    """

    host: str = "pbs"
    server: Attributes = field(default_factory=dict)
    queues: Mapping[str, Attributes] = field(default_factory=dict)
    jobs: Mapping[str, Attributes] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=lambda: {"ngpus": "pbs_int"})
    managers: frozenset[str] = frozenset({"root"})
    postqueuejob: bool = True


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    ``job``: the request's values (queuejob, modifyjob) or the whole job (postqueuejob, runjob); ``original``: the job
    that a modifyjob alters.  ``now``: the hook's clock, ``None``: real time.  ``offline``: as with ``pbs_python
    --hook``, the altered job is not available.  Without ``shows_original`` it can only be looked up on the server, as
    if a text of the request is not UTF-8.  ``requestor_host``: empty for the site's.
    """

    name: Name
    job: Attributes
    job_id: str = ""
    original: Attributes | None = None
    site: Site = field(default_factory=Site)
    requestor: str = ""
    requestor_host: str = ""
    hook_name: str = "softwalltime"
    hook_type: str = "site"
    user: str = "pbsadmin"
    now: int | None = None
    offline: bool = False
    shows_original: bool = True


def queued(submission: Submission, *, site: Site, array_indices: str = "", now: int | None = None) -> Event:
    """Return the queuejob event of a job, which has no id yet and only the values of the user's request."""
    attributes = _attributes(submission)
    for unknown in ("Job_Owner", "euser", "egroup", "ctime", "qtime", "etime", "queue_type", "job_state"):
        attributes.pop(unknown, None)
    if submission.project in ("", DEFAULT_PROJECT):
        attributes.pop("project", None)
    if array_indices:
        attributes["array_indices_submitted"] = array_indices
    now = submission.submitted if now is None else now
    return Event("queuejob", attributes, site=site, requestor=submission.user, now=now)


def postqueued(
    submission: Submission,
    *,
    site: Site,
    now: int | None = None,
    soft_walltime: int | None = None,
    own: Mapping[str, str] = _NOTHING,
) -> Event:
    """Return the postqueuejob event of a job in its execution queue, with the soft walltime set at queuejob.

    :param own: custom resources that it has.
    """
    attributes, now = _attributes(submission, soft_walltime, own), submission.submitted if now is None else now
    return Event("postqueuejob", attributes, submission.job_id, site=site, requestor="root", now=now)


def altered(
    submission: Submission,
    resources: Mapping[str, str],
    *,
    site: Site,
    now: int,
    soft_walltime: int | None = None,
    state: str = "Q",
    requestor: str = "",
    own: Mapping[str, str] = _NOTHING,
) -> Event:
    """Return the modifyjob event of a job that requests these resources; ``""`` unsets one.

    :param own: custom resources that it has.
    """
    original = {**_attributes(submission, soft_walltime, own), "job_state": state}
    site = replace(site, jobs={**site.jobs, submission.job_id: original})
    request, requestor = {"Resource_List": resources}, requestor or submission.user
    return Event("modifyjob", request, submission.job_id, original, site, requestor, now=now)


def started(
    submission: Submission,
    *,
    site: Site,
    now: int,
    soft_walltime: int | None = None,
    own: Mapping[str, str] = _NOTHING,
) -> Event:
    """Return the runjob event of a job with its current soft walltime.

    :param own: custom resources that it has.
    """
    attributes = _attributes(submission, soft_walltime, own)
    return Event("runjob", attributes, submission.job_id, site=site, requestor="Scheduler", now=now)


def _attributes(
    submission: Submission, soft_walltime: int | None = None, own: Mapping[str, str] = _NOTHING
) -> dict[str, str | Mapping[str, str]]:
    """Return the job's attributes in PBS's format; unrolled, because it runs for millions of events."""
    resources = dict(own)
    if submission.walltime is not None:
        resources["walltime"] = clock(submission.walltime)
    if soft_walltime is not None:
        resources["soft_walltime"] = clock(soft_walltime)
    if submission.min_walltime is not None:
        resources["min_walltime"] = clock(submission.min_walltime)
    if submission.max_walltime is not None:
        resources["max_walltime"] = clock(submission.max_walltime)
    if submission.mem is not None:
        resources["mem"] = f"{submission.mem}b"
    if submission.ncpus is not None:
        resources["ncpus"] = str(submission.ncpus)
    if submission.nodect is not None:
        resources["nodect"] = str(submission.nodect)
    if submission.ngpus is not None:
        resources["ngpus"] = str(submission.ngpus)
    if submission.select:
        resources["select"] = submission.select
    if submission.place:
        resources["place"] = submission.place
    submitted = str(submission.submitted)
    attributes: dict[str, str | Mapping[str, str]] = {
        "Job_Name": submission.job_name,
        "Job_Owner": f"{submission.user}@pbs",
        "job_state": "Q",
        "queue": submission.queue,
        "Account_Name": submission.account,
        "ctime": submitted,
        "qtime": submitted,
        "etime": submitted,
        "interactive": "1" if submission.interactive else "",
        "Resource_List": resources,
        "euser": submission.user,
        "egroup": submission.group,
        "queue_type": "E",
        "project": submission.project or DEFAULT_PROJECT,
    }
    for name in _MAYBE_EMPTY:
        if not attributes[name]:
            del attributes[name]
    return attributes
