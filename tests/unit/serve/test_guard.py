"""Only whoever knows the token is answered, and only to requests from the server's own pages or from programs."""

import re
from importlib.resources import files

import pytest

from anytimebp.serve.guard import Guard
from served import TOKEN, serving, weather


@pytest.fixture(scope="module")
def served():
    with serving(weather()) as found:
        yield found


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(served):
    status, headers, _ = served.ask("GET", f"/?token={TOKEN}", token=None)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert cookie == f"anytimebp-{served.port}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    status, _, page = served.ask("GET", "/", token=None, headers={"Cookie": cookie.partition(";")[0]})
    assert status == 200
    assert b"/assets/page.js" in page


@pytest.mark.parametrize("headers", [{"Authorization": f"bearer {TOKEN}"}, {"Cookie": f"a=b; anytimebp-{{}}={TOKEN}"}])
def test_the_token_may_stand_in_a_header(served, headers):
    sent = {name: value.format(served.port) for name, value in headers.items()}
    assert served.ask("GET", "/model", token=None, headers=sent)[0] == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/model", {}),
        ("/model?token=", {}),
        (f"/model?token={TOKEN[:-1]}", {}),
        (f"/model?token=x&token={TOKEN}", {}),
        ("/model?token=%ff%00", {}),
        ("/model", {"Authorization": f"Basic {TOKEN}"}),
        ("/model", {"Authorization": "Bearer"}),
        ("/model", {"Cookie": f"anytimebp-1={TOKEN}"}),
        ("/model", {"Cookie": "=;;=\x7f"}),
        ("/openapi.json", {}),
        ("/api", {}),
        ("/nothing", {}),
    ],
)
def test_nothing_is_answered_without_the_token(served, path, headers):
    assert served.problem("GET", path, token=None, headers=headers)[0] == 401


def test_whoever_has_no_token_gets_a_page_that_asks_for_it(served):
    status, headers, page = served.ask("GET", "/", token=None)
    assert (status, headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b"This page needs a token" in page
    assert served.ask("GET", "/assets/page.css", token=None)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1.evil.example", "", "[::1", "a b"])
def test_other_hosts_are_refused(served, host):
    assert served.problem("GET", "/model", headers={"Host": host.format(served.port)})[0] == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{}", "127.0.0.1:1234", "[::1]:{}"])
def test_this_machine_is_known_by_its_names_and_behind_other_ports(served, host):
    assert served.ask("GET", "/model", headers={"Host": host.format(served.port)})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://[", "file://"])
def test_other_origins_are_refused(served, origin):
    assert served.problem("POST", "/query", {}, headers={"Origin": origin})[0] == 403


def test_the_own_origin_is_let_in(served):
    assert served.ask("POST", "/query", {}, headers={"Origin": f"http://127.0.0.1:{served.port}"})[0] == 200


def test_a_server_on_all_interfaces_is_known_by_any_address_but_by_no_name():
    guard = Guard(None, token=TOKEN, host="0.0.0.0", cookie="c", locked=b"")  # noqa: S104
    hosts = ["10.1.2.3:8765", "[fe80::1]:8765", "localhost", "evil.example", "10.1.2.3.evil.example", ":1"]
    assert [guard._is_ours(host) for host in hosts] == [True, True, True, False, False, False]


@pytest.mark.parametrize("path", ["/", "/assets/page.js", "/model", "/nothing"])
@pytest.mark.parametrize("token", [TOKEN, None])
def test_every_answer_forbids_foreign_scripts_frames_and_guesses(served, path, token):
    _, headers, _ = served.ask("GET", path, token=token)
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_the_page_has_no_inline_script_and_asks_no_other_server():
    folder = files("anytimebp.serve") / "assets"
    for asset in folder.iterdir():
        text = asset.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?://|innerHTML|outerHTML|insertAdjacentHTML|eval\(|style=|<script>| on\w+=", text
        ), asset.name


def test_every_asset_is_served():
    from anytimebp.serve.app import ASSETS, PAGES  # noqa: PLC0415

    there = {asset.name for asset in (files("anytimebp.serve") / "assets").iterdir()}
    assert there == {*ASSETS, *PAGES.values(), "locked.html", "openapi.json"}
