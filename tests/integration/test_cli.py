"""The outside face that all commands share: help, exit statuses, and errors of one line that name the command and the cause."""
import os
import re
import signal
import subprocess

import pytest
from wick_tools import ROOT, WICK, some


def wick(*args, cwd=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WICK_")}
    return subprocess.run([WICK, *map(str, args)], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          cwd=cwd, env=env)


COMMANDS = re.findall(r"^  ([a-z]+) ", wick("help").stdout, re.M)


def test_help():
    assert len(COMMANDS) > 15
    for args in (["--help"], ["-h"], ["help"]):
        p = wick(*args)
        assert p.returncode == 0 and not p.stderr and "usage: wick COMMAND" in p.stdout
    p = wick()
    assert p.returncode == 2 and not p.stdout and "usage: wick COMMAND" in p.stderr


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "pprof"])  # whose help is pprof's
def test_help_of(command):
    p = wick(command, "--help")
    assert p.returncode == 0 and not p.stderr and p.stdout.startswith(f"usage: wick {command}")
    assert wick("help", command).stdout == p.stdout
    p = wick(command, "--surely-not")
    assert p.returncode == 2 and not p.stdout
    assert re.fullmatch(rf"wick:? {command}: unknown option --surely-not; .*--help.*\n", p.stderr), p.stderr


def test_help_fits_a_terminal():
    """80 columns, for every command and every question; what a question does not take is not in its help."""
    questions = re.findall(r"^  ([a-z_]+)  +\S", wick("query", "--help").stdout.split("\nexamples:")[0], re.M)
    assert len(questions) > 20
    texts = {(): wick("--help").stdout, **{(c,): wick(c, "--help") for c in COMMANDS}, **{("query", q): wick("query", q, "--help") for q in questions}}
    texts = {k: v if isinstance(v, str) else v.stdout + v.stderr for k, v in texts.items()}  # pprof's is on stderr, as Go's
    assert not [(k, line) for k, v in texts.items() for line in v.splitlines() if len(line) > 80]
    for q in questions:
        assert texts["query", q].startswith(f"usage: wick query {q}"), q
    assert "--sort" in texts["query", "top"] and "--step" not in texts["query", "top"]
    assert "--step" in texts["query", "series"] and "--html" not in texts["query", "series"] and "--html" in texts["query", "verdict"]
    assert "SELECTOR" not in texts["query", "types"] and "--from" not in texts["query", "types"]


NUMBERS = ("HZ", "N", "TIME", "SIZE", "BYTES", "PERCENT", "PID", "P", "FD", "ADDR", "TYPES", "EVENTS", "WORD")
COMPLETE = {"run": ["--", "true"], "record": ["--", "true"], "top": ["-n", "1"], "agent": ["--export", "http://127.0.0.1:1"], "pgo": ["shop"],
            "store": ["stats"], "token": ["list"], "convert": ["a", "b.folded"], "diff": ["a", "b"], "dump": ["1"], "symbolize": ["/bin/true", "0"]}


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("pprof", "dump", "uninstall")])  # the last two take no values
def test_values_that_are_none(command, tmp_path):
    """What cannot be a number, a time, an address or one of a few words is wrong use, before anything is done."""
    for name, value in some(re.findall(r"^  (?:-\w, |    )--([\w-]+) (\S+)", wick(command, "--help").stdout, re.M)):
        if value not in NUMBERS and "|" not in value:
            continue
        rest = ["-a"] if (command, name) == ("record", "include") else COMPLETE.get(command, [])
        if (command, name) == ("record", "pid"):
            rest = []
        p = wick(command, f"--{name}", "abc", *rest, cwd=tmp_path)
        assert p.returncode == 2 and "abc" in p.stderr and f"--{name}" in p.stderr and p.stderr.count("\n") == 1, (command, name, p)


