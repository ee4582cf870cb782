"""Which walltime PBS gives to a job without one, by queue."""

from softwalltime.measure.forecast.snapshot import QueueSettings, SchedulerSettings, ServerSnapshot, default_walltimes

QUEUES = (
    QueueSettings("own", True, True, True, default_walltime=60, max_walltime=90),
    QueueSettings("bounded", True, True, True, max_walltime=900),
    QueueSettings("free", True, True, True),
    QueueSettings("route", False, True, True, default_walltime=60),
)


def snapshot(server: int | None) -> ServerSnapshot:
    return ServerSnapshot(0, "pbs", "23.06", (), (), QUEUES, (), SchedulerSettings(default_walltime=server))


def test_the_queues_default_comes_before_the_servers_and_the_queues_maximum() -> None:
    assert default_walltimes(snapshot(None)) == {"own": 60, "bounded": 900}
    assert default_walltimes(snapshot(300)) == {"own": 60, "bounded": 300, "free": 300, "*": 300}
