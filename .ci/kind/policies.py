"""Evaluates the network policies of Kubernetes manifests without a cluster.

    policies.py FILE...

For each sandbox, a table lists which pods must reach it and which must not, and what it must not reach.
Policies with a field that is not modelled here are rejected. Traffic between a pod and its node is exempt
from policies, so probes and `kubectl port-forward` are not in the table. Exit status 1: a check failed.
"""

import ipaddress
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import yaml
from manifests import documents, pod_of

# The namespace of kind/namespace.yaml, the default one of the Python SDK's router, and an unrelated one.
SANDBOXES, SYSTEM, UNRELATED = "sandboxes", "agent-sandbox-system", "unrelated"
PORT = 8888
# The pod labels in the deployments of the two routers of agent-sandbox v0.5.6.
ROUTERS = {
    "Python router": {"app": "sandbox-router"},
    "Go router": {
        "app.kubernetes.io/name": "sandbox-router",
        "app.kubernetes.io/component": "sandbox-router",
    },
}
# The controller gives this label to the pods of a template and selects them by it.
TEMPLATE = "agents.x-k8s.io/sandbox-template-ref-hash"


@dataclass(frozen=True)
class Endpoint:
    """A pod, or an address outside the pod network, which has no namespace."""

    name: str
    address: str
    namespace: str = ""
    labels: dict = field(default_factory=dict)


def closed(properties, **more):
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def array(items):
    return {"type": "array", "items": items}


STRING = {"type": "string"}
SELECTOR = closed({"matchLabels": {"type": "object", "additionalProperties": STRING}})
PEER = {
    "oneOf": [
        closed({"podSelector": SELECTOR, "namespaceSelector": SELECTOR}, minProperties=1),
        closed({"ipBlock": closed({"cidr": STRING, "except": array(STRING)})}, required=["ipBlock"]),
    ]
}
SERVED = closed(
    {"protocol": {"enum": ["TCP", "UDP", "SCTP"]}, "port": {"type": "integer"}}, required=["protocol", "port"]
)
# What the functions below evaluate; the API has more.
MODELLED = closed(
    {
        "podSelector": SELECTOR,
        "policyTypes": array({"enum": ["Ingress", "Egress"]}),
        "ingress": array(closed({"from": array(PEER), "ports": array(SERVED)})),
        "egress": array(closed({"to": array(PEER), "ports": array(SERVED)})),
    },
    required=["podSelector"],
)


def selects(selector, labels):
    return selector.get("matchLabels", {}).items() <= labels.items()


def matches_block(block, address):
    def contains(network):
        return ipaddress.ip_address(address) in ipaddress.ip_network(network)

    return contains(block["cidr"]) and not any(map(contains, block.get("except", [])))


def matches_peer(peer, namespace, other):
    """Both selectors of a peer must match. Without a namespaceSelector, only `namespace` does."""
    if "ipBlock" in peer:
        return matches_block(peer["ipBlock"], other.address)
    if not other.namespace:
        return False
    if "namespaceSelector" in peer:
        inside = selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace})
    else:
        inside = other.namespace == namespace
    return inside and selects(peer.get("podSelector", {}), other.labels)


def matches_rule(rule, namespace, other, protocol, port):
    """A missing or empty list matches everything."""
    peers, ports = rule.get("from", rule.get("to", [])), rule.get("ports", [])
    return (not peers or any(matches_peer(peer, namespace, other) for peer in peers)) and (
        not ports or any((each["protocol"], each["port"]) == (protocol, port) for each in ports)
    )


def applies(policy, direction, endpoint):
    spec = policy["spec"]
    types = spec.get("policyTypes", ["Ingress", "Egress"] if "egress" in spec else ["Ingress"])
    return (
        direction in types
        and endpoint.namespace == SANDBOXES
        and selects(spec["podSelector"], endpoint.labels)
    )


def admits(policies, direction, endpoint, other, protocol, port):
    """Rules of all policies that apply are combined by OR. Without such a policy, everything is admitted."""
    specs = [policy["spec"] for policy in policies if applies(policy, direction, endpoint)]
    rules = [rule for spec in specs for rule in spec.get(direction.lower(), [])]
    return not specs or any(matches_rule(rule, SANDBOXES, other, protocol, port) for rule in rules)


def reaches(policies, client, server, protocol, port):
    return admits(policies, "Egress", client, server, protocol, port) and admits(
        policies, "Ingress", server, client, protocol, port
    )


def sandbox(document, **labels):
    pod = pod_of(document)
    labels = {**pod["metadata"].get("labels", {}), **labels}
    return Endpoint(document["metadata"]["name"], "10.244.0.10", SANDBOXES, labels)


def managed(template):
    """The policy that the controller creates for a template. Without rules it would choose its own."""
    spec, label = template["spec"], {TEMPLATE: template["metadata"]["name"]}
    if spec.get("networkPolicyManagement", "Managed") != "Managed" or "networkPolicy" not in spec:
        raise ValueError("the template has no network policy of its own")
    types = ["Ingress", "Egress"]
    return {"spec": {"podSelector": {"matchLabels": label}, "policyTypes": types, **spec["networkPolicy"]}}


