"""The pages of ``softwalltime web``: what ``softwalltime me`` prints, for a browser, without scripts."""

import base64
import hashlib
import os
import pwd
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from flask import Flask, Response, abort, g, render_template, request
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException

from softwalltime.accounting.conversions import duration as seconds_of
from softwalltime.accounting.conversions import whole
from softwalltime.cli import me, me_plan
from softwalltime.cli.daemon import ask_status
from softwalltime.cli.overview import overview
from softwalltime.cli.qsub_options import JobRequest
from softwalltime.cli.web_staff import Section, Staff, staff_sections
from softwalltime.core.errors import SoftwalltimeError, UsageError
from softwalltime.core.formatting import duration, local_time, moment, printable, time_range
from softwalltime.core.settings import Settings
from softwalltime.core.text_table import TextTable
from softwalltime.service.status_problems import problems
from softwalltime.service.users.own_jobs import SOCKET, OwnJobs, ask_own_jobs
from softwalltime.service.users.rate_limit import RateLimit

MAX_PAGE_ROWS = 100
"""Maximum rows of a table on one page; 100 waiting jobs are 80 kB."""
RATE, BURST = 5.0, 50.0
"""Rate limit for one user: pages per second, and burst."""
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\$+-]{0,127}", re.ASCII)
"""A user's name; two headers, which a server joins by a comma, are none."""
T = TypeVar("T")


