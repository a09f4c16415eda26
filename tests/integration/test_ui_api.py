# SPDX-License-Identifier: Apache-2.0
"""What the web UI asks beside the questions: session and login, senders, symbols, source files, the HTML export."""
import gzip
import http.client
import json
import os
import re
import subprocess
import time
import urllib.parse
import pytest
import ui_data
from wick_tools import ROOT, SHOP, WICK, Server, request, some


def ask(server, method, path, body=None, **headers):
    c = http.client.HTTPConnection(server.url.split("//")[1], timeout=10)
    c.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, text


def token(server, *options):
    return subprocess.run([WICK, "token", "create", "--file", str(server.dir / "tokens"), *options], capture_output=True,
                          text=True, check=True).stdout.strip()


def wait_for_login(server):
    deadline = time.time() + 60
    while ask(server, "GET", "/api/v1/status")[0] != 401:  # the token file is read again within a second
        assert time.time() < deadline
        time.sleep(0.1)


def test_login_and_logout(server):
    assert json.loads(ask(server, "GET", "/api/v1/session")[2]) == {"required": False, "scope": "admin", "tenant": ""}
    reader, writer = token(server, "--scope", "read", "--tenant", "a"), token(server, "--scope", "write")
    wait_for_login(server)
    assert json.loads(ask(server, "GET", "/api/v1/session")[2]) == {"required": True, "scope": "none", "tenant": ""}
    assert ask(server, "POST", "/api/v1/login", "wick_wrong")[0] == 403
    origin = server.url
    status, headers, _ = ask(server, "POST", "/api/v1/login", reader, Origin=origin)
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    cookie = cookie.split(";")[0]
    assert json.loads(ask(server, "GET", "/api/v1/session", Cookie=cookie)[2])["scope"] == "read"
    assert ask(server, "GET", "/api/v1/services", Cookie=cookie)[0] == 200
    # another page may neither log in nor out, nor do anything else that changes something
    for path in ("login", "logout", "delete?query=cpu&from=now-1h&to=now"):
        assert ask(server, "POST", "/api/v1/" + path, reader, Origin="http://evil.example", Cookie=cookie)[0] == 403
    assert ask(server, "GET", "/api/v1/services", Cookie=cookie)[0] == 200
    # a right that is missing is another answer than a token that is missing
    status, headers, _ = ask(server, "POST", "/api/v1/login", writer, Origin=origin)
    other = headers["set-cookie"].split(";")[0]
    assert ask(server, "GET", "/api/v1/services", Cookie=other)[0] == 403
    assert ask(server, "GET", "/api/v1/services")[0] == 401
    status, headers, _ = ask(server, "POST", "/api/v1/logout", Origin=origin, Cookie=cookie)
    assert status == 200 and "Max-Age=0" in headers["set-cookie"]
    assert ask(server, "GET", "/api/v1/services", Cookie=cookie)[0] == 401


def from_host(r, host, version, **own):
    attributes = r.resource_profiles[0].resource.attributes
    attributes.add(key="host.name").value.string_value = host
    attributes.add(key="service.version").value.string_value = version
    r.resource_profiles[0].scope_profiles[0].scope.name = "wick"
    for key, value in own.items():
        r.dictionary.string_table.append("wick." + key)
        a = r.dictionary.attribute_table.add(key_strindex=len(r.dictionary.string_table) - 1)
        a.value.int_value = value
        r.resource_profiles[0].scope_profiles[0].profiles[0].attribute_indices.append(len(r.dictionary.attribute_table) - 1)
    return r


def test_every_view_has_a_path(server):
    words = re.search(r"^const views = \{(.*?)\};", (ROOT / "web/src/main.js").read_text(), re.M | re.S).group(1)
    views = [pair.split(":")[0].strip(' "\n') for pair in words.split(",") if pair.strip()]
    assert "explore" in views and "" in views
    for view in some(views):
        status, headers, page = ask(server, "GET", "/" + view)
        assert status == 200 and 'id="app"' in page, view
    assert ask(server, "GET", "/nowhere")[0] == 404


