"""A command that takes longer than the Python SDK waits runs once and is gone afterwards:   once.py URL

The SDK sends a request again when it was not answered in time or the connection broke.
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
RUN = f"once-{importlib.metadata.version('k8s-agent-sandbox')}-{time.time_ns()}"


class NoCluster:
    injected_api_client = None

    def get_sandbox(self, name, namespace):
        return {"status": {}}


def execute(command):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=30)
    connection.request("POST", "/execute", json.dumps({"command": command}), {"Content-Type": "application/json"})
    return json.load(connection.getresponse())


def lines(what):
    return int(execute(f"sh -c 'cat {RUN}.{what} | wc -l'")["stdout"])


def give_up():
    config = SandboxDirectConnectionConfig(api_url=URL)
    sandbox = Sandbox("", "once", "default", connection_config=config, k8s_helper=NoCluster())
    try:
        # The answer begins after half a second, and then nothing comes for longer than this.
        sandbox.commands.run(f"sh -c 'echo >> {RUN}.begun; while sleep 0.1; do echo >> {RUN}.beat; done'", timeout=3)
    except Exception as error:
        print(f"the client gave up: {type(error).__name__}", flush=True)
        os._exit(0)
    os._exit(1)


# In a process of its own: an SDK that gives up may keep its connection.
client = os.fork()
if client == 0:
    give_up()
if os.waitpid(client, 0)[1] != 0:
    sys.exit("once.py: the client did not give up")
time.sleep(2)
begun, beats = lines("begun"), lines("beat")
time.sleep(1)
more = lines("beat") - beats
execute(f"sh -c 'rm {RUN}.*'")
if (begun, more) != (1, 0):
    sys.exit(f"once.py: begun {begun} times, and {more} signs of life afterwards")
print(f"it ran once, and is gone after {beats} signs of life")
