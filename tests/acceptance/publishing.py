"""The daemon on the server's host, which forecasts starts every ten seconds."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from softwalltime.service.protocol import ask
from tests.acceptance.lab import Lab, until


class Publishing:
    """The daemon on the server's host."""

    def __init__(self, lab: Lab, folder: Path, dsn: str) -> None:
        self.lab = lab
        self.socket = folder / "hook.sock"
        self.output = folder / "output"
        self.config = folder / "softwalltime.toml"
        self.config.write_text(
            f'dsn = "{dsn}"\nsocket = "{self.socket}"\naccounting = "{lab.home}/server_priv/accounting"\n'
            '[policy]\nmode = "off"\n[starts]\nmode = "on"\nevery = 10\nruns = 10\nshow = true\nchange_seconds = 60\n'
        )

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.lab.runner, sys.executable, "-m", "softwalltime", "serve", "--config", str(self.config)],
                stdout=output, stderr=output,
            )  # fmt: skip
        until(lambda: self.socket.exists() and self.starts()["taken"], 120, "a forecast")

    def status(self) -> dict[str, Any]:
        return ask(self.socket, {"op": "status"}, 60)

    def starts(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status()["starts"]
        return found

    def kill(self) -> None:
        pid = self.status()["pid"]
        os.kill(pid, signal.SIGKILL)
        self.process.wait(60)
        self.socket.unlink()
        until(lambda: not self.publishers(), 30, "its process ends with it")

    def publishers(self) -> str:
        return self.lab.run("bash", "-c", "ps ax -o args= | grep '[s]tart_process'").output
