# SPDX-License-Identifier: Apache-2.0
"""An executable file on a FUSE file system whose server stops answering. Needs root and /dev/fuse."""
import contextlib
import os
import signal
import stat
import struct
import subprocess
import time

import block_log


class Program(block_log.Served):
    def attr(self):
        now = int(time.time())
        return struct.pack("<6Q10I", 1, len(self.image), len(self.image) // 512 + 1, now, now, now, 0, 0, 0, stat.S_IFREG | 0o755,
                           1, 0, 0, 0, 4096, 0)

    def answer(self, op, body):
        return struct.pack("<QII", 1, 0, 0) if op == block_log.OPEN else super().answer(op, body)


def usable():
    return os.geteuid() == 0 and os.path.exists("/dev/fuse")


@contextlib.contextmanager
def served(path, image):
    """The file at path has the bytes of image; yields a function after which its server no longer answers."""
    path.touch()
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    server = os.fork()
    if server == 0:
        try:
            os.setsid()
            Program(fd, image, os.devnull).run()
        finally:
            os._exit(0)
    try:
        os.set_inheritable(fd, True)
        subprocess.run(["mount", "-i", "-t", "fuse", "-o", f"fd={fd},rootmode=100755,user_id=0,group_id=0,allow_other", "wick-test", str(path)],
                       check=True, pass_fds=[fd], capture_output=True)
        os.close(fd)
        yield lambda: os.kill(server, signal.SIGSTOP)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        subprocess.run(["umount", "-l", str(path)], capture_output=True)
