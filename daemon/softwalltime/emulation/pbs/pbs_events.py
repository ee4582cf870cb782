"""Events of PBS as plain data: the kind of event, the job, and the site.

Of a job that exists, ``soft_walltime`` is the one that it has, and ``own`` are its custom resources.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, cast

from softwalltime.accounting.writer import requested
from softwalltime.core.jobs import DEFAULT_PROJECT, Submission

Attributes: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Attributes of a job, queue or server in PBS's print format; resource lists are mappings."""
Name: TypeAlias = Literal["queuejob", "postqueuejob", "modifyjob", "runjob"]

NAMES: Final[tuple[Name, ...]] = ("queuejob", "postqueuejob", "modifyjob", "runjob")
HOOK_NAME: Final = "softwalltime"
_NOTHING: Final[Mapping[str, str]] = {}
_SET_AFTER_QUEUEJOB: Final = frozenset(
    {"Job_Owner", "euser", "egroup", "ctime", "qtime", "etime", "queue_type", "job_state"}
)


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
    that a modifyjob alters.  ``now``: the hook's clock, ``None``: real time.  Without ``shows_original`` that job can
    only be looked up on the server, as if a text of the request is not UTF-8.
    """

    name: Name
    job: Attributes
    job_id: str = ""
    original: Attributes | None = None
    site: Site = field(default_factory=Site)
    requestor: str = ""
    now: int | None = None
    shows_original: bool = True


def queued(submission: Submission, *, site: Site, array_indices: str = "", now: int | None = None) -> Event:
    """Return the queuejob event of a job, which has no id yet and only the values of the user's request."""
    attributes = {name: value for name, value in _attributes(submission).items() if name not in _SET_AFTER_QUEUEJOB}
    if submission.project in ("", DEFAULT_PROJECT):
        del attributes["project"]
    if submission.select:
        # PBS adds up the chunks later.
        resources = dict(cast("Mapping[str, str]", attributes["Resource_List"]))
        for name in ("ncpus", "nodect", *(name for name in ("mem", "ngpus") if f"{name}=" in submission.select)):
            resources.pop(name, None)
        attributes["Resource_List"] = resources
    if array_indices:
        attributes["array_indices_submitted"] = array_indices
    now = submission.submitted if now is None else now
    return Event("queuejob", attributes, site=site, requestor=submission.user, now=now)


def postqueued(
    submission: Submission, *, site: Site, now: int | None = None, soft_walltime: int | None = None,
    own: Mapping[str, str] = _NOTHING,
) -> Event:  # fmt: skip
    """Return the postqueuejob event of a job in its execution queue, with the soft walltime set at queuejob."""
    now = submission.submitted if now is None else now
    job = _attributes(submission, soft_walltime, own)
    return Event("postqueuejob", job, submission.job_id, site=site, requestor="root", now=now)


def altered(
    submission: Submission, resources: Mapping[str, str], *, site: Site, now: int, soft_walltime: int | None = None,
    state: str = "Q", requestor: str = "", own: Mapping[str, str] = _NOTHING,
) -> Event:  # fmt: skip
    """Return the modifyjob event of a job that requests these resources; ``""`` unsets one."""
    original = {**_attributes(submission, soft_walltime, own), "job_state": state}
    site = replace(site, jobs={**site.jobs, submission.job_id: original})
    request, requestor = {"Resource_List": resources}, requestor or submission.user
    return Event("modifyjob", request, submission.job_id, original, site, requestor, now=now)


def started(
    submission: Submission, *, site: Site, now: int, soft_walltime: int | None = None,
    own: Mapping[str, str] = _NOTHING,
) -> Event:  # fmt: skip
    """Return the runjob event of a job with its current soft walltime."""
    job = _attributes(submission, soft_walltime, own)
    return Event("runjob", job, submission.job_id, site=site, requestor="Scheduler", now=now)


def _attributes(
    submission: Submission, soft_walltime: int | None = None, own: Mapping[str, str] = _NOTHING
) -> dict[str, str | Mapping[str, str]]:
    """Return the job's attributes in PBS's format."""
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
        "Resource_List": {**own, **requested(submission, soft_walltime)},
        "euser": submission.user,
        "egroup": submission.group,
        "queue_type": "E",
        "project": submission.project or DEFAULT_PROJECT,
    }
    return {name: value for name, value in attributes.items() if value != ""}
