"""The process that runs tests for each mutation: it notices changes of modules and of files, and ends endless loops."""

from pathlib import Path

import pytest

from tests.benchmarks.bench_mutations import serving
from tests.benchmarks.mutation_server import RECORD
from tests.benchmarks.mutations import recording

CONFTEST = """
import hypothesis
hypothesis.settings.register_profile("suite", derandomize=True)
"""
TESTS = """
from pathlib import Path
{imported}

def read():
    names = {{}}
    exec(compile(Path("counted.py").read_text(), str(Path("counted.py").resolve()), "exec"), names)
    return names["half"]

def test_source():
    assert "record" not in Path("counted.py").read_text()

def test_even():
    assert {half}(4) == 2

def test_odd():
    assert {half}(5) == 2
"""
SOURCE = "def half(x):\n    if x % 2:\n        x -= 1\n    while x > 2 * (x // 2): pass\n    return x // 2\n"


@pytest.mark.parametrize("collected", [False, True])
def test_each_run_sees_the_source_as_it_is_and_ends(tmp_path: Path, collected: bool) -> None:
    source, tests = tmp_path / "counted.py", tmp_path / "test_counted.py"
    (tmp_path / "conftest.py").write_text(CONFTEST)
    imported = "" if collected else "from counted import half"
    tests.write_text(TESTS.format(imported=imported, half="read()" if collected else "half"))
    even, odd = "test_counted.py::test_even", "test_counted.py::test_odd"
    start = {"collected": collected, "preload": ["json"], "paths": ["test_counted.py"]}
    environment = {
        "SOFTWALLTIME_TEST_MARGIN": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": f"--rootdir={tmp_path}",
    }

    with serving(tmp_path, start, environment) as run:

        def begun(status: int, **changes: str) -> list[str]:
            text = SOURCE
            for before, after in changes.values():
                text = text.replace(before, after)
            source.write_text(text)
            got, lines = run({odd: 0.0, even: 0.0})
            assert got == status
            return [line["begin"] for line in lines if "begin" in line]

        source.write_text(recording(SOURCE, RECORD))
        status, lines = run({}, record=True)
        assert status == 1, "and yet all tests run"
        assert {line["test"]: line["lines"] for line in lines if "test" in line} == {
            "": [], "test_counted.py::test_source": [], even: [2, 4, 5], odd: [2, 3, 4, 5],
        }  # fmt: skip
        assert begun(0) == [odd, even]
        assert begun(1, change=("// 2\n", "// 3\n")) == [odd]
        assert begun(1, change=("if x % 2", "if not x")) == [odd]
        # A loop without an end: the process is ended.
        assert begun(1, change=("while x > 2 * (x // 2)", "while x == 4")) == [odd]
        assert begun(0) == [odd, even]
