"""GitHub's endpoints for commits and references: enough to create one as a compare-and-swap."""

from typing import Any

from rota.testing.tracker import github_shapes as shapes
from rota.testing.tracker.access import must_write
from rota.testing.tracker.call import Call
from rota.testing.tracker.clock import moment_of
from rota.testing.tracker.git import Commit, Reference, Signature
from rota.testing.tracker.http import Answer, Rejection, Routes
from rota.testing.tracker.hub import Repository

routes = Routes()

GIT = "/repos/{owner}/{name}/git"


@routes("GET", GIT + "/ref/{rest*}")
def get_ref(call: Call, repo: Repository, rest: str) -> Answer:
    name = f"refs/{rest}"
    found = repo.git.ref(name, call.view)
    if found is None:
        raise Rejection(404, "Not Found")
    return Answer(content=shapes.ref(call.request.base, repo, name, found.sha))


@routes("GET", GIT + "/matching-refs/{rest*}")
def matching_refs(call: Call, repo: Repository, rest: str) -> Answer:
    found = repo.git.matching(f"refs/{rest}", call.view)
    return Answer(content=[shapes.ref(call.request.base, repo, one, at.sha) for one, at in found])


@routes("POST", GIT + "/refs")
def create_ref(call: Call, repo: Repository) -> Answer:
    must_write(call.token, repo, "contents")
    fields = call.fields()
    name, sha = call.text(fields, "ref") or "", call.text(fields, "sha") or ""
    if not name.startswith("refs/") or name.count("/") < 2:
        raise Rejection(422, "Reference name must start with 'refs/' and have at least two slashes")
    if sha not in repo.git.commits:
        raise Rejection(422, "Object does not exist")
    there = repo.git.refs.get(name)
    if there and not (call.plan.shared_refs and there.sha == sha):
        raise Rejection(422, "Reference already exists")
    repo.git.refs.setdefault(name, Reference(sha, call.stamp))
    return Answer(201, shapes.ref(call.request.base, repo, name, sha))


@routes("GET", GIT + "/commits/{sha}")
def get_commit(call: Call, repo: Repository, sha: str) -> Answer:
    commit = repo.git.commits.get(sha)
    if commit is None:
        raise Rejection(404, "Not Found")
    return Answer(content=shapes.commit(call.request.base, repo, commit))


@routes("POST", GIT + "/commits")
def create_commit(call: Call, repo: Repository) -> Answer:
    must_write(call.token, repo, "contents")
    fields = call.fields()
    message, tree = call.text(fields, "message"), call.text(fields, "tree")
    parents = tuple(fields.get("parents") or ())
    if message is None or tree is None:
        raise Rejection(422, 'Invalid request.\n\n"message" and "tree" weren\'t supplied.')
    if tree not in repo.git.trees:
        raise Rejection(422, "Tree SHA does not exist")
    if not all(one in repo.git.commits for one in parents):
        raise Rejection(422, "Parent SHA does not exist or is not a commit object")
    author = _signature(call, fields.get("author"))
    committer = _signature(call, fields.get("committer") or fields.get("author"))
    commit = repo.git.add(Commit(message, tree, parents, author, committer))
    return Answer(201, shapes.commit(call.request.base, repo, commit))


@routes("GET", "/repos/{owner}/{name}/commits/{rest*}")
def commit_at(call: Call, repo: Repository, rest: str) -> Answer:
    """The commit of a branch, of `HEAD`, or of a hash."""
    branch = repo.default_branch if rest == "HEAD" else rest
    found = repo.git.ref(f"refs/heads/{branch}")
    commit = repo.git.commits.get(found.sha if found else rest)
    if commit is None:
        raise Rejection(422, f"No commit found for SHA: {rest}")
    shape = shapes.commit(call.request.base, repo, commit)
    return Answer(content={"sha": commit.sha, "parents": shape["parents"], "commit": shape})


def _signature(call: Call, given: Any) -> Signature:
    """The caller, now, unless the request says otherwise."""
    fields = given if isinstance(given, dict) else {}
    login = call.account.login
    try:
        date = moment_of(fields["date"]) if fields.get("date") else call.stamp.at
    except (TypeError, ValueError):
        raise Rejection(422, f"{fields['date']!r} is not a time in ISO 8601") from None
    return Signature(
        str(fields.get("name", login)),
        str(fields.get("email", f"{login}@users.noreply.example.org")),
        date.replace(microsecond=0),
    )
