"""Configure PBS for a preset: plan changes, save old values, restore values that the site has not changed since."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.sched_config import lines_of, members, values_of
from softwalltime.deployment import sched_config
from softwalltime.deployment.hook_folder import read_state, write_state
from softwalltime.deployment.qmgr import PbsError, Qmgr
from softwalltime.deployment.scheduler_setup import Change, PbsSettings, Requirement, definition

BACK = "as it was before softwalltime"
STAYS = (
    "it is harmless without values. OpenPBS keeps the resources of the last job that a hook has seen, and pbs_server "
    "may crash when one of them was deleted. To delete it, restart pbs_server first, then: qmgr -c 'delete resource {}'"
)
"""Reason why a created custom resource is not deleted."""
_CHANGES = TypeAdapter(list[Change])
FORMULA = "job_sort_formula"
_FORMULA_NEEDS = {"eligible_time_enable": "eligible_time"}
"""Server attributes that a formula needs, each with the name that the formula uses."""


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """Changes to make and to undo, settings that the site has changed since, and changes that only the site can decide.

    ``back``: changes that undo earlier ones.  ``forgotten``: earlier changes that the site has replaced, with notes.
    """

    make: tuple[Change, ...]
    back: tuple[Change, ...]
    forgotten: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, in the order in which they are made."""
        return *self.back, *self.make


def plan_setup(needs: Sequence[Requirement], settings: PbsSettings, kept: Sequence[Change]) -> SetupPlan:
    """Plan the changes from PBS's settings to a preset.

    :param needs: the preset's requirements; empty: undo all earlier changes.
    :param kept: earlier changes, oldest first.
    """
    back, forgotten, notes = [], [], []
    names = {need.name for need in needs}
    for change in reversed(kept):
        if change.name in names:
            continue
        now = value_now(change, settings)
        if now == change.after:
            back.append(replace(change, before=change.after, after=change.before, why=BACK))
        else:
            forgotten.append(change)
            if now != change.before:
                notes.append(f"{change} was changed since to {now or 'not set'}: it stays so")
    states = [need.state(settings) for need in needs]
    make = [change for state in states for change in state.changes]
    changes = (*back, *make)
    for change in tuple(back):
        if note := _formula_in_the_way(change, changes, settings):
            back.remove(change)
            notes.append(note)
    notes += [state.by_hand for state in states if state.by_hand]
    return SetupPlan(tuple(make), tuple(back), tuple(forgotten), tuple(notes))


def _formula_in_the_way(change: Change, changes: Sequence[Change], settings: PbsSettings) -> str:
    """Return why a setting cannot be undone: the final formula uses it; empty: it can."""
    # PBS does not check this: the formula would be 0 for all jobs.
    used = change.name if change.place == "resource" and not change.after else _FORMULA_NEEDS.get(change.name)
    if used is None:
        return ""
    written = {made.name: made.after for made in changes if made.place == "server"}
    created = [made.name for made in changes if made.place == "resource" and not made.after]
    formulas = {"server": written.get(FORMULA, settings.server.get(FORMULA))}
    formulas |= {f"sched {name}": found.get(FORMULA) for name, found in settings.schedulers.items()}
    for owner, formula in formulas.items():
        # The site's old formula may have used the waiting time without this setting.
        restored = owner == "server" and FORMULA in written and not any(_uses(formula, name) for name in created)
        if _uses(formula, used) and (change.place == "resource" or not restored):
            return (
                f"{change} is not done: the {FORMULA} of {owner} uses {used} and is {formula}. Change it with "
                f"qmgr -c 'set {owner} {FORMULA} = ...', then run this again"
            )
    return ""


