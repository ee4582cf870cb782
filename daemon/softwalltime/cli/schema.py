"""``softwalltime schema``: describe what commands print as JSON and CSV."""

import json

import click

from softwalltime.cli.command import command, shapes
from softwalltime.cli.parameters import argument, option, options
from softwalltime.errors import UsageError


@options
class SchemaOptions:
    command: tuple[str, ...] = argument()
    markdown: bool = option("Print the document about all commands.")


@command()
def schema(options: SchemaOptions) -> None:
    """Print the JSON Schema of a command's output.

    It describes what COMMAND prints with --format json.  Without COMMAND the commands are listed.

    \b
    Example:
      softwalltime schema replay
      softwalltime schema policy compare
    """
    from softwalltime.cli.shapes import markdown
    from softwalltime.cli.shapes import schema as schema_of

    root = click.get_current_context().find_root().command
    described = dict(shapes(root)) if isinstance(root, click.Group) else {}
    name = " ".join(options.command)
    name = "top --once" if name == "top" else name
    if options.markdown:
        click.echo(markdown(described), nl=False)
    elif not name:
        click.echo("\n".join(described))
    elif name in described:
        click.echo(json.dumps(schema_of(described[name]), indent=2))
    else:
        raise UsageError(f"{name} prints no JSON; there are {', '.join(described)}")