def job_pod(job):
    labels = job["spec"]["template"]["metadata"]["labels"]
    return Endpoint(f"the Job {job['metadata']['name']}", "10.244.0.30", SANDBOXES, labels)


def clients(server, jobs):
    """Yields (client, protocol, port, expected)."""

    def pod(description, namespace, **labels):
        return Endpoint(f"{description} in {namespace}", "10.244.0.20", namespace, labels)

    for name, labels in ROUTERS.items():
        for namespace in (SANDBOXES, SYSTEM):
            router = pod(name, namespace, **labels)
            yield router, "TCP", PORT, True
            yield router, "UDP", PORT, False
            for port in (22, 80, PORT - 1, PORT + 1):
                yield router, "TCP", port, False
        for namespace in (UNRELATED, "default", "kube-system"):
            yield pod(name, namespace, **labels), "TCP", PORT, False
        sibling = {**labels, **server.labels}
        yield pod(f"sandbox with labels of the {name}", SANDBOXES, **sibling), "TCP", PORT, False
    for job in jobs:
        yield job, "TCP", PORT, True
    yield pod("sandbox", SANDBOXES, **server.labels), "TCP", PORT, False
    for namespace in (SANDBOXES, SYSTEM, UNRELATED):
        yield pod("pod without labels", namespace), "TCP", PORT, False
        yield pod("pod with other labels", namespace, app="router", name="sandbox-router"), "TCP", PORT, False
    yield Endpoint("host outside", "198.51.100.7"), "TCP", PORT, False


def destinations(client, internet):
    """Yields (server, protocol, port, expected)."""
    dns = Endpoint("DNS", "10.244.0.2", "kube-system", {"k8s-app": "kube-dns"})
    yield dns, "UDP", 53, False
    yield dns, "TCP", 53, False
    for address in ("10.96.0.1", "172.18.0.2", "192.168.1.1", "100.64.0.1"):
        yield Endpoint(f"API server at {address}", address), "TCP", 443, False
        yield Endpoint(f"API server at {address}", address), "TCP", 6443, False
    yield Endpoint("metadata service", "169.254.169.254"), "TCP", 80, False
    yield Endpoint("another sandbox", "10.244.0.11", SANDBOXES, client.labels), "TCP", PORT, False
    for name, labels in ROUTERS.items():
        for namespace in (SANDBOXES, SYSTEM):
            yield Endpoint(f"{name} in {namespace}", "10.244.0.20", namespace, labels), "TCP", 8080, False
    yield Endpoint("pod in another namespace", "10.244.0.21", UNRELATED), "TCP", 80, False
    yield Endpoint("internet", "198.51.100.7"), "TCP", 443, internet


def violations(policies, endpoint, jobs, internet):
    for policy in policies:
        for error in jsonschema.Draft202012Validator(MODELLED).iter_errors(policy["spec"]):
            yield f"not modelled: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
            return
    rows = [(client, endpoint, *rest) for client, *rest in clients(endpoint, jobs)]
    rows += [(endpoint, server, *rest) for server, *rest in destinations(endpoint, internet)]
    for client, server, protocol, port, expected in rows:
        if reaches(policies, client, server, protocol, port) != expected:
            verb = "does not reach" if expected else "reaches"
            yield f"{client.name} {verb} {server.name} on {protocol} {port}"


def with_documented_egress(path):
    """The policy with its commented example of egress enabled."""
    before, marker, example = Path(path).read_text(encoding="utf-8").partition("  # egress:\n")
    if not marker:
        raise ValueError("the example of egress is missing")
    return yaml.safe_load(before + re.sub("^  # ", "  ", marker + example, flags=re.MULTILINE))


def cases(objects):
    """Yields (name, policies, sandbox, whether it reaches the internet)."""
    own = [document for _, document in objects if document["kind"] == "NetworkPolicy"]
    for path, document in objects:
        if document["kind"] == "Sandbox":
            yield f"{path} with its policy", own, sandbox(document), False
        if document["kind"] == "SandboxTemplate":
            pod = sandbox(document, **{TEMPLATE: document["metadata"]["name"]})
            yield f"{path} with the policy that it contains", [managed(document)], pod, False
            yield f"{path} with both policies", [managed(document), *own], pod, False
    single = next(document for _, document in objects if document["kind"] == "Sandbox")
    for path, document in objects:
        if document["kind"] == "NetworkPolicy":
            yield f"{path} with its example of egress", [with_documented_egress(path)], sandbox(single), True


def main():
    objects = [(path, document) for path in sys.argv[1:] for document in documents(path)]
    jobs = [job_pod(document) for _, document in objects if document["kind"] == "Job"]
    failed = False
    try:
        for name, policies, endpoint, internet in cases(objects):
            found = list(violations(policies, endpoint, jobs, internet))
            print("\n      ".join([f"{'FAIL' if found else 'ok'}  {name}", *found]))
            failed |= bool(found)
    except ValueError as error:
        print(f"FAIL  {error}")
        failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
