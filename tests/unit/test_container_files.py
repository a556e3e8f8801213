"""Dockerfile, compose file and workflow: the rules of hadolint that matter here, and the shape."""

import fnmatch
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as pairs of instruction and argument, without comments and line breaks."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def arguments(instruction: str) -> list[str]:
    return [argument for word, argument in instructions() if word == instruction]


def final_stage() -> list[tuple[str, str]]:
    everything = instructions()
    last = max(index for index, (word, _) in enumerate(everything) if word == "FROM")
    return everything[last:]


def copied_from_context() -> list[str]:
    copies = [argument.split() for argument in arguments("COPY") if "--from=" not in argument]
    return [source for words in copies for source in words[:-1]]


def load(path: str) -> dict[Any, Any]:
    document = yaml.safe_load((ROOT / path).read_text())
    assert isinstance(document, dict)
    return document


def is_pinned(image: str) -> bool:
    name, _, tag = image.rpartition(":")
    return bool(name) and tag != "latest"


# Dockerfile


def test_every_base_image_is_pinned() -> None:
    bases = [base.split()[0] for base in arguments("FROM")]
    assert len(bases) >= 2, "what builds the image does not belong in it"
    assert [base for base in bases if not is_pinned(base)] == []


def test_the_container_does_not_run_as_root() -> None:
    users = [argument for word, argument in final_stage() if word == "USER"]
    assert users
    assert users[-1].split(":")[0] not in ("0", "root")


def test_commands_get_signals_because_no_shell_stands_between() -> None:
    for word in ("ENTRYPOINT", "CMD"):
        (command,) = arguments(word)
        assert isinstance(json.loads(command), list)


def test_the_health_check_needs_nothing_the_image_lacks() -> None:
    (check,) = arguments("HEALTHCHECK")
    program, *rest = json.loads(check[check.index("CMD ") + 4 :])
    assert program == "python"
    assert "/health" in rest[-1]
    compile(rest[-1], "HEALTHCHECK", "exec")


def test_files_are_copied_and_never_added_or_copied_wholesale() -> None:
    assert arguments("ADD") == []  # unpacks archives and fetches URLs without saying so
    assert {"."}.isdisjoint(copied_from_context())


def test_every_package_is_installed_with_hashes_or_without_dependencies() -> None:
    commands = [part for run in arguments("RUN") for part in run.split("&&")]
    installs = [part for part in commands if re.search(r"\bpip install\b", part)]
    assert installs
    for install in installs:
        assert "--require-hashes" in install or "--no-deps" in install
        assert "--no-cache" in install


def test_lists_of_apt_do_not_stay_in_the_image() -> None:
    for run in arguments("RUN"):
        if "apt-get install" in run:
            assert "--no-install-recommends" in run
            assert "rm -rf /var/lib/apt/lists" in run


def test_dependencies_are_installed_before_the_source_is_copied() -> None:
    sources = copied_from_context()
    assert sources.index("requirements/run.lock") < sources.index("src")


def test_data_has_its_place() -> None:
    environment = " ".join(arguments("ENV"))
    assert "DATABASE_URL=/data/rota.db" in environment
    assert "ROTA_HOST=0.0.0.0" in environment
    assert arguments("VOLUME") == ["/data"]
    assert arguments("EXPOSE") == ["8080"]


# .dockerignore


def patterns() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def is_sent(path: str) -> bool:
    """Docker's rule, as far as our patterns need it: the last pattern that matches decides."""
    sent = True
    for pattern in patterns():
        bare = pattern.removeprefix("!")
        if fnmatch.fnmatch(path, bare) or path.startswith(f"{bare}/"):
            sent = pattern.startswith("!")
    return sent


@pytest.mark.parametrize(
    "path", [".git/config", ".venv/bin/python", ".rota/rota.db", ".env", "src/x/__pycache__"]
)
def test_the_context_holds_no_history_environment_database_or_secret(path: str) -> None:
    assert not is_sent(path)


def test_the_context_holds_what_the_dockerfile_copies() -> None:
    for source in copied_from_context():
        assert (ROOT / source).exists()
        assert is_sent(source)


