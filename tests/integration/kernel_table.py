# SPDX-License-Identifier: Apache-2.0
"""The table of kernels and features in docs/agent.md, from the results of test_agent_kernels.py."""
import re
from pathlib import Path

from kernel_boot import shown

BEGIN, END = "<!-- kernels: make test-kernels -->\n", "<!-- end -->\n"


class Table:
    def __init__(self, checks):
        self.checks, self.results, self.releases, self.missing = checks, {}, {}, {}

    def release(self, arch, kernel, text):
        self.releases[arch, kernel] = (shown(text, "release") or kernel).strip()

    def miss(self, reason):
        """Of a kernel that cannot be booted here: it has no column."""
        self.missing[reason] = None

    def add(self, arch, kernel, check, works):
        self.results[arch, kernel, check] = works

    def text(self):
        """A row for each check, a column for each kernel."""
        words = {True: "yes", False: "**no**", None: "–"}
        machines = {"amd64": "x86-64", "arm64": "arm64"}
        names = [f"{r.replace('-' + arch, '').replace('-cloud', '').replace('-unsigned', '')}, {machines[arch]}" for (arch, _), r in self.releases.items()]
        lines = ["| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
        for check, title in self.checks:
            cells = [words[self.results.get((*kernel, check))] for kernel in self.releases]
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
        return "\n".join([*lines, *(["", "Not in this run: " + "; ".join(self.missing) + "."] if self.missing else [])]) + "\n"

    def write(self, path):
        """Into a file that has the two marks."""
        old = Path(path).read_text()
        assert BEGIN in old and END in old, path
        Path(path).write_text(re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: BEGIN + self.text() + END, old, flags=re.S))
