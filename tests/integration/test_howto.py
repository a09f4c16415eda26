# SPDX-License-Identifier: Apache-2.0
"""Follows "How to add …" of ARCHITECTURE.md in a copy of the tree: the examples are written, built and used."""
import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.request

import pytest

from agent_tools import build as compile_c, needs_bpf
from wick_tools import ROOT

slow = pytest.mark.slow

EXPORTER = """/* SPDX-License-Identifier: Apache-2.0 */
/* `example`: an exporter that takes everything. */
#include <errno.h>

#include "base/mem.h"
#include "pipeline/graph/component.h"

struct example {
    struct instance instance;
    struct sink sink;
};

static const struct option options[] = {{0}};

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    (void) s, (void) data, (void) ctx;
    ack_ok(ack);
}

static void free_instance(struct instance *i)
{
    mem_free(container_of(i, struct example, instance));
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct example *x = mem_zalloc(sizeof *x);

    (void) e;
    if (!x)
        return -ENOMEM;
    x->sink.consume = consume;
    x->instance = (struct instance){.id = args->id, .sink = &x->sink, .free = free_instance};
    *ret = &x->instance;
    return 0;
}

const struct component component_example_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "example",
    .help = "takes everything",
    .signals = 1 << SIGNAL_PROFILES,
    .options = options,
    .create = create,
};
"""

ROUTE = """/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/example */
#include "base/buf.h"
#include "base/macros.h"
#include "server/api.h"
#include "server/front.h"

static int run_example(struct call *c, struct err *e)
{
    (void) e;
    buf_puts(&c->out, "{\\"example\\":true}");
    return 0;
}

static const struct route routes[] = {
    {"GET", "/api/v1/example", AUTH_READ, true, run_example},
};

int api_mount_example(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
"""

COMMAND = """/* SPDX-License-Identifier: Apache-2.0 */
/* wick example: prints a line, to show what a command needs. */
#include <stdio.h>

#include "cli/command.h"

static int run(int argc, char **argv)
{
    (void) argc, (void) argv;
    puts("an example");
    return EXIT_DONE;
}

const struct command command_example = {"example", "prints a line", run};
"""

LANGUAGE = """/* SPDX-License-Identifier: Apache-2.0 */
/* A language of programs named "example-runtime": one frame at the leaf of each stack. */
#include <string.h>

#include "agent/lang/lang.h"

enum { WORD = 42 };

static int attach(struct process *p, struct err *e)
{
    size_t n = p->exe_path ? strlen(p->exe_path) : 0;

    (void) e;
    p->lang_record.words[0] = WORD;
    return n > 15 && strcmp(p->exe_path + n - 15, "example-runtime") == 0;
}

static uint32_t merge(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole)
{
    uint64_t frame[AGENT_LANG_WORDS];

    (void) p, (void) whole;
    memcpy(frame, words + n_native, sizeof frame);
    memmove(words + n_kernel + AGENT_LANG_WORDS, words + n_kernel, (n_native - n_kernel) * sizeof *words);
    memcpy(words + n_kernel, frame, sizeof frame);
    return n;
}

static int resolve(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret)
{
    (void) p, (void) a;
    ret->function = words[1] == WORD ? STR("example_function") : STR("another_function");
    ret->type = "example";
    return 0;
}

const struct lang lang_example = {.name = "example", .attach = attach, .merge = merge, .resolve = resolve};
"""

LANGUAGE_BPF = """// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/* The BPF side: a frame with the number that the user side gave. */
#ifndef AGENT_EXAMPLE_BPF_H
#define AGENT_EXAMPLE_BPF_H

static __always_inline void example_walk(struct walk_state *w, bool bounded)
{
    if (!put_word(w, (__u64) (AGENT_WORD_LANG + LANG_example) << 56) && !put_word(w, w->lang->words[0]))
        put_word(w, 0);
}

static __always_inline long example_step(struct walk_state *w)
{
    return w->s->at.fp ? LANG_NO_STEP : finish(w, AGENT_END_ROOT);
}

#endif
"""