# docker-compose.yml


def test_compose_offers_postgresql_for_production_and_sqlite_to_try() -> None:
    services = load("docker-compose.yml")["services"]
    by_profile = {name: service["profiles"] for name, service in services.items()}
    assert by_profile == {"rota": ["postgres"], "db": ["postgres"], "rota-sqlite": ["sqlite"]}
    assert services["rota"]["environment"]["DATABASE_URL"].startswith("postgresql://")
    assert services["rota"]["depends_on"] == {"db": {"condition": "service_healthy"}}


def test_compose_pins_images_and_keeps_what_it_stores() -> None:
    compose = load("docker-compose.yml")
    for service in compose["services"].values():
        assert is_pinned(service["image"])
        for volume in service["volumes"]:
            assert volume.split(":")[0] in compose["volumes"]


def test_a_new_container_is_called_as_the_one_before_it() -> None:
    """Else what that one had in its hands would wait for its leases."""
    services = load("docker-compose.yml")["services"]
    assert {one.get("hostname") for one in services.values() if "build" in one} == {"rota"}


def test_compose_checks_the_health_of_every_service() -> None:
    for service in load("docker-compose.yml")["services"].values():
        assert "healthcheck" in service or "build" in service  # our own image brings its check


def test_an_insecure_service_is_published_on_loopback_only() -> None:
    services = load("docker-compose.yml")["services"]
    insecure = [each for each in services.values() if "--insecure" in each.get("command", ())]
    assert insecure
    assert all(port.startswith("127.0.0.1:") for service in insecure for port in service["ports"])
    assert "ports" not in services["db"]


def test_compose_holds_no_password() -> None:
    for service in load("docker-compose.yml")["services"].values():
        for name, value in service.get("environment", {}).items():
            assert "PASSWORD" not in name or re.fullmatch(r"\$\{\w+:-\}", value)
            assert not re.search(r"://[^/@]*:[^/@]*@", value)


def docker_compose(*words: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("docker") or "false", "compose", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_docker_compose_accepts_the_file() -> None:
    if docker_compose("version").returncode != 0:
        # No component that ROTA_REQUIRE=all could demand: nothing installs it everywhere.
        pytest.skip("no docker client with the compose plugin")
    for profile in ("postgres", "sqlite"):
        outcome = docker_compose("--profile", profile, "config", "--quiet")
        assert outcome.returncode == 0, outcome.stderr


# .github/workflows/ci.yml


def workflow() -> dict[Any, Any]:
    return load(".github/workflows/ci.yml")


def steps(job: str) -> list[dict[str, Any]]:
    found = workflow()["jobs"][job]["steps"]
    assert isinstance(found, list)
    return found


def test_the_workflow_runs_what_every_developer_runs() -> None:
    triggers = workflow()[True]  # YAML 1.1 reads the key `on` so
    assert set(triggers) == {"push", "pull_request"}
    assert ".ci/run" in [step.get("run") for step in steps("test")]


def test_the_image_is_pushed_from_main_only_and_after_the_tests() -> None:
    image = workflow()["jobs"]["image"]
    assert image["needs"] == "test"
    assert "github.event_name == 'push'" in image["if"]
    assert "github.ref == 'refs/heads/main'" in image["if"]


def test_the_image_is_tagged_with_the_short_sha_and_latest() -> None:
    (meta,) = [step["with"] for step in steps("image") if step.get("id") == "meta"]
    assert meta["images"] == "ghcr.io/${{ github.repository }}"
    assert meta["tags"].split() == ["type=sha,format=short,prefix=", "type=raw,value=latest"]


def test_the_workflow_may_write_packages_only_where_it_pushes_them() -> None:
    assert workflow()["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow()["jobs"]["test"]
    assert workflow()["jobs"]["image"]["permissions"] == {"contents": "read", "packages": "write"}


def test_every_action_is_pinned_to_a_version() -> None:
    used = [step["uses"] for job in workflow()["jobs"] for step in steps(job) if "uses" in step]
    assert used
    assert [action for action in used if not re.search(r"@v\d+", action)] == []