@pytest.mark.parametrize("args,status,words", [
    (["bogus"], 2, "wick: unknown command 'bogus'"),
    (["recrod"], 2, "wick: unknown command 'recrod'; did you mean 'record'?"),
    (["sreve", "--help"], 2, "wick: unknown command 'sreve'; did you mean 'serve'?"),
    (["store", "snapshto"], 2, "unknown subcommand 'snapshto'; did you mean 'snapshot'?"),
    (["xyzzy"], 2, "wick --help lists all commands"),
    (["record", "--bogus"], 2, "unknown option --bogus; --help lists all options"),
    (["query", "top", "--bogus"], 2, "unknown option --bogus; --help lists all options"),
    (["query", "top", "--servre", "x"], 2, "did you mean --server?"),
    (["query", "leaks", ""], 2, "the selector is empty"),
    (["help", "bogus"], 2, "wick: unknown command 'bogus'"),
    (["query"], 2, "WHAT is required"),
    (["query", "bogus"], 2, "unknown query 'bogus'"),
    (["query", "top", "cpu", "memory"], 2, "unexpected argument 'memory'"),
    (["query", "top", "--server", "ftp://x"], 2, "'ftp://x/api/v1/top' is not a URL"),
    (["query", "top", "--server", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1: Connection refused"),
    (["query", "top", "--store", "text"], 1, "cannot open 'text': Not a directory"),
    (["query", "types", "--limit", "5"], 2, "--limit is not an option of 'types'; wick query types --help lists them"),
    (["query", "top", "--store", "new", "--step", "1m"], 2, "--step is not an option of 'top'"),
    (["pgo"], 2, "SERVICE is required"),
    (["mcp", "x"], 2, "unexpected argument 'x'"),
    (["doctor", "x"], 2, "unexpected argument 'x'"),
    (["uninstall", "x"], 2, "unexpected argument 'x'"),
    (["store"], 2, "a subcommand is required"),
    (["store", "bogus"], 2, "unknown subcommand 'bogus'"),
    (["store", "snapshot"], 2, "snapshot requires one directory"),
    (["store", "delete", "{}"], 2, "delete requires a selector and --from"),
    (["store", "export", "--format", "xml"], 2, "--format: 'xml' is not otlp, json or pprof"),
    (["store", "import", "--store", "new", "text"], 1, "text: unrecognized profile format"),
    (["token", "bogus"], 2, "unknown subcommand 'bogus'"),
    (["token", "revoke"], 2, "revoke requires the id of a token"),
    (["token", "create", "--scope", "all"], 2, "--scope: 'all' is not read, write or admin"),
    (["token", "list", "--file", "text"], 1, "text:1: not a token line"),
    (["symbols", "upload"], 2, "upload requires files"),
    (["symbols", "upload", "missing"], 1, "cannot open 'missing': No such file or directory"),
    (["convert", "text"], 2, "IN and OUT are required"),
    (["convert", "text", "out"], 2, "cannot tell the output format from the name 'out'"),
    (["convert", "text", "-", "--to", "xml"], 2, "--to: 'xml' is not otlp, speedscope, "),
    (["convert", "text", "o.folded", "--from", "xml"], 2, "--from: 'xml' is not auto, pprof, "),
    (["convert", "text", "o.folded", "--base", "x"], 2, "--base requires the output format html"),
    (["convert", "text", "o.html", "--annotate"], 2, "--annotate requires the output format folded"),
    (["convert", "text", "o.pprof", "--compress", "lz4"], 2, "--compress: 'lz4' is not none, gzip or zstd"),
    (["convert", "missing", "o.folded"], 1, "cannot open 'missing': No such file or directory"),
    (["convert", "empty", "o.folded"], 1, "empty: empty input file"),
    (["convert", ".", "o.folded"], 1, "cannot read '.': Is a directory"),
    (["run"], 2, "no command given"),
    (["run", "-t", "bogus", "--", "true"], 2, "--type: 'bogus' is not one of"),
    (["run", "--export", "foo", "--", "true"], 2, "--export 'foo' is not an endpoint such as http://localhost:4317"),
    (["run", "--export", "http://", "--", "true"], 2, "--export: "),
    (["run", "--pprof", "6060", "--", "true"], 2, "--pprof '6060' is not an address"),
    (["record", "-p", "abc"], 2, "--pid: 'abc' is not a process id"),
    (["record", "-p", "0"], 2, "--pid: '0' is not a process id"),
    (["record", "-p", str(2 ** 31 - 1)], 1, "no such process: 2147483647"),
    (["record", "-a", "--include", "abc"], 2, "abc"),
    (["top", "--filter", "("], 2, "--filter: "),
    (["store", "stats", "--from", "yesterday"], 2, "--from: "),
    (["run", "--", "surely-not-there"], 127, "command 'surely-not-there' not found"),
    (["dump"], 2, "exactly one PID is required"),
    (["dump", str(2 ** 31 - 1)], 1, f"no such process: {2 ** 31 - 1}"),
    (["symbolize"], 2, "BINARY and ADDRESS are required"),
    (["symbolize", "text"], 2, "ADDRESS is required"),
    (["symbolize", "text", "zz"], 2, "'zz' is not a hexadecimal address"),
    (["symbolize", "text", "0"], 1, "'text': not an ELF file"),
    (["collector"], 2, "at least one --config is required"),
    (["collector", "bogus"], 2, "unknown subcommand 'bogus'"),
    (["collector", "validate", "x"], 2, "unexpected argument 'x'"),
    (["collector", "--config", "text"], 1, "text:1:1: a configuration must be a mapping"),
])
def test_wrong_use(tmp_path, args, status, words):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello world\n")
    p = wick(*args, cwd=tmp_path)
    assert p.returncode == status and not p.stdout
    assert words in p.stderr and p.stderr.startswith("wick") and p.stderr.count("\n") == 1, p.stderr


@pytest.mark.parametrize("args", [["convert", "text.folded", "-", "--to", "folded"], ["query", "--help"], ["doctor"],
                                  ["top", "-n", "2", "-d", "1", "--via", "perf", "-p", str(os.getpid())]])
def test_reader_that_is_gone(tmp_path, args):
    """As in `| head`: no message, and the status that the shell gives to SIGPIPE."""
    (tmp_path / "text.folded").write_text("a;b 1\n")
    read, write = os.pipe()
    os.close(read)
    p = subprocess.Popen([WICK, *args], cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    err = p.communicate(timeout=60)[1]
    assert p.returncode == -signal.SIGPIPE and "roken pipe" not in err, (p.returncode, err)


def test_no_server():
    """The one that most people meet first; only where nothing happens to listen on the port."""
    p = wick("query", "top")
    if p.returncode == 1 and "no server" in p.stderr:
        assert p.stderr == ("wick query: no server is listening on localhost:4040; start one with 'wick serve', or name another with "
                            "--server URL\n")


def commands_said(text):
    """(command, rest) of every `wick COMMAND ...` in code, up to the end of its span or line, or a bare --. A line that ends
    with a backslash goes on."""
    for span in re.findall(r"```\w*\n(.*?)```|`([^`]+)`", text, re.S):
        for line in "".join(span).replace("\\\n", " ").splitlines():
            yield from re.findall(r"(?<![\w./-])wick ([a-z]+)\b(?!:)((?:(?!\bwick |[#|&;]| -- ).)*)", line)


DOCUMENTS = [ROOT / "README.md", ROOT / "go/README.md", ROOT / "python/README.md", *(ROOT / "docs").rglob("*.md")]


def test_documents_know_the_options():
    """Every command that the documents name exists, with the options that they give it."""
    help_of = {c: wick(c, "--help").stdout for c in COMMANDS}
    said = {(c, o, f.name) for f in DOCUMENTS if f.exists() for c, rest in commands_said(f.read_text())
            for o in ["", *re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest),
                      *re.findall(r"(?<!\S)(-[a-zA-Z])(?![\w-])", rest if c not in ("run", "record") else "")]}  # theirs may be the program's
    assert len(said) > 60
    missing = [x for x in sorted(said) if x[0] not in help_of or not re.search(rf"(?<![\w-]){x[1]}(?![\w-])", help_of[x[0]])]
    assert not missing, missing


def test_documents_know_the_subcommands():
    """`wick query X`, `wick store X` and the like: X is what the command's help lists."""
    said = {(c, rest.split()[0], f.name) for f in DOCUMENTS if f.exists() for c, rest in commands_said(f.read_text())
            if c in SUBCOMMANDS and rest.split() and re.fullmatch(r"[a-z_]+", rest.split()[0])}
    assert len(said) > 20
    listed = {c: wick(c, "--help").stdout for c in SUBCOMMANDS}
    wrong = [x for x in sorted(said) if not re.search(rf"^ *(?:usage: +)?(?:wick {x[0]} )?(?:\[[^]]*\] )?{x[1]}\b", listed[x[0]], re.M)]
    assert not wrong, wrong


SUBCOMMANDS = ("query", "store", "token", "symbols", "collector", "alerts")
