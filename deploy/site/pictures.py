"""Draw the first screen of the report on the demo's jobs for the README, by Chromium: make pictures.

Run after ``make demo``, in the root of the checkout, with the Python of .venv.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image

DEMO: Final = Path("build/demo")
PICTURES: Final = Path("deploy/pictures")
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
SOFTWALLTIME: Final = Path(sys.executable).parent / "softwalltime"


def main() -> None:
    """Draw the picture."""
    page = DEMO / "report.html"
    _run(str(SOFTWALLTIME), "report", str(DEMO / "accounting"), "-o", str(page))
    screenshot(page, PICTURES / "report.png", 1280, 830, colors=64)


def screenshot(page: Path, picture: Path, width: int, height: int, *options: str, colors: int) -> None:
    """Draw a page, its size in pixels, by Chromium with these options."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"pictures: no browser: install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.png"
        _run(
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={raw}",
            f"--window-size={width},{height}", *options, page.resolve().as_uri(),
        )  # fmt: skip
        # A page of few colors: a third of the size.
        Image.open(raw).convert("RGB").quantize(colors).save(picture, optimize=True)
    print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
