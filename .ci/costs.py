"""Measures costs that do not depend on the machine and compares them with .ci/budgets.toml.

    costs.py RELEASE DEBUG TESTER

RELEASE is the static binary. DEBUG is linked to the C library, so that valgrind can count allocations.
TESTER is the tester. Measures the system calls of one command (strace), its allocations (valgrind) and
memory (the tester). Fails if a cost exceeds its budget, has no budget, or was not measured, and if
docs/DESIGN.md states another budget.
"""

import collections
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BODY = b'{"command":"true"}'
REQUEST = (
    b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    % (
        len(BODY),
        BODY,
    )
)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """`serve` (without the init process) in a temporary directory, and a connection to it."""

    def __init__(self, *command):
        self.directory = tempfile.TemporaryDirectory()
        port = free_port()
        environment = {
            "PATH": "/usr/bin:/bin",
            "SANDBOX_BASE_DIR": self.directory.name,
            "SANDBOX_LOG": "warn",
        }
        command = [*command, "serve", "--listen", f"127.0.0.1:{port}"]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.connection = socket.create_connection(("127.0.0.1", port))
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise SystemExit("costs.py: the server did not start")

    def request(self, times):
        for _ in range(times):
            self.connection.sendall(REQUEST)
            response = self.connection.recv(65536)
            if b'"exit_code":0' not in response:
                raise SystemExit(f"costs.py: unexpected response {response!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.directory.cleanup()


def calls_of_a_command(binary):
    """System calls per request of the thread that serves the connection, by name."""
    count = 100
    with Server(binary) as server, tempfile.NamedTemporaryFile("r") as trace:
        # Warm-up: the allocator adapts to the sizes that are requested repeatedly.
        server.request(400)
        strace = subprocess.Popen(
            ["strace", "-f", "-p", str(server.process.pid), "-o", trace.name],
            stderr=subprocess.PIPE,
            text=True,
        )
        if "attached" not in strace.stderr.readline():
            raise SystemExit("costs.py: strace cannot attach to the server")
        server.request(count)
        strace.send_signal(signal.SIGINT)
        strace.wait()
        by_thread = collections.defaultdict(collections.Counter)
        for line in trace:
            # The second line of an interrupted call, "<... resumed>", does not match.
            if found := re.match(r"(\d+) +(\w+)\(", line):
                by_thread[found[1]][found[2]] += 1
    calls = max(by_thread.values(), key=lambda calls: calls["writev"])
    # Rare calls belong to the start and the end of the trace.
    return {name: number / count for name, number in calls.items() if number >= count / 10}


def allocations_of_a_command(binary):
    def allocations(times):
        with tempfile.NamedTemporaryFile("r") as log:
            options = ["--leak-check=no", "--undef-value-errors=no", f"--log-file={log.name}"]
            with Server("valgrind", *options, binary) as server:
                server.request(times)
            return int(re.search(r"total heap usage: ([\d,]+) allocs", log.read())[1].replace(",", ""))

    return (allocations(150) - allocations(50)) / 100


# Measurement of the tester, field, divisor -> name of the budget.
MEMORY = {
    ("text-100MiB", "peak_memory_bytes", 1024): "peak memory, 100 MiB of text without a limit, KiB",
    ("nul-100MiB", "peak_memory_bytes", 1024): "peak memory, 100 MiB of NULs without a limit, KiB",
    ("upload-256MiB", "peak_memory_bytes", 1024): "peak memory, 256 MiB up, KiB",
    ("download-256MiB", "peak_memory_bytes", 1024): "peak memory, 256 MiB down, KiB",
    ("loaded-rss", "server", 1024): "resident memory after all of this, KiB",
    ("idle-rss", "server", 1024): "resident memory, idle, both processes, KiB",
    ("idle-pss", "server", 1024): "of it not shared (PSS), KiB",
    ("idle-connections", "server", 1): "memory of an idle connection, bytes",
}


def memory(tester, binary):
    only = ",".join(measurement for measurement, _, _ in MEMORY)
    with tempfile.TemporaryDirectory() as directory:
        port = str(free_port())
        command = [tester, "bench", "--json", "--rounds", "1", "--only", only, "127.0.0.1", port, "--"]
        command += [binary, "--listen", f"127.0.0.1:{port}", "--base-dir", directory, "--max-output", "0"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    measured = json.loads(output)["measurements"]
    return {name: measured[key][field] / divisor for (key, field, divisor), name in MEMORY.items()}


def over_budget(title, budgets, costs):
    """Prints each cost beside its budget and yields the names of those that fail."""
    for name in {**budgets, **costs}:
        cost, budget = costs.get(name), budgets.get(name)
        shown = [
            "none" if value is None else f"{value:.2f}".rstrip("0").rstrip(".") for value in (cost, budget)
        ]
        print(f"{title}{name}: {shown[0]}, budget {shown[1]}")
        if budget is None or cost is None or cost > budget:
            yield title + name


def undocumented(budgets):
    """Budgets without a row `| name | budget |` in docs/DESIGN.md."""
    text = (ROOT / "docs/DESIGN.md").read_text(encoding="utf-8").replace("`", "")
    return [name for name, budget in budgets.items() if f"\n| {name} | {budget} |" not in text]


def main():
    release, debug, tester = map(os.path.abspath, sys.argv[1:])
    budgets = tomllib.loads((ROOT / ".ci/budgets.toml").read_text(encoding="utf-8"))
    if missing := undocumented(budgets["system-calls"] | budgets["costs"]):
        raise SystemExit("costs.py: docs/DESIGN.md differs from .ci/budgets.toml: " + "; ".join(missing))
    costs = memory(tester, release)
    costs["allocations of a command"] = allocations_of_a_command(debug)
    calls = calls_of_a_command(release)
    print(f"system calls of a command: {sum(calls.values()):.1f}")
    failed = [
        *over_budget("", budgets["costs"], costs),
        *over_budget("system call ", budgets["system-calls"], calls),
    ]
    if failed:
        raise SystemExit("costs.py: over budget: " + "; ".join(failed))


main()
