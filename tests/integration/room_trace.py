# SPDX-License-Identifier: Apache-2.0
"""Runs inside gdb, attached to a process: records the first call of each of a list of functions, with its stack.

FUNCTIONS is a file with a function per line, END a list of functions with commas between: at each of them a part of the trace is
complete and all functions are recorded again; at the last one gdb detaches. OUT is the file to write. A line of it is a JSON
object: the number of the part, the function, its thread, and its frames from the function outwards, as [room, function, direct]:
the room is the folder below src/ that the source file is in ("" outside of wick), direct says whether the frame was called by its
name rather than by a pointer (null where that is not known)."""
import json
import os
import re

import gdb

ENDS, out, calls, part = os.environ["END"].split(","), open(os.environ["OUT"], "w"), [], 0


def room(frame):
    table = frame.find_sal().symtab
    found = re.search(r"(?:^|/)src/([a-z0-9]+)/", table.filename) if table else None
    return found.group(1) if found else ""


def called_directly(frame):
    """x86-64: whether the instruction before the return address is a call of a fixed address."""
    caller = frame.older()
    if frame.type() == gdb.INLINE_FRAME or not caller or gdb.TAILCALL_FRAME in (frame.type(), caller.type()):
        return None
    try:
        return bytes(gdb.selected_inferior().read_memory(caller.pc() - 5, 1)) == b"\xe8"
    except gdb.MemoryError:
        return None


class Call(gdb.Breakpoint):
    def __init__(self, name):
        super().__init__(name, internal=True)
        self.function, self.silent = name, True

    def stop(self):
        global part
        if not self.enabled:
            return False
        self.enabled = False
        frames, frame = [], gdb.newest_frame()
        while frame and len(frames) < 64:
            frames.append([room(frame), frame.name() or "", called_directly(frame)])
            frame = frame.older()
        out.write(json.dumps({"part": part, "function": self.function, "thread": gdb.selected_thread().ptid[1], "frames": frames}) + "\n")
        out.flush()
        if self.function == ENDS[part]:
            part += 1
            for call in calls:
                if not call.enabled:  # setting it takes gdb long
                    call.enabled = True
        return part == len(ENDS)


gdb.execute("set pagination off")
gdb.execute("set breakpoint pending off")
gdb.execute("handle all nostop noprint pass")
for line in open(os.environ["FUNCTIONS"]):
    try:
        calls.append(Call(line.strip()))
    except gdb.error:
        pass  # not in this program
open(os.environ["OUT"] + ".ready", "w").close()
gdb.execute("continue")
gdb.execute("detach")
