"""Convert job attributes, as named by qstat and PBS's client library, to a submission.

Records of the accounting log have other names (:data:`softwalltime.core.jobs.FIELDS`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from softwalltime.accounting.pbs_records import CONVERTERS
from softwalltime.core.jobs import FIELDS, OF_SUBMISSION, FieldKind, Submission

T = TypeVar("T")

NAMES = ("euser", "egroup", "Job_Owner", "project", "Account_Name", "Job_Name", "queue", "interactive")
"""Attributes of a submission besides ``ctime`` and ``Resource_List``."""
_RESOURCES = [field for field in FIELDS[:OF_SUBMISSION] if field.pbs.startswith("Resource_List.")]


def converted(text: str | None, convert: Callable[[str], T]) -> T | None:
    """Convert a text; return ``None`` if it is ``None`` or malformed.

    >>> converted("3", int), converted("soon", int), converted(None, int)
    (3, None, None)
    """
    try:
        return None if text is None else convert(text)
    except (ValueError, OverflowError):
        return None


def submission_of(
    job_id: str,
    submitted: int,
    attributes: Mapping[str, str],
    resources: Mapping[str, str],
    convert: Callable[[str, str | None, Callable[[str], Any]], Any] = lambda _, text, convert: converted(text, convert),
) -> Submission:
    """Return the submission with these attributes.

    :param submitted: ``ctime``, epoch seconds.
    :param attributes: those of :data:`NAMES` that the job has.
    :param resources: ``Resource_List``.
    :param convert: converts a resource: (name, text, conversion) to its value or ``None``.
    """
    interactive = attributes.get("interactive")
    values: dict[str, Any] = {}
    for field in _RESOURCES:
        resource = field.pbs.removeprefix("Resource_List.")
        text = resources.get(resource)
        values[field.name] = (
            text or "" if field.kind is FieldKind.TEXT else convert(resource, text, CONVERTERS[field.kind])
        )
    return Submission(
        job_id=job_id,
        # euser is unknown until an execution queue has accepted the job.
        user=attributes.get("euser") or attributes.get("Job_Owner", "").partition("@")[0],
        submitted=submitted,
        group=attributes.get("egroup", ""),
        project=attributes.get("project", ""),
        account=attributes.get("Account_Name", ""),
        job_name=attributes.get("Job_Name", ""),
        queue=attributes.get("queue", ""),
        interactive=None if interactive is None else interactive.lower() in ("true", "1"),
        **values,
    )
