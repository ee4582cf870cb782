"""The mutations of a source: each compiles, changes one place, and is printed with its line."""

import ast

import pytest

from tests.benchmarks.mutations import mutations, recording
from tests.samples import ROOT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = a < b", ["x = (a <= b)"]),
        ("x = a >= b > c", ["x = (a > b > c)", "x = (a >= b >= c)"]),
        ("x = a is not b", ["x = (a is b)"]),
        ("x = a and b", ["x = (a or b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = 4", ["x = 5"]),
        ("x = True", ["x = False"]),
        ("x = a + b * c", ["x = (a - b * c)", "x = a + (b / c)"]),
        ("x += y", ["x -= y"]),
        ("x.y = z", ["pass"]),
        ("call(a)", ["pass"]),
        ("if a: b", ["if (not (a)): b"]),
        ("x: Literal[1] = y", []),
        ('"""A docstring."""', []),
        ("x = 'ä', a < b", ["x = 'ä', (a <= b)"]),
    ],
)
def test_a_line_has_these_mutations(before: str, after: list[str]) -> None:
    found = list(mutations(f"import os\n{before}\nlast()\n"))[:-1]
    assert sorted(each.after for each in found) == sorted(after)
    assert all((each.line, each.before) == (2, before) for each in found)
    assert all(each.source == f"import os\n{each.after}\nlast()\n" for each in found)


def test_recording_calls_a_function_before_each_statement_of_a_function() -> None:
    source = (
        'x = 1\ndef f(x):\n    """Doc."""\n    if x:\n'
        "        try:\n            y()\n        finally:\n            z()\n    return g"
    )
    lines: list[int] = []
    names = {"r": lines.append, "y": int, "z": int, "g": 7}
    exec(recording(source, "r"), names)
    assert (names["f"](1), lines) == (7, [4, 5, 6, 8, 9])
    assert names["f"].__doc__ == "Doc."
    assert {(mutation.line, mutation.statement) for mutation in mutations(source)} >= {(1, 0), (4, 4), (6, 6), (9, 9)}


def test_returned_values_and_raised_errors_are_removed() -> None:
    source = "def f(x: int = 1) -> int:\n    if x:\n        raise ValueError\n    return g(x)\n"
    assert [(each.line, each.after) for each in mutations(source)] == [
        (1, "def f(x: int = 2) -> int:"), (2, "if (not (x)):"), (3, "pass"), (4, "return None"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["hooks/softwalltime_hook.py", "daemon/softwalltime/accounting/pbs_records.py"])
def test_every_mutation_of_our_sources_compiles_to_something_else(name: str) -> None:
    source = (ROOT / name).read_text()
    original = ast.dump(ast.parse(source))
    found = list(mutations(source))
    assert len(found) > 100
    for mutation in found[::20]:
        assert ast.dump(ast.parse(mutation.source)) != original
