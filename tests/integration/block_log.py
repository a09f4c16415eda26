# SPDX-License-Identifier: Apache-2.0
"""A block device that logs its writes and flushes, for tests of power cuts.

The device is a loop device on the only file of a FUSE file system; a process of this module serves that file in memory and
appends every write and every flush to a log before it answers the kernel. So when a program has been told that its data
is synced, the log has the writes and the flush that made it so. `Cut` then makes images of what a disk with a volatile
cache may hold if the power fails at a place in the log: all that was written before the last flush, and of each
4 KiB block written after it, any of its versions.

Needs root, /dev/fuse and loop devices; usable() says whether they are there.
"""
import errno
import os
import signal
import stat
import struct
import subprocess
import time
from pathlib import Path

from wick_tools import some

BLOCK = 4096
MAX_WRITE = 128 << 10
RECORD = struct.Struct("<QI")  # offset and length of a write, whose bytes follow; a flush has the length FLUSH
FLUSH = 0xFFFFFFFF
# Operations of the kernel's FUSE protocol (linux/fuse.h).
GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH_FILE, INIT, ACCESS, DESTROY = \
    3, 4, 14, 15, 16, 17, 18, 20, 25, 26, 34, 38
FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42
IN_HEADER = struct.Struct("<IIQQIIII")
DIRECT_IO = 1  # of an open file: the kernel keeps no pages of it
MAX_PAGES, ASYNC_READ, BIG_WRITES = 1 << 22, 1 << 0, 1 << 5  # of INIT


