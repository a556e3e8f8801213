"""Calls a server by plain HTTP, and lists what it may answer when its database is in trouble."""

import httpx2

from tests.faults.processes import Server


def post(server: Server, key: str) -> httpx2.Response:
    return httpx2.post(
        f"{server.url}/work",
        json={"type": "chore", "description": key},
        headers={"Idempotency-Key": key},
        timeout=30,
    )


def get(server: Server, path: str = "/work?limit=1000") -> httpx2.Response:
    return httpx2.get(server.url + path, timeout=30)


def demand_unavailable(answer: httpx2.Response, *words: str) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (503, "storage_unavailable")
    for word in words:
        assert word in problem["detail"]


def stored(server: Server) -> set[str]:
    answer = get(server)
    assert answer.status_code == 200, answer.text
    return {item["description"] for item in answer.json()}
