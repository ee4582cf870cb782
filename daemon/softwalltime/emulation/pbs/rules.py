"""PBS's own checks of a request after the hook."""

from collections.abc import Mapping

from softwalltime.emulation.pbs import tables
from softwalltime.emulation.pbs.events import Event
from softwalltime.emulation.pbs.values import as_seconds

BAD_VALUE = "Illegal attribute or resource value"
SHRINK_TO_FIT = "soft_walltime is not supported with Shrink to Fit jobs"
READ_ONLY = "Cannot set attribute, read only or insufficient permission  Resource_List.soft_walltime"


def refusal(event: Event, attributes: Mapping[str, object], resources: Mapping[str, object]) -> str:
    """Return why PBS refuses a request after the hook has set these values; ``""`` if it accepts it.

    At postqueuejob PBS checks nothing.  At runjob it accepts any value, but only of certain attributes.
    """
    match event.name:
        case "queuejob":
            return _refused_submission(event, resources)
        case "modifyjob":
            return _refused_alter(event, resources)
        case "runjob":
            late = [name for name in attributes if name in tables.JOB_SETTABLE_AT_REFUSED_START]
            if late:
                return "request rejected by filter hook: cannot modify job after runjob request has been accepted."
            chunk = [name for name in resources if name in tables.RESOURCES_OF_CHUNKS]
            if chunk:
                return f"request rejected by filter hook: failed to set job's Resource_List.{chunk[0]} (not allowed)"
    return ""


def applied(event: Event, resources: Mapping[str, object]) -> Mapping[str, object]:
    """Return the resources that PBS keeps of those that a hook has set: none for an array at postqueuejob."""
    return {} if event.name == "postqueuejob" and is_array(event) else resources


def is_array(event: Event) -> bool:
    """Return whether the event's job is an array, such as ``5[].server``."""
    return event.job_id.partition(".")[0].endswith("[]")


def requested(event: Event) -> Mapping[str, str]:
    """Return the Resource_List of the event's job or request."""
    return _resources(event.job)


def existing(event: Event) -> Mapping[str, str]:
    """Return the Resource_List of the job before the request."""
    if event.name == "queuejob":
        return {}
    return _resources(event.original or {}) if event.name == "modifyjob" else _resources(event.job)


def _resources(attributes: Mapping[str, str | Mapping[str, str]]) -> Mapping[str, str]:
    found = attributes.get("Resource_List", {})
    return found if isinstance(found, Mapping) else {}


def _together(request: Mapping[str, str], resources: Mapping[str, object]) -> dict[str, str]:
    return {**request, **{name: str(value) for name, value in resources.items()}}


def _refused_submission(event: Event, resources: Mapping[str, object]) -> str:
    result = _together(requested(event), resources)
    soft = as_seconds(result.get("soft_walltime"))
    if soft is None:
        return ""
    if "soft_walltime" not in resources and event.requestor not in event.site.managers:
        return READ_ONLY
    walltime = as_seconds(result.get("walltime"))
    if walltime is not None and soft > walltime:
        # PBS does not compare with a default walltime.
        return BAD_VALUE
    return SHRINK_TO_FIT if as_seconds(result.get("min_walltime")) is not None else ""


def _refused_alter(event: Event, resources: Mapping[str, object]) -> str:
    request = _together(requested(event), resources)
    if "soft_walltime" in request and "soft_walltime" not in resources and event.requestor not in event.site.managers:
        return READ_ONLY
    running = (event.original or {}).get("job_state") not in ("Q", "H", "W", "B")
    if running and (own := event.site.resources.keys() & request.keys()):
        return f"Cannot modify attribute while job running  Resource_List.{min(own)}"
    result = {**existing(event), **request}
    soft, walltime = as_seconds(result.get("soft_walltime")), as_seconds(result.get("walltime"))
    if soft is None:
        return ""
    if walltime is not None and soft > walltime:
        return BAD_VALUE
    return SHRINK_TO_FIT if as_seconds(result.get("min_walltime")) is not None else ""
