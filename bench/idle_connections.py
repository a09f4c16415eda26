"""Opens N idle plaintext HTTP/2 connections to a port and measures the server's process then.
bench/idle_connections.py PORT PID [N]: prints "connections errors rss_mb".

One peer may hold half of a server's connections at most, so they come from four addresses."""
import resource
import socket
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


def main():
    port, pid, n = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 10000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    open_ones, errors = [], 0
    for i in range(n):
        try:
            s = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(f"127.0.0.{2 + i % 4}", 0))
            s.sendall(PREFACE)
            open_ones.append(s)
        except OSError:
            errors += 1
    time.sleep(1)
    for s in open_ones:
        s.settimeout(5)
        try:
            errors += len(s.recv(4096)) < 9  # its SETTINGS
        except OSError:
            errors += 1
    rss = next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")) / 1024
    print(len(open_ones), errors, round(rss))


main()
