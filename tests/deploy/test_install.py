"""The plan of an installation: statements, configuration and notes."""

import json

import pytest

from softwalltime.core.errors import UsageError
from softwalltime.deployment import configuration
from softwalltime.deployment.hook import Hook, transport
from tests.deploy.installations import FOLDER, OLDER, SOCKET, plan, present, statements


def test_a_new_hook_is_enabled_last() -> None:
    assert statements(plan()) == [
        "create hook softwalltime",
        "enabled = false",
        f"import hook softwalltime application/x-config default {FOLDER}/softwalltime_hook.json",
        f"import hook softwalltime application/x-python default {FOLDER}/softwalltime_hook.py",
        'event = "queuejob,modifyjob,runjob,resvsub,modifyresv"',
        "order = 900",
        "alarm = 5",
        "debug = false",
        "enabled = true",
    ]


def test_an_installed_hook_of_this_version_needs_no_steps() -> None:
    made = plan(present())
    assert made.steps == ()
    assert made.notes == ()


def test_an_event_disabled_in_the_configuration_is_omitted() -> None:
    made = plan(present(), own={**configuration.shipped(), "events": {"queuejob": False, "postqueuejob": True}})
    assert 'event = "postqueuejob,modifyjob,runjob,resvsub,modifyresv"' in statements(made)


def test_an_event_that_older_servers_lack_is_left_out_where_pbs_refuses_it() -> None:
    step = next(step for step in plan().steps if " event = " in step.statement)
    assert step.statement.endswith(',resvsub,modifyresv"')
    assert step.older.endswith(',resvsub"')
    assert plan(present(events=OLDER - {"modifyresv"})).steps == ()


def test_an_administrators_values_are_kept_and_new_keys_added() -> None:
    made = plan(present(configuration='{"deadline_ms": 80, "log": "problems"}'))
    values = json.loads(made.files["softwalltime_hook.json"])
    assert (values["deadline_ms"], values["log"]) == (80, "problems")
    assert values.keys() == configuration.shipped().keys()
    assert statements(made) == [
        f"import hook softwalltime application/x-config default {FOLDER}/softwalltime_hook.json"
    ]
    assert "hook configuration: minimum: new, 60" in made.notes


def test_an_invalid_configuration_is_refused_with_all_errors_and_what_to_do() -> None:
    wrong = {"deadline_ms": 0, "ours": 1, "postgres": {"dsn": ["geheim"]}}
    with pytest.raises(UsageError) as found:
        plan(own={**configuration.shipped(), **wrong})
    said = str(found.value)
    assert "deadline_ms: should be greater than or equal to 1" in said
    assert "ours: unknown key" in said
    assert "postgres.dsn: should be a valid string" in said
    assert "geheim" not in said
    assert said.endswith(f"correct {FOLDER}/softwalltime_hook.json")
    with pytest.raises(UsageError, match=f"write a correct one to {FOLDER}/softwalltime_hook.json$"):
        plan(present(values=wrong))


def test_the_transport_postgres_is_a_file_in_the_folder() -> None:
    made = plan(own={**configuration.shipped(), "transport": "postgres"})
    assert made.files["softwalltime_postgres.py"] == transport()
    values = json.loads(made.files["softwalltime_hook.json"])
    assert values["postgres"]["transport_path"] == f"{FOLDER}/softwalltime_postgres.py"
    assert "softwalltime_postgres.py" not in plan().files


def test_the_configuration_in_the_folder_overrides_the_one_in_pbs() -> None:
    made = plan(present(values={"deadline_ms": 80}), own={**configuration.shipped(), "deadline_ms": 100})
    assert json.loads(made.files["softwalltime_hook.json"])["deadline_ms"] == 100
    assert made.notes == ("in PBS: deadline_ms: 80, will be 100",)


def test_the_hook_gets_the_socket_of_the_daemon() -> None:
    made = plan(present(), socket="/run/elsewhere.sock")
    assert json.loads(made.files["softwalltime_hook.json"])["socket"] == "/run/elsewhere.sock"
    assert made.notes == (f'hook configuration: socket: "{SOCKET}", will be "/run/elsewhere.sock"',)


def test_an_invalid_configuration_in_pbs_is_replaced() -> None:
    made = plan(present(configuration="{"))
    assert made.notes == ("the configuration of the hook in PBS is not JSON and is replaced",)
    assert json.loads(made.files["softwalltime_hook.json"]) == configuration.shipped()


def test_a_disabled_hook_stays_disabled_without_the_option() -> None:
    off = present(enabled="false", script="an older one")
    assert "enabled = true" not in statements(plan(off))
    assert "the hook is disabled in PBS and stays disabled; --enable enables it" in plan(off).notes
    assert statements(plan(off, choices={"enable": True}))[-1] == "enabled = true"


def test_order_and_alarm_are_kept() -> None:
    assert statements(plan(present(order=7, alarm=9))) == []


def test_the_alarm_is_later_than_the_deadline() -> None:
    assert "alarm = 9" in statements(plan(own={**configuration.shipped(), "deadline_ms": 5000}))


def test_an_interrupted_installation_is_completed() -> None:
    half = Hook("", "", frozenset(), {"enabled": "false", "order": "1", "alarm": "30", "debug": "false"})
    made = plan(half)
    assert statements(made)[0].startswith("import hook")
    assert statements(made)[-1] == "enabled = true"
    assert not [note for note in made.notes if "disabled" in note]


def test_debugging_output_is_disabled() -> None:
    assert statements(plan(present(debug="true"))) == ["debug = false"]
