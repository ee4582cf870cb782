"""Hold the output of commands to its documented shape."""

import csv
import io
import json
from typing import Any

from pydantic import TypeAdapter

from softwalltime.cli import cli
from softwalltime.cli.command import shapes

SHAPES = dict(shapes(cli))


def documented(command: str, text: str) -> Any:
    """Return the JSON document that a command printed; fail if it has other fields than documented."""
    adapter = TypeAdapter(SHAPES[command].type())
    document = json.loads(text)
    assert json.loads(adapter.dump_json(adapter.validate_json(text))) == document
    return document


def documented_rows(command: str, text: str) -> list[dict[str, str]]:
    """Return the rows of CSV that a command printed; fail if it has other columns than documented."""
    reader = csv.DictReader(io.StringIO(text))
    columns = SHAPES[command].header()
    assert not columns or tuple(reader.fieldnames or ()) == tuple(columns)
    return list(reader)
