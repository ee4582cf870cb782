"""Optional parts of the installation: which one contains a package that is missing."""

from typing import Final

EXTRAS: Final = {
    "joblib": "measure",
    "numpy": "measure",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
}
"""The extra of pyproject.toml that contains each package.  The extra report contains the extra measure."""


def what_to_install(error: ImportError, extra: str = "") -> str:
    """Return one sentence that says what to install, or nothing if no extra contains the missing package.

    :param extra: name this extra, whichever is the smallest that contains the package.
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS or not isinstance(error, ModuleNotFoundError):
        return ""
    found = extra or EXTRAS[package]
    return f"{package} is missing: run pip install 'pbs-softwalltime[{found}]', or install pbs-softwalltime-report"
