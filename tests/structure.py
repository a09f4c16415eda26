#!/usr/bin/env python3
"""Checks what a machine can check of the source's structure. Speaks TAP.

 - #include lines follow the may-use table of ARCHITECTURE.md
 - every header compiles alone
 - file names are unique, every file has its SPDX line and a head that says what it is for
 - a tag names one struct, enum or union
 - memory and files only through base/mem and base/fd
 - no call and no side effect is an argument that a macro evaluates twice
 - functions fit on a screen or two, files do one job, and take a struct instead of many parameters
 - tests share helpers through wick_tools.py and its siblings, never by importing one another
 - a loop of a test with assertions in it goes through something
 - comments, messages and documents avoid phrases that read as translated, and name files that exist
"""
import ast
import concurrent.futures
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def may_use():
    """The table "Who may use whom" of ARCHITECTURE.md: folder -> the folders it may include; None = all."""
    table = {}
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        m = re.match(r"\| `src/(\w+)` \|.*\| ([^|]+) \|$", line)
        if m:
            allowed = m.group(2).split()
            table[m.group(1)] = None if allowed[0] == "all" else set(allowed) - {"libc"}
    return table


MAY_USE = may_use()
# (pattern, who may, what to use instead)
BANNED = [
    (r"\b(malloc|calloc|realloc|free|strdup|strndup|asprintf)\s*\(", ("src/base/mem", "src/sdk", "src/base/regex.cc"), "base/mem"),
    (r"\b(fopen|fread|fwrite|openat|fsync|fdatasync|pread|pwrite|ftruncate|rename)\s*\(", ("src/base/fd.c", "src/sdk"), "base/fd"),
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol)\s*\(", (), "base/buf or base/str"),
    (r"\b(pthread_cond_timedwait|pthread_timedjoin_np|sem_timedwait|pthread_mutex_timedlock)\s*\(", ("src/sdk/wall_hooks.c",),
     "base/thread: those wait for a time of the wall clock"),
    (r"\b(getenv)\s*\(", tuple(f"src/{room}/" for room in MAY_USE if room != "sdk"), "secure_getenv"),
]
FUNCTION_LINES_MAX, FILE_LINES_MAX = 70, 700
PARAMETERS = 6  # more become a struct
# Functions that only look at something: STR_FMT(), which gives two arguments, may take their result.
ONLY_LOOK = ("base_name|batch_string|buf_str|file_part|gopath_base|label_unit|prof_str|reason|str_from|str_slice|str_trim|"
             "tag_filter_value|value_str")
# Callbacks whose parameters a library fixes: nghttp2's and libdwfl's.
PARAMETERS_FIXED = {("src/net/client_http2.c", "read_body"), ("src/net/client_http2.c", "on_header"), ("src/net/conn_http2.c", "on_header"),
                    ("src/net/conn_http2.c", "read_answer"), ("src/symbol/dwarf_file.c", "find_debuginfo")}
FOREIGN_FILES = {"hamt.c"}  # CPython's
# Phrases that have a plain equivalent: (pattern, what to write instead).
PHRASES = [
    (r"\btold\b(?! to\b)", "reported, distinguished, ..."), (r"\b(?:nobody|whoever)\b(?!\")", "no one, the user, the caller"),
    (r"(?<!left )(?<!stays )(?<!seen )(?<!not )(?<!bar )\bbehind\b(?! a proxy)(?!_)(?!;)(?! =)", "after"),
    (r"(?<!there )(?<!There )(?<!it )\b(?:is|are) no (?!longer|more|less|earlier|later|larger|shorter|other)", "is not a"),
    (r"\bwithout a word\b|\ball the same\b(?!,? (?:to|as))|\bin vain\b|\bwords for\b", "silently, still, ..."),
]
results = []


def check(name, problems):
    results.append(not problems)
    for p in problems[:20]:
        print("# " + p)
    print(f"{'' if not problems else 'not '}ok {len(results)} - {name}")


def sources(*suffixes):
    for base in ("src", "include"):
        for p in sorted((ROOT / base).rglob("*")):
            if p.suffix in suffixes and p.is_file():
                yield p