ENGINE = r"""/* SPDX-License-Identifier: Apache-2.0 */
/* `example`: an engine that leaves everything to another one, operation by operation. */
#include <errno.h>

#include "base/mem.h"
#include "store/store.h"

struct example_store {
    struct store store; /* first: what the caller holds */
    struct store *inner;
};

static struct store *inner(struct store *s)
{
    struct store *i = container_of(s, struct example_store, store)->inner;

    i->labels = s->labels;
    return i;
}

static int example_open(const struct store_config *c, struct store **ret, struct err *e)
{
    struct example_store *x = mem_zalloc(sizeof *x);
    int r = x ? store_open(store_engine(STR("memory")), c, &x->inner, e) : -ENOMEM;

    if (r < 0) {
        mem_free(x);
        return r;
    }
    *ret = &x->store;
    return 0;
}

static void example_close(struct store *s)
{
    store_close(inner(s));
    mem_free(container_of(s, struct example_store, store));
}

static void example_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    store_append(inner(s), b, ctx, ack);
}

#define PASS_ON(name, parameters, ...)                   \
    static int example_##name parameters                 \
    {                                                    \
        return inner(s)->ops->name(inner(s), __VA_ARGS__); \
    }
PASS_ON(select, (struct store *s, const struct store_query *q, struct tree **t, struct store_notes *n, struct err *e), q, t, n, e)
PASS_ON(table, (struct store *s, const struct store_query *q, const struct store_table_query *k, struct store_table *t, struct store_notes *n, struct err *e), q, k, t, n, e)
PASS_ON(spans, (struct store *s, const struct store_query *q, struct store_spans *t, struct err *e), q, t, e)
PASS_ON(callers, (struct store *s, const struct store_query *q, struct str f, struct store_callers *t, struct store_notes *n, struct err *e), q, f, t, n, e)
PASS_ON(series, (struct store *s, const struct store_query *q, const struct store_series_query *k, struct store_points *t, struct store_notes *n, struct err *e), q, k, t, n, e)
PASS_ON(each_series, (struct store *s, const struct store_range *r, store_series_fn fn, void *ctx), r, fn, ctx)
PASS_ON(attributes, (struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx, struct err *e), q, name, fn, ctx, e)
PASS_ON(profiles, (struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e), q, fn, ctx, e)
PASS_ON(export, (struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e), q, fn, ctx, e)
PASS_ON(delete, (struct store *s, const char *tenant, const struct store_column *c, struct err *e), tenant, c, e)
PASS_ON(retain, (struct store *s, bool all, struct err *e), all, e)
PASS_ON(stats, (struct store *s, struct store_stats *t), t)

const struct store_ops store_example = {
    .name = "example",
    .help = "an example",
    .open = example_open,
    .close = example_close,
    .append = example_append,
    .select = example_select,
    .table = example_table,
    .spans = example_spans,
    .callers = example_callers,
    .series = example_series,
    .each_series = example_each_series,
    .attributes = example_attributes,
    .profiles = example_profiles,
    .export = example_export,
    .delete = example_delete,
    .retain = example_retain,
    .stats = example_stats,
};
"""

ENGINE_TEST = """/* SPDX-License-Identifier: Apache-2.0 */
/* The suite on engine `example`. TAP's counters are per file, so the suite is included, not linked. */
#include "store_conformance.c"

int main(void)
{
    struct suite s = {.ops = &store_example};

    store_conformance(&s);
    return tap_done();
}
"""

FIELD = '    {"seen", RECORD_INT, AT(seen), 0, "from the first to the last profile", .unit = UNIT_NS, .column = 7},\n'

VIEW = """// SPDX-License-Identifier: Apache-2.0
// An example of a view.
export function Example() {
    return <h1>An example</h1>;
}
"""


def edit(path, old, new):
    text = path.read_text()
    assert old in text, f"{path}: no {old!r}"
    path.write_text(text.replace(old, new, 1))


