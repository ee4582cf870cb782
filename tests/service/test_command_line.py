"""What a job executes, from its command line as PBS stores it."""

from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.service.protocol import executed_path, read_request, script_digest
from tests.service.test_protocol import JOB, line

ARGUMENT = "<jsdl-hpcpa:Argument>"


def written(*arguments: str) -> str:
    """Return arguments as PBS writes them."""
    return "".join(f"{ARGUMENT}{escape(argument)}</jsdl-hpcpa:Argument>" for argument in arguments)


def script(arguments: str, folder: str = "/work/alice") -> str:
    return executed_path({"submit_arguments": arguments, "workdir": folder})


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("-l", "walltime=60", "run.sh"), "/work/alice/run.sh"),
        (("-lwalltime=60", "-N", "job", "./run.sh"), "/work/alice/run.sh"),
        (("/opt/a b/<run> & co.sh",), "/opt/a b/<run> & co.sh"),
        (("-Vhz", "-Vl", "select=1", "../run.sh"), "/work/alice/../run.sh"),
        (("run.sh", "-l", "walltime=60"), "/work/alice/run.sh"),
        (("-I", "run.sh"), "/work/alice/run.sh"),
        (("-W", "depend=afterok:1", "-I", "-X"), ""),
        (("-l", "walltime=60", "-"), ""),
        (("-", "a", "run.sh"), ""),
        (("--", "run.sh"), ""),
        (("-l",), ""),
        ((), ""),
        (("&lt;&amp;lt;",), "/work/alice/&lt;&amp;lt;"),
        (("/caf\udce9\x00.sh",), "/caf\udce9\x00.sh"),
    ],
)
def test_the_script_is_the_operand_of_qsub_in_its_folder(arguments: tuple[str, ...], path: str) -> None:
    assert script(written(*arguments)) == path


def test_an_executable_counts_with_its_first_argument() -> None:
    job = {
        "submit_arguments": written("-l", "walltime=60", "--", "python", "a&b.py", "--seed=7"),
        "executable": "python",
        "argument_list": written("a&b.py", "--seed=7"),
    }
    assert executed_path(job) == "python a&b.py"
    assert executed_path({**job, "argument_list": None}) == "python"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("run.sh", ""),
        (f"{ARGUMENT}run.sh", ""),
        (ARGUMENT * 3 + "</jsdl-hpcpa:Argument>" * 3, f"/work/alice/{ARGUMENT * 2}"),
        (written("run.sh") + " " * 70_000, "/work/alice/run.sh"),
        (written(*["-l"] * 2_000), ""),
        (written("-l", "walltime=60", "run.sh")[:-1], ""),
    ],
)
def test_only_complete_arguments_count(arguments: str, path: str) -> None:
    """The hook cuts long texts."""
    assert script(arguments) == path


def test_without_its_folder_a_relative_path_is_unknown() -> None:
    assert (script(written("run.sh"), ""), script(written("/run.sh"), "")) == ("", "/run.sh")


@given(value=st.none() | st.integers() | st.text() | st.lists(st.text()))
def test_no_value_of_a_request_makes_it_fail(value: object) -> None:
    for name in ("submit_arguments", "executable", "argument_list", "workdir"):
        assert isinstance(executed_path({"submit_arguments": written("run.sh"), name: value}), str)


def test_a_request_is_read_with_the_digest_of_its_script() -> None:
    job = read_request(line(job={**JOB, "submit_arguments": written("run.sh"), "workdir": "/work"})).job
    assert job is not None
    assert job.script == script_digest("alice", "/work/run.sh")
