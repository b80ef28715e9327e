#!/usr/bin/env python3
"""The Python SDK (pip install k8s-agent-sandbox) against a running server, without a cluster.

    python_sdk.py        the server is at $SANDBOX_URL, or http://127.0.0.1:8888

In a cluster, SandboxClient().create_sandbox(...) returns the same Sandbox object.
Exit status: 0 if every result is as expected.
"""

import os

from k8s_agent_sandbox.models import SandboxDirectConnectionConfig
from k8s_agent_sandbox.sandbox import Sandbox


class NoCluster:
    """Replaces the SDK's queries to Kubernetes."""

    injected_api_client = None

    def get_sandbox(self, name, namespace):
        return {"status": {"podIPs": []}}


def connect(url):
    return Sandbox(
        claim_name="",
        sandbox_id="local",
        namespace="default",
        connection_config=SandboxDirectConnectionConfig(api_url=url),
        k8s_helper=NoCluster(),
    )


def expect(what, received, expected):
    if received != expected:
        raise SystemExit(f"{what}: expected {expected!r}, received {received!r}")
    print(f"{what}: {received!r}")


def main():
    sandbox = connect(os.environ.get("SANDBOX_URL", "http://127.0.0.1:8888"))

    result = sandbox.commands.run("echo hello")
    expect("stdout", result.stdout, "hello\n")
    expect("exit code", result.exit_code, 0)

    sandbox.files.write("sdk-example.txt", "written by the SDK")
    expect("exists", sandbox.files.exists("sdk-example.txt"), True)
    expect("content", sandbox.files.read("sdk-example.txt"), b"written by the SDK")
    names = [entry.name for entry in sandbox.files.list(".")]
    expect("listed", "sdk-example.txt" in names, True)

    expect("removed", sandbox.commands.run("rm sdk-example.txt").exit_code, 0)
    expect("exists", sandbox.files.exists("sdk-example.txt"), False)


if __name__ == "__main__":
    main()