def test_senders(server):
    assert server.json("/api/v1/senders")["senders"] == []
    start = time.time_ns() - 10**9
    for i in range(3):
        assert server.send(from_host(request(SHOP, start=start + i), "h1", "1.0", rate=19, lost=4, cpu_ns=5000, governor=1))[0] == 200
    assert server.send(from_host(request(SHOP[:1], "cart", start=start), "h2", "2.0"))[0] == 200
    late = from_host(request(SHOP, start=time.time_ns() - 30 * 86400 * 10**9), "h1", "1.0")
    server.send(late)  # older than the store takes
    cart, shop = sorted(server.json("/api/v1/senders")["senders"], key=lambda s: s["service"])
    assert (shop["service"], shop["host"], shop["version"], shop["scope"]) == ("shop", "h1", "1.0", "wick")
    assert (shop["profiles"], shop["samples"], shop["refused"]) == (4, 12, 1) and shop["problem"]
    assert (shop["rate"], shop["lost"], shop["cpuNs"], shop["governor"]) == (19, 4, 5000, 1)
    assert (cart["profiles"], cart["samples"]) == (1, 1) and "lost" not in cart
    assert shop["samplesPerSecond"] > 0 and shop["bytesPerSecond"] > 0 and shop["peer"].startswith("127.0.0.1")
    assert abs(int(shop["lastSeen"]) - time.time_ns()) < 60 * 10**9


def test_senders_stay_in_their_tenant(server):
    write, read_a, read_b = (token(server, "--scope", s, "--tenant", t) for s, t in (("write", "a"), ("read", "a"), ("read", "b")))
    wait_for_login(server)
    assert server.send(request(SHOP), write)[0] == 200
    assert len(server.json("/api/v1/senders", token=read_a)["senders"]) == 1
    assert server.json("/api/v1/senders", token=read_b)["senders"] == []


def test_upload(server):
    """Two tenants upload a file of one name: each sees its own. Reading rights are not enough, and hostile files are refused."""
    tokens = {(s, t): token(server, "--scope", s, "--tenant", t) for s in ("read", "write") for t in ("a", "b")}
    wait_for_login(server)

    def upload(name, data, scope="write", tenant="a", **headers):
        status, body = server.get("/api/v1/upload?name=" + urllib.parse.quote(name), tokens[scope, tenant], data, headers)
        return status, json.loads(body)

    folded = {"a": b"main;work 7\nmain 1\n", "b": b"main;other 30\n"}
    answers = {t: upload("../x/cpu.folded", folded[t], tenant=t) for t in "ab"}
    for t, (status, answer) in some(answers.items()):
        assert status == 200 and answer["service"] == "cpu.folded" and answer["type"] == "samples" == answer["types"][0], answer
        query = f'samples{{service.name="cpu.folded",service.instance.id="{answer["instance"]}"}}'
        for other in "ab":
            got = server.json("/api/v1/top?query=" + urllib.parse.quote(query), token=tokens["read", other])
            assert got["total"] == ((8 if t == "a" else 30) if t == other else 0)
    data = gzip.compress((ROOT / "tests/data/files/node-20.cpuprofile").read_bytes())
    status, answer = upload("n.cpuprofile.gz", data)
    assert status == 200 and answer["type"] == "wall" and answer["from"] <= answer["to"]
    assert upload("cpu.folded", folded["a"], scope="read")[0] == 403
    assert server.get("/api/v1/upload?name=x", data=folded["a"])[0] == 401
    assert server.get("/api/v1/upload?name=x", tokens["write", "a"], folded["a"], {"Origin": "http://evil.example"})[0] == 403
    bomb = gzip.compress(bytes(80 << 20))
    jfr = gzip.decompress((ROOT / "tests/data/files/async-profiler-4.5.jfr.gz").read_bytes())
    for name, bad, code, message in [("bomb.gz", bomb, 413, ""), ("cut.jfr", jfr[:9000], 400, "is cut short"), ("empty", b"", 400, "empty"),
                                     ("deep.json", b'{"head":' + b'{"children":[' * 5000, 400, "too deep")]:
        status, answer = upload(name, bad)
        assert status == code and message in answer["error"]["message"], (name, status, answer)


