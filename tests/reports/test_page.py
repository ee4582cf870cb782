"""The page: complete, self-contained, the same every time, readable by everyone, and safe whatever the names are."""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.differences import Interval
from softwalltime.reports.page import whole_options
from softwalltime.reports.pseudonyms import Pseudonyms
from softwalltime.reports.recommendation import Verdict
from softwalltime.reports.report_figures import Report, ReportOptions, make_report
from softwalltime.reports.simulation import SimulationFigures, SimulationOptions
from softwalltime.reports.waits_by_class import ClassWaits
from tests.browser import browser
from tests.reports.fixtures import SPECS, Elements, made, page, steady_jobs
from tests.samples import job

HEADINGS = [
    "What would it do to waiting?",
    "1. Who would wait longer, who shorter?",
    "2. How accurate are the users\N{RIGHT SINGLE QUOTATION MARK} walltimes?",
    "3. How accurate would each predictor have been?",
    "4. Recommendation",
    "5. About these figures",
]


@pytest.fixture(scope="module")
def full() -> Report:
    """A report in which nothing is missing."""
    return made(steady_jobs(1500))


@pytest.fixture(scope="module")
def html(full: Report) -> str:
    return page(full)


def test_the_sections_are_in_order(html: str) -> None:
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", html) == HEADINGS
    assert html.index('class="verdict') < html.index("<nav"), "the answer comes first"


def test_the_figure_has_a_caption_and_a_text_alternative(html: str) -> None:
    elements = Elements(html)
    identified = {attributes["id"] for _, attributes in elements.found if "id" in attributes}
    (picture,) = (attributes for _, attributes in elements.found if attributes.get("role") == "img")
    labels = picture["aria-labelledby"].split()
    assert len(labels) == 2
    assert set(labels) <= identified
    assert len(elements.named("figure")) == len(elements.named("figcaption")) == 1
    heights = re.findall(r'<i style="height: ([\d.]+)%">', html)
    assert len(heights) == 40
    assert max(map(float, heights)) == 100
    assert "half of the jobs use at most" in html[html.index('id="r-distribution-alt"') :]


def test_ids_are_unique_and_references_resolve(html: str) -> None:
    elements = Elements(html)
    counted = Counter(attributes["id"] for _, attributes in elements.found if "id" in attributes)
    assert [name for name, count in counted.items() if count > 1] == []
    references = set(re.findall(r'href="#([^"]+)"', html))
    assert len(references) == 5
    assert references <= set(counted)


