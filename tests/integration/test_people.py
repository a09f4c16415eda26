# SPDX-License-Identifier: Apache-2.0
"""People without tokens: named by a proxy, or logged in with an OpenID provider that takes nothing on trust; and the audit log."""
import base64
import hashlib
import http.client
import http.server
import json
import subprocess
import time
import urllib.parse

import pytest
from go_tools import Answering, serving
from wick_tools import SHOP, WICK, Server, request, some, token_of, wait_for

GRANTS = '[{group: platform, scope: admin}, {group: shop, scope: read, tenant: shop}, {user: eve@example.com, scope: write, tenant: eve}]'


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider(Answering):
    """An OpenID provider that refuses whatever the standards do not allow. Attributes of its server: people, change, and what it saw."""

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/realm/.well-known/openid-configuration":
            base = self.server.url + "/realm"
            return self.answer(200, json.dumps({"issuer": base, "authorization_endpoint": base + "/auth", "token_endpoint": base + "/token"}).encode())
        q = dict(urllib.parse.parse_qsl(url.query, strict_parsing=True))
        wrong = [k for k, v in {"response_type": "code", "client_id": "wick server", "code_challenge_method": "S256"}.items() if q.get(k) != v]
        wrong += [k for k in ("state", "nonce", "redirect_uri") if len(q.get(k, "")) < 16]
        if url.path != "/realm/auth" or wrong or "openid" not in q["scope"].split() or len(q["code_challenge"]) != 43:
            return self.answer(400, f"refused: {wrong} {self.path}".encode())
        code = b64(hashlib.sha256(self.path.encode()).digest())
        self.server.codes[code] = q
        self.answer(302, headers={"Location": q["redirect_uri"] + "?" + urllib.parse.urlencode({"state": q["state"], "code": code})})

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode(), strict_parsing=True))
        secret = base64.b64decode(self.headers["authorization"].removeprefix("Basic ")).decode()
        asked = self.server.codes.pop(form.get("code"), None)  # once
        verifier = form.get("code_verifier", "")
        if (self.path != "/realm/token" or form.get("grant_type") != "authorization_code" or secret != "wick%20server:s%3Acret" or not asked
                or form.get("redirect_uri") != asked["redirect_uri"] or not 43 <= len(verifier) <= 128
                or b64(hashlib.sha256(verifier.encode()).digest()) != asked["code_challenge"]):
            return self.answer(400, b'{"error":"invalid_grant"}')
        now = int(time.time())
        claims = {"iss": self.server.url + "/realm", "aud": "wick server", "exp": now + 300, "iat": now, "nonce": asked["nonce"], "sub": "1234",
                  **self.server.person} | self.server.change(asked)
        token = ".".join((b64(b'{"alg":"RS256"}'), b64(json.dumps({k: v for k, v in claims.items() if v is not None}).encode()), b64(b"signature")))
        self.answer(200, json.dumps({"access_token": "x", "token_type": "Bearer", "id_token": token}).encode())


@pytest.fixture
def provider():
    with serving(Provider) as p:
        p.codes, p.person, p.change = {}, {"email": "ann@example.com", "groups": ["users", "platform"]}, lambda asked: {}
        yield p


def oidc_options(p):
    return ("--set", f"auth.grants={GRANTS}",
            "--set", f'auth.oidc={{issuer: "{p.url}/realm", client_id: "wick server", client_secret: "s:cret", name: Example}}')


