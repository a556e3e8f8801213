"""GitHub's REST API, version 2022-11-28: authentication, limits, conditional requests, errors."""

import hashlib
from dataclasses import dataclass

from rota.testing.tracker.call import Call, Moved
from rota.testing.tracker.faults import Plan
from rota.testing.tracker.github_git import routes as git_routes
from rota.testing.tracker.github_issues import routes as issue_routes
from rota.testing.tracker.http import Answer, Json, Rejection, Request
from rota.testing.tracker.hub import Hub, TokenKind
from rota.testing.tracker.limits import Budget, Limits
from rota.testing.tracker.views import Stamp

DOCUMENTATION = "https://docs.github.com/rest"


@dataclass(frozen=True, slots=True)
class GitHub:
    hub: Hub
    limits: Limits

    name = "github"

    def answer(self, request: Request, plan: Plan, stamp: Stamp) -> Answer:
        """Adds the headers of the rate limit; 304 where the client has the current version."""
        budget = self.limits.budget(request)
        try:
            _admit(request, budget)
            answer = self._handle(Call(self.hub, request, plan, stamp))
        except Rejection as refused:
            answer = self.refuse(refused, request)
        if request.method == "GET" and answer.status == 200:
            _tag(request, answer, with_link=not plan.blind_tags)
        if answer.status != 304 and request.path != "/rate_limit":
            budget.used += budget.remaining > 0
        return self.signed(answer, request)

    def _handle(self, call: Call) -> Answer:
        if call.request.path == "/rate_limit":
            return self._rate_limit(call.request)
        for routes in (issue_routes, git_routes):
            if found := routes.find(call.request.method, call.request.segments):
                handler, values = found
                answer = handler(call, **call.resolve(values))
                assert isinstance(answer, Answer)
                return answer
        raise Rejection(404, "Not Found")

    def _rate_limit(self, request: Request) -> Answer:
        login = request.token.account.login if request.token else ""
        resources = {one: self.limits.of(login, one).facts() for one in ("core", "graphql")}
        return Answer(content={"resources": resources, "rate": resources["core"]})

    def signed(self, answer: Answer, request: Request) -> Answer:
        """Adds the headers that every answer of GitHub has."""
        common = {
            "x-github-request-id": "0000:0000",
            "x-github-media-type": "github.v3; format=json",
            **self.limits.budget(request).headers(),
        }
        if request.token and request.token.kind is TokenKind.CLASSIC:
            common["x-oauth-scopes"] = ", ".join(request.token.scopes)
            common["x-accepted-oauth-scopes"] = "repo"
        answer.headers = common | answer.headers
        return answer

    def refuse(self, refused: Rejection, request: Request) -> Answer:
        content: Json = {"message": refused.message, "documentation_url": DOCUMENTATION}
        content["status"] = str(refused.status)
        headers = dict(refused.headers)
        if refused.errors:
            content["errors"] = refused.errors
        if isinstance(refused, Moved) and refused.target:
            repository, number = refused.target
            content["message"] = "Moved Permanently"
            content["url"] = f"{request.base}/repositories/{repository}/issues/{number}"
            headers["location"] = content["url"]
        return Answer(refused.status, content, headers)


def _admit(request: Request, budget: Budget) -> None:
    if request.token_is_bad:
        raise Rejection(401, "Bad credentials")
    if budget.remaining == 0 and request.path != "/rate_limit":
        whose = f"user ID {request.token.account.id}" if request.token else "127.0.0.1"
        raise Rejection(403, f"API rate limit exceeded for {whose}.")
    if "user-agent" not in request.headers:
        raise Rejection(403, "Request forbidden by administrative rules. Send a User-Agent.")


def _tag(request: Request, answer: Answer, *, with_link: bool) -> None:
    link = answer.headers.get("link", "") if with_link else ""
    tag = f'W/"{hashlib.sha256(answer.body() + link.encode()).hexdigest()}"'
    answer.headers["etag"] = tag
    known = request.headers.get("if-none-match", "")
    if tag.removeprefix("W/") in known or known.strip() == "*":
        answer.status = 304
        answer.headers.pop("link", None)
