"""Checks that the examples in CONTRIBUTING.md work: extend.py

Applies the blocks of "Adding an endpoint" and "Adding a protocol" to a copy of the tree, as a contributor
would, builds the copy and sends requests to what the blocks add. Also checks the claim itself: an endpoint
touches one file and one row, a protocol adds a folder and one line.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BLOCK = re.compile(r"<!-- extend: (\w+) (\S+)(?: after (.*?))? -->\n```\w*\n(.*?)```\n", re.DOTALL)

# Request target, expected status, expected body.
EXPECTED = [
    (
        "/version",
        200,
        json.dumps(re.search(r'^version = "(.*)"', open(f"{ROOT}/Cargo.toml").read(), re.M)[1]),
    ),
    ("/greeting/world", 200, "hello, world"),
    ("/greeting", 400, ""),
    ("/", 200, '{"status":"ok","message":"Sandbox Runtime is active."}'),
    ("/nothing", 404, '{"detail":"Not Found"}'),
]


def git(directory, *arguments):
    return subprocess.run(
        ["git", *arguments], cwd=directory, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def copy_of_the_tree(directory):
    """The tracked files as they are in the working tree, in a repository of their own."""
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if os.path.exists(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(os.path.join(directory, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(directory, name))
    git(directory, "init", "--quiet")
    git(directory, "add", "--all")
    git(
        directory,
        "-c",
        "user.name=ci",
        "-c",
        "user.email=ci@localhost",
        "commit",
        "--quiet",
        "--message",
        "before",
    )


def apply(directory, action, path, after, text):
    path = os.path.join(directory, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if action == "create":
        assert not os.path.exists(path), path
        before = ""
    else:
        before = open(path, encoding="utf-8").read()
    if action == "insert":
        assert before.count(f"{after}\n") == 1, f"{path}: not exactly one line {after!r}"
        text = before.replace(f"{after}\n", f"{after}\n{text}")
    elif action == "append":
        text = f"{before}\n{text}"
    open(path, "w", encoding="utf-8").write(text)


def check_extent(directory):
    """The numbers that CONTRIBUTING.md promises."""
    git(directory, "add", "--all")
    changed = {}
    for line in git(directory, "diff", "--cached", "--numstat").splitlines():
        added, removed, path = line.split("\t")
        changed[path] = (int(added), int(removed))
    protocol = {path for path in changed if path.startswith("src/api/greeting/")}
    handler, row, line = "src/api/compat/browse.rs", "src/api/compat/mod.rs", "src/api/mod.rs"
    assert set(changed) == protocol | {handler, row, line}, changed
    assert changed[line] == (1, 0), changed
    assert all(removed == 0 for _, removed in changed.values()), changed


def cargo(directory, *arguments):
    target = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "extend")
    subprocess.run(
        ["cargo", *arguments], cwd=directory, check=True, env={**os.environ, "CARGO_TARGET_DIR": target}
    )
    return target


def get(port, target):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def serve(binary, base):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    server = subprocess.Popen([binary, "serve", "--listen", f"127.0.0.1:{port}", "--base-dir", base])
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        time.sleep(0.05)
    server.kill()
    raise SystemExit("extend.py: the server did not start")


def main():
    blocks = BLOCK.findall(open(os.path.join(ROOT, "CONTRIBUTING.md"), encoding="utf-8").read())
    assert len(blocks) == 5, f"CONTRIBUTING.md has {len(blocks)} blocks to apply"
    with tempfile.TemporaryDirectory() as directory:
        copy_of_the_tree(directory)
        for block in blocks:
            apply(directory, *block)
        check_extent(directory)
        target = cargo(directory, "build", "--locked", "--package", "sandbox-runtime")
        server, port = serve(os.path.join(target, "debug", "sandbox-runtime"), directory)
        try:
            failed = 0
            for name, status, body in EXPECTED:
                found = get(port, name)
                print(f"GET {name}: {found[0]} {found[1]}")
                failed += found != (status, body)
        finally:
            server.terminate()
            server.wait()
    if failed:
        raise SystemExit(f"extend.py: {failed} of {len(EXPECTED)} responses are wrong")
    print(f"extend.py: {len(EXPECTED)} responses of the extended tree are right")


if __name__ == "__main__":
    sys.exit(main())
