"""Notifications to systemd: ready, watchdog, stopping (sd_notify(3), one datagram each)."""

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send a state such as ``READY=1`` if systemd asked for it; ignore errors."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(state.encode(), f"\0{address[1:]}" if address[0] == "@" else address)
