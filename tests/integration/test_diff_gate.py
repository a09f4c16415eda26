# SPDX-License-Identifier: Apache-2.0
"""wick diff as a gate for CI: conditions on files and on selections of a server, exit status, text, Markdown and JSON. The truth is in
the files."""
import json
import subprocess

import pytest
from drift_tools import MINUTE, minute_ago, send, shares
from wick_tools import WICK, Server

PASSED, FAILED, UNDECIDED, INCONCLUSIVE = 0, 1, 2, 3


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """old.folded: parse has 20 of 100; new.folded: 25 of 110; o1…o4, n1…n4: the same with noise; c1…c4: noise alone."""
    d = tmp_path_factory.mktemp("diff")

    def write(name, parse, encode=30, rest=50):
        (d / name).write_text(f"main;parse {parse - 5}\nmain;parse;parse;copy 5\nmain;encode {encode}\nmain;rest {rest}\n")

    write("old.folded", 20)
    write("new.folded", 25, 30, 55)
    for i, noise in enumerate((0, 1, -1, 2)):
        write(f"o{i}.folded", 20 + noise, 30, 50 - noise)
        write(f"n{i}.folded", 30 - noise, 27, 43 + noise)
        write(f"c{i}.folded", 21 + noise, 30, 49 - noise)
        write(f"w{i}.folded", 20 + 9 * noise, 30, 50 - 9 * noise)  # wild
    return d


def diff(files, *words, old="old.folded", new="new.folded", status=None):
    p = subprocess.run([WICK, "diff", old, new, *words], capture_output=True, text=True, timeout=60, cwd=files)
    if status is not None:
        assert p.returncode == status, (p.returncode, p.stdout, p.stderr)
    return p


def condition(files, text, status, **kw):
    answer = json.loads(diff(files, "--fail-if", text, "--json", status=status, **kw).stdout)
    assert answer["failed"] == (status == FAILED)
    return answer["conditions"][0]


def test_conditions(files):
    # parse: 20 % to 22.73 %
    c = condition(files, 'total("^parse$") > +2pt', FAILED)
    assert abs(c["value"] - (2500 / 110 - 20)) < 1e-9 and c["limit"] == 2 and c["p"] is None
    assert abs(c["before"] - 20) < 1e-9 and abs(c["now"] - 2500 / 110) < 1e-9
    condition(files, 'total("parse") > +3pt', PASSED)
    condition(files, 'total("parse")>=+2.7pt', FAILED)
    condition(files, 'total("parse|rest") > +2 points', FAILED)  # a stack counts once
    assert abs(condition(files, 'self("^parse$") > +1pt', FAILED)["value"] - (2000 / 110 - 15)) < 1e-9
    assert abs(condition(files, 'self("copy") < -0.1pt', FAILED)["value"] - (500 / 110 - 5)) < 1e-9
    assert abs(condition(files, 'total("parse") > +20%', FAILED)["value"] - 25) < 1e-9  # 25 samples instead of 20
    condition(files, 'total("parse") > +26%', PASSED)
    condition(files, 'total > +9%', FAILED)
    condition(files, 'total("parse") > 22pt', FAILED)  # the share in NEW
    condition(files, 'total("parse") > 23%', PASSED)
    condition(files, r'total("pa\x72se") > +2pt', FAILED)  # RE2


def test_several(files):
    p = diff(files, "--fail-if", 'total("parse") > +3pt', "--fail-if", 'total("parse") > +2pt', status=FAILED)
    assert 'passed: total("parse") > +3pt' in p.stdout and 'FAILED: total("parse") > +2pt' in p.stdout
    assert p.stdout.splitlines()[0].split()[:3] == ["OLD", "NEW", "POINTS"] and " parse" in p.stdout
    assert diff(files, status=PASSED).stdout  # without a condition it is a comparison


def test_significance(files):
    def side(letter):
        return ",".join(f"{letter}{i}.folded" for i in range(4))

    c = condition(files, 'total("parse") > +2pt', FAILED, old=side("o"), new=side("n"))
    assert c["p"] < 0.001 and abs(c["value"] - 9) < 1e-9  # means 20.5 and 29.5 of 100
    # Welch's t by hand: variances 5/3 on both sides, 4 profiles each: t = 9 / sqrt(10/12) = 9.859, 6 degrees of freedom
    assert abs(c["p"] - 6.287e-05) < 2e-6, c["p"]
    c = condition(files, 'total("parse") > +0.5pt', INCONCLUSIVE, old=side("o"), new=side("c"))  # one point, within the noise
    assert 0.05 < c["p"] < 1 and abs(c["value"] - 1) < 1e-9
    condition(files, 'total("parse") > +2pt', INCONCLUSIVE, old=side("w"), new=side("w").replace("w0", "n0"))
    answer = json.loads(diff(files, "--json", old=side("o"), new=side("n")).stdout)
    rows = {r["function"]: r for r in answer["functions"]}
    assert answer["profiles"] == [4, 4] and rows["parse"]["significant"] and rows["parse"]["p"] < 0.01
    assert rows["parse"] == answer["functions"][0] and abs(rows["parse"]["points"] - 9) < 1e-6


