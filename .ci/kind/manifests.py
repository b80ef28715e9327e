"""Validates Kubernetes manifests without a cluster.

    manifests.py FILE...

Objects are checked against the schemas of Kubernetes and the CRDs of agent-sandbox, their pods against Pod
Security "restricted" and the hardening that kind/ promises. CEL rules of CRDs are not evaluated: only an
API server does that. Exit status 1: a check failed.
"""

import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

# The oldest release with all fields in use, and the newest that the validator knows.
KUBERNETES = ("1.31", "1.37")
CRDS = pathlib.Path(__file__).parents[2] / "tests/conformance/k8s/crds"


def documents(path):
    with open(path, encoding="utf-8") as file:
        # The loader in C: the definitions are large.
        return [document for document in yaml.load_all(file, yaml.CSafeLoader) if document]


def claims_of(document):
    """The volume claims that the controller creates for an object, named after the object too."""
    name = document["metadata"]["name"]
    for template in document.get("spec", {}).get("volumeClaimTemplates", []):
        claimed = template["metadata"]["name"]
        metadata = {**template["metadata"], "name": f"{claimed}-{name}"}
        yield claimed, {**template, "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}


def pod_of(document):
    """The pod that a controller creates from an object with a pod template. None for other objects."""
    template = document.get("spec", {}).get("template" if document["kind"] == "Job" else "podTemplate")
    if template is None:
        return None
    metadata = {"name": document["metadata"]["name"], **template.get("metadata", {})}
    volumes = {volume["name"]: volume for volume in template["spec"].get("volumes", [])}
    for name, claim in claims_of(document):
        source = {"claimName": claim["metadata"]["name"]}
        volumes[name] = {"name": name, "persistentVolumeClaim": source}
    spec = {**template["spec"], "volumes": list(volumes.values())}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def core(document):
    """Violations of the schemas of Kubernetes."""
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message[:200]}"


def restricted(pod):
    """Violations of Pod Security "restricted", in the order of the standard's controls."""
    spec = pod["spec"]
    for field in ("hostNetwork", "hostPID", "hostIPC", "ephemeralContainers"):
        if spec.get(field):
            yield f"{field} is set"
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    for volume in spec.get("volumes", []):
        for kind in set(volume) - {"name"} - allowed:
            yield f"volume {volume['name']} is a {kind}"
    outer = spec.get("securityContext", {})
    for container in spec.get("initContainers", []) + spec["containers"]:
        name, inner = container["name"], container.get("securityContext", {})
        effective = {**outer, **inner}
        if inner.get("privileged") or inner.get("procMount", "Default") != "Default":
            yield f"{name} is privileged"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{name} has a host port"
        if inner.get("allowPrivilegeEscalation") is not False:
            yield f"{name} may gain privileges"
        if effective.get("runAsNonRoot") is not True or effective.get("runAsUser") == 0:
            yield f"{name} may run as root"
        if effective.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name} has no seccomp profile"
        capabilities = inner.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {
            "NET_BIND_SERVICE"
        }:
            yield f"{name} has capabilities"


def hardened(pod):
    """Missing hardening beyond "restricted"."""
    spec = pod["spec"]
    for field in ("automountServiceAccountToken", "enableServiceLinks"):
        if spec.get(field) is not False:
            yield f"{field} is not false"
    for container in spec.get("initContainers", []) + spec["containers"]:
        name = container["name"]
        if container.get("securityContext", {}).get("readOnlyRootFilesystem") is not True:
            yield f"{name} has a writable root file system"
        for bound in ("requests", "limits"):
            if {"cpu", "memory", "ephemeral-storage"} - set(container.get("resources", {}).get(bound, {})):
                yield f"{name} has incomplete resource {bound}"
    for container in spec["containers"] if serves(spec) else []:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe not in container:
                yield f"{container['name']} has no {probe}"
    for volume in spec["volumes"]:
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            yield f"volume {volume['name']} has no size limit"


def serves(spec):
    """Whether the pod runs until it is deleted. One that ends by itself needs no probes."""
    return spec.get("restartPolicy", "Always") == "Always"


def mounted(pod):
    """Volumes and mounts that do not belong together, which only an API server would reject."""
    spec = pod["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    containers = spec.get("initContainers", []) + spec["containers"]
    mounts = {mount["name"] for container in containers for mount in container.get("volumeMounts", [])}
    for name in mounts ^ volumes:
        yield f"{name} is not both a volume and mounted"
    claimed = any("persistentVolumeClaim" in volume for volume in spec["volumes"])
    if claimed and "fsGroup" not in spec.get("securityContext", {}):
        yield "a claimed volume may not be writable: fsGroup is not set"


def strict(schema):
    """The schema as strict field validation applies it: unknown fields are errors."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: strict(part) for name, part in value.items()}
        elif not key.startswith("x-kubernetes") and key not in (
            "description",
            "default",
            "example",
            "externalDocs",
        ):
            result[key] = value if key == "enum" else strict(value)
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if (
        "properties" in schema
        and "additionalProperties" not in schema
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        result["additionalProperties"] = False
    return result


def definitions():
    """Maps (apiVersion, kind) to the schema, for versions that are served and not deprecated."""
    schemas = {}
    for path in CRDS.glob("*.yaml"):
        for definition in documents(path):
            spec = definition["spec"]
            for version in spec["versions"]:
                if version["served"] and not version.get("deprecated"):
                    schema = strict(version["schema"]["openAPIV3Schema"])
                    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
                    schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return schemas


def defined(document, schemas):
    """Violations of the object's CRD."""
    key = document.get("apiVersion"), document.get("kind")
    if key not in schemas:
        return [f"{key[0]} does not define {key[1]}"]
    errors = jsonschema.Draft202012Validator(schemas[key]).iter_errors(document)
    return ["/".join(map(str, error.absolute_path)) + ": " + error.message[:200] for error in errors]


def check(document, schemas):
    """The names of the checks that apply to an object, and its violations."""
    checks, violations = [], []
    if ".x-k8s.io/" in document["apiVersion"]:
        checks.append("CRD")
        violations += defined(document, schemas)
    else:
        checks.append("Kubernetes")
        violations += core(document)
    if pod := pod_of(document):
        checks += ["pod", "restricted", "hardened"]
        violations += [*core(pod), *restricted(pod), *hardened(pod), *mounted(pod)]
        for _, claim in claims_of(document):
            checks.append("claim")
            violations += core(claim)
    return checks, violations


def main():
    schemas, failed = definitions(), 0
    for path in sys.argv[1:]:
        for document in documents(path):
            checks, violations = check(document, schemas)
            print(f"{'FAIL' if violations else 'ok'}  {path}: {document['kind']} ({', '.join(checks)})")
            for violation in violations:
                print(f"      {violation}")
            failed += bool(violations)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
