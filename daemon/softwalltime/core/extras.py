"""Find the extra of the installation that contains a missing package."""

from typing import Final

EXTRAS: Final = {
    "joblib": "measure",
    "numba": "measure",
    "numpy": "measure",
    "pyarrow": "measure",
    "jinja2": "report",
    "markupsafe": "report",
    "flask": "web",
    "waitress": "web",
}
"""The extra of pyproject.toml that contains each package.  The extra report contains the extra measure."""


def what_to_install(error: ImportError, extra: str = "") -> str:
    """Return one sentence that says what to install, or nothing if no extra contains the missing package.

    :param extra: name this extra where a package to measure is missing, whichever is the smallest that contains it.
    """
    # psycopg's own message has a line for each way in which it has looked.
    if "no pq wrapper available" in str(error) or "requested psycopg 'python'" in str(error):
        return f"libpq is missing: install libpq5 (Debian) or libpq (RHEL), or run {_pip('binary')}"
    if "requested psycopg" in str(error):
        return f"psycopg cannot be loaded as PSYCOPG_IMPL asks: unset it, or run {_pip('binary')}"
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS or not isinstance(error, ModuleNotFoundError):
        return ""
    if EXTRAS[package] == "web":
        return f"{package} is missing: run {_pip('web')}"
    return f"{package} is missing: run {_pip(extra or EXTRAS[package])}, or install pbs-softwalltime-report"


def _pip(extra: str) -> str:
    return f"pip install 'pbs-softwalltime[{extra}]'"