def test_symbols(server):
    r = request([("main;named", 30, False)])
    d, p = r.dictionary, r.resource_profiles[0].scope_profiles[0].profiles[0]

    def string(s):
        d.string_table.append(s)
        return len(d.string_table) - 1

    key = d.attribute_table.add(key_strindex=string("process.executable.build_id.gnu"))
    key.value.string_value = "abcdef0123"
    d.mapping_table.add(memory_start=0x400000, memory_limit=0x500000, filename_strindex=string("/usr/bin/tool"),
                        attribute_indices=[len(d.attribute_table) - 1])
    d.location_table.add(mapping_index=1, address=0x401000)
    d.stack_table.add(location_indices=[len(d.location_table) - 1])
    p.samples.add(stack_index=len(d.stack_table) - 1, values=[70])
    assert server.send(r)[0] == 200
    s = server.json("/api/v1/symbols")
    assert (s["self"], s["selfNamed"]) == (100, 30)
    tool = [b for b in s["binaries"] if b["mapping"] == "/usr/bin/tool"]
    assert len(tool) == 1 and tool[0]["buildId"] == "abcdef0123"
    assert (tool[0]["frames"], tool[0]["named"], tool[0]["self"], tool[0]["status"]) == (1, 0, 70, "missing")
    assert tool[0]["reason"] and tool[0]["fix"]


def test_source_files(tmp_path):
    (tmp_path / "code/sub").mkdir(parents=True)
    (tmp_path / "code/sub/a.c").write_text("int main(void)\n{ return \"<b>\"[0]; }\n")
    (tmp_path / "secret").write_text("secret")
    os.symlink("../secret", tmp_path / "code/link")
    (tmp_path / "wick.yaml").write_text(
        f"source:\n  - prefix: /build/\n    dir: {tmp_path}/code\n  - prefix: github.com/acme/\n"
        "    link: https://forge.example/{path}#L{line}\n"
        "  - prefix: /shop/\n    repository: https://github.com/acme/shop.git\n"
        f"  - prefix: /shop/\n    dir: {tmp_path}/code\n    link: vscode://file{{dir}}/{{path}}:{{line}}\nui:\n  price_per_core_hour: 0.04\n  own_code: acme\n")
    s = Server(tmp_path, "--config", str(tmp_path / "wick.yaml"))
    try:
        def file(name):
            return s.get("/api/v1/source?file=" + urllib.parse.quote(name))

        status, body = file("/build/sub/a.c")
        assert status == 200 and json.loads(body)["text"] == (tmp_path / "code/sub/a.c").read_text()
        for bad in ("/build/../secret", "/build/sub/../../secret", "/build/link", "/etc/passwd", "/build/none.c", "/build/",
                    "/build//etc/passwd", "/build/sub/a.c\0x"):
            status, body = file(bad)
            assert status in (404, 400) and b"secret" not in body.replace(b"/secret", b""), bad
        assert file("")[0] == 400
        assert "wick.yaml" in json.loads(file("/other/x.c")[1])["error"]["message"]
        status = s.json("/api/v1/status")
        assert status["mode"] == "server" and status["pricePerCoreHour"] == 0.04 and status["currency"] == "USD"
        assert status["ownCode"] == "acme" and status["host"] and status["otlp"]["grpc"].startswith("127.0.0.1:")
        assert status["links"] == [{"name": "github.com/acme/", "prefix": "github.com/acme/",
                                    "template": "https://forge.example/{path}#L{line}"},
                                   {"name": "https://github.com/acme/shop.git", "prefix": "/shop/",
                                    "template": "https://github.com/acme/shop/blob/{revision}/{path}#L{line}"},
                                   {"name": "/shop/", "prefix": "/shop/", "template": f"vscode://file{tmp_path}/code/{{path}}:{{line}}"}]
        links = s.json("/api/v1/source/links?file=/shop/a%20b/%23c.go&line=7&version=v1.2/3")["links"]
        assert [x["url"] for x in links] == ["https://github.com/acme/shop/blob/v1.2%2F3/a%20b/%23c.go#L7",
                                             f"vscode://file{tmp_path}/code/a%20b/%23c.go:7"]
        assert s.json("/api/v1/source/links?file=/shop/x.go")["links"][0]["url"].endswith("/blob/HEAD/x.go#L1")
        assert s.json("/api/v1/source/links?file=/elsewhere/x.go")["links"] == []
        assert s.get("/api/v1/source/links")[0] == 400
    finally:
        s.stop()


