"""What can be said about kind/ without a cluster: each file against the schemas of Kubernetes, the pods in it against
Pod Security "restricted", and, where the definitions of agent-sandbox are at hand, its objects against those.

    manifests.py [--definitions DIRECTORY] FILE...

The rules that definitions have in CEL are not evaluated; only an API server does that. Exit status 1: something is wrong.
"""
import argparse
import glob
import sys

import jsonschema
import kubernetes_validate
import yaml

# The oldest release that has all fields which are used, and the newest that the validator knows.
KUBERNETES = ("1.31", "1.37")


def documents(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def pod_of(document):
    """The pod that an object with a pod template leads to, as the API server will see it; None for other objects."""
    template = document.get("spec", {}).get("podTemplate")
    if template is None:
        return None
    metadata = {"name": document["metadata"]["name"], **template.get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def core(document):
    """What the schemas of Kubernetes say against it."""
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message[:200]}"


def restricted(pod):
    """What Pod Security "restricted" says against it (the standard's controls, in its order)."""
    spec = pod["spec"]
    for field in ("hostNetwork", "hostPID", "hostIPC", "ephemeralContainers"):
        if spec.get(field):
            yield f"{field} is set"
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"}
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
        if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name} has capabilities"


def hardened(pod):
    """What we promise beyond "restricted"."""
    spec = pod["spec"]
    for field in ("automountServiceAccountToken", "enableServiceLinks"):
        if spec.get(field) is not False:
            yield f"{field} is not false"
    for container in spec.get("initContainers", []) + spec["containers"]:
        name = container["name"]
        if container.get("securityContext", {}).get("readOnlyRootFilesystem") is not True:
            yield f"{name} can write to its root"
        for bound in ("requests", "limits"):
            if {"cpu", "memory", "ephemeral-storage"} - set(container.get("resources", {}).get(bound, {})):
                yield f"{name} lacks {bound}"
    for container in spec["containers"]:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe not in container:
                yield f"{container['name']} has no {probe}"
    for volume in spec.get("volumes", []):
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            yield f"volume {volume['name']} has no limit"


def strict(schema):
    """A schema as the API server applies it strictly: a field that is not named is a mistake."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: strict(part) for name, part in value.items()}
        elif not key.startswith("x-kubernetes") and key not in ("description", "default", "example", "externalDocs"):
            result[key] = value if key == "enum" else strict(value)
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if "properties" in schema and "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    return result


def definitions(directory):
    """(apiVersion, kind) -> the schema, of the versions that are served and not deprecated."""
    schemas = {}
    for path in glob.glob(f"{directory}/*.yaml"):
        for definition in documents(path):
            spec = definition["spec"]
            for version in spec["versions"]:
                if version["served"] and not version.get("deprecated"):
                    schema = strict(version["schema"]["openAPIV3Schema"])
                    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
                    schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return schemas


def defined(document, schemas):
    """What its definition says against it."""
    key = document.get("apiVersion"), document.get("kind")
    if key not in schemas:
        return [f"no {key[1]} is served as {key[0]}"]
    errors = jsonschema.Draft202012Validator(schemas[key]).iter_errors(document)
    return ["/".join(map(str, error.absolute_path)) + ": " + error.message[:200] for error in errors]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--definitions")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    schemas = definitions(arguments.definitions) if arguments.definitions else None
    wrong = 0
    for path in arguments.files:
        for document in documents(path):
            said, by = [], []
            pod = pod_of(document)
            if ".x-k8s.io/" not in document["apiVersion"]:
                said += core(document)
                by.append("Kubernetes")
            elif schemas:
                said += defined(document, schemas)
                by.append("definition")
            if pod:
                said += [*core(pod), *restricted(pod), *hardened(pod)]
                by += ["pod", "restricted", "hardened"]
            print(f"{'FAIL' if said else 'ok'}  {path}: {document['kind']} ({', '.join(by) or 'NOT CHECKED'})")
            for sentence in said:
                print(f"      {sentence}")
            wrong += bool(said)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
