"""What PBS needs for a preset: which changes, what stays the site's decision, and the way back."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.deployment.preset_setup import SHOWN_START, check_setup, check_shown_starts, requirements
from softwalltime.deployment.qmgr import PbsError, Qmgr, QmgrObject
from softwalltime.deployment.scheduler_setup import Change, PbsSettings, read_settings
from softwalltime.deployment.setup_plan import Setup, changes_of, edited, plan_setup, statement
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.live_options import LiveOptions
from tests.deploy.findings import bad
from tests.deploy.qmgr_scripts import qmgr

FILE = "/var/spool/pbs/sched_priv/sched_config"
DELIVERED = """\
round_robin: False\tall
by_queue: True\tprime
by_queue: True\tnon_prime
strict_ordering: false\tALL
resources: "ncpus, mem, arch, host, vnode, aoe, eoe"
"""
AS_DELIVERED = PbsSettings(files={FILE: DELIVERED})
OWN = "job_priority * 1000 + eligible_time"
ORDER = "2e7 if predicted == 1 and walltime > 1 else (eligible_time + 3600.0) / (predicted or walltime or 1e9)"


def after(settings: PbsSettings, changes: tuple[Change, ...]) -> PbsSettings:
    """The settings once PBS has made the changes."""
    server = dict(settings.server.attributes)
    resources = dict(settings.resources)
    files = dict(settings.files)
    for change in changes:
        if change.place == "server":
            server[change.name] = (change.after,)
            if not change.after:
                del server[change.name]
        elif change.place == "resource" and change.after:
            resources[change.name] = dict(part.split("=") for part in change.after.split(","))
        elif change.place == "resource":
            del resources[change.name]
        else:
            files[change.file] = edited(files[change.file] or "", change)
    return replace(settings, server=QmgrObject(server), resources=resources, files=files)


def test_safe_needs_a_scheduler_that_plans_ahead_and_tells_soft_walltimes_apart() -> None:
    plan = plan_setup(requirements("safe"), AS_DELIVERED, ())
    assert [(change.place, change.name, change.before, change.after) for change in plan.make] == [
        ("switch", "strict_ordering", "false", "True"),
        ("member", "resources", "", "soft_walltime"),
    ]
    assert all(change.why for change in plan.make)
    assert plan.notes == plan.back == ()


def test_order_needs_the_resource_first_and_the_formula_last() -> None:
    plan = plan_setup(requirements("order"), AS_DELIVERED, ())
    assert [change.name for change in plan.make] == [
        "predicted", "eligible_time_enable", "clear_topjob_estimates_enable", "strict_ordering", "resources",
        "by_queue", "job_sort_formula",
    ]  # fmt: skip
    assert statement(plan.make[0]) == "create resource predicted type=long,flag=r"
    assert statement(plan.make[-1]) == f'set server job_sort_formula = "{ORDER}"'


def test_an_order_alone_leaves_the_planning_as_it_is() -> None:
    needs = requirements("balanced", effective=(SitePolicy(waiting="walltime"), LiveOptions()))
    plan = plan_setup(needs, AS_DELIVERED, ())
    assert [change.name for change in plan.make] == [
        "predicted", "eligible_time_enable", "clear_topjob_estimates_enable", "by_queue", "job_sort_formula",
    ]  # fmt: skip


@pytest.mark.parametrize("preset", ["safe", "balanced", "order"])
def test_a_preset_is_complete_after_its_changes_and_all_go_back(preset: str) -> None:
    needs = requirements(preset)
    plan = plan_setup(needs, AS_DELIVERED, ())
    changed = after(AS_DELIVERED, plan.changes)
    assert plan_setup(needs, changed, plan.make).changes == ()
    assert bad(check_setup(SitePolicy(preset=preset, mode="on"), needs, changed)) == []
    back = plan_setup((), changed, plan.make)
    assert [change.name for change in back.back] == [change.name for change in reversed(plan.make)]
    assert after(changed, back.changes) == AS_DELIVERED


def test_between_presets_the_formula_follows_and_that_of_the_site_stays() -> None:
    order = "2e7 if guess == 1 and walltime > 1 else (eligible_time + 3600.0) / (guess or walltime or 1e9)"
    balanced = (
        "2e7 if guess == 1 and walltime > 1 else (1e7 + eligible_time) if eligible_time > 345600 else "
        "(eligible_time + 3600.0) / (guess or walltime or 1e9)**0.125 / (walltime or 1e9)**0.375 * (ncpus or 1)**0.25"
    )
    made = plan_setup(requirements("order", "guess"), AS_DELIVERED, ())
    changed = after(AS_DELIVERED, made.changes)
    plan = plan_setup(requirements("balanced", "guess"), changed, made.make)
    assert [(change.name, change.before, change.after) for change in plan.changes] == [
        ("job_sort_formula", order, balanced)
    ]
    # Under a custom policy each of the two will do.
    assert plan_setup(requirements("balanced", "guess", any_formula=True), changed, made.make).changes == ()
    own = f"10 * ({order})"
    site = replace(changed, server=QmgrObject({**changed.server.attributes, "job_sort_formula": (own,)}))
    assert plan_setup(requirements("balanced", "guess"), site, made.make).changes == (), "the site's own stays"


def test_where_fair_share_orders_the_jobs_it_becomes_a_factor_of_the_formula() -> None:
    fair = replace(AS_DELIVERED, files={FILE: DELIVERED + "fair_share: true non_prime\n"})
    plan = plan_setup(requirements("order"), fair, ())
    wanted = f"{ORDER} * fairshare_perc / (fairshare_perc + fairshare_tree_usage)"
    assert plan.make[-1].after == wanted
    # A formula from before fair share was switched on is the preset's too.
    earlier = replace(fair, server=QmgrObject({"job_sort_formula": (ORDER,)}))
    assert plan_setup(requirements("order"), earlier, ()).make[-1].after == wanted


def test_from_order_to_safe_only_what_order_needed_goes_back() -> None:
    order = plan_setup(requirements("order"), AS_DELIVERED, ())
    changed = after(AS_DELIVERED, order.changes)
    plan = plan_setup(requirements("safe"), changed, order.make)
    assert plan.make == ()
    safe = plan_setup(requirements("safe"), AS_DELIVERED, ())
    assert after(changed, plan.changes) == after(AS_DELIVERED, safe.changes)


def test_what_the_site_has_changed_since_stays() -> None:
    plan = plan_setup(requirements("order"), AS_DELIVERED, ())
    changed = after(AS_DELIVERED, plan.changes)
    server = QmgrObject({**changed.server.attributes, "job_sort_formula": (OWN,)})
    text = (changed.files[FILE] or "").replace("by_queue: False\tprime", "by_queue: True\tprime")
    text = text.replace("resources: ", "# ours\nresources: ").replace("mem, ", "mem, licenses, ")
    back = plan_setup((), replace(changed, server=server, files={FILE: text}), plan.make)
    assert {change.name for change in back.forgotten} == {"job_sort_formula", "by_queue"}
    assert any(OWN in note for note in back.notes)
    settled = after(replace(changed, server=server, files={FILE: text}), back.changes)
    assert settled.server.get("job_sort_formula") == OWN
    assert settled.files[FILE] == DELIVERED.replace("by_queue: True\tnon", "by_queue: False\tnon").replace(
        "resources: ", "# ours\nresources: "
    ).replace("mem, ", "mem, licenses, ")


@pytest.mark.parametrize("owner", ["server", "sched default"])
def test_what_a_formula_of_the_site_uses_does_not_go_back(owner: str) -> None:
    plan = plan_setup(requirements("order"), AS_DELIVERED, ())
    changed = after(AS_DELIVERED, plan.changes)
    product = QmgrObject({"job_sort_formula": ("job_priority * (eligible_time + 60) / predicted",)})
    if owner == "server":
        server = QmgrObject({**changed.server.attributes, **product.attributes})
        changed = replace(changed, server=server)
    else:
        changed = replace(changed, schedulers={"default": product})
    for needs in ((), requirements("safe")):
        way = plan_setup(needs, changed, plan.make)
        stays = {"predicted", "eligible_time_enable"}
        assert not stays & {change.name for change in (*way.back, *way.forgotten)}
        notes = [note for note in way.notes if f"qmgr -c 'set {owner} job_sort_formula" in note]
        assert {name for name in stays for note in notes if f" {name}: " in note} == stays
    # Once the formula uses neither, a later run takes them back.
    settled = after(changed, way.changes)
    kept = [change for change in plan.make if change not in way.forgotten]
    kept = [change for change in kept if change.key not in {each.key for each in way.back}]
    other = {"job_sort_formula": ("job_priority",)}
    settled = replace(settled, server=QmgrObject({**settled.server.attributes, **other}), schedulers={})
    assert stays <= {change.name for change in plan_setup((), settled, kept).back}


def test_the_sites_formula_is_never_replaced_without_being_told_to() -> None:
    settings = replace(AS_DELIVERED, server=QmgrObject({"job_sort_formula": (OWN,)}))
    plan = plan_setup(requirements("order"), settings, ())
    assert "job_sort_formula" not in {change.name for change in plan.make}
    product = f"({OWN}) * ({ORDER})"
    (note,) = plan.notes
    assert product in note
    told = plan_setup(requirements("order", formula=product), settings, ())
    assert (told.make[-1].before, told.make[-1].after) == (OWN, product)
    settled = after(settings, told.changes)
    assert plan_setup(requirements("order"), settled, told.make).changes == (), "it uses the prediction"
    assert after(settled, plan_setup((), settled, told.make).changes) == settings


def test_what_only_the_site_can_decide_is_said() -> None:
    settings = PbsSettings(
        resources={"predicted": {"type": "string", "flag": "h"}},
        files={FILE: "strict_ordering: true ALL\n"},
        schedulers={"default": QmgrObject({"job_sort_formula": (OWN,), "job_sort_formula_threshold": ("10",)})},
    )
    plan = plan_setup(requirements("order"), settings, ())
    assert {change.name for change in plan.make} == {"eligible_time_enable", "clear_topjob_estimates_enable"}
    assert [next(word for word in ("string", "no line resources", "threshold", "set sched") if word in note)
            for note in plan.notes] == ["string", "no line resources", "threshold", "set sched"]  # fmt: skip
    found = dict(bad(check_setup(SitePolicy(preset="order", mode="on"), requirements("order"), settings)))
    assert found == {
        "predicted": "problem", "eligible_time_enable": "problem", "clear_topjob_estimates_enable": "advice",
        "resources": "advice", "job_sort_formula_threshold": "advice", "job_sort_formula": "problem",
    }  # fmt: skip


def test_the_resource_that_shows_starts_is_created_and_taken_back() -> None:
    plan = plan_setup((SHOWN_START,), AS_DELIVERED, [])
    assert [statement(change) for change in plan.changes] == ["create resource predicted_start type=string,flag=r"]
    there = after(AS_DELIVERED, plan.changes)
    assert [check_shown_starts(each).verdict for each in (AS_DELIVERED, there)] == ["problem", "ok"]
    assert not plan_setup((SHOWN_START,), there, plan.make).changes
    assert [statement(change) for change in plan_setup((), there, plan.make).changes] == [
        "delete resource predicted_start"
    ]
    other = replace(AS_DELIVERED, resources={"predicted_start": {"type": "long", "flag": "r"}})
    assert not SHOWN_START.state(other).changes
    assert "has the type long: delete it" in check_shown_starts(other).act


def test_a_resource_that_users_may_set_gets_the_flag() -> None:
    settings = replace(AS_DELIVERED, resources={"predicted": {"type": "long", "flag": "hm"}})
    change = plan_setup(requirements("order"), settings, ()).make[0]
    assert statement(change) == "set resource predicted flag = hr"
    back = replace(change, before=change.after, after=change.before)
    assert statement(back) == "set resource predicted flag = hm"


def test_an_unmet_requirement_is_wrong_only_while_the_policy_is_on() -> None:
    needs = requirements("safe")
    assert dict(bad(check_setup(SitePolicy(preset="safe", mode="on"), needs, AS_DELIVERED))) == {
        "strict_ordering": "problem", "resources": "advice",
    }  # fmt: skip
    for policy in (None, SitePolicy(preset="shadow"), SitePolicy(waiting="v3", mode="shadow")):
        assert set(dict(bad(check_setup(policy, needs, AS_DELIVERED))).values()) == {"advice"}
    unseen = list(check_setup(SitePolicy(preset="safe", mode="on"), needs, PbsSettings(files={FILE: None})))
    assert [(finding.check, finding.verdict) for finding in unseen] == [
        ("scheduler", "skipped"), ("backfill_depth", "ok"),
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["a'b", 'a"b', "a\nb", "a\\b"])
def test_a_formula_that_qmgr_cannot_take_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="PBS takes no quotes"):
        statement(Change("server", "job_sort_formula", "", value, ""))


# ---- Applied with a qmgr that answers and writes down what it was given ----------------------------------------------

SAID = """\
echo "$2" >> {folder}/statements
case $2 in
"print server") echo "set server job_sort_formula = \\"{formula}\\"" ;;
"print resource") printf 'create resource predicted\\nset resource predicted type = long\\n'
    echo 'set resource predicted flag = r' ;;
