"""Settings from the command line, the environment (``SOFTWALLTIME_DSN``) and TOML files, in this order."""

import os
import pwd
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from softwalltime.core.errors import UsageError
from softwalltime.core.states import TEACHING, State
from softwalltime.core.validation import hint, plain, read_toml

SYSTEM_FILE = Path("/etc/softwalltime/softwalltime.toml")
SERVER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}", re.ASCII)
"""A PBS server's name: the host part of its job ids."""
_PREFIX = "SOFTWALLTIME_"
ACCOUNT = "softwalltime"
"""Default user of the daemon, unless its socket has another owner."""


def default_data_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/softwalltime")
    return _xdg("XDG_DATA_HOME", ".local/share") / "softwalltime"


class Settings(BaseSettings):
    """The settings; each description is printed to users."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True)

    # No repr: it may contain a password.
    dsn: str | None = Field(
        default=None,
        repr=False,
        description="PostgreSQL, as postgresql://user@host/database; default: an embedded PostgreSQL in data_dir",
    )
    data_dir: Path = Field(default_factory=default_data_dir, description="folder of the embedded PostgreSQL")
    socket: Path = Field(
        default=Path("/run/softwalltime/hook.sock"), description="socket on which the daemon answers the hook"
    )
    accounting: Path | None = Field(
        default=None, description="accounting folder to follow, such as /var/spool/pbs/server_priv/accounting"
    )
    teaching: tuple[State, ...] = Field(
        default=tuple(state for state in State if state in TEACHING),
        description="states of completed jobs from which predictors learn",
    )
    keep_days: int = Field(
        default=1096, ge=0, le=36_525, description="days to keep jobs and predictions in the store; 0: forever"
    )
    server: str = Field(default="", description="name of the PBS server in the store; empty: from the job ids")
    refresh_seconds: int = Field(
        default=3600,
        ge=1,
        le=366 * 86_400,
        description="seconds between refreshes of the figures behind the monitoring views",
    )
    metrics: str | None = Field(
        default=None, description="address for Prometheus, such as 127.0.0.1:9105; default: no metrics"
    )
    web_account: str = Field(
        default="", description="account of softwalltime web, which may read any user's jobs; empty: nobody"
    )
    web_header: str = Field(
        default="X-Remote-User", description="header in which the reverse proxy names the user to softwalltime web"
    )
    web_staff: str = Field(
        default="", description="users and @groups, separated by commas, who see the staff page of softwalltime web"
    )
    policy: dict[str, Any] = Field(default_factory=dict, description="the site policy: which predictor for which jobs")
    live: dict[str, Any] = Field(default_factory=dict, description="live values: alters of jobs that wait and run")
    starts: dict[str, Any] = Field(default_factory=dict, description="forecasts of the starts of waiting jobs")

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Return host and port of the metrics, if they are enabled."""
        if self.metrics is None:
            return None
        host, _, port = self.metrics.rpartition(":")
        return host.strip("[]"), int(port)

    @field_validator("metrics")
    @classmethod
    def _host_and_port(cls, address: str | None) -> str | None:
        host, _, port = (address or "").rpartition(":")
        if address is not None and not (host and port.isdecimal() and int(port) < 65536):
            raise ValueError("must be host and port, such as 127.0.0.1:9105")
        return address

    @field_validator("server")
    @classmethod
    def _server_name(cls, name: str) -> str:
        if name and not SERVER_NAME.fullmatch(name):
            raise ValueError("not a server name: use letters, digits, '.', '-' and '_'")
        return name

    @field_validator("web_header")
    @classmethod
    def _header_name(cls, name: str) -> str:
        if not re.fullmatch("[A-Za-z][A-Za-z0-9-]*", name):
            raise ValueError("not the name of a header: use letters, digits and '-'")
        return name

    @field_validator("data_dir", "socket", "accounting")
    @classmethod
    def _without_null(cls, path: Path | None) -> Path | None:
        if path is not None and "\0" in str(path):
            raise ValueError("must not contain a null character")
        return path

    @field_validator("data_dir")
    @classmethod
    def _expand(cls, folder: Path) -> Path:
        try:
            return folder.expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(str(error)) from error


