"""``softwalltime schema``: describe what commands print as JSON and CSV."""

import json

import click

from softwalltime.errors import UsageError


@click.command()
@click.argument("command", nargs=-1)
@click.option("--markdown", "as_document", is_flag=True, help="Print the document about all commands.")
def schema(command: tuple[str, ...], as_document: bool) -> None:
    """Print the JSON Schema of a command's output.

    It describes what COMMAND prints with --format json.  Without COMMAND the commands are listed.

    \b
    Example:
      softwalltime schema replay
      softwalltime schema policy compare
    """
    from softwalltime.cli.shapes import SHAPES, markdown
    from softwalltime.cli.shapes import schema as schema_of

    if as_document:
        click.echo(markdown(), nl=False)
        return
    if not command:
        click.echo("\n".join(SHAPES))
        return
    name = " ".join(command)
    name = "top --once" if name == "top" else name
    if name not in SHAPES:
        raise UsageError(f"{name} prints no JSON; there are {', '.join(SHAPES)}")
    click.echo(json.dumps(schema_of(SHAPES[name]), indent=2))
