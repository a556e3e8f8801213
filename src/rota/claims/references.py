"""How people name issues: on the command line, in commit messages and in issue bodies."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from rota.model.errors import MalformedReference

_OWNER = r"(?P<owner>[A-Za-z0-9_][A-Za-z0-9_.-]*)"
_REPO = r"(?P<repo>\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)"
_NUMBER = r"(?P<number>[1-9][0-9]{0,17})(?!\w)"
# A self-hosted tracker may have its pages below a path, as in https://example.org/git/.
_URL = (
    r"(?P<address>https?://[^\s/@]+(?:(?<!github\.com)(?:/[\w.-]+)+?)??)"
    rf"/{_OWNER.replace('owner', 'url_owner')}/{_REPO.replace('repo', 'url_repo')}"
    rf"/(?P<kind>issues|pulls?)/{_NUMBER.replace('number', 'url_number')}"
)

_SHORT = re.compile(rf"(?:{_OWNER}/)?{_REPO}#{_NUMBER}")
_ADDRESS = re.compile(rf"{_URL}(?:[/?#]\S*)?", re.IGNORECASE)

# What may follow a closing keyword. `repo#N` is no reference there: "fix C#8" is about a language.
_CLOSED = re.compile(rf"{_URL}|(?:(?:{_OWNER}/{_REPO})?#|GH-){_NUMBER}", re.IGNORECASE)
_KEYWORD = re.compile(r"(?<!\w)(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?!\w) ?:? ?\n? ?", re.I)
_SEPARATOR = re.compile(r" ?\n? ?(?:[,;&+] ?\n? ?)?(?:(?:and|or) )?", re.I)

_DEPENDENCY = re.compile(r" {0,3}(?:depends on|requires):(?P<those>.*)", re.IGNORECASE)
_MENTIONED = re.compile(rf"(?<![\w/.#-])(?:{_URL}|(?:(?:{_OWNER}/)?{_REPO})?#{_NUMBER})", re.I)
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<behind>.*)")
_NO_REPOSITORIES = frozenset({"pr", "mr", "pull"})  # "PR#8" is a pull request of no repository


@dataclass(frozen=True, slots=True)
class IssueRef:
    owner: str | None  # None: not said
    repo: str
    number: int
    host: str | None = None  # None: not said, so the host of the place where it was found
    is_pull: bool = False  # the address was that of a pull request

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.repo}" if self.owner else self.repo

    def __str__(self) -> str:
        return f"{self.full_name}#{self.number}"


def parse_issue_ref(text: str) -> IssueRef:
    """`owner/repo#5`, `repo#5` or the address of an issue; raises `MalformedReference`."""
    wanted = text.strip()
    if found := _SHORT.fullmatch(wanted):
        return IssueRef(found["owner"], found["repo"], int(found["number"]))
    if found := _ADDRESS.fullmatch(wanted):
        return _from_address(found)
    raise MalformedReference(
        f"{text[:100]!r} does not name an issue; write OWNER/REPO#NUMBER (REPO#NUMBER where the"
        " owner is known), or the address of its page",
        reference=text[:100],
    )


def closing_references(
    text: str, here: str, hosts: Collection[str] | None = None
) -> list[IssueRef]:
    """The issues that this message says it closes; `here` is the `owner/repo` of a bare `#5`.

    A guard must see everything that a reader may take as closing. GitHub wants the keyword repeated
    ("closes #1, closes #2"), but other trackers and most people read "closes #1, #2 and #3" as
    three. Addresses count only on `hosts`, or on any host if that is None.
    """
    owner, _, repo = here.partition("/")
    found = (_resolved(match, owner, repo) for match in _closed(text))
    known = None if hosts is None else {host.lower() for host in hosts}
    return _unique(ref for ref in found if known is None or ref.host is None or ref.host in known)


def _closed(text: str) -> Iterator[re.Match[str]]:
    # Collapse runs of blanks, so that no pattern has to try every way of dividing them.
    line = re.sub(r"[^\S\n]+", " ", text)
    for keyword in _KEYWORD.finditer(line):
        position = keyword.end()
        while found := _CLOSED.match(line, position):
            yield found
            gap = _SEPARATOR.match(line, found.end())
            position = gap.end() if gap else found.end()


def dependency_lines(body: str, default_repo: str) -> list[IssueRef]:
    """The issues that this one waits for: lines that begin with `Depends on: …` or `Requires: …`.
    Code, and comments that the issue's page does not show (hints in a template), are skipped."""
    owner, _, repo = default_repo.partition("/")
    those = (_DEPENDENCY.match(line) for line in prose(_without_comments(body)))
    mentioned = (ref for line in those if line for ref in _MENTIONED.finditer(line["those"]))
    return _unique(_resolved(ref, owner, repo) for ref in mentioned if _names_an_issue(ref))


def _without_comments(body: str) -> str:
    """An unclosed comment is kept: waiting in vain is better than starting too early."""
    *closed, rest = body.split("-->")
    return "".join(part.partition("<!--")[0] for part in closed) + rest


def prose(text: str) -> Iterator[str]:
    """The lines outside fenced code."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            ends = found and found["fence"].startswith(fence) and not found["behind"].strip()
            fence = "" if ends else fence
        elif found:
            fence = found["fence"]
        else:
            yield line


def _names_an_issue(found: re.Match[str]) -> bool:
    return bool(found["owner"]) or (found["repo"] or "").lower() not in _NO_REPOSITORIES


def _resolved(found: re.Match[str], owner: str, repo: str) -> IssueRef:
    if found["address"]:
        return _from_address(found)
    return IssueRef(found["owner"] or owner, found["repo"] or repo, int(found["number"]))


def _from_address(found: re.Match[str]) -> IssueRef:
    return IssueRef(
        found["url_owner"],
        found["url_repo"],
        int(found["url_number"]),
        host=host_of(found["address"]),
        is_pull=found["kind"].lower() != "issues",
    )


def host_of(url: str) -> str:
    """The host as a tracker's pages name it: lower case, with a port only if it is not the
    default."""
    scheme, _, rest = url.lower().partition("://")
    name, _, port = rest.partition("/")[0].rpartition("@")[2].removeprefix("www.").partition(":")
    usual = {"http": "80", "https": "443"}.get(scheme)
    return name if port in ("", usual) else f"{name}:{port}"


def _unique(refs: Iterator[IssueRef]) -> list[IssueRef]:
    """Each reference once, in its first spelling."""
    kept: dict[IssueRef, IssueRef] = {}
    for ref in refs:
        key = replace(ref, owner=(ref.owner or "").lower(), repo=ref.repo.lower())
        kept.setdefault(key, ref)
    return list(kept.values())
