"""Signing in with a token, and what the cookie does not open to pages of others."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rota.api import ApiSettings
from rota.api.answers import Answer
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.api.ws_limits import WsLimits
from rota.dashboard import dashboard_endpoints
from rota.dashboard.errors import error_page
from rota.dashboard.signing import page_of_ours
from rota.model.access import READ
from rota.model.errors import StorageUnavailable
from rota.testing.served import Served, serve
from tests.integration.wired import wired

GOOD = {"type": "chore", "description": "do it"}
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PLAIN, HOST_ONLY = "rota_token", "__Host-rota_token"


@endpoint("GET", "/ui/broken", scope=READ, tag="dashboard", hidden=True)
async def broken(call: Call) -> Answer:
    raise ZeroDivisionError("the secret is 4711")


@endpoint("GET", "/ui/away", scope=READ, tag="dashboard", hidden=True)
async def away(call: Call) -> Answer:
    raise StorageUnavailable("no answer from db.internal:5432")


ENDPOINTS = [*dashboard_endpoints(), broken, away]


@pytest.fixture
def served(database: str) -> Iterator[Served]:
    settings = ApiSettings(auth_failures=3, remember_seconds=0.01)
    limits = WsLimits(recheck_seconds=0.05)
    with serve(database, settings, endpoints=ENDPOINTS, error_page=error_page, ws=limits) as made:
        yield made


@pytest.fixture
def secret(served: Served) -> str:
    return served.run(lambda: served.ledger.tokens.create("boss", ["admin"]))[1]


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=served.url, timeout=30) as client:
        yield client


def same_origin(served: Served, scheme: str = "http") -> dict[str, str]:
    return {"Origin": served.url.replace("http", scheme, 1), "Sec-Fetch-Site": "same-origin"}


def cookie(secret: str, name: str = PLAIN) -> dict[str, str]:
    return {"Cookie": f"rota_zone=Europe%2FBerlin; {name}={secret}"}


def code(answer: httpx2.Response) -> tuple[int, str | None]:
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return answer.status_code, answer.json()["code"] if is_problem else None


@pytest.fixture
def sign_in(served: Served, http: httpx2.Client) -> Callable[..., httpx2.Response]:
    def post(token: str, **more: Any) -> httpx2.Response:
        headers = more.pop("headers", same_origin(served))
        return http.post("/sign-in", data={"token": token, **more}, headers=headers)

    return post


# in and out


def test_a_browser_is_led_to_the_form_and_from_there_to_the_page_it_wanted(
    served: Served, http: httpx2.Client, secret: str, sign_in: Callable[..., httpx2.Response]
) -> None:
    for path in ("/", "/items/x?q=a%20b", "/docs", "/nowhere"):
        led = http.get(path, headers=HTML)
        assert led.status_code == 303, path
        assert led.headers["cache-control"] == "no-store"
    assert led.headers["location"] == "/sign-in?next=/nowhere"
    led = http.get("/items/x?q=a%20b", headers=HTML)
    form = http.get(led.headers["location"])
    assert form.status_code == 200
    assert 'name="next" value="/items/x?q=a%20b"' in form.text
    assert 'type="password" autocomplete="current-password"' in form.text
    entered = sign_in(f" {secret} ", next="/items/x?q=a%20b")
    assert (entered.status_code, entered.headers["location"]) == (303, "/items/x?q=a%20b")
    assert entered.headers["set-cookie"] == (f"{PLAIN}={secret}; Path=/; HttpOnly; SameSite=Strict")
    page = http.get("/", headers=HTML)  # the client keeps the cookie
    assert page.status_code == 200
    assert "boss" in page.text
    assert 'action="/sign-out"' in page.text
    assert page.headers["cache-control"] == "no-store"
    left = http.post("/sign-out", headers=same_origin(served))
    assert (left.status_code, left.headers["location"]) == (303, "/sign-in")
    assert left.headers.get_list("set-cookie") == [
        f"{PLAIN}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0",
        f"{HOST_ONLY}=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0",
    ]
    assert http.get("/", headers=HTML).status_code == 303


def test_without_tokens_there_is_nothing_to_sign_in_to(
    served: Served, http: httpx2.Client, sign_in: Callable[..., httpx2.Response]
) -> None:
    assert http.get("/sign-in?next=/docs").headers["location"] == "/docs"
    led = sign_in("whatever", next="/docs")
    assert (led.headers["location"], led.headers.get("set-cookie")) == ("/docs", None)
    assert http.get("/", headers=cookie("rota_old")).status_code == 200


@pytest.mark.parametrize("headers", [{"Origin": "https"}, {"X-Forwarded-Proto": "https, http"}])
def test_behind_tls_the_cookie_is_secure_and_bound_to_the_host(
    served: Served, secret: str, headers: dict[str, str], sign_in: Callable[..., httpx2.Response]
) -> None:
    scheme = "https" if "Origin" in headers else "http"
    entered = sign_in(secret, headers=headers | same_origin(served, scheme))
    assert entered.headers["set-cookie"] == (
        f"{HOST_ONLY}={secret}; Path=/; HttpOnly; SameSite=Strict; Secure"
    )


def test_a_wrong_token_is_answered_with_the_form_and_guessing_has_a_limit(
    http: httpx2.Client, secret: str, sign_in: Callable[..., httpx2.Response]
) -> None:
    for wrong in ("rota_wrong", "rota_\x00\r\nSet-Cookie: x=y", '<b>"', "x" * 600, ""):
        if wrong.startswith("rota_w"):
            sign_in(wrong)
        refused = sign_in(wrong, next="/docs")
        assert (refused.status_code, refused.headers.get("set-cookie")) == (401, None), wrong
        assert "Not signed in: this" in refused.text
        assert 'value="/docs"' in refused.text
        assert "<b>" not in refused.text
        assert "www-authenticate" not in refused.headers
    sign_in("rota_another")
    limited = sign_in(secret)
    assert (limited.status_code, limited.headers.get("set-cookie")) == (429, None)
    assert "too many wrong tokens" in limited.text
    assert 1 <= int(limited.headers["retry-after"]) <= 61


def test_revoking_the_token_signs_out_and_does_not_lock_out(
    served: Served, http: httpx2.Client, secret: str, sign_in: Callable[..., httpx2.Response]
) -> None:
    other = served.run(lambda: served.ledger.tokens.create("other", ["read"]))[1]
    sign_in(other)
    assert http.get("/work").status_code == 200
    (one,) = (one for one in served.run(served.ledger.tokens.list) if one.name == "other")
    served.run(lambda: served.ledger.tokens.revoke(one.id))
    served.api._gate.forget()
    for _ in range(5):  # every tab asks, and all of them are one browser
        assert code(http.get("/work")) == (401, "unauthenticated")
    led = http.get("/", headers=HTML)
    assert led.status_code == 303
    assert "Max-Age=0" in led.headers["set-cookie"]
    assert sign_in(secret).status_code == 303


@pytest.mark.parametrize(
    "text",
    [
        "//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "evil",
        "/\t/evil.example", "/\n/evil.example", " //evil.example", "javascript:alert(1)", "",
        "/x\r\nSet-Cookie: a=b", "/sign-in?next=/sign-in", "/sign-out", "/" + "x" * 3000, "///x",
        "/a\\b", "http:/x", "?x", "/ /x", "/\x00",
    ],
)  # fmt: skip
def test_next_leads_to_no_other_server(text: str) -> None:
    assert page_of_ours(text) == "/"


def test_next_keeps_pages_of_ours() -> None:
    for path in ("/", "/items/1?q=a%20b&x=1", "/ui/runs?after=2026-01-01T00:00:00Z"):
        assert page_of_ours(path) == path
    assert page_of_ours("/ü?q=ß") == "/%C3%BC?q=%C3%9F"


# programs


def test_programs_get_problem_documents_as_before(http: httpx2.Client, secret: str) -> None:
    wrong = {"Authorization": "Bearer rota_wrong"}
    for path in ("/work", "/"):
        for headers in (wrong, wrong | HTML):
            answer = http.get(path, headers=headers)
            assert code(answer) == (401, "unauthenticated"), (path, headers)
            assert answer.headers["www-authenticate"] == "Bearer"
            break  # three wrong tokens lock the address
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        assert code(http.get("/work", headers=headers)) == (401, "unauthenticated")
    script = {"Accept": "text/html", "Sec-Fetch-Mode": "cors"}
    assert code(http.get("/", headers=script)) == (401, "unauthenticated")
    known = {"Authorization": f"Bearer {secret}"}
    assert code(http.get("/nowhere", headers=known)) == (404, "not_found")
    assert code(http.get("/items/x", headers=known | {"Accept": "application/json"})) == (
        404, "not_found",
    )  # fmt: skip


def test_a_header_goes_before_the_cookie(http: httpx2.Client, secret: str) -> None:
    wrong = {"Authorization": "Bearer rota_wrong"} | cookie(secret)
    assert code(http.get("/work", headers=wrong)) == (401, "unauthenticated")
    assert http.post(
        "/work", json=GOOD, headers={"Authorization": f"Bearer {secret}"} | cookie("rota_x")
    ).json()["created_by"] == "boss"  # fmt: skip


# what pages of others may not


def test_a_cookie_changes_something_only_from_our_own_page(
    served: Served, http: httpx2.Client, secret: str
) -> None:
    """CSRF, also from another port of this machine, to which SameSite is no bar."""
    for headers in (
        {},  # neither header: a browser that says nothing is not believed
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Origin": served.url, "Sec-Fetch-Site": "cross-site"},
    ):
        for name in (PLAIN, HOST_ONLY):
            crossed = http.post("/work", json=GOOD, headers=headers | cookie(secret, name))
            assert code(crossed) == (403, "cross_origin"), headers
        assert code(http.post("/sweep", headers=headers | cookie(secret)))[0] == 403
    mixed = same_origin(served) | cookie(secret, HOST_ONLY)
    assert code(http.post("/work", json=GOOD, headers=mixed)) == (403, "cross_origin")
    form = http.post("/work", data=GOOD, headers=same_origin(served) | cookie(secret))
    assert code(form) == (415, "unsupported_media_type")
    for headers in (
        {"Origin": served.url} | cookie(secret),
        {"Sec-Fetch-Site": "same-origin"} | cookie(secret),
        same_origin(served, "https") | cookie(secret, HOST_ONLY),
    ):
        made = http.post("/work", json=GOOD, headers=headers)
        assert (made.status_code, made.json().get("created_by")) == (201, "boss")


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out"])
def test_no_other_page_signs_a_browser_in_or_out(
    http: httpx2.Client, secret: str, path: str
) -> None:
    """Login CSRF: work done under somebody else's name would be seen by him."""
    for headers in ({}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        crossed = http.post(path, data={"token": secret}, headers=headers)
        assert crossed.status_code == 403, headers
        assert "set-cookie" not in crossed.headers
    rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert http.post(path, data={"token": secret}, headers=rebound).status_code == 421


def test_a_neighbour_cannot_plant_a_cookie(
    served: Served, http: httpx2.Client, secret: str
) -> None:
    other = served.run(lambda: served.ledger.tokens.create("other", ["admin"]))[1]
    two = {"Cookie": f"{PLAIN}={other}; {PLAIN}={secret}"}
    assert code(http.get("/work", headers=two)) == (401, "unauthenticated")
    both = {"Cookie": f"{PLAIN}=rota_planted; {HOST_ONLY}={secret}"}
    assert http.get("/work", headers=both).status_code == 200
    for said in ({"X-Forwarded-Proto": "https"}, same_origin(served, "https")):
        planted = http.get("/work", headers=cookie(secret, PLAIN) | said)
        assert code(planted) == (401, "unauthenticated"), said


def test_a_neighbours_page_cannot_load_what_the_cookie_opens(
    http: httpx2.Client, secret: str
) -> None:
    for site in ("same-site", "cross-site"):
        loaded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"} | cookie(secret)
        assert code(http.get("/work", headers=loaded)) == (403, "cross_origin")
        assert http.get("/static/x/rota.svg", headers=loaded).status_code == 200
        led = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"} | cookie(secret)
        assert http.get("/work", headers=led).status_code == 200
    assert http.get("/work", headers=cookie(secret)).status_code == 200


def test_a_link_of_another_site_can_be_followed_with_one_click(
    http: httpx2.Client, secret: str
) -> None:
    linked = http.get("/sign-in?next=/items/1", headers={"Sec-Fetch-Site": "cross-site"})
    assert '<a href="/items/1">' in linked.text
    assert '<a href="/items/1">' not in http.get("/sign-in?next=/items/1").text


def test_a_websocket_and_a_stream_take_the_cookie_of_our_own_page_only(
    served: Served, http: httpx2.Client, secret: str
) -> None:
    with wired(served.url, cookie(secret) | {"Origin": served.url}) as ws:
        ws.get("subscribe")
        assert ws.get("work.create", **GOOD)["created_by"] == "boss"
    for headers in ({}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}):
        with (
            pytest.raises(InvalidStatus) as refused,
            wired(served.url, cookie(secret) | headers),
        ):
            pass
        assert json.loads(refused.value.response.body)["code"] == "cross_origin"
    stream = {"Accept": "text/event-stream"} | cookie(secret)
    with http.stream("GET", "/events", headers=stream) as answer:
        assert answer.status_code == 200


