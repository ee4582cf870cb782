"""Draw the pictures of the README from the demo's jobs: make pictures.

The first screen of the report by Chromium, and the table of ``softwalltime replay`` as SVG.  Run after ``make demo``,
in the root of the checkout, with the Python of .venv.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image
from rich.console import Console
from rich.text import Text

DEMO: Final = Path("build/demo")
PICTURES: Final = Path("deploy/pictures")
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1280, 760
COLORS: Final = 64
COLUMNS: Final = 100
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
    environment = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    output = subprocess.run(
        [SOFTWALLTIME, *arguments], env=environment, capture_output=True, text=True, check=True
    ).stdout
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=max(map(len, output.splitlines())), file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(output))
        svg = console.export_svg(title=f"softwalltime {' '.join(arguments)}", unique_id="softwalltime")
    # Lines without spaces at their ends, as in all files of the checkout.
    picture.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
