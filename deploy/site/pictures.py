"""Draw the pictures of the README from the demo's jobs: make pictures.

The first screen of the report by Chromium, and the table of ``softwalltime replay`` as SVG.  Run after ``make demo``,
in the root of the checkout, with the Python of .venv.
"""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path
from typing import Final

from PIL import Image
from rich.console import Console
from rich.text import Text

DEMO: Final = Path("build/demo")
PICTURES: Final = Path("deploy/pictures")
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1280, 830
COLORS: Final = 64
COLUMNS: Final = 110
SOFTWALLTIME: Final = Path(sys.executable).parent / "softwalltime"


def main() -> None:
    """Draw all pictures."""
    page = DEMO / "report.html"
    _run(str(SOFTWALLTIME), "report", str(DEMO / "accounting"), "-o", str(page))
    _screenshot(page, PICTURES / "report.png")
    _terminal(("replay", str(DEMO / "accounting")), PICTURES / "replay.svg")
    for path in sorted(PICTURES.iterdir()):
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def _screenshot(page: Path, picture: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"pictures: no browser: install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.png"
        _run(
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={raw}",
            f"--window-size={WIDTH},{HEIGHT}", page.resolve().as_uri(),
        )  # fmt: skip
        # A page of few colors: a third of the size.
        Image.open(raw).convert("RGB").quantize(COLORS).save(picture, optimize=True)


def _terminal(arguments: tuple[str, ...], picture: Path) -> None:
    output = _printed_in_a_terminal([str(SOFTWALLTIME), *arguments])
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(output.strip()))
        svg = console.export_svg(title=f"softwalltime {' '.join(arguments)}", unique_id="softwalltime")
    # Lines without spaces at their ends, as in all files of the checkout.
    picture.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


def _printed_in_a_terminal(command: list[str]) -> str:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    # The progress bar goes to standard error.
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL, env=environment) as running:
        os.close(follower)
        output = b""
        # At the end of the command a terminal fails to be read (EIO).
        with suppress(OSError):
            while block := os.read(leader, 65536):
                output += block
    os.close(leader)
    if running.returncode != 0:
        sys.exit(f"pictures: {' '.join(command)} failed with exit status {running.returncode}")
    return output.decode().replace("\r\n", "\n")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