def lines(name):
    """The numbered steps of one list, as ARCHITECTURE.md has them."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    part = re.search(rf"\*\*{re.escape(name)}.*?\n\n", text, re.S).group()
    return re.findall(r"^\d\. ", part, re.M)


def write_examples(tree):
    """Every step of every list."""
    src = tree / "src"
    (src / "pipeline/exporters/example_exporter.c").write_text(EXPORTER)
    edit(src / "pipeline/graph/components.h", "COMPONENT(nop_exporter)\n", "COMPONENT(nop_exporter)\nCOMPONENT(example_exporter)\n")
    edit(src / "pipeline/meson.build", "  'exporters/nop_exporter.c',\n", "  'exporters/nop_exporter.c',\n  'exporters/example_exporter.c',\n")
    (src / "server/api_example.c").write_text(ROUTE)
    edit(src / "server/api.h", "int api_mount_mcp(", "int api_mount_example(struct front *f);\nint api_mount_mcp(")
    edit(src / "serve/serve_front.c", "api_mount_pid,", "api_mount_pid, api_mount_example,")
    edit(src / "server/meson.build", "  'api_mcp.c',\n", "  'api_mcp.c',\n  'api_example.c',\n")
    (src / "cli/cmd_example.c").write_text(COMMAND)
    edit(src / "cli/commands.h", "COMMAND(doctor)\n", "COMMAND(doctor)\nCOMMAND(example)\n")
    edit(src / "cli/meson.build", "  'cmd_doctor.c',\n", "  'cmd_doctor.c',\n  'cmd_example.c',\n")
    edit(src / "query/query_deploys.h", "    uint64_t profiles;\n", "    uint64_t profiles;\n    int64_t seen;\n")
    edit(src / "query/answer_fields.c", '    {"profiles", RECORD_COUNT, AT(profiles)},\n', '    {"profiles", RECORD_COUNT, AT(profiles)},\n' + FIELD)
    edit(src / "query/query_deploys.c", "        mark_latest(ret);\n",
         "        mark_latest(ret);\n        for (uint32_t i = 0; i < ret->n; i++)\n            ret->v[i].seen = ret->v[i].last - ret->v[i].first;\n")
    (src / "store/engines/example").mkdir()
    (src / "store/engines/example/example.c").write_text(ENGINE)
    edit(src / "store/store.c", "&store_memory,", "&store_memory, &store_example,")
    edit(src / "store/store.h", "store_memory,", "store_memory, store_example,")
    edit(src / "store/meson.build", "  'engines/memory/memory.c',\n", "  'engines/memory/memory.c',\n  'engines/example/example.c',\n")
    (tree / "tests/unit/test_store_example.c").write_text(ENGINE_TEST)
    edit(tree / "tests/unit/meson.build", "  'test_store_memory',\n", "  'test_store_memory',\n  'test_store_example',\n")
    folder = src / "agent/lang/example"
    folder.mkdir()
    (folder / "lang_example.c").write_text(LANGUAGE)
    (folder / "example.bpf.h").write_text(LANGUAGE_BPF)
    (folder / "meson.build").write_text("wick_sources += files('lang_example.c')\n")
    edit(src / "agent/lang/langs.h", "LANG(go)\n", "LANG(go)\nLANG(example)\n")
    (tree / "web/src/views/example.js").write_text(VIEW)
    edit(tree / "web/src/main.js", 'import {Explore}', 'import {Example} from "./views/example.js";\nimport {Explore}')
    edit(tree / "web/src/main.js", "explore: Explore,", "explore: Explore, example: Example,")
    edit(tree / "src/server/assets.c", '"/explore",', '"/explore", "/example",')


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    tree = tmp_path_factory.mktemp("howto") / "wick"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tree)], check=True)
    (tree / ".cache").mkdir()
    if (ROOT / ".cache/ui").exists():
        shutil.copytree(ROOT / ".cache/ui", tree / ".cache/ui", symlinks=True)
    write_examples(tree)
    subprocess.run(["meson", "setup", "build"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    p = subprocess.run(["ninja", "-C", "build", "src/cli/wick", "tests/unit/test_store_example"], cwd=tree, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout[-3000:]
    p = subprocess.run(["python3", "tests/structure.py"], cwd=tree, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout
    return tree / "build/src/cli/wick"


@pytest.mark.parametrize("name, steps", [("A receiver, processor, exporter or extension", 3), ("An API route", 3), ("A field of an answer", 2), ("A command", 3),
                                         ("A storage engine", 4), ("A language for the agent and `wick dump`", 2), ("A view of the web UI", 3)])
def test_the_lists_are_short(name, steps):
    assert len(lines(name)) == steps


def test_the_places_exist(tmp_path):
    """Without building: the lists name the files and lines that the source has today."""
    for folder in ("src", "web/src", "tests/unit"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    write_examples(tmp_path)


@slow
def test_component(built):
    out = subprocess.run([built, "collector", "components"], capture_output=True, text=True, check=True).stdout
    assert "example" in out and "takes everything" in out


@slow
def test_command(built):
    assert subprocess.run([built, "example"], capture_output=True, text=True, check=True).stdout == "an example\n"
    assert "prints a line" in subprocess.run([built, "help"], capture_output=True, text=True).stdout


@slow
def test_engine(built):
    """It passes the suite of every engine, and commands choose it by its name without naming it themselves."""
    p = subprocess.run([built.parents[2] / "tests/unit/test_store_example"], capture_output=True, text=True)
    assert p.returncode == 0 and "not ok" not in p.stdout, p.stdout[-3000:]
    p = subprocess.run([built, "store", "stats", "--json", "--store", "example:"], capture_output=True, text=True, check=True)
    assert json.loads(p.stdout)["profiles"] == 0


@slow
@pytest.mark.parametrize("how", ["bpf", "old-bpf"])
def test_language(built, tmp_path, how):
    needs_bpf()
    exe = compile_c(tmp_path, "chain.c", "example-runtime", "-O2", "-fomit-frame-pointer")
    out = tmp_path / "x.folded"
    subprocess.run([built, "record", "-q", "--via", how, "-o", out, "--", exe, "3", "2"], check=True)
    rows = [line.rsplit(" ", 1)[0].split(";") for line in out.read_text().splitlines()]
    assert any("leaf" in s and s[s.index("leaf") + 1:] == ["example_function"] for s in rows), rows


@contextlib.contextmanager
def serving(built, store):
    """The URL of a server of the copy."""
    p = subprocess.Popen([built, "serve", "--no-agent", "--store", str(store), "--http", "127.0.0.1:0", "--otlp-grpc", "off", "--otlp-http", "off"],
                         stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield next(found.group() for line in p.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
    finally:
        p.terminate()
        p.wait(20)


@slow
def test_field_of_an_answer(built, tmp_path):
    """A member and a line of the table: it is in the JSON, in the CLI's table, in MCP, in OpenAPI and on the reference page."""
    with serving(built, tmp_path / "store") as url:
        def get(path, data=None):
            with urllib.request.urlopen(urllib.request.Request(url + path, data, {"Content-Type": "application/json"} if data else {})) as r:
                return json.load(r)

        now = int(time.time()) - 60
        for at in (now, now + 30):
            body = urllib.request.Request(f"{url}/ingest?name=shop&from={at}&until={at + 10}&format=folded&units=samples&sampleRate=100", b"main;f 10\n")
            urllib.request.urlopen(body).close()
        deploy, = get("/api/v1/deploys")["deploys"]
        assert deploy["seen"] == 30 * 10 ** 9
        heading, row = subprocess.run([built, "query", "deploys", "--server", url], capture_output=True, text=True, check=True).stdout.splitlines()
        assert heading.split()[-1] == "SEEN" and row.split()[-1] == "30s"
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "deploys", "arguments": {}}}
        text = get("/mcp", json.dumps(call).encode())["result"]["content"][0]["text"]
        assert json.loads(text)["deploys"][0]["seen"] == 30 * 10 ** 9
        tools = get("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')["result"]["tools"]
        assert ", profiles, seen, previous," in next(t for t in tools if t["name"] == "deploys")["description"]
        what = get("/api/v1/openapi.json")["paths"]["/api/v1/deploys"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        row = what["allOf"][0]["properties"]["deploys"]["items"]["properties"]["seen"]
        assert row == {"type": "integer", "description": "from the first to the last profile", "x-unit": "nanoseconds"}
    page = subprocess.run([built, "query", "--print-reference"], capture_output=True, text=True, check=True).stdout
    assert "  - `seen` (integer, nanoseconds): from the first to the last profile\n" in page


@slow
def test_route_and_view(built, tmp_path):
    with serving(built, tmp_path / "store") as url:
        with urllib.request.urlopen(url + "/api/v1/example") as r:
            assert json.load(r) == {"example": True}
        with urllib.request.urlopen(url + "/example") as r:
            assert b'id="app"' in r.read()
        with urllib.request.urlopen(url + "/assets/app.js") as r:
            assert b"An example" in r.read()