class Browser:
    """Follows redirects one by one and keeps cookies as a browser does: by host, those of SameSite=Strict not on the way back from another site."""

    def __init__(self):
        self.cookies = {}

    def get(self, url, **headers):
        u = urllib.parse.urlsplit(url)
        c = http.client.HTTPConnection(u.netloc, timeout=30)
        jar = "; ".join(f"{k}={v[0]}" for k, v in self.cookies.get(u.netloc, {}).items() if u.path.startswith(v[1]))
        c.request("GET", u.path + ("?" + u.query if u.query else ""), headers={**headers, **({"Cookie": jar} if jar else {})})
        r = c.getresponse()
        body = r.read()
        lines = r.headers.get_all("set-cookie") or []
        assert not [line for line in lines if "HttpOnly" not in line or "SameSite" not in line]
        for line in lines:
            (name, value), *rest = [part.strip().partition("=")[::2] for part in line.split(";")]
            self.cookies.setdefault(u.netloc, {})[name] = (value, dict(rest).get("Path", "/"))
        return r, body

    def login(self, server, to="/"):
        url = server.url + "/oidc/login?" + urllib.parse.urlencode({"to": to})
        for _ in range(4):
            r, body = self.get(url)
            if r.status != 302:
                return r.status, body.decode()
            url = urllib.parse.urljoin(url, r.headers["location"])
            if "/oidc/" not in url and "/realm/" not in url:
                return 302, url
        raise AssertionError(url)


@pytest.fixture
def served(tmp_path, provider):
    s = Server(tmp_path, *oidc_options(provider))
    yield s
    if s.p.poll() is None:
        s.stop()


def session_of(server, browser):
    return json.loads(browser.get(server.url + "/api/v1/session")[1])


def test_login(served, provider):
    assert served.get("/api/v1/services")[0] == 401, "also for the user of the server: people log in"
    b = Browser()
    assert session_of(served, b) == {"required": True, "scope": "none", "tenant": "", "provider": "Example"}
    assert b.login(served, "/services?x=1") == (302, served.url + "/services?x=1")
    assert session_of(served, b) == {"required": True, "scope": "admin", "tenant": "", "person": "ann@example.com", "provider": "Example"}
    assert b.get(served.url + "/api/v1/services")[0].status == 200
    assert Browser().get(served.url + "/api/v1/services")[0].status == 401, "another browser"


def test_grants(served, provider):
    """The first that fits: by group with its tenant, by user; and none."""
    for person, scope, tenant in (({"email": "bob@example.com", "groups": ["shop"]}, "read", "shop"), ({"email": "eve@example.com"}, "read", "eve"),
                                  ({"email": None, "groups": "platform"}, "admin", "")):
        provider.person, b = person, Browser()
        assert b.login(served)[0] == 302
        got = session_of(served, b)
        assert (got["tenant"], got["scope"]) == (tenant, scope)
        assert got["person"] == (person["email"] or "1234")
    for verified, who, status in ((True, "eve@example.com", 302), (False, "1234", 403), ("false", "1234", 403)):  # anybody may have said so
        provider.person = {"email": "eve@example.com", "email_verified": verified}
        got = (b := Browser()).login(served)
        assert got[0] == status and (session_of(served, b)["person"] == who if status == 302 else f"{who} is known" in got[1]), got
    provider.person = {"email": "mallory@example.com", "groups": ["shop,platform", "shops", ""]}
    status, text = Browser().login(served)
    assert status == 403 and "no grant fits" in text


@pytest.mark.parametrize("change, why", [
    ({"iss": "https://other"}, "another issuer"), ({"aud": "other"}, "another client"), ({"aud": ["wick server", "other"]}, "another client"),
    ({"azp": "other"}, "another client"), ({"exp": 1}, "has expired"), ({"exp": None}, "has expired"), ({"iat": 1 << 40}, "of the future"),
    ({"nonce": "x"}, "another login"), ({"nonce": None}, "another login"), ({"sub": None}, "no subject")])
def test_id_tokens_that_are_refused(served, provider, change, why):
    provider.change = lambda asked: change
    b = Browser()
    status, text = b.login(served)
    assert status == 403 and why in text and session_of(served, b)["scope"] == "none"


def test_another_party_of_two_audiences(served, provider):
    provider.change = lambda asked: {"aud": ["other", "wick server"], "azp": "wick server"}
    assert Browser().login(served)[0] == 302


