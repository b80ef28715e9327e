#!/usr/bin/env python3
"""Every endpoint with nothing but Python's standard library.

    direct.py            the server is at $SANDBOX_URL, or http://127.0.0.1:8888

Exit status: 0 if every result is as expected.
"""

import json
import os
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("SANDBOX_URL", "http://127.0.0.1:8888").rstrip("/")
TOKEN = os.environ.get("SANDBOX_TOKEN")


def call(path, body=None, **headers):
    """Status and body of one request: GET without a body, POST with one."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if TOKEN:
        headers["Authorization"] = f"Bearer {TOKEN}"
    request = urllib.request.Request(URL + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=330) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def execute(command, **fields):
    """The result of a command, as a dictionary."""
    body = json.dumps({"command": command, **fields}).encode()
    status, response = call("/execute", body, Content_Type="application/json")
    expect("POST /execute", status, 200)
    return json.loads(response)


def upload(name, content):
    """Writes one file; a longer boundary is needed if the content may contain this one."""
    boundary = "sandbox-example-boundary"
    quoted = name.replace("\\", "\\\\").replace('"', "%22")
    disposition = f'Content-Disposition: form-data; name="file"; filename="{quoted}"'
    head, tail = f"--{boundary}\r\n{disposition}\r\n\r\n", f"\r\n--{boundary}--\r\n"
    body = head.encode() + content + tail.encode()
    return call("/upload", body, Content_Type=f"multipart/form-data; boundary={boundary}")


def at(endpoint, path):
    return f"/{endpoint}/{urllib.parse.quote(path)}"


def expect(what, received, expected):
    if received != expected:
        raise SystemExit(f"{what}: expected {expected!r}, received {received!r}")
    print(f"{what}: {received!r}")


def main():
    expect("GET /", call("/")[0], 200)

    expect("a command", execute("echo hello"), {"stdout": "hello\n", "stderr": "", "exit_code": 0})
    expect("its exit code", execute("sh -c 'exit 3'")["exit_code"], 3)
    late = execute("sh -c 'echo first; sleep 60'", timeout_seconds=0.5)
    expect("output before a timeout", (late["stdout"], late["timed_out"]), ("first\n", True))
    missing = execute("no-such-program")
    expect("no such program", missing["stderr"][:26], "Failed to execute command:")

    name, content = "direct-example/a file.bin", bytes(range(256))
    expect("POST /upload", upload(name, content)[0], 200)
    expect("GET /download", call(at("download", name)) == (200, content), True)
    expect("a range of it", call(at("download", name), Range="bytes=1-3"), (206, b"\x01\x02\x03"))
    entries = json.loads(call(at("list", "direct-example"))[1])
    expect("GET /list", [(e["name"], e["size"], e["type"]) for e in entries], [("a file.bin", 256, "file")])
    expect("GET /exists", json.loads(call(at("exists", name))[1]), {"path": name, "exists": True})
    expect("outside", call("/download/..%2Fetc/passwd")[0], 403)

    expect("removed", execute("rm -r direct-example")["exit_code"], 0)


if __name__ == "__main__":
    main()
