"""An independent emulation of GitHub: the npm package `emulate`, a stateful server of its REST API.

    with github_emulator() as github:
        headers = {"authorization": f"Bearer {github.token}"}
        client = httpx2.Client(base_url=github.url, headers=headers)

Our own stub can only be as right as our reading of GitHub's documentation; this one was written by
others. `make components` fetches it. The process is Node itself and not `bin/node` of the wheel, a
wrapper that leaves its child behind. It ends when its standard input does, so also when the tests
are killed.
"""

import json
import select
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rota.testing import npm

HOME = npm.CACHE / "emulator"
DEADLINE_SECONDS = 30.0

# Pinned by content: the tag `latest` of `emulate` is an unrelated package.
EMULATOR = "emulate@0.12.2"
PACKAGES = {
    EMULATOR: "sha512-cHz1ITT3xm3HJM6qSks7+ME5Bw/W7zp7ky2Ve4M4ANls46Ef"
    "eAy0m/nWOjTLJEgLEQcA9gW+L3cWjuUcklJxtQ==",
    "commander@14.0.3": "sha512-H+y0Jo/T1RZ9qPP4Eh1pkcQcLRglraJaSLoyOtHxu6AapkjW"
    "VCy2Sit1QQ4x3Dng8qDlSsZEet7g5Pq06MvTgw==",
    "picocolors@1.1.1": "sha512-xceH2snhtb5M9liqDsmEw56le376mTZkEX/jEb/RxNFyegNu"
    "l7eNslCXP9FDj/Lcu0X8KEyMceP2ntpaHrDEVA==",
    "yaml@2.9.1": "sha512-3NxN8+78OdzbT7C/WjGsyfPAtJaN3FNDsWxv7Y7mcDsT/oOm"
    "gW8BpyQQFFBnvZE3j9Y2Sdz1ULFLezL7Eb2yFw==",
}

STRANGER, OWNER, BOT = USERS = ("stranger", "octo", "rota-bot")
REPO = f"{OWNER}/widgets"
ORG_REPO = "acme/tools"


def _token(login: str) -> str:
    return f"token-of-{login}"


# An unknown token acts as the first user, so the first user owns nothing.
_SEED = {
    "tokens": {_token(login): {"login": login} for login in USERS},
    "github": {
        "users": [{"login": login} for login in USERS],
        "orgs": [{"login": "acme", "members": [{"login": OWNER, "role": "admin"}]}],
        "repos": [{"owner": OWNER, "name": "widgets"}, {"owner": "acme", "name": "tools"}],
    },
}

# GitHub's clock shows whole seconds, and a new record's change time is its creation time. The
# emulator changes a record once more while it creates it, at times a millisecond later, so that all
# comments would look edited. Therefore time stands still during one turn of the event loop.
_PROGRAM = """
const Real = Date;
let now;
function moment() {
  if (now === undefined) {
    now = Real.now() - Real.now() % 1000;
    setImmediate(() => { now = undefined; });
  }
  return now;
}
globalThis.Date = class extends Real {
  constructor(...given) { super(...(given.length ? given : [moment()])); }
  toISOString() { return super.toISOString().replace('.000Z', 'Z'); }
};

import { once } from 'node:events';
import { createServer } from 'node:net';
const [, api, seed, grants] = process.argv;
const { createEmulator } = await import(api);

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

async function start() {
  const port = await freePort();
  const baseUrl = `http://127.0.0.1:${port}`;
  try {
    return await createEmulator({ service: 'github', port, baseUrl, seed: JSON.parse(seed) });
  } catch (error) {
    if (error.code !== 'EADDRINUSE') throw error;  // somebody was quicker: another port
    return start();
  }
}

console.log = console.error;  // standard output carries the address alone
process.stdin.on('end', () => process.exit(0)).resume();
const { url } = await start();
for (const [path, token] of JSON.parse(grants)) {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(url + path, { method: 'PUT', headers, body: '{}' });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
}
process.stdout.write(`${url}\n`);
"""


class EmulatorUnavailable(RuntimeError):
    """The emulator is not installed; run `make components`."""


class EmulatorFailed(RuntimeError):
    """The emulator did not start; the message ends with its output."""


@dataclass(frozen=True, slots=True)
class GitHubEmulator:
    """`REPO` belongs to `octo`, `ORG_REPO` to an organisation; `rota-bot` may push to both.
    `stranger` has no rights, except those that the emulator gives to everybody."""

    url: str
    pid: int

    @property
    def token(self) -> str:
        """The token of `rota-bot`, the account that Rota works with."""
        return self.token_of(BOT)

    def token_of(self, login: str) -> str:
        return _token(login)


@contextmanager
def github_emulator() -> Iterator[GitHubEmulator]:
    """A new emulator with the seeded users and empty repositories; it ends with the context."""
    with tempfile.TemporaryFile() as log, _running(log) as process:
        yield GitHubEmulator(_await_url(process, log), process.pid)


@contextmanager
def _running(log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with _spawn(log) as process:
        try:
            yield process
        finally:
            process.kill()  # its state is in memory, so it need not end in good order


def _spawn(log: IO[bytes]) -> subprocess.Popen[bytes]:
    api, node = find_emulator(), npm.find_node()
    if api is None or node is None:
        raise EmulatorUnavailable("the emulator of GitHub is missing: run `make components`")
    grants = [(f"/repos/{repo}/collaborators/{BOT}", _token(OWNER)) for repo in (REPO, ORG_REPO)]
    arguments = [api.as_uri(), json.dumps(_SEED), json.dumps(grants)]
    return subprocess.Popen(
        [node, "--input-type=module", "--eval", _PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env={"NO_COLOR": "1"},  # nothing of ours: DEBUG, PORT and NODE_OPTIONS would affect it
        start_new_session=True,  # Ctrl-C ends the tests first, and they end this
    )


def _await_url(process: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    """The address, which the emulator prints when it answers."""
    url = b""
    if process.stdout and select.select([process.stdout], [], [], DEADLINE_SECONDS)[0]:
        url = process.stdout.readline()
    if not url:
        log.seek(0)
        raise EmulatorFailed(f"the emulator did not start:\n{log.read().decode()[-2000:]}")
    return url.decode().strip()


def install_command() -> tuple[str, ...]:
    return npm.install_command(HOME, PACKAGES)


def find_emulator() -> Path | None:
    """The emulator's entry point for programs."""
    return npm.find_file(HOME, PACKAGES, "emulate/dist/api.js")