def test_a_login_is_of_one_browser_and_once(served, provider):
    b = Browser()
    r, _ = b.get(served.url + "/oidc/login")
    r, _ = b.get(r.headers["location"])
    callback = r.headers["location"]
    assert callback.startswith(served.url + "/oidc/callback?")
    stolen, text = Browser().get(callback)
    assert stolen.status == 403 and b"another browser" in text
    forged, _ = b.get(callback.replace("code=", "code=x"))
    assert forged.status == 403, "the provider does not know that code, and the login is used up"
    again, text = b.get(callback)
    assert again.status == 403 and b"not begun here" in text


@pytest.mark.parametrize("to", ["//evil.example.com/", "https://evil.example.com", "/\\evil.example.com", "/a\r\nset-cookie: x=1", ""])
def test_returns_to_this_server(served, provider, to):
    assert Browser().login(served, to) == (302, served.url + "/")


def test_provider_away(tmp_path):
    with serving(Provider) as p:
        options = oidc_options(p)
    s = Server(tmp_path, *options)
    try:
        status, text = Browser().login(s)
        assert status >= 500 and s.get("/healthz")[0] == 200, text
        for twice in ("x-user", "x-groups"):  # the client's own beside the proxy's
            c = http.client.HTTPConnection(s.url.removeprefix("http://"), timeout=30)
            c.putrequest("GET", "/api/v1/services")
            for name, value in (("x-user", "bob"), ("x-groups", "shop"), (twice, "platform")):
                c.putheader(name, value)
            c.endheaders()
            assert c.getresponse().status == 401
            c.close()
        token = token_of(s, "read")
        wait_for(lambda: s.get("/api/v1/services", token)[0] == 200, 20)  # tokens work beside it
    finally:
        s.stop()


def test_logout_and_time(tmp_path, provider):
    s = Server(tmp_path, *oidc_options(provider), "--set", "auth.oidc.session=2s")
    try:
        b = Browser()
        assert b.login(s)[0] == 302 and b.get(s.url + "/api/v1/services")[0].status == 200
        wait_for(lambda: b.get(s.url + "/api/v1/services")[0].status == 401, 20)
    finally:
        s.stop()


# --- a proxy ---

PROXY = ("--set", f"auth.grants={GRANTS}", "--set", "auth.proxy={from: [127.0.0.0/8], user_header: x-user, groups_header: x-groups}")


def test_proxy(tmp_path):
    s = Server(tmp_path, *PROXY)
    try:
        ask = lambda **h: s.get("/api/v1/session", headers={k.replace("_", "-"): v for k, v in h.items()})[1]  # noqa: E731
        assert json.loads(ask(x_user="bob", x_groups="a, shop ,b")) == {"required": True, "scope": "read", "tenant": "shop", "person": "bob"}
        assert json.loads(ask(x_user="bob"))["scope"] == "none" and s.get("/api/v1/services", headers={"x-user": "bob"})[0] == 403
        assert s.get("/api/v1/services")[0] == 401, "a proxy is not the user that it runs as"
        assert s.get("/api/v1/services", headers={"x-user": "bob", "x-groups": "shop"})[0] == 200
        token = token_of(s, "read")
        wait_for(lambda: s.get("/api/v1/services", token)[0] == 200, 20)
    finally:
        s.stop()


def test_headers_of_others_are_not_believed(tmp_path):
    s = Server(tmp_path, *PROXY, "--set", "auth.proxy.from=[10.0.0.0/8, '127.0.0.2', '::1']")
    try:
        headers = {"x-user": "ann", "x-groups": "platform"}
        assert s.get("/api/v1/services", headers=headers)[0] == 401
        host, port = s.url.removeprefix("http://").split(":")
        c = http.client.HTTPConnection(host, int(port), source_address=("127.0.0.2", 0), timeout=30)
        c.request("GET", "/api/v1/services", headers=headers)
        assert c.getresponse().status == 200
        c.close()
    finally:
        s.stop()


