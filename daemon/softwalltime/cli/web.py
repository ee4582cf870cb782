"""``softwalltime web``: show users their jobs, and the queue, in a browser."""

import os
import socket
from pathlib import Path
from typing import Any

from softwalltime.cli.command import command
from softwalltime.cli.interruption import ending_normally
from softwalltime.cli.parameters import option, options
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.service.users.own_jobs import SOCKET

THREADS = 4
MAX_CONNECTIONS = 64
"""Open connections of the reverse proxy, at most."""
MAX_HEADER_BYTES = 16_384
MAX_BODY_BYTES = 1
"""So waitress refuses every body: a second request, with another user's name, could hide in one."""


@options
class WebOptions:
    socket: Path | None = option(
        "Listen at this socket, for the users of this account's group, instead of the one that systemd passes."
    )
    jobs_socket: Path = option("Socket of the process that shows users their jobs.", default=SOCKET)
    config: Path | None = option("Settings file.")


@command()
def web(options: WebOptions) -> None:
    """Show users their jobs, and the queue, in a browser.

    A reverse proxy with the login of the site asks at a Unix socket and names the user in a header.  The pages are
    those of softwalltime me: own jobs, and how long a job would wait that is submitted now.  The command runs in the
    foreground until SIGTERM.

    \b
    Example:
      softwalltime web --socket web.sock
    """
    with ending_normally():
        import waitress  # type: ignore[import-untyped]  # it has no types

        from softwalltime.cli.web_pages import make_app
        from softwalltime.core.settings import load_settings

        settings = load_settings(options.config)
        app = make_app(settings, options.jobs_socket)
        # Others must not connect before waitress has set the mode of the socket.
        before = os.umask(0o117)
        try:
            server = waitress.create_server(
                app, **_listening(options.socket), threads=THREADS, connection_limit=MAX_CONNECTIONS,
                max_request_header_size=MAX_HEADER_BYTES, max_request_body_size=MAX_BODY_BYTES, ident=None,
            )  # fmt: skip
        except OSError as error:
            raise SourceError(f"{options.socket}: cannot listen: {error.strerror or error}") from error
        finally:
            os.umask(before)
        server.run()


def _listening(path: Path | None) -> dict[str, Any]:
    """Return waitress's arguments for a Unix socket; over TCP anybody could name a user.

    :raises UsageError: if systemd passes no such socket, or it cannot be made at the path.
    """
    if path is None:
        from softwalltime.service.users.process import listening_socket

        listener = listening_socket("softwalltime-web.socket")
        if listener.family is not socket.AF_UNIX:
            raise UsageError("softwalltime-web.socket: ListenStream must be the path of a Unix socket")
        return {"sockets": [listener]}
    return {"unix_socket": str(path), "unix_socket_perms": "660"}