def settings_from(contents: Iterable[dict[str, Any]], given: dict[str, Any], *, environment: bool = True) -> Settings:
    """Return the settings with these values, else those of the environment, else those of files, in this order.

    :raises ValueError: if a value is wrong; of pydantic, or of a variable that is no JSON.
    """

    class _Sources(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            files = (InitSettingsSource(settings_cls, content) for content in contents)
            return (init_settings, *([env_settings] if environment else []), *files)

    return _Sources(**given)


def load_settings(config: Path | None = None, **overrides: object) -> Settings:
    """Load the settings; ``overrides`` come from the command line, where ``None`` means not given.

    The file is ``config``, else the one that ``SOFTWALLTIME_CONFIG`` names, else the user's and the system's.
    Values in the user's file take precedence.

    :raises UsageError: if a file cannot be read, a key is unknown or a value is wrong; names file, key and value.
    """
    given: dict[str, Any] = {key: value for key, value in overrides.items() if value is not None}
    files = {file: _read_file(file) for file in settings_files(config)}
    try:
        return settings_from(files.values(), given)
    except ValidationError as error:
        raise UsageError(_explain(error, given, files)) from error
    except SettingsError as error:
        named = re.search(r'field "(\w+)"', str(error))
        name = named[1].upper() if named else "..."
        raise UsageError(
            f'environment: {_PREFIX}{name}: not JSON, such as ["finished"] or {{"mode": "off"}}'
        ) from error


def settings_files(config: Path | None = None) -> list[Path]:
    if config is None and (named := os.environ.get(f"{_PREFIX}CONFIG")):
        config = Path(named)
    if config is not None:
        return [config]
    # Skip missing files, and files that only the daemon can read because of passwords.
    files = (_xdg("XDG_CONFIG_HOME", ".config") / "softwalltime.toml", SYSTEM_FILE)
    return [file for file in files if os.access(file, os.R_OK) and not (file != SYSTEM_FILE and _another_users(file))]


def hidden_file() -> Path | None:
    """Return the system's settings file if it exists and cannot be read."""
    named = os.environ.get(f"{_PREFIX}CONFIG")
    there = os.access(SYSTEM_FILE, os.F_OK) and not os.access(SYSTEM_FILE, os.R_OK)
    return SYSTEM_FILE if there and not named else None


def _another_users(file: Path) -> bool:
    """Return whether root would read a user's file: sudo may keep HOME, but root must not take settings from users."""
    return os.geteuid() == 0 and file.stat().st_uid != 0


def _read_file(file: Path) -> dict[str, Any]:
    """Return the contents of a settings file.

    :raises UsageError: if it cannot be read, is not TOML, or has an unknown key.
    """
    contents = read_toml(file, f"settings file {file}")
    for key in contents:
        # pydantic-settings accepts a key in another case, and names the key of the model in its errors.
        if key not in Settings.model_fields:
            meant = hint(key.lower(), Settings.model_fields)
            raise UsageError(f"settings file {file}: unknown key {repr(key)[1:-1]}; {meant}")
    return contents


def _explain(error: ValidationError, given: dict[str, object], files: dict[Path, dict[str, Any]]) -> str:
    first = error.errors()[0]
    key = str(first["loc"][0])
    file = next((file for file, content in files.items() if key in content), None)
    if key in given:
        where = f"--{key.replace('_', '-')}"
    elif file is None or os.environ.get(f"{_PREFIX}{key.upper()}"):
        where = f"{_PREFIX}{key.upper()}"
    else:
        where = f"settings file {file}"
    path = ".".join(map(str, first["loc"]))
    value = f" = {first['input']!r}" if Settings.model_fields[key].repr else ""
    return f"{where}: {path}{value}: {plain(first['msg'])}"


def _xdg(variable: str, default: str) -> Path:
    # The XDG specification ignores relative paths.
    folder = Path(os.environ.get(variable) or ".")
    if folder.is_absolute():
        return folder
    try:
        return Path.home() / default
    except RuntimeError as error:
        raise UsageError(f"no home folder: set HOME or {variable}") from error


def service_user(settings: Settings) -> str:
    """Return the daemon's user, the owner of its socket; empty where this user is not root, or it has no other user.

    PostgreSQL and PBS may know the daemon's user only, and not root.
    """
    if os.geteuid() != 0:
        return ""
    try:
        owner = settings.socket.stat().st_uid
        return pwd.getpwuid(owner).pw_name if owner else ""
    except (OSError, KeyError):
        return ACCOUNT if ACCOUNT in (account.pw_name for account in pwd.getpwall()) else ""
