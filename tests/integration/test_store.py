"""wick store from outside: what goes in comes out, kill -9 loses nothing that was acknowledged, damage is named."""
import json
import os
import random
import re
import subprocess
import time
from wick_tools import WICK, some


def wick(*args, ok=True):
    p = subprocess.run([WICK, *map(str, args)], capture_output=True, text=True)
    if ok:
        assert p.returncode == 0, p.stderr
    return p


def folded(path, name, value=1):
    path.write_text(f"main;{name} {value}\n")
    return path


def functions(store):
    """How often each function is in the store, by exporting everything."""
    out = store.parent / "out.json"
    wick("store", "export", "--store", store, "--format", "json", "-o", out)
    counts = {}
    for line in out.read_text().splitlines():
        d = json.loads(line)
        dictionary = d["dictionary"]
        strings = dictionary["stringTable"]
        for r in d.get("resourceProfiles", []):
            for s in r.get("scopeProfiles", []):
                for p in s.get("profiles", []):
                    for sample in p.get("samples", p.get("sample", [])):
                        stack = dictionary["stackTable"][sample["stackIndex"]]
                        leaf = dictionary["locationTable"][stack["locationIndices"][0]]
                        fn = dictionary["functionTable"][leaf["lines"][0]["functionIndex"]]
                        name = strings[fn["nameStrindex"]]
                        counts[name] = counts.get(name, 0) + sum(int(v) for v in sample.get("values", [1]))
    return counts


def test_in_and_out(tmp_path):
    store = tmp_path / "s"
    wick("store", "import", "--store", store, folded(tmp_path / "a", "alpha", 7))
    wick("store", "import", "--store", store, folded(tmp_path / "b", "beta", 5))
    assert functions(store) == {"alpha": 7, "beta": 5}
    stats = json.loads(wick("store", "stats", "--json", "--store", store).stdout)
    assert stats["samples"] == 2 and stats["damaged"] == 0
    assert "0 problems" in wick("store", "check", "--store", store).stdout
    wick("store", "snapshot", tmp_path / "copy", "--store", store)
    wick("store", "delete", "{}", "--from", "0", "--store", store)
    assert functions(store) == {}
    assert functions(tmp_path / "copy") == {"alpha": 7, "beta": 5}
    assert "0 problems" in wick("store", "check", "--rebuild", "--store", tmp_path / "copy").stdout
    assert functions(tmp_path / "copy") == {"alpha": 7, "beta": 5}


def test_wrong_usage(tmp_path):
    assert wick("store", ok=False).returncode == 2
    assert wick("store", "frobnicate", ok=False).returncode == 2
    p = wick("store", "stats", "--store", tmp_path / "none", ok=False)
    assert p.returncode == 1 and "none" in p.stderr


def test_directory_as_an_argument(tmp_path):
    store = tmp_path / "s"
    wick("store", "import", "--store", store, folded(tmp_path / "a", "alpha", 7))
    assert wick("store", "check", store).stdout == wick("store", "check", "--store", store).stdout
    assert json.loads(wick("store", "stats", store, "--json").stdout)["samples"] == 1
    p = wick("store", "check", store, "--store", store, ok=False)
    assert p.returncode == 2 and "exclude each other" in p.stderr
    p = wick("store", "check", tmp_path / "none", ok=False)
    assert p.returncode == 1 and "none" in p.stderr


def test_old_profiles_stay(tmp_path):
    """Retention is the server's: a tool that has a store open for some seconds drops nothing, however old it is."""
    store, text = tmp_path / "s", '{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"timeUnixNano":"%d","samples":[{"values":["5"]}]}]}]}]}'
    old, slow = tmp_path / "old.json", tmp_path / "slow.json"
    old.write_text(text % ((time.time() - 60 * 86400) * 1e9))
    os.mkfifo(slow)
    wick("store", "import", "--store", store, old)
    p = subprocess.Popen([WICK, "store", "import", "--store", str(store), str(slow)], stderr=subprocess.PIPE, text=True)
    with open(slow, "w") as f:
        time.sleep(2.5)  # the store's thread looks for what is too old when it starts
        f.write(text % (time.time() * 1e9))
    assert p.communicate()[1] == "wick: imported 1 profiles from 1 file\n"
    assert json.loads(wick("store", "stats", "--json", "--store", store).stdout)["profiles"] == 2


def test_no_store_is_made(tmp_path):
    for args in (["delete", "{}", "--from", "0"], ["snapshot", tmp_path / "copy"], ["check", "--rebuild"], ["export"]):
        p = wick("store", *args, "--store", tmp_path, ok=False)
        assert p.returncode == 1 and "is not a store" in p.stderr
        assert not list(tmp_path.iterdir())


def test_kill_9(tmp_path):
    """Imports are killed at random times; those that said they were done must be there, none twice."""
    store, rng, done = tmp_path / "s", random.Random(7), []
    for i in range(24):
        f = folded(tmp_path / f"f{i}", f"fn{i}")
        p = subprocess.Popen([WICK, "store", "import", "--store", str(store), str(f)], stderr=subprocess.PIPE, text=True)
        try:
            _, err = p.communicate(timeout=rng.uniform(0.001, 0.05) if i % 3 else 30)
        except subprocess.TimeoutExpired:
            p.kill()
            _, err = p.communicate()
        if re.search("imported", err):
            done.append(f"fn{i}")
    counts = functions(store)
    assert set(done) <= set(counts)
    assert all(v == 1 for v in some(counts.values())), counts
    assert "0 problems" in wick("store", "check", "--store", store).stdout


def test_damage_is_named(tmp_path):
    store = tmp_path / "s"
    for i in range(3):
        wick("store", "import", "--store", store, folded(tmp_path / f"f{i}", f"fn{i}"))
    segments = sorted(store.glob("1/seg/*.seg"))
    assert segments
    data = bytearray(segments[0].read_bytes())
    data[100] ^= 0xFF
    segments[0].write_bytes(data)
    p = wick("store", "check", "--store", store, ok=False)
    assert p.returncode == 1 and "DAMAGED" in p.stdout
