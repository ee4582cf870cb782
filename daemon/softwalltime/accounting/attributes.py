"""Convert job attributes, as named by qstat and PBS's client library, to a submission.

Records of the accounting log have other names (:data:`softwalltime.core.jobs.FIELDS`).
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from softwalltime.accounting.conversions import size, walltime, whole
from softwalltime.core.jobs import Submission

T = TypeVar("T")

NAMES = ("euser", "egroup", "Job_Owner", "project", "Account_Name", "Job_Name", "queue", "interactive")
"""Attributes of a submission besides ``ctime`` and ``Resource_List``."""


def converted(text: str | None, convert: Callable[[str], T]) -> T | None:
    """Convert a text; return ``None`` if it is ``None`` or malformed.

    >>> converted("01:00:00", walltime), converted("soon", walltime), converted(None, walltime)
    (3600, None, None)
    """
    try:
        return None if text is None else convert(text)
    except (ValueError, OverflowError):
        return None


def _quietly(_name: str, text: str | None, conversion: Callable[[str], int]) -> int | None:
    return converted(text, conversion)


def submission_of(
    job_id: str,
    submitted: int,
    attributes: Mapping[str, str],
    resources: Mapping[str, str],
    convert: Callable[[str, str | None, Callable[[str], int]], int | None] = _quietly,
) -> Submission:
    """Return the submission with these attributes.

    :param submitted: ``ctime``, epoch seconds.
    :param attributes: those of :data:`NAMES` that the job has.
    :param resources: ``Resource_List``.
    :param convert: converts a resource: (name, text, conversion) to its value or ``None``.
    """

    def value(name: str, conversion: Callable[[str], int]) -> int | None:
        return convert(name, resources.get(name), conversion)

    interactive = attributes.get("interactive")
    return Submission(
        job_id=job_id,
        # euser is unknown until an execution queue has accepted the job.
        user=attributes.get("euser") or attributes.get("Job_Owner", "").partition("@")[0],
        submitted=submitted,
        walltime=value("walltime", walltime),
        group=attributes.get("egroup", ""),
        project=attributes.get("project", ""),
        account=attributes.get("Account_Name", ""),
        job_name=attributes.get("Job_Name", ""),
        queue=attributes.get("queue", ""),
        min_walltime=value("min_walltime", walltime),
        max_walltime=value("max_walltime", walltime),
        ncpus=value("ncpus", whole),
        nodect=value("nodect", whole),
        ngpus=value("ngpus", whole),
        mem=value("mem", size),
        select=resources.get("select", ""),
        place=resources.get("place", ""),
        interactive=None if interactive is None else interactive.lower() in ("true", "1"),
    )