def test_a_page_hears_over_its_websocket_that_it_is_signed_out(served: Served, secret: str) -> None:
    """A browser hides the status of a refused handshake from the page."""
    headers = cookie(secret) | {"Origin": served.url}
    with wired(served.url, headers) as ws:
        ws.get("subscribe")
        (one,) = served.run(served.ledger.tokens.list)
        served.run(lambda: served.ledger.tokens.revoke(one.id))
        with pytest.raises(ConnectionClosed) as closed:
            ws.hear()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
    with wired(served.url, headers) as ws:
        assert ws.refused("subscribe") == ("unauthenticated", 401)


def test_a_server_for_others_shows_its_form_under_any_name(database: str) -> None:
    settings = ApiSettings(host="0.0.0.0")
    with (
        serve(database, settings, endpoints=ENDPOINTS) as served,
        httpx2.Client(base_url=served.url, headers={"Host": "rota.example.org"}) as http,
    ):
        assert http.get("/sign-in").status_code == 200
        assert http.get("/icon/0").status_code == 200
        assert http.get("/health").status_code == 200


# errors as pages


def test_errors_are_pages_for_people_with_the_headers_of_pages(
    served: Served, http: httpx2.Client, secret: str
) -> None:
    reader = served.run(lambda: served.ledger.tokens.create("reader", ["read"]))[1]
    shown = HTML | cookie(reader)
    found = {
        path: http.get(path, headers=shown)
        for path in ("/nowhere", "/items/x", "/tokens", "/ui/broken", "/ui/away", "/static/x/y")
    }
    assert [page.status_code for page in found.values()] == [404, 404, 403, 500, 503, 404]
    for path, page in [*found.items(), ("/sign-in", http.get("/sign-in"))]:
        assert page.headers["content-type"] == "text/html; charset=utf-8", path
        policy = set(page.headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src 'self'", "form-action 'self'", "frame-ancestors 'none'",
            "object-src 'none'", "base-uri 'none'",
        }, "a further rule would allow what the first forbids"  # fmt: skip
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        assert "camera=()" in page.headers["permissions-policy"]
        assert page.headers["cache-control"] == "no-store"
        assert '<main id="main"' in page.text, path
    assert 'role="search"' in found["/nowhere"].text
    assert 'href="/"' in found["/nowhere"].text
    for path in ("/nowhere", "/tokens"):  # who is signed in may sign out here too
        assert '<form class="signed"' in found[path].text
    assert "<code>admin</code>" in found["/tokens"].text
    assert "4711" not in found["/ui/broken"].text
    assert "db.internal" not in found["/ui/away"].text
    assert found["/ui/away"].headers["retry-after"] == "1"
    hostile = http.get("/<script>alert(1)</script>", headers=shown)
    assert "<script>alert" not in hostile.text


def test_the_page_about_a_database_that_is_away_does_without_it(
    served: Served, http: httpx2.Client
) -> None:
    served.run(served.store.close)
    for path in ("/", "/items/x", "/nowhere"):
        away = http.get(path, headers=HTML)
        assert away.status_code == 503, path
        assert "The database does not answer" in away.text
        assert "/static/" in away.text
    style = away.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    assert http.get(style).status_code == 200
    assert code(http.get("/work"))[0] == 503


def test_files_of_the_dashboard_have_their_types(http: httpx2.Client, secret: str) -> None:
    for name, kind in (("base.css", "text/css"), ("rota.js", "text/javascript"),
                       ("rota.svg", "image/svg+xml")):  # fmt: skip
        file = http.get(f"/static/x/{name}")
        assert file.headers["content-type"].startswith(kind)
        assert file.headers["x-content-type-options"] == "nosniff"
