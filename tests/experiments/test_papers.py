"""The experiments on a small synthetic workload: what is compared with what, and that the tables hold together."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module

import pytest

from softwalltime.cli.experiment import PAPERS
from softwalltime.measure.experiments import chlumsky2022, fan2017, li2004, rubio2021, tang2013
from softwalltime.measure.experiments.li2004 import actual_runtimes, forward, states, waits_of
from softwalltime.measure.experiments.result_tables import PaperResults, Table
from softwalltime.measure.experiments.study import Study, months_of
from softwalltime.measure.experiments.trials import WHOLE, part_of
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import RUNTIME, WALLTIME, SchedulerPolicy


@pytest.fixture(scope="module")
def studies(study: Study, small_study: Study) -> dict[str, Study]:
    return dict.fromkeys(PAPERS, study) | {"fan2017": small_study}


@pytest.fixture(scope="module")
def reports(studies: dict[str, Study]) -> dict[str, PaperResults]:
    return {
        name: import_module(f"softwalltime.measure.experiments.{name}").repeat(study) for name, study in studies.items()
    }


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
        assert table.rows, table.key
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert len({column.key for column in table.columns}) == len(table.columns)
        if "published" in {column.key for column in table.columns}:
            assert any(word in table.published for word in ("figure", "table", "section")), table.key


def test_the_same_study_gives_the_same_report(reports: dict[str, PaperResults], study: Study) -> None:
    assert rubio2021.repeat(study).document() == reports["rubio2021"].document()


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


def test_fan_runs_what_there_is_and_names_the_rest(reports: dict[str, PaperResults]) -> None:
    report = reports["fan2017"]
    run = {row["spec"] for row in rows(report, "fig8_9")}
    assert {row["mode"] for row in rows(report, "fig8_9")} == set(fan2017.MODES)
    assert set(fan2017.COMPARED) <= run | set(report.unavailable)
    assert "last2" in run
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
    for key in ("table4", "table5"):
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


def test_a_further_predictor_is_run_as_well(study: Study) -> None:
    found = rows(rubio2021.repeat(study, ["v3"]), "table5")
    assert {"v3 (power)", "v3 (simple)"} <= {row["policy"] for row in found}


def test_li_predicts_starts_exactly_where_nothing_later_can_matter(study: Study) -> None:
    # Without backfilling no later job can start before the submitted one, so true runtimes give true starts.
    plain = SchedulerPolicy(backfill="none")
    outcome = simulate(study.jobs, 16, plain)
    sample = states(study.jobs, outcome, li2004.sampled(study.jobs, 200))
    predicted = [
        forward(study.jobs, outcome, state, remaining, runtimes, 16, plain)
        for state, (remaining, runtimes) in zip(sample, actual_runtimes(outcome, sample), strict=True)
    ]
    assert max(predicted) > 0
    assert predicted == waits_of(outcome, sample).tolist()


def test_li_predicts_the_last_jobs_start_exactly_with_backfilling(study: Study) -> None:
    for last in (400, 900, 1500, 2000):
        jobs = study.jobs.chosen(range(last))
        outcome = simulate(jobs, 16, li2004.POLICY)
        (state,) = states(jobs, outcome, [last - 1])
        ((remaining, runtimes),) = actual_runtimes(outcome, [state])
        assert forward(jobs, outcome, state, remaining, runtimes, 16, li2004.POLICY) == waits_of(outcome, [state])[0]


def test_li_compares_runtimes_from_each_source(reports: dict[str, PaperResults]) -> None:
    report = reports["li2004"]
    found = {row["source"]: row for row in rows(report, "table4")}
    assert {li2004.LINEAR, WALLTIME, "last2", RUNTIME} <= set(found)
    assert set(li2004.COMPARED) <= set(found) | set(report.unavailable)
    assert len({row["wait"] for row in found.values()}) == 1, "all are compared with the same starts"
    assert found[RUNTIME]["mae"] < found[WALLTIME]["mae"] < found[li2004.LINEAR]["mae"]


def test_li_fits_the_predictors_that_are_to_be_fitted(study: Study) -> None:
    _, predicted = li2004.predicted_waits(study, study.jobs, ["adaboost"])
    assert (predicted["adaboost"] != predicted[WALLTIME]).any()


def test_li_finds_the_best_single_template(reports: dict[str, PaperResults]) -> None:
    report = reports["li2004"]
    single = rows(report, "fig1_3")
    assert [row["template"] for row in single] == list(li2004.TEMPLATES)
    last = rows(report, "table2")[-1]
    assert last["predictor"].startswith("templates:templates=")
    assert last["mae"] == pytest.approx(min(row[each] for row in single for each in li2004.ESTIMATORS))
