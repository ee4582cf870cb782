"""Flood a daemon with requests: ``python -m tests.service.flood SOCKET CLIENTS SECONDS``.

Every client is a process that sends its next request as soon as it has the response.  Standard output gets one line
once all clients run.  The exit status is 0 if the daemon ended before the flood.
"""

import os
import socket
import sys
import time

LINE = b'{"v":1,"op":"predict","event":"queuejob","job":{"user":"alice","walltime":3600}}\n'


def send_requests(path: str, until: float) -> None:
    """Send requests until a time of the monotonic clock, or until the daemon is gone."""
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(path)
                client.sendall(LINE)
                client.recv(65536)
            except (ConnectionResetError, BrokenPipeError):
                continue
            except OSError:
                return


def main() -> None:
    """Start the clients and wait for them."""
    path, clients, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    until = time.monotonic() + seconds
    children = []
    for _ in range(clients):
        child = os.fork()
        if child == 0:
            send_requests(path, until)
            os._exit(0)
        children.append(child)
    print("running", flush=True)
    for child in children:
        os.waitpid(child, 0)
    sys.exit(time.monotonic() >= until)


if __name__ == "__main__":
    main()
