"""The folder from which workers read the jobs: on this machine's file systems, or in an object storage."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import cast

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.written import temporary_folder


@contextmanager
def shared_folder(parent: Path | None, prefix: str, address: str | None = None) -> Iterator[Path]:
    """Create a folder and remove it at the end: in ``parent``, or at an address of fsspec, such as s3://bucket/folder.

    :raises UsageError: if the packages for the address are missing.
    :raises SourceError: if it cannot be written.
    """
    if address is None:
        with temporary_folder(parent, prefix) as name:
            yield Path(name)
        return
    try:
        from upath import UPath
    except ImportError as error:
        raise UsageError("--jobs-folder needs another package: pip install 'pbs-softwalltime[dask]'") from error
    try:
        folder = UPath(address) / f"{prefix}{token_hex(4)}"
        if folder.protocol in ("", "file", "local"):
            # Only its owner may read the jobs, as in a temporary folder.
            Path(folder.path).mkdir(0o700)
        else:
            # Only the folder: a misspelt bucket is not created.  Object storages create a folder with its first file.
            folder.mkdir()
        (folder / "empty").write_bytes(b"")
    except ImportError as error:
        raise UsageError(f"--jobs-folder {address}: {error}") from error
    # Each storage has errors of its own.
    except Exception as error:
        raise SourceError(f"--jobs-folder {address}: cannot be written: {error or type(error).__name__}") from error
    try:
        # It has a path's methods for opening files, and workers get its address.
        yield cast("Path", folder)
    finally:
        with suppress(Exception):
            folder.fs.rm(folder.path, recursive=True)
