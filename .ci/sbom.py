"""Writes the SBOM of the binary, CycloneDX 1.5, to standard output:

    sbom.py METADATA LOCKFILE REVISION EPOCH

METADATA is the output of `cargo metadata --filter-platform …`. The output is reproducible.
Needs cyclonedx-python-lib.
"""

import datetime
import json
import sys
import tomllib
import uuid

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL


def component(package, checksums):
    name, version = package["name"], package["version"]
    checksum = checksums.get((name, version))
    return Component(
        type=ComponentType.LIBRARY if checksum else ComponentType.APPLICATION,
        bom_ref=f"{name}@{version}",
        name=name,
        version=version,
        description=package["description"],
        purl=PackageURL("cargo", None, name, version) if checksum else None,
        licenses=[LicenseExpression(package["license"].replace("/", " OR "))],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
    )


def main():
    metadata = json.load(open(sys.argv[1], encoding="utf-8"))
    lock = tomllib.load(open(sys.argv[2], "rb"))
    checksums = {
        (package["name"], package["version"]): package.get("checksum") for package in lock["package"]
    }
    packages = {package["id"]: package for package in metadata["packages"]}
    # Normal dependencies only: build and development dependencies are not linked in.
    uses = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        for node in metadata["resolve"]["nodes"]
    }
    root = next(id for id, package in packages.items() if package["name"] == "sandbox-runtime")
    components, pending = {}, [root]
    while pending:
        id = pending.pop()
        if id not in components:
            components[id] = component(packages[id], checksums)
            pending += uses[id]
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, sys.argv[3]),
        metadata=BomMetaData(
            component=components[root],
            timestamp=datetime.datetime.fromtimestamp(int(sys.argv[4]), datetime.UTC),
        ),
        components=[part for id, part in components.items() if id != root],
    )
    for id, part in components.items():
        bom.register_dependency(part, [components[dependency] for dependency in uses[id]])
    print(JsonV1Dot5(bom).output_as_string(indent=2))


main()