def test_inconclusive(files):
    """What the profiles cannot decide is neither passed nor failed, at either side of the limit; what they can is."""
    old, new = ",".join(f"o{i}.folded" for i in range(4)), ",".join(f"c{i}.folded" for i in range(4))  # +1 point, reach 2.23
    p = diff(files, "--fail-if", 'total("parse") > +0.5pt', old=old, new=new, status=INCONCLUSIVE)
    assert 'INCONCLUSIVE: total("parse") > +0.5pt: +1 points' in p.stdout and "± 2.23" in p.stdout, p.stdout
    c = condition(files, 'total("parse") > +3.2pt', INCONCLUSIVE, old=old, new=new)
    assert c["outcome"] == "inconclusive" and not c["failed"] and abs(c["reach"] - 2.447 * (10 / 12) ** 0.5) < 0.001  # t of 6 degrees
    condition(files, 'total("parse") > +3.3pt', PASSED, old=old, new=new)
    condition(files, 'total("parse") < -1.2pt', INCONCLUSIVE, old=old, new=new)
    condition(files, 'total("parse") < -1.3pt', PASSED, old=old, new=new)
    gate = ("--fail-if", 'total("parse") > +0.5pt')
    diff(files, *gate, "--inconclusive", "pass", old=old, new=new, status=PASSED)
    diff(files, *gate, "--inconclusive", "fail", old=old, new=new, status=FAILED)
    assert "inconclusive ❔" in diff(files, *gate, "--markdown", old=old, new=new, status=INCONCLUSIVE).stdout
    # one that fails is worse than one that cannot be decided; and it is not hidden by --inconclusive pass
    diff(files, *gate, "--fail-if", "total > 1", "--inconclusive", "pass", old=old, new=new, status=FAILED)


def test_markdown(files):
    p = diff(files, "--markdown", "--fail-if", 'total("parse|x") > +2pt', status=FAILED)
    assert p.stdout.startswith("### wick diff: failed") and "| `parse` | 20.00 % | 22.73 % | +2.73 |" in p.stdout
    assert '`total("parse\\|x") > +2pt`' in p.stdout and "❌ failed" in p.stdout


@pytest.mark.parametrize("words, message", [
    (["--fail-if", 'sum("x") > +2pt'], "expected total or self"),
    (["--fail-if", 'total("x" > +2pt'], "expected ')'"),
    (["--fail-if", 'total(x) > +2pt'], "double quotes"),
    (["--fail-if", 'total("x") = +2pt'], "expected > >= < or <="),
    (["--fail-if", 'total("x") > two'], "a number"),
    (["--fail-if", 'total("x") > +2furlongs'], "a unit"),
    (["--fail-if", 'total("(") > +2pt'], "--fail-if"),
    (["--fail-if", 'total("x") > +1cores'], "cores require"),
    (["--fail-if", 'total("no_such_function") > +0.1pt'], "no function of either side matches"),
    (["--fail-if", 'self("^Parse$") > 1pt'], "no function of either side matches"),
    (["--inconclusive", "maybe"], "--inconclusive: 'maybe' is not pass or fail"),
    (["--type", "nonsense"], "no sample type 'nonsense'"),
])
def test_undecided(files, words, message):
    p = diff(files, *words, status=UNDECIDED)
    assert message in p.stderr and len(p.stderr.splitlines()) == 1, p.stderr


def test_no_file(files):
    assert "missing.folded" in diff(files, old="missing.folded", status=UNDECIDED).stderr


def test_server(files, tmp_path):
    """Versions of a service on a server, and a file against a selection."""
    s = Server(tmp_path, WICK_NO_AGENT="1")
    try:
        start = minute_ago(30)
        send(s, "gate", start, 5, shares(), instances=1, version="1")
        send(s, "gate", start + 5 * MINUTE, 5, shares(encode=0.3), instances=1, version="2")
        host = s.url.split("//")[1]
        old, new = (f"wick://{host}/gate?service.version={v}&from=now-1h" for v in "12")
        c = condition(files, 'total("encode") > +10pt', FAILED, old=old, new=new)
        assert abs(c["value"] - 20) < 3
        condition(files, 'total("encode") > +0.1cores', FAILED, old=old, new=new)
        condition(files, 'total("encode") > +10pt', PASSED, old=new, new=old)
        assert "no profile matches" in diff(files, old=old.replace("gate", "nobody"), new=new, status=UNDECIDED).stderr
    finally:
        s.stop()
