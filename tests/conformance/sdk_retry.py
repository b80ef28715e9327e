"""A command that outlives the Python SDK's timeout runs once and is killed:   sdk_retry.py URL

The SDK retries a request whose connection broke or timed out. The command must not run a second time.
"""

import http.client
import importlib.metadata
import json
import os
import sys
import time
import urllib.parse

from k8s_agent_sandbox.models import SandboxDirectConnectionConfig
from k8s_agent_sandbox.sandbox import Sandbox

URL = sys.argv[1]
RUN = f"retry-{importlib.metadata.version('k8s-agent-sandbox')}-{time.time_ns()}"


class NoCluster:
    injected_api_client = None

    def get_sandbox(self, name, namespace):
        return {"status": {}}


def execute(command):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=30)
    connection.request(
        "POST", "/execute", json.dumps({"command": command}), {"Content-Type": "application/json"}
    )
    return json.load(connection.getresponse())


def lines(suffix):
    return int(execute(f"sh -c 'cat {RUN}.{suffix} | wc -l'")["stdout"])


def time_out():
    config = SandboxDirectConnectionConfig(api_url=URL)
    sandbox = Sandbox("", "retry", "default", connection_config=config, k8s_helper=NoCluster())
    try:
        # The response begins after half a second. No bytes follow for longer than this timeout.
        sandbox.commands.run(
            f"sh -c 'echo >> {RUN}.starts; while sleep 0.1; do echo >> {RUN}.beats; done'", timeout=3
        )
    except Exception as error:
        print(f"the client timed out: {type(error).__name__}", flush=True)
        os._exit(0)
    os._exit(1)


# In a separate process, because an SDK that timed out may keep its connection open.
client = os.fork()
if client == 0:
    time_out()
if os.waitpid(client, 0)[1] != 0:
    sys.exit("sdk_retry.py: the client did not time out")
time.sleep(2)
starts, beats = lines("starts"), lines("beats")
time.sleep(1)
later_beats = lines("beats") - beats
execute(f"sh -c 'rm {RUN}.*'")
if (starts, later_beats) != (1, 0):
    sys.exit(
        f"sdk_retry.py: started {starts} times; {later_beats} more heartbeats after the client disconnected"
    )
print(f"started once, killed after {beats} heartbeats")