def make_app(settings: Settings | None, jobs_socket: Path = SOCKET) -> Flask:
    """Return the application.

    :param settings: those of ``softwalltime web``, for the users whom the reverse proxy names; ``None``: for this
        process's user alone, as a portal starts it for each user.
    :param jobs_socket: socket of the process that shows users their jobs.
    """
    own = "" if settings else pwd.getpwuid(os.getuid()).pw_name
    members = Staff(settings.web_staff if settings else "")
    app = Flask("softwalltime.cli", static_folder=None, template_folder="pages")
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.jinja_options = {
        "autoescape": True, "undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True,
    }  # fmt: skip
    style = files("softwalltime.cli").joinpath("pages", "web.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    headers = {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }  # fmt: skip
    app.jinja_env.filters |= {
        "iso": lambda epoch: moment(epoch).isoformat(), "relative": _relative, "printable": printable,
        "duration": duration, "local_time": local_time, "time_range": time_range,
    }  # fmt: skip
    limit = RateLimit(RATE, BURST)

    @app.before_request
    def log_in() -> None:
        g.now, g.user = int(time.time()), ""
        name = own
        if settings and not USER.fullmatch(name := request.headers.get(settings.web_header, "")):
            missing = f"The reverse proxy named no user in the header {settings.web_header}"
            abort(403, f"{missing}: tell your administrators.")
        g.user, instant = name, monotonic()
        limit.forget(instant)
        if not limit.take(name, instant):
            abort(429, "Asked too often: wait some seconds.")

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(headers)
        return response

    @app.context_processor
    def common() -> dict[str, Any]:
        here = datetime.fromtimestamp(g.now).astimezone()
        # The path of a reverse proxy is not known here.  A portal passes its own, and asks without a slash at the end.
        root = f"{request.script_root}/" if request.script_root else "./"
        pages = {root: "My jobs", f"{root}queue": "The queue"}
        pages |= {f"{root}staff": "Staff"} if g.user in members else {}
        zone = f"{here:%Z} (UTC{here.isoformat()[-6:]})"
        return {"style": style, "now": g.now, "user": g.user, "zone": zone, "addresses": pages}

    def asked() -> OwnJobs:
        # The kernel names this process's user.
        return ask_own_jobs(jobs_socket, "" if own else g.user)

    @app.get("/")
    def jobs() -> str:
        return _jobs_page(me.completed(asked(), g.now))

    @app.get("/queue")
    def queue() -> str:
        return _queue_page(asked())

    @app.get("/staff")
    def staff() -> str:
        if settings is None or g.user not in members:
            abort(403, "This page is for the staff: the setting web_staff names it.")
        return _staff_page(settings)

    @app.errorhandler(SoftwalltimeError)
    def failed(error: SoftwalltimeError) -> tuple[str, int]:
        return render_template("message.html", title="Not available", message=str(error)), 503

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> tuple[str, int]:
        text = error.description or ""
        return render_template("message.html", title=error.name, message=text), error.code or 500

    return app


def _jobs_page(jobs: OwnJobs) -> str:
    now = g.now
    ended = f"The last jobs that ended, of {jobs.ended_jobs:,} in {jobs.days} days"
    sections = [
        _section("Waiting jobs", list(me.waiting_lines(jobs.waiting)), "waiting", me.waiting_table),
        _section("Running jobs", jobs.running, "running", me.running_table),
        _section(ended, jobs.ended[: me.MAX_ENDED_JOBS], "ended", me.ended_table),
    ]
    return render_template(
        "jobs.html", jobs=jobs, sections=[part for part in sections if part.table.rows], first=me.next_job(jobs),
        summary=me.summary(jobs, now), warnings=list(me.warnings_of(jobs, now)), advice=list(me.advice(jobs)),
    )  # fmt: skip


def _queue_page(jobs: OwnJobs) -> str:
    now = g.now
    probes = [probe for probe in jobs.probes if probe.submit_to]
    shown: dict[str, Any] = {"answer": None, "problem": ""}
    try:
        if (asked := _asked()) and probes:
            answer = me_plan.plan(jobs.probes, asked, now)
            shown["answer"] = Section("What starts sooner", me_plan.plan_table(answer, now))
            shown["planned"] = list(me_plan.planned(answer, asked, now))
            shown["start"] = me_plan.start_cell(answer[0].expected, now)
    except UsageError as error:
        shown["problem"] = str(error)
    return render_template(
        "queue.html", **shown, warnings=list(me.warnings_of(jobs, now)), args=request.args, texts=me_plan,
        made=me_plan.made(probes, now) if probes else "",
        queues=sorted({name for probe in probes for name in probe.submit_to}),
        windows=Section("Next free window, by number of processors", me_plan.windows_table(probes, now), "plain"),
        waits=[Section(title, table, "heat") for title, table in me_plan.waits_tables(probes, now)],
    )  # fmt: skip


def _staff_page(settings: Settings) -> str:
    now, sections = g.now, list[Section]()
    status, store_problem, daemon_problem = None, "", ""
    try:
        status = ask_status(settings.socket)
    except SoftwalltimeError as error:
        daemon_problem = str(error)
    try:
        sections = list(staff_sections(settings.dsn, now))
    except SoftwalltimeError as error:
        store_problem = str(error)
    return render_template(
        "staff.html", status=status, problems=problems(status) if status else [], daemon_problem=daemon_problem,
        groups=overview(status, now) if status else {}, sections=sections, store_problem=store_problem,
    )  # fmt: skip


def _asked() -> JobRequest | None:
    """Return the job of the form; ``None``: it is empty."""
    processors, walltime, queue = (request.args.get(name, "").strip() for name in ("processors", "walltime", "queue"))
    if not (processors or walltime or queue):
        return None
    try:
        return JobRequest(queue, whole(processors or "1"), seconds_of(walltime) if walltime else None, ())
    except ValueError as error:
        raise UsageError(f"{error}: write processors as 32 and the walltime as 4:00:00") from error


def _section(caption: str, rows: Sequence[T], query: str, table: Callable[[Sequence[T], int], TextTable]) -> Section:
    """Return the page of a table that the address asks for, the last one if there are fewer."""
    pages = max(-(-len(rows) // MAX_PAGE_ROWS), 1)
    page = min(max(request.args.get(query, 1, type=int), 1), pages)
    shown = rows[(page - 1) * MAX_PAGE_ROWS : page * MAX_PAGE_ROWS]
    return Section(caption, table(shown, g.now), "cards", query, page, pages)


def _relative(epoch: int, now: int) -> str:
    return f"in {duration(epoch - now)}" if epoch >= now else f"{duration(now - epoch)} ago"