class Served:
    """The process that serves the file: image is its first content, log gets what is written."""

    def __init__(self, fd, image, log):
        self.fd, self.image, self.log = fd, bytearray(image), open(log, "ab", buffering=0)

    def attr(self):
        now = int(time.time())
        blocks = len(self.image) // 512
        return struct.pack("<6Q10I", 1, len(self.image), blocks, now, now, now, 0, 0, 0, stat.S_IFREG | 0o600, 1, 0, 0, 0,
                           BLOCK, 0)

    def answer(self, op, body):
        """What the kernel is told: bytes, or a negative errno."""
        if op == INIT:
            flags = struct.unpack_from("<4I", body)[3]
            return struct.pack("<IIIIHHIIHHI7I", 7, 31, 1 << 17, flags & (MAX_PAGES | ASYNC_READ | BIG_WRITES), 16, 12,
                               MAX_WRITE, 1, MAX_WRITE // 4096, 0, *([0] * 8))
        if op in (GETATTR, SETATTR):
            return struct.pack("<QII", 3600, 0, 0) + self.attr()
        if op == OPEN:
            return struct.pack("<QII", 1, DIRECT_IO, 0)
        if op == READ:
            at, size = struct.unpack_from("<QI", body, 8)
            return bytes(self.image[at:at + size])
        if op == WRITE:
            at, size = struct.unpack_from("<QI", body, 8)
            data = body[40:40 + size]
            self.image[at:at + size] = data
            self.log.write(RECORD.pack(at, size) + data)
            return struct.pack("<II", size, 0)
        if op == FSYNC:
            self.log.write(RECORD.pack(0, FLUSH))
            return b""
        if op == STATFS:
            return struct.pack("<5Q3I24x", len(self.image) // BLOCK, 0, 0, 1, 0, BLOCK, 255, BLOCK)
        return b"" if op in (FLUSH_FILE, RELEASE, ACCESS, DESTROY) else -errno.ENOSYS

    def run(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                message = os.read(self.fd, MAX_WRITE + (64 << 10))
            except InterruptedError:
                continue
            except OSError as e:
                if e.errno in (errno.ENOENT, errno.EAGAIN):
                    continue
                if e.errno == errno.EPERM and time.monotonic() < deadline:  # not mounted yet
                    time.sleep(0.005)
                    continue
                return  # unmounted
            _, op, unique, *_ = IN_HEADER.unpack_from(message)
            if op in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            body = self.answer(op, message[IN_HEADER.size:])
            error, body = (body, b"") if isinstance(body, int) else (0, body)
            try:
                os.write(self.fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
            except OSError:
                pass  # the request was interrupted


def run(*command):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if p.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {p.stderr.strip()}")
    return p.stdout.strip()


def usable():
    return os.geteuid() == 0 and os.path.exists("/dev/fuse") and os.path.exists("/dev/loop-control")


def make_image(path, megabytes):
    with open(path, "wb") as f:
        f.truncate(megabytes << 20)
    run("mkfs.ext4", "-q", "-F", "-b", BLOCK, "-J", "size=8", "-E", "lazy_itable_init=0,lazy_journal_init=0", path)


class LoggedDevice:
    """An ext4 of so many megabytes, mounted at directory/fs; its writes and flushes are in directory/log."""

    def __init__(self, directory, megabytes):
        d = Path(directory)
        self.base, self.log, self.fs, self.file = d / "base.img", d / "writes.log", d / "fs", d / "device"
        self.fs.mkdir()
        self.file.touch()
        self.log.touch()
        make_image(self.base, megabytes)
        self.pid = self.loop = None
        try:
            self.mount()
        except OSError:
            self.close()
            raise

    def mount(self):
        fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                Served(fd, self.base.read_bytes(), self.log).run()
            finally:
                os._exit(0)
        os.set_inheritable(fd, True)
        options = f"fd={fd},rootmode=100600,user_id=0,group_id=0,max_read={MAX_WRITE}"
        subprocess.run(["mount", "-i", "-t", "fuse", "-o", options, "wick-test", str(self.file)], check=True, pass_fds=[fd],
                       capture_output=True)
        os.close(fd)
        self.loop = run("losetup", "-f", "--show", self.file)
        run("mount", "-t", "ext4", self.loop, self.fs)

    def place(self):
        """Where the log ends now: what was answered before this call is before it."""
        return self.log.stat().st_size

    def close(self):
        """Unmounts everything; whatever was not done is left out."""
        for command in (["umount", str(self.fs)], ["losetup", "-d", self.loop or "none"], ["umount", str(self.file)]):
            subprocess.run(command, capture_output=True)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None


class Cuts:
    """Images of the device after a power cut at places of its log, for ascending places."""

    def __init__(self, device):
        self.log, self.size = device.log.read_bytes(), device.base.stat().st_size
        self.kept = {}  # block number → its bytes, of all that was flushed
        with open(device.base, "rb") as f:
            for n in range(self.size // BLOCK):
                data = f.read(BLOCK)
                if data.strip(b"\0"):
                    self.kept[n] = data
        self.at = 0  # kept has what the log has before this place, which is just after a flush

    def entries(self, at, end):
        """Whole records of the log: (place after it, offset, bytes); bytes are None for a flush."""
        while at + RECORD.size <= end:
            offset, size = RECORD.unpack_from(self.log, at)
            at += RECORD.size
            if size == FLUSH:
                yield at, 0, None
            elif at + size <= end:
                yield at + size, offset, self.log[at:at + size]
                at += size
            else:
                return

    def versions(self, place):
        """Advances to the last flush before place; the versions of each block that was written after it."""
        pending = {}
        for after, offset, data in some(self.entries(self.at, place)):
            if data is None:
                for n, v in pending.items():
                    self.kept[n] = v[-1]
                pending, self.at = {}, after
                continue
            for i in range(0, len(data), BLOCK):
                n, skip = divmod(offset + i, BLOCK)
                assert skip == 0 and len(data) % BLOCK == 0, "the device has sectors smaller than a block"
                pending.setdefault(n, []).append(data[i:i + BLOCK])
        return pending

    def make(self, place, path, choose):
        """Writes the image; choose(n) says which of n versions of a block is on the disk, 0 being the one before."""
        pending = self.versions(place)
        with open(path, "wb") as f:
            f.truncate(self.size)
            for n, data in self.kept.items():
                f.seek(n * BLOCK)
                f.write(data)
            for n, v in pending.items():
                k = choose(len(v) + 1)
                if k:
                    f.seek(n * BLOCK)
                    f.write(v[k - 1])
        return len(pending)
