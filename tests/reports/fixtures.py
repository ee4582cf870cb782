"""Reports on jobs written out in a test."""

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.workload import Workload
from softwalltime.reports.before_after import Columns, make_columns
from softwalltime.reports.page import Origin, render
from softwalltime.reports.report_figures import Report, ReportOptions, make_report
from tests.samples import job

SPECS = ("request", "v1", "v2", "v3", "v4", "percentile")
DAY = 86400


def table(jobs: Sequence[CompletedJob]) -> Columns:
    """The columns of these jobs."""
    return make_columns(Workload(jobs))


def made(jobs: Sequence[CompletedJob], **more: Any) -> Report:
    """The report on these jobs."""
    return make_report(Workload(jobs), ReportOptions(SPECS, **more))


def page(found: Report, **more: Any) -> str:
    """The page of a report."""
    return render(found, Origin(more.pop("sources", ()), **more))


def steady_jobs(count: int, *, users: int = 5, share: float = 0.2, days: float = 60, **more: Any) -> list[CompletedJob]:
    """Jobs that use about the same share of their walltimes, from several users, over so many days."""
    step = days * DAY / count
    found = []
    for number in range(count):
        walltime = (3600, 7200, 86400)[number % 3]
        runtime = max(1, int(walltime * share * (0.9 + 0.2 * (number * 7919 % 101) / 100)))
        fields = {"queue": f"q{number % 2}", "project": f"p{number % 3}", "ncpus": 1 + number % 7} | more
        found.append(
            job(
                f"user{number % users}", submitted=int(number * step), runtime=runtime, walltime=walltime,
                job_id=f"{number}.srv", **fields,
            )
        )  # fmt: skip
    return found


class Elements(HTMLParser):
    """Every element of a page with its attributes; fails where tags do not nest."""

    VOID = frozenset({"meta", "br", "wbr"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]