def test_html_export(server):
    hostile = "</script><script>alert(1)</script>"
    assert server.send(request(SHOP + [(f"main;{hostile}", 5, False)]))[0] == 200
    status, headers, page = ask(server, "GET", "/api/v1/profile?format=html&query=cpu")
    assert status == 200 and headers["content-type"].startswith("text/html") and "attachment" in headers["content-disposition"]
    assert "encode" in page and hostile not in page and "http://" not in page.replace("http://www.w3.org", "")
    diff = ask(server, "GET", "/api/v1/profile?format=html&query=cpu&base_from=now-2h&base_to=now-1h")
    assert diff[0] == 200 and "encode" in diff[2]


@pytest.mark.parametrize("form", ["pprof", "otlp", "otlp-json", "folded", "speedscope", "html"])
def test_export_of_frames(server, form):
    """What is taken away is what the page shows: only stacks with a frame, or without it, in every format."""
    r = ui_data.Request("shop")
    r.profile("cpu", "nanoseconds", time.time_ns() - 20 * 10**9, [(("main", "checkout", ("encode", "/src/json.c", 7)), 30), (("main", "checkout", "sort"), 10), (("main", "idle"), 2)])
    assert server.send(r.done())[0] == 200

    def names(filters):
        status, body = server.get(f"/api/v1/profile?format={form}&query=cpu&{filters}")
        assert status == 200, body
        return {n for n in ("main", "checkout", "encode", "sort", "idle") if n.encode() in (gzip.decompress(body) if form == "pprof" else body.split(b"<script")[-2 if form == "html" else 0])}

    assert names("") == {"main", "checkout", "encode", "sort", "idle"}
    assert names("focus=encode") == {"main", "checkout", "encode"}
    assert names("focus=json%5C.c$") == {"main", "checkout", "encode"}  # a file
    assert names("ignore=checkout") == {"main", "idle"}
    assert names("hide=checkout&ignore=idle") == {"main", "encode", "sort"}
    status, body = server.get(f"/api/v1/profile?format={form}&query=cpu&base_from=now-2h")
    assert status == 200 if form == "html" else status == 400 and b"only format=html compares" in body
    status, body = server.get(f"/api/v1/profile?format={form}&query=cpu&focus=(")
    assert status == 400 and b"focus: bad regular expression" in body


def of_versions(server, service, runs, now):
    """runs: (version, first minute ago, last minute ago), a profile of ten seconds every minute."""
    for version, first, last in some(runs):
        r = ui_data.Request(service, version)
        for i in range(first, last - 1, -1):
            r.profile("cpu", "nanoseconds", now - i * 60 * 10**9, [(("main", "work"), 10**9)])
        status, body = server.send(r.done())
        assert status == 200, body


