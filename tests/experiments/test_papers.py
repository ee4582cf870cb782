"""The experiments on a small synthetic workload: what is compared with what, and that the tables hold together."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from softwalltime.cli.experiment import PAPERS
from softwalltime.measure.experiments import chlumsky2022, fan2017, li2004, rubio2021, tang2013
from softwalltime.measure.experiments.li2004 import actual_runtimes, forward, probes_of, states, waits_of
from softwalltime.measure.experiments.papers import Claim, paper_text
from softwalltime.measure.experiments.plan import INTRODUCTION, PLAN
from softwalltime.measure.experiments.result_tables import PaperResults, Table
from softwalltime.measure.experiments.study import Study, months_of, study_of
from softwalltime.measure.experiments.trials import WHOLE, part_of
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import RUNTIME, WALLTIME, SchedulerPolicy
from softwalltime.measure.workloads.synthetic import START
from tests.samples import ROOT, job


@pytest.fixture(scope="module")
def studies(study: Study, small_study: Study) -> dict[str, Study]:
    first = study_of("synthetic", study.completed, 4, limit=250)
    return dict.fromkeys(PAPERS, study) | {"fan2017": small_study, "li2004": first}


@pytest.fixture(scope="module")
def reports(studies: dict[str, Study]) -> dict[str, PaperResults]:
    with pytest.MonkeyPatch.context() as patch:
        # The forest and the SVR would take 20 s; they have tests of their own.
        patch.setattr(fan2017, "COMPARED", ("last2", fan2017.ADJUSTED))
        return {name: module(name).repeat(study) for name, study in studies.items()}


def module(name: str) -> ModuleType:
    return import_module(f"softwalltime.measure.experiments.{name}")


def rows(report: PaperResults, key: str) -> list[dict]:
    table = next(table for table in report.tables if table.key == key)
    return list(table.document().rows)


def tables(reports: dict[str, PaperResults]) -> Iterator[Table]:
    for report in reports.values():
        yield from report.tables


@pytest.mark.parametrize("name", list(PAPERS))
def test_a_report_says_what_was_simulated_and_what_differs(
    reports: dict[str, PaperResults], name: str, studies: dict[str, Study]
) -> None:
    report = reports[name]
    assert report.paper == name
    assert report.jobs == len(studies[name].jobs)
    assert len(report.differences) >= 3
    assert len({table.key for table in report.tables}) == len(report.tables) >= 2
    text = "\n".join(part if isinstance(part, str) else part.markdown() for part in report.parts())
    for table in report.tables:
        assert table.title in text
    assert "Differences from the paper:" in text
    for missing in report.unavailable:
        assert f"Not available: {missing}" in text
    json.dumps(asdict(report.document()), allow_nan=False)


def test_every_table_has_rows_and_names_the_published_figures_source(reports: dict[str, PaperResults]) -> None:
    for table in tables(reports):
        # The synthetic users submit no batches.
        assert table.rows or table.key == "fig3", table.key
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert len({column.key for column in table.columns}) == len(table.columns)
        if "published" in {column.key for column in table.columns}:
            assert any(word in table.published for word in ("figure", "table", "section")), table.key
            assert any(row[-1] for row in table.rows), f"{table.key}: no row has a published figure"


def test_every_table_has_its_texts_and_every_claim_its_figures(reports: dict[str, PaperResults]) -> None:
    for name, report in reports.items():
        text = paper_text(name)
        assert {table.key for table in report.tables} == set(text.tables)
        for claim in text.claims:
            verdict = claim.verdict(name, [report])
            # The log of Fan's study ends in the eighth week.
            short = "observation3" in str(claim.figures)
            assert (verdict.verdict == "not testable") == (short or not claim.figures), verdict
            assert verdict.ours or short


def test_a_claim_holds_where_its_figures_do_and_changes_are_beyond_chance(study: Study) -> None:
    def result(source: str, low: float, high: float, ratio: float) -> PaperResults:
        rows = [("new", Interval((low + high) / 2, low, high), ratio), ("old", None, 1.0)]
        table = Table("t", ("name", "change||change", "wait||number"), rows)
        return replace(replace(study, source=source).results("li2004", ()), tables=(table,))

    sure, chance = result("sure", -0.4, -0.2, 3.0), result("chance", -0.7, 0.1, 1.5)
    shorter = Claim("a", "-50%", "{:change}", ("t, change, name=new",), ((-1, -0.25),))
    assert shorter.verdict("p", [sure]).verdict == "held"
    assert shorter.verdict("p", [chance]).verdict == "not held"
    both = shorter.verdict("p", [sure, chance])
    assert both.verdict == "held on sure only"
    assert both.ours == "sure: -30.0% [-40.0%, -20.0%]; chance: -30.0% [-70.0%, +10.0%]"
    assert shorter.verdict("p", []).verdict == "not testable"
    of_none = Claim("a", "", "{:change}", ("t, change, name=old",), ((-1, -0.25),))
    assert of_none.verdict("p", [sure]).verdict == "not testable"
    waits = ("t, wait, name=new", "t, wait, name=old")
    assert Claim("a", "", "{:number} {:number}", waits, ratio=2.0).verdict("p", [sure, chance]).verdict == (
        "held on sure only"
    )
    assert Claim("a", "", "{:number} {:number}", waits).verdict("p", [sure]).verdict == "not held", "not the least"


def test_the_page_has_every_claim_and_every_run() -> None:
    page = (ROOT / "daemon/softwalltime/measure/experiments/RESULTS.md").read_text()
    assert page.startswith(f"<!-- Written by: softwalltime experiment all TRACES -->\n{INTRODUCTION}\n| paper ")
    for run in PLAN:
        text = paper_text(run.paper)
        assert f"\n## {text.citation}: {run.source}\n" in page
        for claim in text.claims:
            assert f"| {run.paper}" in page
            assert f"| {claim.text} " in page
        for table in text.tables.values():
            assert f"\n### {table.title}\n" in page


def test_the_same_study_gives_the_same_report(small_study: Study) -> None:
    assert rubio2021.repeat(small_study).document() == rubio2021.repeat(small_study).document()


def test_tang_adjusts_all_jobs_or_only_waiting_ones(study: Study) -> None:
    policies = tang2013.policies()
    assert len(policies) == 2 * (1 + 2 * 3)
    for name, policy in policies.items():
        if "baseline" in name:
            assert policy.waiting == policy.running == policy.ordering == WALLTIME
        else:
            assert policy.waiting == policy.ordering
            assert "keys=user+project+walltime,window=30d" in policy.waiting
            assert policy.running == (policy.waiting if "regular" in name else WALLTIME)


def test_tang_figures_4_to_10_add_up(reports: dict[str, PaperResults]) -> None:
    report = reports["tang2013"]
    found = rows(report, "fig4_5")
    assert [row["keys"] for row in found if row["percentile"] in ("", "p85")] == ["walltime", *tang2013.KEYS]
    for row in found:
        assert row["na"] + row["oe"] + row["ue"] + row["be"] == pytest.approx(1)
    under = [row["ue"] + row["be"] for row in found if row["keys"] == "user"]
    assert under == sorted(under), "the lower the percentile, the more jobs are underestimated"
    for row in rows(report, "fig6_7"):
        assert row["ue_threshold"] + row["be_threshold"] <= row["ue"] + row["be"]
    windows = {row["window"] for row in rows(report, "fig8_10")}
    assert windows == {"all", "1 months", "2 months", "3 months", "6 months", "12 months"}


def test_tang_walltimes_and_curves(reports: dict[str, PaperResults], study: Study) -> None:
    report = reports["tang2013"]
    used = np.minimum(np.array(study.jobs.runtime) / np.array(study.jobs.walltime), 1)
    half = next(row for row in rows(report, "fig1") if row["r"] == "0.5")
    assert half["share"] == pytest.approx((used <= 0.5).mean())
    *quarters, whole = rows(report, "fig2")
    assert sum(row["jobs"] for row in quarters) == whole["jobs"] == len(used)
    assert whole["r"] == pytest.approx(used.mean())
    curve = rows(report, "fig11")
    for name in ("original", "p100", "p85", "p50"):
        values = [row[name] for row in curve]
        assert values == sorted(values)
    assert [row["published"] for row in curve if row["published"]] == [
        "0.50, -, 0.71, 0.68", "0.64, 0.70, 0.86, 0.83"
    ]  # fmt: skip


def test_tang_schemes_are_compared_with_the_baseline(reports: dict[str, PaperResults]) -> None:
    for figure in tang2013.FIGURES.values():
        summary = rows(reports["tang2013"], f"{figure}d")
        assert [row["percentile"] for row in summary] == ["baseline", "p95", "p85", "p70"]


def test_chlumsky_compares_on_one_workload(reports: dict[str, PaperResults], study: Study) -> None:
    report = reports["chlumsky2022"]
    under = {row["predictor"]: row["underestimated"] for row in rows(report, "fig4")}
    assert list(under) == ["request", "v1", "v2", "v3", "v4"]
    assert under["request"] == 0
    assert under["v2"] <= under["v1"]
    for system in chlumsky2022.SYSTEMS:
        found = rows(report, f"section4_{system.replace('+', '_')}")
        assert [row["estimate"] for row in found] == [WALLTIME, "v1", "v2", "v3", "v4"]
        assert found[0]["wait_change"] is None
        change = found[1]["wait_mean"] / found[0]["wait_mean"] - 1
        assert found[1]["wait_change"]["mean"] == pytest.approx(change)
    assert rows(report, "section4_fcfs_easy")[0]["broken"] == 0, "walltimes are upper bounds"
    policy = chlumsky2022.policies(["v3"])["fcfs+easy v3"]
    assert (policy.waiting, policy.running) == ("v3", "usage"), "asked again at the start"


def test_chlumsky_classes_hold_all_jobs(reports: dict[str, PaperResults]) -> None:
    everyone = rows(reports["chlumsky2022"], "fig7")[0]
    for what in ("runtime", "walltime"):
        assert sum(everyone[f"{what}_{name}"] for name in chlumsky2022.CLASSES) == pytest.approx(1)


def test_chlumsky_periods_have_the_predictor_of_their_time(reports: dict[str, PaperResults], study: Study) -> None:
    found = rows(reports["chlumsky2022"], "fig5_periods")
    assert [row["predictor"] for row in found] == ["request", "v1", "request", "v2", "request", "v3"]
    counted = sum(row[f"{name}_jobs"] for row in found[::2] for name in chlumsky2022.CLASSES)
    assert counted == len(study.jobs), "three months, one period each"


def test_chlumsky_shares_and_queues_hold_all_jobs(reports: dict[str, PaperResults]) -> None:
    report = reports["chlumsky2022"]
    for key in ("fig8", "fig9_jobs_by_runtime", "fig9_jobs_by_walltime", "fig9_cpu_time_by_runtime"):
        *parts, whole = rows(report, key)
        assert whole["all"] == pytest.approx(1)
        for column in {*whole} - {"period", "processors"}:
            assert whole[column] == pytest.approx(sum(row[column] for row in parts))
    *queues, everyone = rows(report, "fig7_queues")
    assert {row["queue"] for row in queues} == {"short", "medium", "long"}
    under = {row["predictor"]: row["underestimated"] for row in rows(report, "fig4")}
    assert everyone["v1"] == pytest.approx(under["v1"])
    assert sum(row["jobs"] * row["v1"] for row in queues) == pytest.approx(under["v1"])


def test_chlumsky_batches_are_one_users_in_a_week() -> None:
    minutes = [10, 200, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120]
    monday = 1_700_438_400 - 4 * 86400  # a multiple of seven days after the epoch
    batch = [job(ncpus=1, submitted=monday + 60 * n, runtime=60 * m, walltime=86400) for n, m in enumerate(minutes)]
    even = [job("bob", ncpus=1, submitted=monday + 7200 + n, runtime=600, walltime=86400) for n in range(10)]
    alone = [
        job("carol", ncpus=1, submitted=monday + 3600 * n, runtime=60 + 600 * n, walltime=86400) for n in range(10)
    ]
    report = chlumsky2022.repeat(study_of("s", [*batch, *even, *alone], 4))
    (row,) = rows(report, "fig3")
    assert (row["jobs"], row["min"], row["median"], row["max"]) == (12, 600, 75 * 60, 12000)
    assert row["submitted"] == monday % (7 * 86400) / 3600
    table = next(table for table in report.tables if table.key == "fig3")
    assert "10 times the shortest in 50% of all batches" in table.setting


def test_fan_users_and_weeks_hold_all_jobs(reports: dict[str, PaperResults]) -> None:
    report = reports["fan2017"]
    *kinds, everyone = rows(report, "fig4")
    assert sum(row["users"] for row in kinds) == everyone["users"]
    assert sum(row["jobs"] for row in kinds) == pytest.approx(1)
    shares = [row["share"] for row in rows(report, "fig2") if row["share"] is not None]
    assert shares == sorted(shares)
    within = next(row["share"] for row in rows(report, "fig3") if row["r"] == "1")
    assert within < 1, "runtimes are not capped at the walltime"
    weeks = [row["week"] for row in rows(report, "observation3")]
    assert weeks[-1] == "all"
    assert weeks[:-1] == sorted(weeks[:-1])


@pytest.mark.parametrize("key", ["fig8_9", "fig10_11"])
def test_fan_months_have_the_mean_change(reports: dict[str, PaperResults], key: str) -> None:
    whole = {(row["mode"], row["spec"]): row["wait"] for row in rows(reports["fan2017"], key)}
    monthly = [row for row in rows(reports["fan2017"], f"{key}_monthly") if row["metric"] == "wait"]
    for (mode, spec), change in whole.items():
        if change is not None:
            months = [row[spec] for row in monthly if row["mode"] == mode]
            assert len(months) == 2
            assert sum(months) / 2 == pytest.approx(change["mean"])


def test_fan_runs_what_there_is_and_names_the_rest(reports: dict[str, PaperResults]) -> None:
    report = reports["fan2017"]
    run = {row["spec"] for row in rows(report, "fig8_9")}
    assert {row["mode"] for row in rows(report, "fig8_9")} == set(fan2017.MODES)
    assert run == {WALLTIME, "last2", fan2017.ADJUSTED}
    assert not run & set(report.unavailable)
    methods = rows(report, "fig12")
    assert [row["method"] for row in methods[:4]] == list(fan2017.METHODS)
    under_wfp = {(row["mode"], row["spec"]): row["wait"] for row in rows(report, "fig10_11")}
    for row in methods:
        regular = under_wfp[row["mode"], row["spec"]]
        assert row["wait"] == {"S00": None, "S11": regular}.get(row["method"], row["wait"])


def test_fan_selects_what_uses_the_adjusted_runtime() -> None:
    policies = fan2017.policies(["v1"])
    order_only, backfilling_only = policies["runs on S01 trip"], policies["runs on S10 trip"]
    assert (order_only.waiting, order_only.running, order_only.ordering) == (WALLTIME, WALLTIME, "trip")
    assert (backfilling_only.waiting, backfilling_only.running, backfilling_only.ordering) == ("trip", "trip", WALLTIME)


@pytest.mark.parametrize("key", ["fig8_9", "fig10_11", "fig12"])
def test_fan_simulates_the_months_after_the_first_in_both_modes(reports: dict[str, PaperResults], key: str) -> None:
    found = rows(reports["fan2017"], key)
    assert {row["shorter"][1:] for row in found if row["shorter"]} == {" of 2"}
    killed = {row["mode"]: row["killed"] for row in found if row["wait"] is not None}
    assert killed["killed"] > 0 == killed["runs on"]


def test_fan_counts_jobs_that_outlived_their_walltime(reports: dict[str, PaperResults], small_study: Study) -> None:
    request = rows(reports["fan2017"], "fig7")[0]
    completed = small_study.completed
    months = months_of([job.submission.submitted for job in completed])
    outlived = [
        job.runtime > job.submission.walltime
        for job, month in zip(completed, months, strict=True)
        if month != months[0] and job.submission.walltime and job.runtime
    ]
    assert any(outlived)
    assert request["underestimated"] == pytest.approx(sum(outlived) / len(outlived))


def test_rubio_corrects_with_and_without_prediction(reports: dict[str, PaperResults], study: Study) -> None:
    report = reports["rubio2021"]
    policies = rubio2021.policies({"EASY++": "last2"})
    assert policies["EASY++ (power)"].correction == "power"
    assert policies["simple"].waiting == policies["simple"].running == "constant:600"
    for key in ("table4", "table5", "table4_limit", "table5_limit"):
        found = rows(report, key)
        names = [row["policy"] for row in found]
        assert names[0] == "user-estimate"
        assert {"EASY++ (power)", "EASY++ (simple)", "power", "simple"} <= set(names)
        assert set(names) <= set(rubio2021.PUBLISHED_WAIT)
        for row in found:
            assert all(row[f"published_{system}"] is not None for system in rubio2021.SYSTEMS)
    alone = next(row for row in rows(report, "table4") if row["policy"] == "simple")
    assert alone["extensions"] > 0
    counted = part_of(study.jobs, WHOLE, rubio2021.WARM_UP_SHARE).counted
    assert counted.sum() == len(study.jobs) - len(study.jobs) // 100


def test_rubio_kills_at_the_walltime_or_at_7_days(study: Study) -> None:
    # A job of 4 hours on a machine of one processor, whose walltime is one hour, and one that waits for it.
    first = job(submitted=START, runtime=4 * 3600, walltime=3600, ncpus=1)
    second = job(submitted=START + 1, runtime=600, walltime=3600, ncpus=1, job_id="2.srv")
    report = rubio2021.repeat(study_of("s", [first, second], 1))
    waits = {key: {row["policy"]: row["here"] for row in rows(report, key)} for key in ("table4", "table4_limit")}
    assert set(waits["table4"].values()) == {(3600 - 1) / 2}
    assert waits["table4_limit"].pop("user-estimate") == (3600 - 1) / 2
    assert set(waits["table4_limit"].values()) == {(4 * 3600 - 1) / 2}


def test_rubio_corrects_step_by_step(reports: dict[str, PaperResults]) -> None:
    steps = {(row["runtime"], row["first"]): row for row in rows(reports["rubio2021"], "fig5")}
    from_two_hours = steps[8 * 3600, 2 * 3600]
    # 15, 30, 60, 120 and 240 min more; 7 hours more, as 60 s before 8 h it is corrected again.
    assert (from_two_hours["power_steps"], from_two_hours["power"]) == (5, (120 + 465) * 60)
    assert (from_two_hours["simple_steps"], from_two_hours["simple"]) == (7, 9 * 3600)


def test_rubio_published_slowdowns_exceed_what_the_published_waits_allow(reports: dict[str, PaperResults]) -> None:
    found = {row["policy"]: row for row in rows(reports["rubio2021"], "bound")}
    # 4.89 min are 293.4 s: a mean slowdown with a bound of 10 s is at most 30.34, and 29,447 was published.
    assert found["user-estimate"]["COARE"] == pytest.approx(29447 / 30.34)
    assert found["all"]["above"] == 12
    assert found["simple"]["above"] == found["power"]["above"] == 0


def test_a_further_predictor_is_run_as_well(small_study: Study) -> None:
    found = rows(rubio2021.repeat(small_study, ["v3"]), "table5")
    assert {"v3 (power)", "v3 (simple)"} <= {row["policy"] for row in found}


def test_li_predicts_starts_exactly_where_nothing_later_can_matter(study: Study) -> None:
    # Without backfilling no later job can start before the submitted one, so true runtimes give true starts.
    plain = SchedulerPolicy(backfill="none")
    outcome = simulate(study.jobs, 4, plain)
    sample = states(study.jobs, outcome, li2004.sampled(study.jobs, 200))
    predicted = [
        forward(study.jobs, outcome, state, remaining, runtimes, 4, plain)
        for state, (remaining, runtimes) in zip(sample, actual_runtimes(outcome, sample), strict=True)
    ]
    assert max(predicted) > 0
    assert predicted == waits_of(outcome, sample).tolist()


def test_li_predicts_the_last_jobs_start_exactly_with_backfilling(study: Study) -> None:
    for last in (100, 300, 500, 700):
        jobs = study.jobs.chosen(range(last))
        outcome = simulate(jobs, 4, li2004.POLICY)
        (state,) = states(jobs, outcome, [last - 1])
        ((remaining, runtimes),) = actual_runtimes(outcome, [state])
        assert forward(jobs, outcome, state, remaining, runtimes, 4, li2004.POLICY) == waits_of(outcome, [state])[0]


def test_li_probes_have_the_users_usual_request(study: Study) -> None:
    jobs = study.jobs
    sample = li2004.sampled(jobs, 50)
    for position, probe in zip(sample, probes_of(jobs, sample), strict=True):
        user = jobs.completed[position].submission.user
        before = [index for index in range(position) if jobs.completed[index].submission.user == user][-10:]
        assert (probe is None) == (not before)
        if probe is not None:
            assert probe[0] in [jobs.processors[index] for index in before]
            assert sum(jobs.walltime[index] <= probe[1] for index in before) > len(before) / 2
    outcome = simulate(jobs, 4, li2004.POLICY)
    (state,) = states(jobs, outcome, [500])
    ((remaining, runtimes),) = actual_runtimes(outcome, [state])
    same = jobs.processors[500], jobs.walltime[500]
    waits = [forward(jobs, outcome, state, remaining, runtimes, 4, li2004.POLICY, probe) for probe in (None, same)]
    assert waits[0] == waits[1]


def test_li_predicts_recorded_starts(reports: dict[str, PaperResults], studies: dict[str, Study]) -> None:
    found = {row["source"]: row for row in rows(reports["li2004"], "table4_recorded")}
    jobs = studies["li2004"].jobs
    waits = [jobs.completed[position].start - jobs.submitted[position] for position in li2004.sampled(jobs)]
    assert found[WALLTIME]["wait"] == pytest.approx(sum(waits) / len(waits))
    assert found[RUNTIME]["job"] < found[WALLTIME]["job"]
    (times,) = rows(reports["li2004"], "table3")
    assert 0 < times["mean"] <= times["max"]


def test_li_compares_runtimes_from_each_source(reports: dict[str, PaperResults]) -> None:
    report = reports["li2004"]
    found = {row["source"]: row for row in rows(report, "table4")}
    assert {li2004.LINEAR, WALLTIME, "last2", RUNTIME} <= set(found)
    assert set(li2004.COMPARED) <= set(found) | set(report.unavailable)
    assert len({row["wait"] for row in found.values()}) == 1, "all are compared with the same starts"
    assert found[RUNTIME]["mae"] < found[WALLTIME]["mae"] < found[li2004.LINEAR]["mae"]


def test_li_fits_the_predictors_that_are_to_be_fitted(study: Study) -> None:
    jobs = study.jobs.chosen(range(200))
    outcome = simulate(jobs, 4, li2004.POLICY)
    _, predicted = li2004.predicted_waits(4, jobs, outcome, [WALLTIME, "adaboost"])
    assert (predicted["adaboost"] != predicted[WALLTIME]).any()


def test_li_finds_the_best_single_template(reports: dict[str, PaperResults]) -> None:
    report = reports["li2004"]
    single = rows(report, "fig1_3")
    assert [row["template"] for row in single] == list(li2004.TEMPLATES)
    last = rows(report, "table2")[-1]
    assert last["predictor"].startswith("templates:templates=")
    assert last["mae"] == pytest.approx(min(row[each] for row in single for each in li2004.ESTIMATORS))
