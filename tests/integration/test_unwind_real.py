# SPDX-License-Identifier: Apache-2.0
"""Stacks of real programs, frame by frame against libunwind: tests/unit/unwind_oracle.c runs inside of them."""
import os
import shutil
import subprocess
import time
import urllib.request

import pytest

from wick_tools import BUILD, ROOT, free_port

ORACLE = BUILD / "tests/unit/libunwind_oracle.so"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ORACLE.exists(), reason="libunwind is not installed")]


def env(out, **more):
    return {**os.environ, "LD_PRELOAD": str(ORACLE), "UNWIND_ORACLE": str(out), **more}


def check(out, least):
    samples = equal = short = differ = direct = 0
    for line in out.read_text().splitlines():
        if not line.startswith("#"):
            a, b, c, d, _, f = map(int, line.split())
            samples, equal, short, differ, direct = samples + a, equal + b, short + c, differ + d, direct + f
    print(f"{samples} samples, {equal} equal, {short} cut, {differ} differ; {direct} rules without a table")
    assert samples >= least
    assert differ == 0, out.read_text()[:2000]
    assert short <= 0.001 * samples, out.read_text()[:2000]
    return direct


def need(name):
    path = shutil.which(name, path="/usr/bin:/usr/sbin:/bin")
    if not path:
        pytest.skip(f"{name} is not installed")
    return path


def test_sqlite(tmp_path):
    sql = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<6000000) "
           "SELECT sum(x), count(distinct x%1000), max(printf('%d',x)) FROM c;")
    subprocess.run([need("sqlite3"), ":memory:", sql], env=env(tmp_path / "o"), check=True, timeout=120)
    check(tmp_path / "o", 10000)


def test_python(tmp_path):
    """Its modules are loaded while it runs: those without a table yet are read from their own .eh_frame."""
    code = ("import json,re\nd=[{'a':i,'b':[str(k) for k in range(20)]} for i in range(2000)]\n"
            "for i in range(60):\n s=json.dumps(d); json.loads(s); re.findall(r'\\d+',s); sorted(d,key=lambda x:-x['a'])\n")
    subprocess.run([need("python3.11") if shutil.which("python3.11", path="/usr/bin") else need("python3"), "-c", code],
                   env=env(tmp_path / "o"), check=True, timeout=120)
    check(tmp_path / "o", 1000)


def test_without_any_table(tmp_path):
    """Every rule from the objects themselves, as in the moment after a dlopen()."""
    subprocess.run([need("python3"), "-c", "import json\nfor i in range(300000): json.loads(json.dumps({'a': [i, str(i)]}))"],
                   env=env(tmp_path / "o", UNWIND_DIRECT="1"), check=True, timeout=120)
    assert check(tmp_path / "o", 1000) > 10000


def test_cxx_exceptions(tmp_path):
    exe = tmp_path / "exceptions"
    subprocess.run(["c++", "-O2", "-o", exe, ROOT / "tests/programs/exceptions.cc"], check=True)
    subprocess.run([exe, "3"], env=env(tmp_path / "o"), check=True, timeout=120)
    check(tmp_path / "o", 5000)


def test_redis(tmp_path):
    port = str(free_port())
    server = subprocess.Popen([need("redis-server"), "--port", port, "--save", ""], env=env(tmp_path / "o"), cwd=tmp_path,
                              stdout=subprocess.DEVNULL)
    for _ in range(100):
        if subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).returncode == 0:
            break
        time.sleep(0.05)
    subprocess.run(["redis-benchmark", "-p", port, "-q", "-n", "30000", "-t", "set,get,lpush,lrange_100,mset"],
                   stdout=subprocess.DEVNULL, check=True, timeout=120)
    subprocess.run(["redis-cli", "-p", port, "shutdown", "nosave"])
    server.wait(timeout=20)
    check(tmp_path / "o", 5000)


def test_nginx(tmp_path):
    port = free_port()
    conf = tmp_path / "nginx.conf"
    (tmp_path / "page").write_text("x" * 100000)
    conf.write_text(f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/log;\nevents {{}}\n"
                    f"http {{ gzip on; gzip_types *; gzip_comp_level 9; access_log off; client_body_temp_path {tmp_path}/b;\n"
                    f"proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u;\n"
                    f"scgi_temp_path {tmp_path}/s; server {{ listen 127.0.0.1:{port}; root {tmp_path}; }} }}\n")
    os.chmod(tmp_path, 0o755)
    server = subprocess.Popen([need("nginx"), "-c", str(conf), "-e", str(tmp_path / "log")], env=env(tmp_path / "o"))
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=2).read()
                break
            except OSError:
                time.sleep(0.05)
        end = time.time() + 4
        while time.time() < end:
            r = urllib.request.Request(f"http://127.0.0.1:{port}/page", headers={"Accept-Encoding": "gzip"})
            urllib.request.urlopen(r, timeout=5).read()
    finally:
        server.send_signal(3)  # graceful
        server.wait(timeout=20)
    check(tmp_path / "o", 500)