def test_deploys(server):
    """A rollback: the latest version is what runs last; a deploy is at the first profile of its run; services do not mix."""
    now = time.time_ns()
    of_versions(server, "web", [("1.4", 55, 30), ("1.5", 29, 12), ("1.4", 11, 2)], now)
    of_versions(server, "db", [("9", 50, 40), ("10", 39, 3)], now)
    answer = json.loads(ask(server, "GET", "/api/v1/deploys?query=cpu&from=now-1h")[2])["deploys"]
    got = {(d["service"], d["version"]): d for d in answer if d["service"] in ("web", "db")}
    ago = {k: [round((now - int(d[x])) / 60e9, 3) for x in ("first", "since", "last")] for k, d in got.items()}
    assert ago == {("web", "1.4"): [55, 11, 2], ("web", "1.5"): [29, 29, 12], ("db", "9"): [50, 50, 40], ("db", "10"): [39, 39, 3]}
    assert {k for k, d in got.items() if d["latest"]} == {("web", "1.4"), ("db", "10")}
    assert {k for k, d in got.items() if d["deployed"]} == {("web", "1.4"), ("web", "1.5"), ("db", "10")}


def test_a_tool_is_no_deploy(server):
    """A compiler of chosen versions that is run again and again, in processes of ten seconds; a service of the same versions whose
    process keeps running; and one whose sender does not say which process it is."""
    now = time.time_ns()

    def run(service, version, pid, ago, seconds):
        r = ui_data.Request(service, version)
        if pid:
            r.r.resource_profiles[0].resource.attributes.add(key="process.pid").value.int_value = pid
        for at in range(0, seconds, 5):
            r.profile("cpu", "nanoseconds", now - (ago - at) * 10**9, [(("main", "work"), 4 * 10**9)], 5 * 10**9)
        status, body = server.send(r.done())
        assert status == 200, body

    for i in range(20):
        run("compiler", "5.8.2" if i < 10 else "5.9.3", 5000 + i, 1200 - 30 * i, 10)
    for name, pid in (("daemon", 4000), ("silent", 0)):
        run(name, "1.0", pid, 1200, 300)
        run(name, "2.0", pid and pid + 1, 880, 300)
    answer = json.loads(ask(server, "GET", "/api/v1/deploys?query=cpu&from=now-1h")[2])["deploys"]
    got = {(d["service"], d["version"]) for d in answer if d["deployed"]}
    assert {("daemon", "2.0"), ("silent", "2.0")} <= got and not [x for x in got if x[0] == "compiler"], got


def test_steps_are_no_shorter_than_the_interval(server):
    """Profiles every minute: a chart of ten minutes has no steps without profiles between those with."""
    now = time.time_ns()
    of_versions(server, "slow", [("1", 12, 0)], now)
    answer = json.loads(ask(server, "GET", "/api/v1/series?query=cpu{service.name=%22slow%22}&from=now-10m")[2])
    assert int(answer["interval"]) == 60 * 10**9
    assert int(answer["step"]) >= 60 * 10**9
    values = answer["series"][0]["values"]
    assert all(v > 0 for v in some(values[1:-1])), values
    assert len(set(values[1:-2])) == 1, values  # as many profiles in each step: no comb


def test_flame_by_label(server):
    """One answer for all groups: its branches are the trees of the groups, and together the tree of the whole."""
    now = time.time_ns()
    of_versions(server, "one", [("1", 3, 1)], now)
    of_versions(server, "two", [("1", 9, 1)], now)
    query = urllib.parse.quote('cpu{service.name=~"one|two"}')

    def totals(extra):
        tree = json.loads(ask(server, "GET", f"/api/v1/flame?query={query}&from=now-1h{extra}")[2])
        names = [""] + [tree["frames"][n[1]]["function"] for n in tree["nodes"][1:]]
        return {(names[n[0]] if n[0] > 0 else "", names[i]): n[3] for i, n in enumerate(tree["nodes"])}, tree["coverage"]

    grouped, covered = totals("&group_by=service.name")
    whole, covered_whole = totals("")
    assert covered == covered_whole > 0
    assert grouped[("", "two")] == 3 * grouped[("", "one")] == grouped[("two", "main")]
    assert grouped[("", "")] == whole[("", "")] == grouped[("", "one")] + grouped[("", "two")]
    zoomed, _ = totals("&group_by=service.name&zoom=one")
    assert zoomed[("one", "main")] == grouped[("one", "main")]
    status, _, text = ask(server, "GET", f"/api/v1/flame?query={query}&from=now-1h&group_by=nothing.here")
    assert status == 400 and "nothing.here" in text


