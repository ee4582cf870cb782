"""PBS's fair share: the tree of entities and groups, and the usage of each as pbs_sched counts it."""

import numpy as np

from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.formula import Environment, compiled
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.shares import ENTITIES, ROOT, UNKNOWN, Entity, FairShareSettings, ShareGroup
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs

USAGE_NAMES = ("ncpus", "walltime", "cput", "mem", "nodect", "ngpus")
"""Names that an expression of the usage may use."""
_LEAST = 1.0
"""PBS's least usage (``FAIRSHARE_MIN_USAGE``)."""
_ITERATION = 600
"""Seconds from one cycle to the next while nothing happens (PBS's default of ``scheduler_iteration``)."""


class CountedUsage:
    """The usage of all entities and of the groups above them (OpenPBS, src/scheduler: fairshare.cpp, fifo.cpp).

    A cycle counts what the running jobs have used up to then; what a job used after the last cycle before its end is
    never counted.  Then all usage decays, if it is time, but not below 1.  Within the cycle a job that starts counts
    with all that it requested; the next cycle begins again with what was used.
    """

    def __init__(self, jobs: Jobs, values: Values, settings: FairShareSettings) -> None:
        """:raises OptionError: if the expression of the usage cannot be evaluated."""
        self._settings = settings
        self._job_rate, self._job_request = _usage(jobs, values, settings.usage)
        tree = _Tree(settings, entity_names(jobs.completed, settings.entity))
        self.leaf = tree.leaf
        """The position of each job's entity in ``paths``."""
        self.paths = tree.paths
        """The nodes from below the root to each entity; -1 behind the last."""
        self._share, self.percentage = tree.share, tree.percentage
        self._usage = tree.used
        self._rate = np.zeros(len(tree.share))
        self.temporary = self._usage.copy()
        """The usage of each node in the present cycle; the root is the first node."""
        self._cycle = jobs.submitted[0] if len(jobs) else 0
        self._last_decay = self._cycle if settings.decayed is None else settings.decayed

    def begin_cycle(self, now: int) -> None:
        """Count what was used since the last cycle."""
        self._usage += self._rate * (now - self._cycle)
        self._cycle = now
        period = self._settings.decay_time
        if (decays := (now - self._last_decay - 1) // period) > 0:
            self._usage = np.maximum(self._usage * self._settings.decay_factor**decays, _LEAST)
            self._last_decay += decays * period
        self.temporary = self._usage.copy()

    def requested(self, job: int) -> None:
        """Count all that a job requests until the end of the cycle."""
        self.temporary[self._nodes(job)] += self._job_request[job]

    def started(self, job: int) -> None:
        self.requested(job)
        self._rate[self._nodes(job)] += self._job_rate[job]

    def ended(self, job: int, now: int) -> None:
        nodes, rate, elapsed = self._nodes(job), self._job_rate[job], now - self._cycle
        self._usage[nodes] += rate * (elapsed - elapsed % _ITERATION)
        self._rate[nodes] -= rate

    def _nodes(self, job: int) -> Integers:
        path = self.paths[self.leaf[job]]
        # The root is node 0, the last one in the path of none.
        return np.append(path[path >= 0], 0)

    def factors(self) -> Floats:
        """Return ``fairshare_tree_usage`` of each node: its part of the usage, mixed with that of its group."""
        part: Floats = self._usage / self._usage[0]
        factor = part.copy()
        for depth in range(1, self.paths.shape[1]):
            # Parents come before their children.
            parents, nodes = self.paths[:, depth - 1], self.paths[:, depth]
            parents, nodes = parents[nodes >= 0], nodes[nodes >= 0]
            factor[nodes] = part[nodes] + (factor[parents] - part[nodes]) * self._share[nodes]
        return factor


class _Tree:
    """Groups and entities as nodes, parents first.

    ``share``: of its group, ``percentage``: of the whole (0 to 1), ``used``: at the begin.
    """

    def __init__(self, settings: FairShareSettings, names: list[str]) -> None:
        groups = [ShareGroup(UNKNOWN, ROOT, settings.unknown_shares), *settings.groups]
        listed = {group.name for group in groups}
        entities = list(dict.fromkeys(names))
        # Those who have used something have shares of the unknown, whether they have jobs or not.
        known = dict.fromkeys([*entities, *(name for name, _ in settings.used)])
        groups += [ShareGroup(name, UNKNOWN, 1) for name in known if name not in listed]
        node = {group.name: number for number, group in enumerate(groups, 1)}
        parents = [-1, *(0 if group.parent == ROOT else node[group.parent] for group in groups)]
        total = np.zeros(len(parents))
        np.add.at(total, parents[1:], [float(group.shares) for group in groups])
        self.share, self.percentage = np.zeros(len(parents)), np.zeros(len(parents))
        self.percentage[0] = 1.0
        path_of: list[list[int]] = [[]]
        for number, group in enumerate(groups, 1):
            self.share[number] = group.shares / total[parents[number]] if total[parents[number]] else 0.0
            self.percentage[number] = self.share[number] * self.percentage[parents[number]]
            path_of.append([*path_of[parents[number]], number])
        self.used = np.full(len(parents), _LEAST)
        for name, used in settings.used:
            *above, own = path_of[node[name]]
            self.used[own] = used
            self.used[[0, *above]] += used
        paths = [path_of[node[name]] for name in entities]
        depth = max(map(len, paths), default=1)
        self.paths = np.array([path + [-1] * (depth - len(path)) for path in paths], np.int64).reshape(-1, depth)
        position = {name: index for index, name in enumerate(entities)}
        self.leaf = np.array([position[name] for name in names], np.int64)


def entity_names(records: JobColumns, entity: Entity) -> list[str]:
    """Return the name of each job's entity; group:user where it has none, as in PBS."""
    named = [":".join(parts) for parts in records.rows(*ENTITIES[entity])]
    others = (f"{group}:{user}" for group, user in records.rows("group", "user"))
    return [name or other for name, other in zip(named, others, strict=True)]


def _usage(jobs: Jobs, values: Values, expression: str) -> tuple[Floats, Floats]:
    """Return what each job uses in a second, and what it requests.

    A job whose record has no cput has used its processors all the time; nobody requests cput.
    """
    evaluate = compiled(expression, USAGE_NAMES)
    records = jobs.completed
    runtime, processors = np.array(jobs.runtime, np.float64), jobs.requested
    cput = records.numbers("cput").astype(np.float64)
    size = records.numbers("mem", 0) / 1024
    used = records.numbers("mem_used").astype(np.float64)
    names = ("nodect", "ngpus")
    same: Environment = {"ncpus": processors}
    same |= {name: records.numbers(name, 0).astype(np.float64) for name in names}
    took: Environment = {
        "walltime": runtime, "cput": np.where(cput < 0, processors * runtime, cput),
        "mem": np.where(used < 0, size, used / 1024),
    }  # fmt: skip
    request: Environment = {"walltime": values.limit_array.astype(np.float64), "cput": 0.0, "mem": size}
    with np.errstate(all="ignore"):
        total, requested = (
            np.nan_to_num(np.broadcast_to(evaluate(same | columns), runtime.shape), posinf=0.0)
            for columns in (took, request)
        )
    return np.maximum(total, 0.0) / runtime, requested