def _uses(formula: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", formula) is not None


def value_now(change: Change, settings: PbsSettings) -> str:
    text = settings.files.get(change.file) or ""
    match change.place:
        case "server":
            return settings.server.get(change.name)
        case "resource":
            return definition(settings.resources.get(change.name, {}))
        case "switch":
            return ",".join(values_of(text, change.name))
        case "member":
            member = change.after or change.before
            return member if member in members(text, change.name) else ""


@dataclass(slots=True)
class Setup:
    """Make changes in PBS, and record them in a file.

    :param folder: of the hook's files, which only root can change.
    """

    pbs: Qmgr
    folder: Path

    def kept(self) -> list[Change]:
        """Return the changes made earlier, oldest first."""
        return changes_of(read_state(self.folder), self.folder)

    def apply(self, plan: SetupPlan) -> Iterator[str]:
        """Make the changes, and yield one line for each.

        What was before is written down before each change, so that an interruption loses nothing.

        :raises PbsError: if PBS refuses a change; the earlier ones stay and are written down.
        :raises SourceError: if others can change a sched_config; nothing is done then.
        """
        _refuse_open_files(plan.changes)
        forgotten = {change.key for change in plan.forgotten}
        kept = {change.key: change for change in self.kept() if change.key not in forgotten}
        for change in plan.changes:
            older, merged = kept.get(change.key), change
            # Otherwise the site has changed the setting since: restore the site's value.
            if older is not None and older.after == change.before:
                merged = replace(change, before=older.before)
            undone = merged.before == merged.after
            if not undone:
                self._write({**kept, change.key: merged})
            stays = change.place == "resource" and not change.after
            try:
                if not stays:
                    self._make(change)
            except (PbsError, UsageError):
                if older is not None:
                    self._write(kept)
                raise
            kept.pop(change.key, None)
            if not undone:
                kept[change.key] = merged
            self._write(kept)
            made = f"done: {change}  # {change.why}"
            yield f"stays: resource {change.name}: {STAYS.format(change.name)}" if stays else made
        if plan.forgotten:
            self._write(kept)
        for folder in dict.fromkeys(Path(change.file).parent for change in plan.changes if change.file):
            failure = sched_config.reload_scheduler(folder)
            if failure:
                yield f"to do: send SIGHUP to the scheduler of {folder}: {failure}"
            else:
                yield f"done: SIGHUP to the scheduler of {folder}  # it reads its sched_config again"

    def _write(self, kept: dict[tuple[str, str, str], Change]) -> None:
        write_state(self.folder, _CHANGES.dump_json([*kept.values()], indent=2).decode() if kept else "")

    def _make(self, change: Change) -> None:
        if change.place in ("server", "resource"):
            self.pbs.execute(statement(change))
            return
        file = Path(change.file)
        before = sched_config.read(file)
        rewritten = edited(before, change)
        if rewritten != before:
            sched_config.rewrite(file, before, rewritten)


def edited(text: str, change: Change) -> str:
    if change.place == "member" and change.after:
        return sched_config.with_member(text, change.name, change.after)
    if change.place == "member":
        return sched_config.without_member(text, change.name, change.before)
    values = change.after.split(",") if change.after else []
    if len(values) > len(lines_of(text, change.name)):
        return sched_config.with_switch(text, change.name, on=values[-1].lower() == "true")
    return sched_config.with_values(text, change.name, values)


def statement(change: Change) -> str:
    """Return the statement for qmgr that makes a change of the server or of a resource.

    :raises UsageError: if the value cannot be written in a statement.
    """
    if change.place == "resource":
        if not change.after:
            return f"delete resource {change.name}"
        if not change.before:
            return f"create resource {change.name} {change.after}"
        return f"set resource {change.name} flag = {change.after.partition('flag=')[2]}"
    if not change.after:
        return f"unset server {change.name}"
    if re.search(r"""["'\n\\]""", change.after):
        raise UsageError(f"{change.name} = {change.after}: PBS takes no quotes, backslashes and newlines in it")
    plain = re.fullmatch(r"[\w.:-]+", change.after)
    return f"set server {change.name} = " + (change.after if plain else f'"{change.after}"')


def changes_of(text: str, folder: Path) -> list[Change]:
    """Return the changes in a state file, oldest first; none for an empty text.

    :raises UsageError: if the text is not of this kind.
    """
    try:
        return _CHANGES.validate_json(text or "[]")
    except ValidationError as error:
        raise UsageError(
            f"{folder}: the file with PBS's earlier settings is damaged: {error.errors()[0]['msg']}; move it away, and "
            "set PBS's settings back by hand"
        ) from error


def _refuse_open_files(changes: Sequence[Change]) -> None:
    """Raise an error if other users can change a file to be changed, before the first change."""
    for file in dict.fromkeys(change.file for change in changes if change.file):
        # Do not suggest another owner: a scheduler with PBS_DAEMON_SERVICE_USER needs its own.
        if (found := sched_config.open_to_others(Path(file))) is not None:
            byhand = "; ".join(str(change) for change in changes if change.file == file)
            raise SourceError(
                f"nothing was changed in PBS: root does not write {file} because {found.path} {found.reason}. To do by "
                f"hand: {byhand}; then send SIGHUP to the scheduler and run this again"
            )