def test_notes_and_saved_views(tmp_path):
    """Per tenant, kept over a restart; only who may write changes them; a view never leads to another site."""
    s = Server(tmp_path, "--no-agent")
    try:
        tokens = {(scope, tenant): token(s, "--scope", scope, "--tenant", tenant) for scope in ("read", "admin") for tenant in ("one", "two")}
        wait_for_login(s)

        def call(method, path, who, body=None):
            status, _, text = ask(s, method, f"/api/v1/{path}", json.dumps(body) if body else None, Authorization="Bearer " + tokens[who])
            return status, json.loads(text)

        for kind, body in (("notes", {"text": "cache warmed", "service": "shop", "time": "1763269200000000000"}),
                           ("views", {"text": "shop, by host", "url": "explore?query=cpu%7Bservice.name%3D%22shop%22%7D"})):
            assert call("GET", kind, ("read", "one")) == (200, {kind: []})
            assert call("POST", kind, ("read", "one"), body)[0] == 403
            status, made = call("POST", kind, ("admin", "one"), body)
            assert status == 200
            (got,) = call("GET", kind, ("read", "one"))[1][kind]
            assert got["id"] == made["id"] and {k: got[k] for k in body} == body
            assert call("GET", kind, ("read", "two"))[1][kind] == []
            assert call("DELETE", f"{kind}/{made['id']}", ("admin", "two"))[0] == 404
            assert call("DELETE", f"{kind}/{made['id']}", ("read", "one"))[0] == 403
            for wrong in ({"text": ""}, {"text": "x" * 2001}, {"text": "x", "time": "-5"}):
                assert call("POST", kind, ("admin", "one"), {"url": "explore", **wrong})[0] == 400, wrong
        for url in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "explore\\x", "explore?a=<b>", "", "/explore"):
            assert call("POST", "views", ("admin", "one"), {"text": "x", "url": url})[0] == 400, url
        s.stop()
        s.start()
        assert [n["text"] for n in call("GET", "notes", ("read", "one"))[1]["notes"]] == ["cache warmed"]
        (view,) = call("GET", "views", ("read", "one"))[1]["views"]
        assert call("DELETE", f"views/{view['id']}", ("admin", "one"))[0] == 200
        assert call("GET", "views", ("read", "one"))[1]["views"] == []
    finally:
        s.stop()


def test_charts_have_a_bounded_number_of_points(server):
    """An hour, a day and 30 days: no more than 61 points, and no step shorter than the interval of the profiles."""
    now, r = time.time_ns(), ui_data.Request("shop", "1.0")
    for i in range(30):
        r.profile("cpu", "nanoseconds", now - (31 - i) * 60 * 10**9, [(("main", "work"), 10**9)])
    assert server.send(r.done())[0] == 200
    for length in ("1h", "1d", "30d"):
        s = json.loads(ask(server, "GET", f"/api/v1/series?query=cpu&from=now-{length}&to=now")[2])
        (one,) = s["series"]
        assert len(one["values"]) <= 61 and int(s["step"]) >= int(s["interval"]) == 60 * 10**9, (length, s["step"], s["interval"])
        assert sum(one["values"]) == 30 * 10**9, length


