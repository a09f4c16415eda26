# SPDX-License-Identifier: Apache-2.0
"""docs/first-service.md, followed by a stranger: the lines of each language, as they are written, on a server of its own. What arrives is
named after the example's functions, and nearly all of it is in what the service does."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from wick_tools import ROOT, WICK, Server, wait_for

PAGE = (ROOT / "docs/first-service.md").read_text()
# section: what has to be installed, what else has to be true, and the name of the service
LANGUAGES = {
    "C and C++": (["g++"], None, "checkout"),
    "Rust": (["rustc"], None, "checkout"),
    "Go": (["go"], None, "checkout-go"),
    "Python": (["python3"], None, "checkout-python"),
    "Java": (["java", "javac"], None, "checkout-java"),
    "Node.js": (["node"], None, "checkout-node"),
    "Ruby": (["ruby"], ["ruby", "-e", "require 'stackprof'"], "checkout-ruby"),
    "PHP": (["php"], ["php", "-r", "exit(class_exists('ExcimerProfiler') ? 0 : 1);"], "checkout-php"),
}
PRICE = {"C and C++": "shop::price_item", "Rust": "price_item", "Go": "main.priceItem", "Python": "price_item", "Java": "priceItem", "Node.js": "priceItem",
         "Ruby": "price_item", "PHP": "price_item"}


def lines_of(section):
    """Those of its last block that has more than the package of python.md, which test_python.py runs."""
    text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## )", PAGE, re.M | re.S)[1]
    return [x for x in re.findall(r"```sh\n(.*?)```", text, re.S) if "python -m wick" not in x][-1].strip().splitlines()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("first"), WICK_NO_AGENT="1")
    yield s
    s.stop()


def test_every_language_has_a_section():
    assert set(re.findall(r"^## (.+)$", PAGE, re.M)) - {"Anything else", "Not there?"} == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_language(server, language, tmp_path):
    tools, works, service = LANGUAGES[language]
    if not all(shutil.which(t) for t in tools) or (works and subprocess.run(works, capture_output=True).returncode):
        pytest.skip(f"{language} is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/wick").symlink_to(WICK)
    *before, last = [x.replace("http://localhost:4040", server.url.rstrip("/")).replace("localhost:4317", server.grpc) for x in lines_of(language)]
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "WICK_EVERY": "2", "WICK_EXPORT_INTERVAL_MS": "1000", "GOFLAGS": "-mod=mod",
           "OTEL_SERVICE_NAME": f"checkout-{language.split()[0].lower()}"}
    service = env["OTEL_SERVICE_NAME"] if service == "checkout" else service
    for line in before:
        subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, check=True, timeout=300)
    p = subprocess.Popen(["sh", "-c", "exec " + last if not last.startswith("WICK_URL") else "exec env " + last], cwd=tmp_path, env=env, start_new_session=True,
                         stderr=open(tmp_path / "err", "w"))
    try:
        def rows():
            status, body = server.get(f"/api/v1/top?query=cpu%7Bservice.name%3D%22{service}%22%7D&from=now-1h&to=now%2B1h&sort=total&limit=1000")
            answer = json.loads(body) if status == 200 else {"total": 0}
            return answer if answer["total"] >= 200e6 else None

        answer = wait_for(rows, 120, lambda: (tmp_path / "err").read_text())
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
    shares = {r["name"]: r["total"] / answer["total"] for r in answer["rows"]}
    found = [v for k, v in shares.items() if re.search(rf"(^|[.:#]){re.escape(PRICE[language].split('.')[-1].split('::')[-1])}\b", k)]
    assert found and max(found) > 0.5, shares
    assert "not sent" not in (tmp_path / "err").read_text()