"print sched") printf 'create sched default\\nset sched default sched_priv = {folder}\\n' ;;
"delete resource predicted") echo 'this may crash pbs_server' >&2; exit 1 ;;
*refused*) echo 'qmgr: no' >&2; exit 1 ;;
esac
"""


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    formula = ORDER
    (tmp_path / "sched_config").write_text(DELIVERED)
    qmgr(tmp_path, SAID.format(folder=tmp_path, formula=formula))
    return Setup(Qmgr(tmp_path / "exec" / "bin" / "qmgr", tmp_path), tmp_path / "hook")


def given(folder: Path) -> list[str]:
    return [
        line for line in (folder / "statements").read_text().splitlines() if line.split()[0] not in ("print", "list")
    ]


def test_changes_are_written_down_made_and_taken_back(setup: Setup, tmp_path: Path) -> None:
    assert read_settings(setup.pbs).resources == {"predicted": {"type": "long", "flag": "r"}}
    order = plan_setup(requirements("order"), replace(AS_DELIVERED, files={f"{tmp_path}/sched_config": DELIVERED}), ())
    said = list(setup.apply(order))
    assert given(tmp_path) == [statement(change) for change in order.make if not change.file]
    assert f"to do: send SIGHUP to the scheduler of {tmp_path}" in said[-1]
    assert "soft_walltime" in (tmp_path / "sched_config").read_text()
    state = setup.folder / "softwalltime_scheduler.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert setup.kept() == list(order.make)
    back = plan_setup((), read_settings(setup.pbs), setup.kept())
    said = list(setup.apply(back))
    # pbs_server keeps the resources of the last job that a hook has seen, and may crash when one was deleted.
    (line,) = [line for line in said if line.startswith("stays: ")]
    assert line.startswith("stays: resource predicted: it is harmless without values.")
    assert line.endswith("restart pbs_server first, then: qmgr -c 'delete resource predicted'")
    assert setup.kept() == []
    assert (tmp_path / "sched_config").read_text() == DELIVERED
    assert given(tmp_path)[-1] == "unset server job_sort_formula"


def test_an_attribute_that_this_pbs_does_not_know_is_not_set(setup: Setup, tmp_path: Path) -> None:
    """OpenPBS 23.06 has no clear_topjob_estimates_enable: qmgr takes the unknown name for a server's."""
    script = tmp_path / "exec" / "bin" / "qmgr"
    refusal = '"list server clear_topjob_estimates_enable") echo Unknown Host. >&2; exit 1 ;;\n*refused*'
    script.write_text(script.read_text().replace("*refused*", refusal))
    plan = plan_setup(requirements("balanced"), read_settings(setup.pbs), ())
    assert "eligible_time_enable" in {change.name for change in plan.make}
    assert "clear_topjob_estimates_enable" not in {change.name for change in plan.make}
    assert not plan.notes


