"""Extracts what `manifests.py` checks from the release manifest of agent-sandbox:

    trim_crds.py sandbox-with-extensions.yaml DIRECTORY

Writes one file per CustomResourceDefinition. Deprecated versions, the status, printer columns and
conversion webhooks are dropped: the files in kind/ use none of them.
"""

import pathlib
import sys

import yaml


def trimmed(crd):
    spec = crd["spec"]
    versions = [
        {key: version[key] for key in ("name", "served", "storage", "schema")}
        for version in spec["versions"]
        if version["served"] and not version.get("deprecated")
    ]
    for version in versions:
        version["schema"]["openAPIV3Schema"]["properties"].pop("status", None)
    return {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": {"name": crd["metadata"]["name"]},
        "spec": {
            "group": spec["group"],
            "names": spec["names"],
            "scope": spec["scope"],
            "versions": versions,
        },
    }


def main():
    manifest, directory = map(pathlib.Path, sys.argv[1:])
    for document in yaml.safe_load_all(manifest.read_text(encoding="utf-8")):
        if document and document["kind"] == "CustomResourceDefinition":
            spec = document["spec"]
            path = directory / f"{spec['group']}_{spec['names']['plural']}.yaml"
            path.write_text(yaml.safe_dump(trimmed(document), width=110), encoding="utf-8")


if __name__ == "__main__":
    main()
