"""What systemd is told: ready, still alive, stopping (sd_notify(3), which is one datagram)."""

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send ``READY=1`` and the like, if systemd asked for it; that it cannot be reached is no error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(state.encode(), f"\0{address[1:]}" if address[0] == "@" else address)
