"""Draw the pictures of the README from the demo's jobs: make pictures.

The first screen of the report by Chromium, and the table of ``softwalltime replay`` as SVG.  Run after ``make demo``,
in the root of the checkout, with the Python of .venv.
"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

from PIL import Image

DEMO: Final = Path("build/demo")
PICTURES: Final = Path("deploy/pictures")
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1280, 830
COLORS: Final = 64
COLUMNS: Final = 110
STYLES: Final = {
    "1": 'font-weight="bold"',
    "2": 'fill="#868887"',
    "31": 'fill="#cc555a"',
    "32": 'fill="#98a84b"',
    "33": 'fill="#d0b344"',
}
"""Attributes of SVG for the codes of bold, dim, red, green and yellow."""
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
    lines = [f"softwalltime {' '.join(arguments)}", "", *output.strip().splitlines()]
    width, height = 10 * COLUMNS + 40, 22 * len(lines) + 30
    svg = [
        f'<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#292929"/>',
        '<g font-family="monospace" font-size="16.6" fill="#c5c8c6" xml:space="preserve">',
        *(f'<text x="20" y="{22 * row + 32}">{_styled(line)}</text>' for row, line in enumerate(lines)),
        "</g>",
        "</svg>",
    ]
    picture.write_text("\n".join(svg) + "\n", encoding="utf-8")


def _styled(line: str) -> str:
    """Return a line with ANSI styles as text and spans of SVG."""
    spans = []
    for codes, text in re.findall(r"\x1b\[([\d;]*)m([^\x1b]*)|[^\x1b]+", f"\x1b[0m{line}"):
        style = " ".join(STYLES[code] for code in codes.split(";") if code in STYLES)
        spans.append(f"<tspan {style}>{escape(text)}</tspan>" if style else escape(text))
    return "".join(spans).rstrip()


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
