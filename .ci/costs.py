"""What a request and a connection cost, as far as it does not depend on the machine; what is allowed is in docs/DESIGN.md.

    costs.py RELEASE DEBUG TESTER

RELEASE is the static binary, DEBUG one with the C library that valgrind can look into, TESTER the tester. Counted are the
system calls of one command (strace), its allocations (valgrind), and memory (the tester). Each number is printed beside
what is allowed; more than that is an error, and so is a table that names less than there is.
"""

import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BODY = b'{"command":"true"}'
REQUEST = b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)


def table(title):
    """The rows below the header that begins with this cell: name to number."""
    rows, within = {}, False
    for line in open(os.path.join(ROOT, "docs", "DESIGN.md"), encoding="utf-8"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == title:
            within = True
        elif within and not line.startswith("|"):
            break
        elif within and not cells[0].startswith("-"):
            rows[cells[0].strip("`")] = float(cells[1])
    if not rows:
        raise SystemExit(f"costs.py: no table {title!r} in docs/DESIGN.md")
    return rows


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """`serve`, one process, in a directory of its own."""

    def __init__(self, *words):
        self.directory = tempfile.TemporaryDirectory()
        self.port = free_port()
        environment = {"PATH": "/usr/bin:/bin", "SANDBOX_BASE_DIR": self.directory.name, "SANDBOX_LOG": "warn"}
        command = [*words, "serve", "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.connection = socket.create_connection(("127.0.0.1", self.port))
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise SystemExit("costs.py: the server did not start")

    def ask(self, times):
        for _ in range(times):
            self.connection.sendall(REQUEST)
            answer = self.connection.recv(65536)
            if b'"exit_code":0' not in answer:
                raise SystemExit(f"costs.py: {answer!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.directory.cleanup()


def calls_of_a_command(binary):
    """System calls of the thread that serves the connection, by name, for one request."""
    count = 100
    with Server(binary) as server, tempfile.NamedTemporaryFile("r") as trace:
        # The allocator finds out which sizes come again and again, and keeps them.
        server.ask(400)
        strace = subprocess.Popen(
            ["strace", "-f", "-p", str(server.process.pid), "-o", trace.name], stderr=subprocess.PIPE, text=True
        )
        if "attached" not in strace.stderr.readline():
            raise SystemExit("costs.py: strace can not look at the server")
        server.ask(count)
        strace.send_signal(signal.SIGINT)
        strace.wait()
        by_thread = collections.defaultdict(collections.Counter)
        for line in trace:
            # A call that another thread interrupts has a second line, "<... resumed>".
            if found := re.match(r"(\d+) +(\w+)\(", line):
                by_thread[found[1]][found[2]] += 1
    calls = max(by_thread.values(), key=lambda calls: calls["writev"])
    # What comes now and then belongs to the beginning and the end.
    return {name: number / count for name, number in calls.items() if number >= count / 10}


def allocations_of_a_command(binary):
    def allocations(times):
        with tempfile.NamedTemporaryFile("r") as log:
            with Server("valgrind", "--leak-check=no", "--undef-value-errors=no", f"--log-file={log.name}", binary) as server:
                server.ask(times)
            return int(re.search(r"total heap usage: ([\d,]+) allocs", log.read())[1].replace(",", ""))

    return (allocations(150) - allocations(50)) / 100


def bench(tester, binary):
    only = "text-100MiB,nul-100MiB,upload-256MiB,download-256MiB,loaded-rss,idle-rss,idle-pss,idle-connections"
    with tempfile.TemporaryDirectory() as directory:
        port = str(free_port())
        words = [tester, "bench", "--json", "--rounds", "1", "--only", only, "127.0.0.1", port, "--"]
        words += [binary, "--listen", f"127.0.0.1:{port}", "--base-dir", directory, "--max-output", "0"]
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)["measurements"]


def main():
    release, debug, tester = map(os.path.abspath, sys.argv[1:])
    allowed_calls, allowed = table("System call"), table("Cost")
    found, measured = {}, bench(tester, release)
    for name, what in [
        ("text-100MiB", "peak memory, 100 MiB of text without a limit, KiB"),
        ("nul-100MiB", "peak memory, 100 MiB of NULs without a limit, KiB"),
        ("upload-256MiB", "peak memory, 256 MiB up, KiB"),
        ("download-256MiB", "peak memory, 256 MiB down, KiB"),
    ]:
        found[what] = measured[name]["peak_memory_bytes"] / 1024
    for name, what, unit in [
        ("idle-rss", "resident memory, idle, both processes, KiB", 1024),
        ("idle-pss", "of it not shared (PSS), KiB", 1024),
        ("loaded-rss", "resident memory after all of this, KiB", 1024),
        ("idle-connections", "memory of an idle connection, bytes", 1),
    ]:
        found[what] = measured[name]["server"] / unit
    found["allocations of a command"] = allocations_of_a_command(debug)
    calls = calls_of_a_command(release)
    print(f"system calls of a command: {sum(calls.values()):.1f}")
    wrong = []
    for what, limits, numbers in [("", allowed, found), ("system call ", allowed_calls, calls)]:
        for name in {**limits, **numbers}:
            number, limit = numbers.get(name), limits.get(name)
            shown = ["none" if value is None else f"{value:.2f}".rstrip("0").rstrip(".") for value in (number, limit)]
            print(f"{what}{name}: {shown[0]}, allowed {shown[1]}")
            if limit is None or number is None or number > limit:
                wrong.append(what + name)
    if wrong:
        raise SystemExit("costs.py: not as docs/DESIGN.md says: " + "; ".join(wrong))


main()