@pytest.mark.parametrize("section, why", [
    ("{proxy: {from: [127.0.0.1]}}", "need grants"), ("{grants: [{group: a}]}", "need proxy or oidc"),
    ("{proxy: {from: [x]}, grants: [{group: a}]}", "'x' is neither"), ("{proxy: {from: [10.0.0.0/33]}, grants: [{group: a}]}", "neither"),
    ("{proxy: {from: [unix]}, grants: [{scope: admin}]}", "either a group or a user"),
    ("{oidc: {issuer: 'http://idp.example.com', client_id: x}, grants: [{group: a}]}", "must be https"),
    ("{oidc: {issuer: 'https://i', client_id: x, session: 13h}, grants: [{group: a}]}", "at most 12h")])
def test_configurations_that_cannot_work(tmp_path, section, why):
    (tmp_path / "wick.yaml").write_text(f"auth: {section}\n")
    p = subprocess.run([WICK, "serve", "--check", "--config", tmp_path / "wick.yaml"], capture_output=True, text=True)
    assert p.returncode == 1 and why in p.stderr, p.stderr


# --- the audit log ---

def audit_of(server):
    return [json.loads(line) for line in (server.dir / "store/audit.jsonl").read_text().splitlines()]


def test_audit(served, provider):
    assert served.send(request(SHOP))[0] == 401
    b = Browser()
    b.login(served)
    admin = token_of(served, "admin", "shop")
    wait_for(lambda: served.get("/api/v1/services", admin)[0] == 200, 20)
    assert served.send(request(SHOP), admin)[0] == 200
    now = int(time.time())
    assert served.get(f"/api/v1/delete?query=cpu&from={now - 9}&to={now}", admin, data=b"")[0] == 200
    assert served.get(f"/api/v1/delete?query=cpu&from={now - 9}&to={now}", "wrong", data=b"")[0] == 401
    reader = token_of(served, "read", "shop")
    wait_for(lambda: served.get("/api/v1/services", reader)[0] == 200, 20)
    assert served.get("/api/v1/delete?query=cpu&from=1&to=2", reader, data=b"")[0] == 403
    wait_for(lambda: len(audit_of(served)) >= 3, 20)
    login, done, refused = [x for x in some(audit_of(served)) if x["status"] != 401]
    assert login["person"] == "ann@example.com" and login["target"].startswith("/oidc/callback") and login["status"] == 302
    assert done["tenant"] == "shop" and done["status"] == 200 and done["method"] == "POST" and "query=cpu" in done["target"] and done["peer"]
    assert len(done["token"]) == 8 and refused["status"] == 403 and refused["token"] != done["token"]
    assert not [x for x in audit_of(served) if "profiles" in x["target"]]
    assert (served.dir / "store/audit.jsonl").stat().st_mode & 0o777 == 0o600 and admin not in (served.dir / "store/audit.jsonl").read_text()


def test_audit_off_and_elsewhere(tmp_path):
    elsewhere = tmp_path / "logs/who.jsonl"
    elsewhere.parent.mkdir()
    elsewhere.parent.chmod(0o777)  # the server's user writes it
    for place, there in (("off", False), (elsewhere, True)):
        s = Server(tmp_path, "--set", f"auth.audit={place}")
        s.get("/api/v1/login", data=b"x")
        s.stop()
        assert elsewhere.exists() == there and not (tmp_path / "store/audit.jsonl").exists()


def test_audit_file_has_a_limit(tmp_path):
    """At 16 MiB it is renamed, over the one before."""
    s = Server(tmp_path)
    s.stop()
    path = tmp_path / "store/audit.jsonl"
    with open(path, "r+b") as f:
        f.truncate((16 << 20) - 10)
    s.start()
    try:
        assert s.get("/api/v1/login", data=b"x")[0] == 403
        wait_for(lambda: path.with_name("audit.jsonl.1").exists() and path.stat().st_size < 1000 and path.stat().st_size, 20)
    finally:
        s.stop()