def strip_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(\\.|[^"\\\n])*"', '""', text)


def check_includes():
    bad = []
    for p in sources(".c", ".h", ".cc"):
        parts = p.relative_to(ROOT).parts
        if parts[0] != "src":
            continue
        folder = parts[1]
        if folder not in MAY_USE:
            bad.append(f"{p.relative_to(ROOT)}: ARCHITECTURE.md does not list src/{folder}")
            continue
        allowed = MAY_USE[folder]
        if allowed is None:
            continue
        for n, line in enumerate(p.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"/]+)/', line)
            if m and m.group(1) in MAY_USE and m.group(1) not in allowed | {folder}:
                bad.append(f"{p.relative_to(ROOT)}:{n}: {folder} may not use {m.group(1)}")
    return bad


def check_headers_alone():
    def one(h):
        if ".bpf." in h.name or h.name in ("commands.h", "components.h", "langs.h"):
            return None
        r = subprocess.run(["cc", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Werror", "-fsyntax-only", "-x", "c",
                            f"-I{ROOT}/src", f"-I{ROOT}/include", str(h)], capture_output=True, text=True)
        return f"{h.relative_to(ROOT)} does not compile alone: {r.stderr.strip().splitlines()[0]}" if r.returncode else None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [x for x in pool.map(one, sources(".h")) if x]


def check_names():
    seen, bad = {}, []
    for p in sources(".c", ".h", ".cc"):
        if p.name in seen and p.suffix != ".h":
            bad.append(f"{p.relative_to(ROOT)} has the name of {seen[p.name]}")
        seen[p.name] = p.relative_to(ROOT)
        if "SPDX-License-Identifier: Apache-2.0" not in p.read_text()[:400] and ".bpf." not in p.name:
            bad.append(f"{p.relative_to(ROOT)} lacks its SPDX line")
    return bad


def check_tags():
    """A tag names one struct, enum or union, so that a search for it finds one definition."""
    seen, bad = {}, []
    for p in sources(".c", ".h"):
        if ".bpf." in p.name:
            continue
        rel = p.relative_to(ROOT)
        for tag in re.findall(r"^(?:struct|enum|union) (\w+)\s*\{", strip_comments(p.read_text()), re.M):
            if seen.setdefault(tag, rel) != rel:
                bad.append(f"{rel} defines '{tag}' again; it is defined in {seen[tag]}")
    return bad


def check_heads():
    """The first comment of a file, before any code, says what the file is for: more than the name of a header."""
    bad = []
    for p in sources(".c", ".h", ".cc"):
        text = re.sub(r"(?:/\*\s*SPDX.*?\*/|//\s*SPDX[^\n]*)", "", p.read_text(), count=1, flags=re.S).lstrip()
        head = re.match(r"/\*(.*?)\*/", text, re.S) if not p.name.endswith(".h") else re.search(r"/\*(.*?)\*/", text, re.S)
        words = re.sub(r"\bsee\b|[\w/]+\.h\b|[^\w\s]", " ", head.group(1), flags=re.I).split() if head else []
        code = p.name.endswith(".h") and head and re.search(r"^(?:struct|enum|static|int|void)\b", text[:head.start()], re.M)
        if len(words) < 3 or code:
            bad.append(f"{p.relative_to(ROOT)} does not begin with a comment that says what it is for")
    return bad


def check_banned():
    bad = []
    for p in sources(".c", ".h", ".cc"):
        rel = str(p.relative_to(ROOT))
        for n, line in enumerate(strip_comments(p.read_text()).splitlines(), 1):
            for pattern, who, instead in BANNED:
                for m in re.finditer(pattern, line):
                    if not rel.startswith(who or ("-",)) and not re.search(r"([.>_]|\(\*)\s*$", line[:m.start()]):
                        bad.append(f"{rel}:{n}: {m.group(1)}(): use {instead}")
    return bad


def macro_repeats():
    """Function-like macros -> the positions of the parameters that they evaluate more than once. Names that end in _ are
    parts of other macros."""
    repeats = {}
    unevaluated = r"\b(?:__typeof__|sizeof|__builtin_constant_p|offsetof)\s*\([^()]*\)|\bsizeof \*?\(?\w+\)?|##?\s*\w+|\w+\s*##"
    for p in sources(".c", ".h", ".cc"):
        text = strip_comments(p.read_text()).replace("\\\n", " ")
        for name, params, body in re.findall(r"^#\s*define (\w+[^\W_])\(([^)]*)\)(.*)$", text, re.M):
            body = re.sub(unevaluated, "", body)
            twice = {i for i, param in enumerate(x.strip() for x in params.split(","))
                     if param not in ("", "...") and len(re.findall(rf"(?<![.>\w]){param}\b", body)) > 1}
            if twice:
                repeats.setdefault(name, set()).update(twice)
    return repeats


def arguments_at(text, at):
    """The arguments of the call whose opening bracket is just before `at`."""
    depth, begin, found = 1, at, []
    while at < len(text):
        c = text[at]
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 or (depth == 1 and c == ","):
            found.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            break
        at += 1
    return found


def check_macros():
    """A call whose macro evaluates it twice opens a file twice, or reads two strings."""
    bad, repeats = [], macro_repeats()
    use = re.compile(rf"(?<!define )\b({'|'.join(repeats)})\(")
    effect = re.compile(rf"\b(?!(?:sizeof|__typeof__|offsetof|{ONLY_LOOK})\b)[a-z_]\w*\s*\(|\+\+|--|(?<![=!<>])=(?!=)")
    for p in sources(".c", ".h", ".cc"):
        text = strip_comments(p.read_text())
        for m in use.finditer(text):
            for i, argument in enumerate(arguments_at(text, m.end())):
                if i in repeats[m.group(1)] and effect.search(argument):
                    bad.append(f"{p.relative_to(ROOT)}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(1)}({argument}): evaluated twice")
    return bad


def check_sizes():
    """clang-format puts a function's braces into column 0, so spans are easy to see."""
    bad = []
    for p in sources(".c", ".h", ".cc"):
        lines = p.read_text().splitlines()
        rel = p.relative_to(ROOT)
        if len(lines) > FILE_LINES_MAX:
            bad.append(f"{rel} has {len(lines)} lines; {FILE_LINES_MAX} are the most: it does more than one job")
        start = None
        for n, line in enumerate(lines, 1):
            if line == "{":
                start = n
            elif line == "}" and start:
                if n - start - 1 > FUNCTION_LINES_MAX:
                    bad.append(f"{rel}:{start}: function of {n - start - 1} lines; {FUNCTION_LINES_MAX} are the most")
                start = None
    return bad


def check_parameters():
    bad = []
    definition = re.compile(r"^(?!#)[A-Za-z_][\w \t*]*?\b(\w+)\(((?:[^(){};]|\([^()]*\))*)\)\s*\n?\{", re.M)
    for p in sources(".c", ".h"):
        rel = str(p.relative_to(ROOT))
        for m in definition.finditer(strip_comments(p.read_text())):
            n = re.sub(r"\([^()]*\)", "", m.group(2)).count(",") + 1
            if n > PARAMETERS and (rel, m.group(1)) not in PARAMETERS_FIXED:
                bad.append(f"{rel}: {m.group(1)}() has {n} parameters; {PARAMETERS} are the most: make a struct of them")
    return bad


def check_json_loops():
    """A loop that ends at a full table leaves the rest of the JSON unread; json_next_item_of() does not."""
    pattern = re.compile(r"[^<\-]<[^<;]*?&&\s*json_next_(?:item|key)\(|json_next_(?:item|key)\([^;{]*?&&[^;{]*?[^<\-]<[^<]")
    bad = []
    for p in sources(".c"):
        text = strip_comments(p.read_text())
        for m in re.finditer(r"\b(?:while|for) \(([^{}]*?json_next_[^{}]*?)\)\s*[{\n]", text):
            if pattern.search(m.group(1)) and "== 0" not in m.group(1):
                bad.append(f"{p.relative_to(ROOT)}:{text[:m.start()].count(chr(10)) + 1}: the loop may leave JSON unread; use json_next_item_of()")
    return bad


def check_tests():
    bad = []
    for p in sorted((ROOT / "tests/integration").glob("*.py")):
        for n, line in enumerate(p.read_text().splitlines(), 1):
            m = re.match(r"\s*(?:from|import) (test_\w+)", line)
            if m:
                bad.append(f"{p.relative_to(ROOT)}:{n}: imports {m.group(1)}: move what is shared to wick_tools.py or agent_tools.py")
    return bad


def is_written_out(values):
    """Whether an expression of Python has at least one value by how it is written: a literal, a constant of the module."""
    if isinstance(values, (ast.Tuple, ast.List, ast.Set)):
        return bool(values.elts)
    if isinstance(values, ast.Constant):
        return bool(values.value)
    if isinstance(values, ast.Dict):
        return bool(values.keys)
    if isinstance(values, ast.BinOp):
        return is_written_out(values.left) or is_written_out(values.right)
    if isinstance(values, ast.Call) and isinstance(values.func, ast.Name):
        name = values.func.id
        return name in ("range", "some") or name in ("enumerate", "zip", "sorted", "reversed", "set", "list") and any(map(is_written_out, values.args))
    if isinstance(values, ast.Call) and isinstance(values.func, ast.Attribute):
        return values.func.attr in ("items", "values", "keys") and is_written_out(values.func.value) or values.func.attr == "split" and bool(values.args)
    return getattr(values, "id", getattr(values, "attr", "")).isupper()


def computed_loops(tree):
    """What the loops of a test with assertions inside go through, and all(…) in an assertion, where that may be nothing."""
    for function in (f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)):
        asserted = {ast.unparse(a.targets[0]) for a in ast.walk(function) if isinstance(a, ast.Assign) and is_written_out(a.value)}
        for a in (n for n in ast.walk(function) if isinstance(n, ast.Assert)):
            for part in a.test.values if isinstance(a.test, ast.BoolOp) else [a.test]:
                part = part.left if isinstance(part, ast.Compare) else part
                asserted.add(ast.unparse(part.args[0] if isinstance(part, ast.Call) and part.args else part))
        for n in ast.walk(function):
            if isinstance(n, ast.For) and any(isinstance(x, ast.Assert) for b in n.body for x in ast.walk(b)):
                found = [n.iter]
            elif isinstance(n, ast.Assert):
                found = [c.args[0].generators[0].iter for c in ast.walk(n.test) if isinstance(c, ast.Call) and ast.unparse(c.func) == "all"
                         and isinstance(c.args[0], (ast.GeneratorExp, ast.ListComp))]
            else:
                continue
            yield from (x for x in found if not is_written_out(x) and not {ast.unparse(x), ast.unparse(x).partition(".")[0]} & asserted)


def check_loops():
    """A test that looks at each of no values passes by luck. `# may be none` says that there may be none."""
    bad = []
    for p in sorted((ROOT / "tests/integration").glob("*.py")):
        text = p.read_text()
        lines = text.splitlines()
        for x in computed_loops(ast.parse(text)):
            if "# may be none" not in lines[x.lineno - 1]:
                bad.append(f"{p.relative_to(ROOT)}:{x.lineno}: the loop asserts nothing when there is nothing in it: some({ast.unparse(x)})")
    return bad


def check_language():
    """The phrases of the list, in what people read: comments and strings of the sources, documents, the UI."""
    paths = {str(p) for base in ("src", "include", "tests", "fuzz", "bench", "python", "go", "web", "tools", "examples") for p in (ROOT / base).rglob("*.[ch]")}
    bad = []
    files = [*sources(".c", ".h"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "web/src").rglob("*.js"), *(ROOT / "python").rglob("*.py"),
             *(ROOT / "python/src").rglob("*.[ch]"), *(ROOT / "go").rglob("*.go"), ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    for p in files:
        rel, text = p.relative_to(ROOT), p.read_text()
        for n, line in enumerate(text.splitlines(), 1):
            for pattern, instead in PHRASES:
                m = re.search(pattern, line)
                if m:
                    bad.append(f"{rel}:{n}: '{m.group(0)}': {instead}")
        if p.suffix in (".c", ".h"):
            text = " ".join(re.findall(r"/\*.*?\*/", text, re.S))
        for name in re.findall(r"(?<![\w./-])((?:[a-z0-9_]+/)*[a-z][a-z0-9_.]*\.[ch])\b", text) if p.suffix in (".c", ".h", ".md") else ():
            if not any(path.endswith("/" + name) for path in paths) and name not in FOREIGN_FILES:
                bad.append(f"{rel} refers to {name}, which does not exist")
    return bad


check("includes point the right way", check_includes())
check("headers compile alone", check_headers_alone())
check("file names are unique and licensed", check_names())
check("every tag is defined once", check_tags())
check("every file begins with what it is for", check_heads())
check("memory, files and strings go through base", check_banned())
check("macros evaluate what has an effect once", check_macros())
check("functions and files are short", check_sizes())
check("functions take a struct instead of many parameters", check_parameters())
check("loops over JSON read to the end", check_json_loops())
check("tests do not import one another", check_tests())
check("loops with assertions go through something", check_loops())
check("comments and documents are plain English, and refer to files that exist", check_language())
print(f"1..{len(results)}")
sys.exit(0 if all(results) else 1)
