"""``softwalltime man``: manual pages of all commands and of the settings file."""

import inspect
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import click

from softwalltime import __version__
from softwalltime.cli.command import command
from softwalltime.cli.parameters import FOLDER, argument, options
from softwalltime.core.errors import SourceError

_FAILURE = (
    "Failure: PostgreSQL, PBS or the daemon does not answer, a file is damaged, a check found a problem or an error, "
    "or a signal interrupted the command."
)
STATUSES = (
    (0, "Success.  serve and ingest --follow also exit with 0 when they are stopped."),
    (1, _FAILURE),
    (2, "Wrong use: an option, a setting or a file name is wrong.  Nothing was done."),
)
"""Exit statuses of every command."""


@options
class ManOptions:
    folder: Path = argument(type=FOLDER)


@command()
def man(options: ManOptions) -> None:
    """Write manual pages into FOLDER.

    A page for each command, and one for the settings file; the packages (.deb, .rpm) install them.

    \b
    Example:
      softwalltime man man
      softwalltime man ~/.local/share/man
    """
    root = click.get_current_context().find_root().command
    count = 0
    try:
        for name, text in pages(root):
            target = options.folder / f"man{name[-1]}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            count += 1
    except OSError as error:
        raise SourceError(f"{error.filename}: cannot be written: {error.strerror}") from error
    click.echo(f"{options.folder}: {count} manual pages")


def pages(root: click.Command) -> Iterator[tuple[str, str]]:
    for context in contexts(click.Context(root, info_name="softwalltime", **root.context_settings)):
        yield f"{context.command_path.replace(' ', '-')}.1", command_page(context)
    yield "swt.1", ".so man1/softwalltime.1\n"
    yield "softwalltime.toml.5", settings_page()


def command_page(context: click.Context) -> str:
    command = context.command
    name = context.command_path.replace(" ", "-")
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    examples = [paragraph for paragraph in paragraphs if paragraph.startswith("\b")]
    lines = [*_header(name, 1, paragraphs[0].rstrip(".")), ".SH SYNOPSIS", f".B {_escape(context.command_path)}"]
    lines.append(_escape(" ".join(command.collect_usage_pieces(context))))
    lines.append(".SH DESCRIPTION")
    described = [" ".join(paragraph.split()) for paragraph in paragraphs if not paragraph.startswith("\b")]
    # What leads to an example ends here, because the examples have a section of their own.
    lines.append("\n.PP\n".join(_escape(f"{text[:-1]}." if text.endswith(":") else text) for text in described))
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name, child in sorted(command.commands.items()):
            summary = inspect.cleandoc(child.help or "").split("\n\n")[0]
            lines += _item(f"{context.command_path} {name}", summary)
    lines.append(".SH OPTIONS")
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            lines += _item(*record)
    lines.append(".SH EXIT STATUS")
    for status, text in STATUSES:
        lines += _item(str(status), text)
    for example in examples:
        lines += [".SH EXAMPLES", ".nf", *(_escape(line.strip()) for line in example.splitlines()[2:]), ".fi"]
    parent = f"{context.parent.command_path.replace(' ', '-')}(1), " if context.parent else ""
    lines += [".SH SEE ALSO", _escape(f"{parent}softwalltime.toml(5)")]
    return "\n".join(lines) + "\n"


def settings() -> Iterator[tuple[str, str, str, str]]:
    """Yield table, key, default and description of each setting; the first table and a missing default are empty."""
    from softwalltime.core.settings import Settings
    from softwalltime.predict.policy.site import SitePolicy
    from softwalltime.service.forecast_thread import StartOptions
    from softwalltime.service.live.live_options import LiveOptions

    for title, model in (("", Settings), ("[policy]", SitePolicy), ("[live]", LiveOptions), ("[starts]", StartOptions)):
        for name, field in model.model_fields.items():
            if field.description:
                none = field.is_required() or field.default_factory is not None or field.default in (None, "", ())
                yield title, name, "" if none else _value(field.default), field.description


def settings_page() -> str:
    from softwalltime.core.settings import SYSTEM_FILE
    from softwalltime.predict.policy.site import Rule

    lines = [*_header("softwalltime.toml", 5, "Settings of softwalltime"), ".SH DESCRIPTION"]
    lines.append(
        _escape(
            f"A TOML file: {SYSTEM_FILE}, ~/.config/softwalltime.toml, or the one that --config or SOFTWALLTIME_CONFIG "
            "names.  Each key of the first table can also be set in the environment, as SOFTWALLTIME_DSN.  "
            "softwalltime config check prints all errors, softwalltime config show the values that hold."
        )
    )
    for title, keys in groupby(settings(), itemgetter(0)):
        lines.append(f'.SH "{_escape(title or "KEYS")}"')
        for _, name, default, description in keys:
            lines += _item(name, f"{description}.{f'  Default: {default}.' if default else ''}")
    lines += [".SH [[policy.rules]]", _escape(f"Exceptions, with the keys {', '.join(Rule.model_fields)}.")]
    lines += [".SH SEE ALSO", _escape("softwalltime(1), softwalltime-config-check(1)")]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(_value, value)) if isinstance(value, tuple | list | frozenset) else str(value)


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield the context, and those of the commands below it."""
    yield context
    if isinstance(context.command, click.Group):
        for name, child in sorted(context.command.commands.items()):
            yield from contexts(click.Context(child, info_name=name, parent=context))


def _header(name: str, section: int, summary: str) -> list[str]:
    title = f'.TH "{_escape(name.upper())}" "{section}" "" "softwalltime {_escape(__version__)}" "softwalltime"'
    # No hyphenation: names of options must stay whole.
    return [title, ".nh", ".ad l", ".SH NAME", f"{_escape(name)} \\- {_escape(summary)}"]


def _item(term: str, text: str) -> list[str]:
    return [".TP", f"\\fB{_escape(term)}\\fR", _escape(" ".join(text.split()))]


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
