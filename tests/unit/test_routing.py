"""Paths and what they lead to."""

import pytest

from rota.api.answers import Answer, empty_answer
from rota.api.call import Call
from rota.api.routing import Endpoint, Routes, endpoint


def route(method: str, path: str) -> Endpoint:
    @endpoint(method, path, scope=None, tag="t")
    async def run(call: Call) -> Answer:
        return empty_answer()

    return run


ROUTES = Routes(
    [
        route("POST", "/hooks/github"),
        route("POST", "/hooks/{agent}/{schedule}"),
        route("GET", "/work/{id}"),
        route("POST", "/work/claim"),
        route("POST", "/work/{id}/claim"),
        route("GET", "/work/{id}/claim/{name}/end"),
        route("GET", "/work/claim/{name}"),
        route("GET", "/"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "found", "parameters"),
    [
        ("POST", "/hooks/github", "/hooks/github", []),
        ("POST", "/hooks/smith/push", "/hooks/{agent}/{schedule}", ["smith", "push"]),
        ("POST", "/hooks/github/push", "/hooks/{agent}/{schedule}", ["github", "push"]),
        ("POST", "/hooks/github/github", "/hooks/{agent}/{schedule}", ["github", "github"]),
        ("POST", "/hooks/smith", None, []),
        ("POST", "/hooks//push", None, []),
        ("POST", "/hooks/github/", None, []),
        ("GET", "/work/x", "/work/{id}", ["x"]),
        ("POST", "/work/claim", "/work/claim", []),
        ("GET", "/work/claim", None, []),
        ("POST", "/work/claim/claim", None, []),
        ("GET", "/work/claim/claim/x/end", "/work/{id}/claim/{name}/end", ["claim", "x"]),
        ("HEAD", "/", "/", []),
        ("GET", "/" + "work/" * 10_000, None, []),
        ("GET", "", None, []),
    ],
)
def test_a_fixed_segment_goes_first_and_a_parameter_where_that_leads_nowhere(
    method: str, path: str, found: str | None, parameters: list[str]
) -> None:
    led = ROUTES.find(path)
    one = led.endpoint(method)
    assert (one.path if one else None) == found
    if found:
        assert led.parameters == parameters