def test_an_interruption_leaves_no_change_that_is_not_written_down(setup: Setup, tmp_path: Path) -> None:
    changes = tuple(Change("server", name, "", "True", "") for name in ("first", "refused", "last"))
    with pytest.raises(PbsError):
        list(setup.apply(replace(plan_setup((), AS_DELIVERED, ()), make=changes)))
    assert [change.name for change in setup.kept()] == ["first", "refused"]
    assert given(tmp_path) == ["set server first = True", "set server refused = True"]
    # The refused one is as it was before, so that nothing is to be taken back.
    settings = PbsSettings(server=QmgrObject({"first": ("True",)}))
    plan = plan_setup((), settings, setup.kept())
    assert [change.name for change in plan.back] == ["first"]
    assert plan.notes == ()


def test_the_way_back_after_two_formulas_is_the_sites_own(setup: Setup, tmp_path: Path) -> None:
    def formula(before: str, after: str) -> Change:
        return Change("server", "job_sort_formula", before, after, "")

    nothing = plan_setup((), AS_DELIVERED, ())
    for change in (formula(OWN, "F1"), formula("F1", "F2")):
        list(setup.apply(replace(nothing, make=(change,))))
    assert setup.kept() == [formula(OWN, "F2")]
    with pytest.raises(PbsError):
        list(setup.apply(replace(nothing, make=(formula("F2", "refused"),))))
    assert setup.kept() == [formula(OWN, "F2")]
    now = PbsSettings(server=QmgrObject({"job_sort_formula": ("F2",)}))
    assert [change.after for change in plan_setup((), now, setup.kept()).back] == [OWN]
    # A value of the site in between is the one to go back to, and its own formula leaves nothing to take back.
    list(setup.apply(replace(nothing, make=(formula("site", "F3"),))))
    assert setup.kept() == [formula("site", "F3")]
    list(setup.apply(replace(nothing, make=(formula("F3", "site"),))))
    assert setup.kept() == []
    assert given(tmp_path)[-1] == "set server job_sort_formula = site"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_nothing_is_changed_where_others_can_change_a_sched_config(setup: Setup, tmp_path: Path) -> None:
    folder = tmp_path / "sched_priv"
    folder.mkdir()
    (folder / "sched_config").write_text(DELIVERED)
    os.chown(folder, 1234, 1234)
    file = f"{folder}/sched_config"
    plan = plan_setup(requirements("order"), replace(AS_DELIVERED, files={file: DELIVERED}), ())
    with pytest.raises(SourceError, match=r"belongs to another user\. To do by hand: .*strict_ordering: false -> True"):
        list(setup.apply(plan))
    assert not (tmp_path / "statements").exists()
    assert setup.kept() == []
    assert (folder / "sched_config").read_text() == DELIVERED


@pytest.mark.parametrize("text", ["{", "[1]", '[{"place": "server"}]', '{"a": 1}'])
def test_a_damaged_file_of_earlier_settings_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="damaged"):
        changes_of(text, Path("/x"))


def test_root_refuses_a_state_folder_that_others_can_change(setup: Setup, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is refused")
    setup.folder.mkdir()
    setup.folder.chmod(0o777)
    there = replace(AS_DELIVERED, files={f"{tmp_path}/sched_config": DELIVERED})
    with pytest.raises(UsageError, match="can be written by others"):
        list(setup.apply(plan_setup(requirements("safe"), there, ())))
