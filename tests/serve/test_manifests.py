"""Manifests for a cluster by a schema: ours, of the fields that we write, always; and the published ones of Kubernetes
and KServe, where checkouts of them are at hand (`make reports MIRROR=folder`)."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.ecosystem.checkout import NotMirrored, check_out
from tests.parallel.test_submit_schema import COUNT, NAME, TEXT, each, exactly, strict
from tests.serve.made import artifact
from tests.serve.test_written import on_disk
from trueloop.errors import CannotSave, Misuse
from trueloop.serve.limits import Limits
from trueloop.serve.manifests import cluster_name, manifest_of, write_manifest

PORT = {"const": 8000}
PROBE = exactly(httpGet=exactly(path={"enum": ["/ready", "/health"]}, port=PORT))
CONTAINER = exactly(
    name=NAME,
    image={"type": "string", "pattern": "^FILL_IN/[a-z0-9-]+$"},
    ports=each(exactly(containerPort=PORT)),
    env=each(exactly(name={"const": "TRUELOOP_API_KEY"}, valueFrom=exactly(secretKeyRef=exactly(name=NAME, key=TEXT)))),
    readinessProbe=PROBE,
    livenessProbe=exactly(**PROBE["properties"], initialDelaySeconds=COUNT),
    resources=exactly(requests=exactly(cpu=TEXT, memory={"type": "string", "pattern": "^[0-9]+Mi$"})),
    securityContext=exactly(allowPrivilegeEscalation={"const": False}),
)
LABELS = exactly(app=NAME)
POD = exactly(
    metadata=exactly(labels=LABELS, annotations={"type": "object", "additionalProperties": TEXT}),
    spec=exactly(terminationGracePeriodSeconds=COUNT, containers=each(CONTAINER)),
)
ROLLING = exactly(type={"const": "RollingUpdate"}, rollingUpdate=exactly(maxUnavailable={"const": 0}, maxSurge=COUNT))
SPECS = {
    "Deployment": exactly(replicas=COUNT, selector=exactly(matchLabels=LABELS), strategy=ROLLING, template=POD),
    "Service": exactly(selector=LABELS, ports=each(exactly(name=NAME, port=COUNT, targetPort=PORT))),
    "InferenceService": exactly(
        predictor=exactly(
            minReplicas=COUNT,
            maxReplicas=COUNT,
            timeout=COUNT,
            terminationGracePeriodSeconds=COUNT,
            containers=each(CONTAINER),
        )
    ),
}
VERSIONS = {"Deployment": "apps/v1", "Service": "v1", "InferenceService": "serving.kserve.io/v1beta1"}


def documents(what: str, name: str = "my shades") -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifest_of(what, artifact(name=name), Limits())))


def check(document: dict[str, Any]) -> None:
    kind = document["kind"]
    version = {"const": VERSIONS[kind]}
    jsonschema.validate(document, exactly(apiVersion=version, kind=TEXT, metadata=exactly(name=NAME), spec=SPECS[kind]))


@pytest.mark.parametrize(
    ("what", "kinds"), [("kserve", ["InferenceService"]), ("kubernetes", ["Deployment", "Service"])]
)
def test_every_field_is_one_that_we_know_with_the_right_type(what: str, kinds: list[str]) -> None:
    made = documents(what)
    assert [document["kind"] for document in made] == kinds
    for document in made:
        check(document)


def test_the_schema_sees_a_misspelled_field() -> None:
    made = documents("kserve")[0]
    wrong = deepcopy(made)
    wrong["spec"]["predictor"]["minReplica"] = wrong["spec"]["predictor"].pop("minReplicas")
    with pytest.raises(jsonschema.ValidationError):
        check(wrong)


def test_the_service_finds_the_pods_of_the_deployment() -> None:
    deployment, service = documents("kubernetes")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels == deployment["spec"]["selector"]["matchLabels"]


def test_the_pod_lives_longer_than_the_grace_period_of_the_server() -> None:
    text = manifest_of("kserve", artifact(), Limits(grace=29.5, timeout=2.5))
    predictor = yaml.safe_load(text)["spec"]["predictor"]
    assert (predictor["terminationGracePeriodSeconds"], predictor["timeout"]) == (35, 3)


def test_kserve_finds_its_container_by_name_and_memory_follows_the_weights() -> None:
    made = artifact(files={"model.onnx": {"bytes": 300 * 2**20, "sha256": "00"}})
    container = yaml.safe_load(manifest_of("kserve", made, Limits()))["spec"]["predictor"]["containers"][0]
    assert container["name"] == "kserve-container"
    assert container["resources"]["requests"]["memory"] == "1924Mi"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("3 Shades!", "shades"), ("7", "model"), ("a" * 80, "a" * 50), ("x\nkind: Pod", "x-kind--pod")],
)
def test_a_name_becomes_one_that_a_cluster_takes(name: str, expected: str) -> None:
    assert cluster_name(artifact(name=name)) == expected
    for what in ("kserve", "kubernetes"):
        for document in documents(what, name):
            assert document["metadata"]["name"] == expected
            check(document)


def test_the_folder_for_docker_lies_beside_the_manifest(tmp_path: Path) -> None:
    made = on_disk(tmp_path / "made")
    place = tmp_path / "cluster"
    written = write_manifest("kserve")(made, place, Limits())
    assert written == [place / "Dockerfile", place / "artifact", place / "kserve.yaml"]
    with pytest.raises(Misuse, match="exists and is not empty"):
        write_manifest("kserve")(made, place, Limits())
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotSave, match="could not be written"):
        write_manifest("kubernetes")(made, tmp_path / "file" / "inside", Limits())


# -- the published schemas --


def read(mirror: Path, repository: str, file: str, into: Path) -> Any:
    try:
        check_out(mirror, repository, "HEAD", file, into)
    except NotMirrored as missing:
        pytest.skip(str(missing))
    text = (into / file).read_text(encoding="utf-8")
    return json.loads(text) if file.endswith(".json") else yaml.safe_load(text)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["Deployment", "Service", "InferenceService"])
def test_the_files_keep_to_the_published_schemas(kind: str, tmp_path: Path) -> None:
    mirror = os.environ.get("TRUELOOP_MIRROR", "")
    if not mirror:
        pytest.skip("no published schema: `make reports MIRROR=folder` reads it from checkouts")
    document = next(each for what in ("kserve", "kubernetes") for each in documents(what) if each["kind"] == kind)
    if kind == "InferenceService":
        crd = read(Path(mirror), "kserve/kserve", "config/crd/full/serving.kserve.io_inferenceservices.yaml", tmp_path)
        schema = strict(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}  # published as an object without fields
    else:
        group, name = ("apis__apps__v1", "apps.v1") if kind == "Deployment" else ("api__v1", "core.v1")
        told = read(Path(mirror), "kubernetes/kubernetes", f"api/openapi-spec/v3/{group}_openapi.json", tmp_path)
        components = strict(told["components"])
        schema = {"$ref": f"#/components/schemas/io.k8s.api.{name}.{kind}", "components": components}
    jsonschema.validate(document, schema)
    document["spec"]["replica"] = 3
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        jsonschema.validate(document, schema)
