"""``softwalltime files``: the files for an installation that are neither code nor documents."""

from pathlib import Path

import click

from softwalltime.cli.command import command
from softwalltime.cli.parameters import FOLDER, argument, option, options
from softwalltime.core import resources
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.formatting import plural

_LISTED = (
    "*.toml", "grafana/*.json", "ondemand/*.erb", "ondemand/softwalltime/*.*", "ondemand/softwalltime/bin/*",
    "profile.d/*", "prometheus/*.yml", "sql/*.sql", "systemd/*",
)  # fmt: skip


@options
class FilesOptions:
    name: str | None = argument()
    folder: Path | None = option(
        "Copy the file, or all files, into this folder.  Existing files are not replaced.", "--copy-to", type=FOLDER,
        metavar="FOLDER",
    )  # fmt: skip


@command()
def files(options: FilesOptions) -> None:
    """List, print or copy the files for an installation.

    Systemd units, sample settings, the Grafana dashboard, Prometheus alerts, and SQL that creates roles.  Without
    arguments the command lists their names; with a NAME it prints that file.  The packages (.deb, .rpm) have the
    units and the settings in place already.

    \b
    Example:
      softwalltime files
      softwalltime files grafana/softwalltime.json > dashboard.json
      softwalltime files --copy-to softwalltime-files
    """
    root, name, folder = resources.folder("deploy"), options.name, options.folder
    known = sorted(path.relative_to(root).as_posix() for pattern in _LISTED for path in root.glob(pattern))
    if name is not None and name not in known:
        raise UsageError(f"no file is called {name!r}; softwalltime files lists the names")
    chosen = known if name is None else [name]
    if folder is None:
        click.echo("\n".join(known) if name is None else (root / name).read_text(encoding="utf-8").rstrip("\n"))
        return
    try:
        if existing := [file_name for file_name in chosen if (folder / file_name).exists()]:
            raise UsageError(f"{folder / existing[0]}: exists already; nothing was copied")
        for file_name in chosen:
            target = folder / file_name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as stream:
                stream.write((root / file_name).read_bytes())
    except OSError as error:
        raise SourceError(f"{error.filename}: cannot be written: {error.strerror}") from error
    click.echo(f"{folder}: {plural(len(chosen), 'file')}")