def test_shared_answers(server):
    """max-age: an answer may be shared while it is young; without it, what was acknowledged is in the next answer."""
    now = time.time_ns()

    def send(service):
        r = ui_data.Request(service, "1.0")
        r.profile("cpu", "nanoseconds", now - 60 * 10**9, [(("main", "work"), 10**9)], 10 * 10**9)
        assert server.send(r.done())[0] == 200

    def services(control):
        status, headers, text = ask(server, "GET", "/api/v1/services?from=now-1h", Cache_Control=control)
        assert status == 200
        return sorted(s["name"] for s in json.loads(text) if s["name"].startswith("shared-")), headers

    send("shared-1")
    assert services("max-age=60")[0] == ["shared-1"]
    send("shared-2")
    names, headers = services("max-age=60")
    assert names == ["shared-1"] and int(headers["age"]) < 60
    names, headers = services("max-age=0")
    assert names == ["shared-1", "shared-2"] and "age" not in headers
    assert services("no-cache")[0] == ["shared-1", "shared-2"]


def test_moved_scripts(server):
    """Two releases of a Python service in two folders: the graph, cut to what fits, and the table agree, with filters and without."""
    now = time.time_ns()
    for release, ago in (("r1", 1200), ("r2", 300)):
        r = ui_data.Request("moved", release)
        r.profile("cpu", "nanoseconds", now - ago * 10**9, [(("main", (f"f{i}", f"/srv/{release}/app.py", 10 * i, "cpython", 10 * i + (release == "r2"))), (100 + i) * 10**6) for i in range(20)])
        assert server.send(r.done())[0] == 200

    def values(what, **params):
        p = urllib.parse.urlencode({"query": 'cpu{service.name="moved",service.version="r2"}', "base_query": 'cpu{service.name="moved",service.version="r1"}', "base_from": "now-1h", **params})
        d = server.json(f"/api/v1/{what}?{p}")
        if what == "top":
            return sorted((row["name"], row["file"], *row["total"]) for row in d["rows"] if row["name"] != "main")
        frames = d["frames"]
        return sorted((frames[n[1]]["function"], frames[n[1]]["file"], n[3], n[5]) for n in d["nodes"][1:] if frames[n[1]].get("function", "").startswith("f"))

    both = sorted((f"f{i}", "/srv/r2/app.py", (100 + i) * 10**6, (100 + i) * 10**6) for i in range(20))
    assert values("flame", by="filefunction", max_nodes=22) == values("top", limit=100) == both
    for release, column in (("r1", 2), ("r2", 3)):
        one = sorted((name, f"/srv/{release}/app.py", *[v if c == column else 0 for c, v in ((2, a), (3, b))]) for name, _, a, b in both)
        assert values("flame", by="filefunction", focus=f"/{release}/") == values("top", limit=100, focus=f"/{release}/") == one


def test_uploads_are_apart(server):
    """What was uploaded is found by its name and its namespace, is in nothing that is asked about all, and goes when all is deleted."""
    body = json.dumps({"shared": {"frames": [{"name": "only_in_the_file"}]}, "$schema": "x", "profiles": [
        {"type": "sampled", "name": "t", "unit": "nanoseconds", "samples": [[0]], "weights": [5000000]}]}).encode()
    status, _, answer = ask(server, "POST", "/api/v1/upload?name=apart.speedscope.json", body)
    assert status == 200, answer
    up = json.loads(answer)
    by_name, by_namespace = (urllib.parse.quote(q) for q in ('wall{service.name="apart.speedscope.json"}', 'wall{service.namespace="wick.uploads"}'))
    by_version = urllib.parse.quote(f'wall{{service.version="{up["instance"]}",service.name=~".+"}}')
    for q in (by_name, by_namespace, by_version):
        assert server.json(f"/api/v1/top?query={q}")["total"] == 5000000, q
    assert server.json(f"/api/v1/services?query={by_namespace}")[0]["name"] == "apart.speedscope.json"
    assert "only_in_the_file" not in {r["name"] for r in server.json("/api/v1/top?query=wall&limit=1000")["rows"]}
    assert "apart.speedscope.json" not in {s["name"] for s in server.json("/api/v1/services")}
    assert ask(server, "POST", "/api/v1/delete?query=wall&from=0&to=now")[0] == 200
    assert server.json(f"/api/v1/top?query={by_name}")["total"] == 0