def test_the_page_loads_nothing(html: str) -> None:
    elements = Elements(html)
    loading = {"link", "img", "iframe", "object", "embed", "audio", "video", "base", "image", "foreignobject"}
    assert loading.isdisjoint(name for name, _ in elements.found)
    assert elements.named("script") == []
    for _, attributes in elements.found:
        for name in ("src", "href", "xlink:href", "srcset", "data", "action"):
            assert attributes.get(name, "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_colors_are_css_variables_of_the_page(html: str) -> None:
    body = html.partition("</style>")[2]
    assert re.findall(r"#[0-9a-f]{6}\b(?=[;\"])", body) == []
    used = set(re.findall(r"var\(--([\w-]+)\)", html))
    themes = re.findall(r":root \{(.*?)\}", html, re.DOTALL)
    assert len(themes) == 3
    for theme in themes:
        assert used - {"tone"} <= set(re.findall(r"--([\w-]+):", theme))


def test_in_a_browser_nothing_overflows_and_axe_finds_no_fault(html: str) -> None:
    with browser() as chromium:
        assert chromium.faults(html) == []


def test_tables_have_captions_and_scoped_headers(html: str) -> None:
    elements = Elements(html)
    assert len(elements.named("table")) == len(elements.named("caption"))
    assert all(head.get("scope") in ("col", "row", "rowgroup") for head in elements.named("th"))
    assert elements.named("html")[0]["lang"] == "en"
    assert len(elements.named("title")) == 1


def test_the_same_jobs_give_the_same_page_byte_for_byte() -> None:
    jobs = steady_jobs(300)
    assert page(made(jobs)) == page(made(jobs))


def test_the_recommendation_is_in_the_page_with_its_policy(full: Report, html: str) -> None:
    text = Elements(html).text
    assert text.count(full.recommendation.sentence) == 2
    assert "waits were not simulated" in text
    assert "workloads" not in full.recommendation.sentence


HOSTILE = (
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "$\\frac{1}{0}$", "a&b;\"'",
    "\u202eevil\x1b[31m", "計算", "]]>", "<!--", "x" * 300,
)  # fmt: skip


def test_hostile_names_are_escaped() -> None:
    jobs = [
        job(
            name, submitted=n * 600 + k * 14_400, runtime=300 + 20 * k, walltime=3600, queue=name, project=name,
            account=name, job_id=f"{n}{k}.srv", ncpus=2,
        )
        for k in range(120)
        for n, name in enumerate(HOSTILE)
    ]  # fmt: skip
    simulation = SimulationOptions(processors=20, seeds=(31, 32), processes=1)
    html = page(made(jobs, simulation=simulation), sources=("</title><script>", "/tmp/<b>"))
    elements = Elements(html)
    assert elements.named("script") == []
    assert elements.named("img") == []
    assert "{{ 7 * 7 }}" in elements.text
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "計算" in html
    assert all(name in elements.text for name in (HOSTILE[0], HOSTILE[3]))
    assert html.encode("utf-8")


def test_with_pseudonyms_no_name_is_left_anywhere() -> None:
    fields = {"account": "secretaccount", "group": "secretgroup", "job_name": "secretname"}
    jobs = steady_jobs(1200, **fields)
    hidden = [
        job(
            f"secretuser{n % 7}", submitted=one.submission.submitted, runtime=one.runtime, job_id=f"{n}.secretserver",
            walltime=one.submission.walltime, project=f"secretproject{n % 3}", queue=f"q{n % 2}",
            ncpus=1 + n % 7, **fields,
        )
        for n, one in enumerate(jobs)
    ]  # fmt: skip
    pseudonyms = Pseudonyms(b"0123456789abcdef")
    options = ReportOptions(SPECS, simulation=SimulationOptions(processors=10, seeds=(31, 32), processes=1))
    found = make_report(Workload(hidden), options, pseudonyms)
    assert isinstance(found.simulation, SimulationFigures)
    html = page(found, pseudonyms=True)
    assert "secret" not in html
    assert pseudonyms("user", "secretuser3") in html
    assert "Names are pseudonyms" in html


def no_walltimes() -> list[CompletedJob]:
    return [job(submitted=n, walltime=None, job_id=f"{n}.srv") for n in range(50)]


FEW: dict[str, Callable[[], list[CompletedJob]]] = {
    "one job": lambda: [job()],
    "one job of one second": lambda: [job(runtime=1, walltime=1)],
    "two jobs": lambda: [job(), job(submitted=1)],
    "no walltimes": no_walltimes,
    "nothing ran": lambda: [job(submitted=n, runtime=0) for n in range(30)],
    "one user": lambda: steady_jobs(40, users=1, queue="q", project="p"),
    "exact walltimes": lambda: [job(submitted=n * 600, runtime=3600, walltime=3600) for n in range(40)],
    "no processors": lambda: steady_jobs(40, ncpus=None),
    "no starts": lambda: steady_jobs(40, start=None, soft_walltime=100),
    "all adjusted": lambda: steady_jobs(40, soft_walltime=100),
    "years of seconds": lambda: [
        job(submitted=10**11 + n, end=10**12 - 1, runtime=10**9, walltime=10**10) for n in range(12)
    ],
    "one moment": lambda: [job(submitted=5, runtime=100, job_id=f"{n}.srv") for n in range(40)],
}


@pytest.mark.parametrize("jobs", FEW.values(), ids=FEW)
def test_missing_figures_are_explained(jobs: Callable[[], list[CompletedJob]]) -> None:
    html = page(made(jobs()))
    elements = Elements(html)
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", html) == HEADINGS
    assert "Cannot tell whether soft walltimes would help" in elements.text
    absent = html.count('class="absent"')
    pictures = sum(attributes.get("role") == "img" for _, attributes in elements.found)
    assert pictures + absent >= 3


def test_an_absent_figure_gives_the_reason() -> None:
    text = Elements(page(made(no_walltimes()))).text
    assert "No job both ran and had a walltime" in text
    assert "No setting was simulated" not in text


def test_a_thousand_users_fit_on_the_page() -> None:
    jobs = [
        job(
            f"u{n % 1000}",
            submitted=n * 60,
            runtime=60 + n % 3000,
            walltime=3600,
            project=f"p{n % 400}",
            job_id=f"{n}.srv",
        )
        for n in range(10_000)
    ]
    html = page(made(jobs))
    assert len(html) < 1_000_000


def test_progress_adds_up_to_all_the_work() -> None:
    for jobs in (steady_jobs(300), no_walltimes()):
        totals: list[int] = []
        done: list[int] = []

        def show(_title: str, total: int, totals: list[int] = totals, done: list[int] = done) -> Any:
            totals.append(total)
            return nullcontext(done.append)

        make_report(Workload(jobs), ReportOptions(SPECS), show=show)
        assert sum(done) == sum(totals) == len(SPECS) * len(jobs)


@pytest.fixture(scope="module")
def crowded() -> Report:
    """A report with a simulation in which jobs wait."""
    simulation = SimulationOptions(processors=20, seeds=(31, 32, 33), processes=1)
    return made(steady_jobs(1200, days=20), simulation=simulation)


def test_the_simulation_stands_on_the_first_screen_with_intervals_and_its_population(crowded: Report) -> None:
    simulation = crowded.simulation
    assert isinstance(simulation, SimulationFigures)
    html = page(crowded)
    text = Elements(html).text
    first = html[: html.index("<nav")]
    assert "safe" in first
    tiles = ("mean wait, as recorded and as simulated", "requested walltime that jobs use")
    assert first.index(tiles[0]) < first.index(tiles[1]), "the first tile"
    assert "Simulated with 1,200 jobs" in text
    assert "on 20 processors" in text
    assert (simulation.baseline.wait_mean or 0) > 60
    assert len(simulation.settings) >= 2
    change = simulation.settings[0].changes["wait_mean"]
    assert change.mean is not None
    assert (change.low or 0) <= change.mean <= (change.high or 0)


def changed_wait(waits: ClassWaits, change: Interval, difference: Interval) -> ClassWaits:
    """The waits of a class with another change of the mean wait."""
    return replace(
        waits,
        changes={**waits.changes, "wait_mean": change},
        differences={**waits.differences, "wait_mean": difference},
    )


def test_who_waits_longer_and_who_shorter_is_in_a_table_for_each_kind_of_class(crowded: Report) -> None:
    simulation = crowded.simulation
    assert isinstance(simulation, SimulationFigures)
    few = replace(simulation.classes["size"][0], jobs=9)
    classes = simulation.classes | {"size": (few, *simulation.classes["size"][1:])}
    first, *others = simulation.settings
    growing = Interval(0.5, 0.4, 0.6)
    longer = changed_wait(first.classes["queue"][0], growing, Interval(3600, 3500, 3700))
    tiny = changed_wait(first.classes["size"][0], growing, longer.differences["wait_mean"])
    of_first = first.classes | {"queue": (longer, *first.classes["queue"][1:]), "size": (tiny,)}
    of_first["size"] += first.classes["size"][1:]
    changed = replace(simulation, classes=classes, settings=(replace(first, classes=of_first), *others))
    html = page(replace(crowded, simulation=changed))
    captions = re.findall(r"<caption>Mean wait by (.*?)</caption>", html)
    assert captions == ["runtime", "size", "queue", "user"], "all jobs were submitted in one month"
    assert "All simulated jobs are of one month of submission." in html
    section = html[html.index('id="who"') : html.index('id="walltimes"')]
    assert section.count("<small>few jobs</small>") == 1
    assert '<td class="longer">' in section[section.index("by queue</caption>") :]
    assert "Without a mark the change is below 1 min or within its interval." in section
    sizes = section[section.index("by size</caption>") : section.index("by queue</caption>")]
    tiny_row = sizes[sizes.index('<tr class="small">') :]
    assert 'longer">' not in tiny_row[: tiny_row.index("</tr>")], "a small class is never marked"
    assert {one.name for one in simulation.classes["user"]} == {f"user{number}" for number in range(5)}
    q0 = first.classes["queue"][0]
    assert q0.name == "q0"
    change = q0.changes["wait_mean"]
    assert (change.low or 0) <= (change.mean or 0) <= (change.high or 0)


def test_the_first_screen_says_who_gains_in_hours_and_words(crowded: Report) -> None:
    simulation = crowded.simulation
    assert isinstance(simulation, SimulationFigures)
    balanced = next(one for one in simulation.settings if one.setting.name == "balanced, live values off")
    falling = Interval(-0.4, -0.5, -0.3)
    gains = tuple(changed_wait(one, falling, Interval(-900, -950, -850)) for one in balanced.classes["queue"])
    chosen = replace(
        balanced,
        as_submitted=Interval(-0.25),
        classes={**balanced.classes, "queue": gains},
        metrics=replace(balanced.metrics, wait_mean=(simulation.baseline.wait_mean or 0) - 3600),
    )
    advice = replace(crowded.recommendation, verdict=Verdict.ON, waits=chosen)
    text = Elements(page(replace(crowded, recommendation=advice))).text
    assert "Shorter waits for jobs" in text[: text.index("What would it do to waiting?")]
    # An hour for each of the 1,200 jobs of less than a month.
    assert "1,200 hourssummed over the 1,200 jobs" in " ".join(text.split())
    assert "95% interval; \N{MINUS SIGN}25.0% as submitted" in text


def test_the_next_steps_name_commands_and_the_guard(crowded: Report) -> None:
    simulation = crowded.simulation
    assert isinstance(simulation, SimulationFigures)
    by_name = {one.setting.name: one for one in simulation.settings}
    for name, guarded in (("safe", True), ("balanced, live values off", False), ("waiting v3, with guard", True)):
        advice = replace(crowded.recommendation, verdict=Verdict.ON, waits=by_name[name])
        text = Elements(page(replace(crowded, recommendation=advice))).text
        steps = text[text.index("Next steps") :]
        for step in (
            "--write plan.toml", "softwalltime policy set plan.toml --apply", "softwalltime verify plan.toml",
            "softwalltime policy set off --apply",
        ):  # fmt: skip
            assert step in steps
        assert ("the manager right that live values need for the guard" in steps) == guarded


def test_each_figure_names_its_jobs(html: str) -> None:
    assert html.count('class="population"') == 1
    assert "Jobs: all 1,500 scored jobs." in html


def test_waits_that_were_not_simulated_are_left_out_with_the_reason(html: str) -> None:
    text = Elements(html).text
    assert "Waits were not simulated: --no-simulation or --simulated-jobs 0 was given" in text
    assert "Switch on" not in text[: text.index("Reasons")]


def test_without_predictors_the_page_still_shows_the_walltimes() -> None:
    html = page(make_report(Workload(steady_jobs(1200)), ReportOptions(("request",))))
    text = Elements(html).text
    assert "Waits were not simulated" in text


def test_options_in_sentences_stay_on_one_line_and_text_stays_text() -> None:
    assert whole_options("<b> --no-x gives it.") == '&lt;b&gt; <code class="option">--no-x</code> gives it.'


def test_without_processors_nothing_is_said_of_cpu_hours() -> None:
    text = Elements(page(made(steady_jobs(1200, ncpus=None)))).text
    assert "CPU hours requested, not used" not in text
    assert "hours of walltime requested, not used" in text
    assert "hours of runtime" in text
    assert text.count("Most records hold no number of processors.") == 1
    assert "CPU hours requested, not used" in Elements(page(made(steady_jobs(1200)))).text
