"""Files to serve a model on a cluster: the folder for `docker build`, and beside it a manifest that runs the image.

kserve.yaml is an InferenceService with a container of its own; kubernetes.yaml a Deployment and a Service."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from trueloop.errors import CannotSave
from trueloop.results.artifact import Artifact
from trueloop.serve.deployment import image_of, write_docker
from trueloop.serve.limits import Limits

__all__ = ["MANIFESTS", "cluster_name", "manifest_of", "write_manifest"]

MEMORY: Final = 1024  # MiB of Python, torch and a runtime
COPIES: Final = 3  # Of the weights: read, opened, and in use
CONTAINER: Final = """\
- name: {container}
  image: FILL_IN/{image}  # where the cluster finds the image
  ports:
    - containerPort: 8000
  env:
    - name: TRUELOOP_API_KEY
      valueFrom:
        secretKeyRef:
          name: {name}
          key: api-key
  readinessProbe:
    httpGet:
      path: /ready
      port: 8000
  livenessProbe:
    httpGet:
      path: /health
      port: 8000
    initialDelaySeconds: 60
  resources:
    requests:
      cpu: "1"
      memory: {memory}Mi  # an estimate: look at process_resident_memory_bytes of /metrics
  securityContext:
    allowPrivilegeEscalation: false
"""
HEAD: Final = """\
# {title} as {target}, for {what}. Made by `trueloop serve --write {target_name}`.
#   docker build -t FILL_IN/{image} . && docker push FILL_IN/{image}
#   kubectl create secret generic {name} --from-literal=api-key=...
#   kubectl apply -f {file}
"""
KSERVE: Final = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {name}
spec:
  predictor:
    minReplicas: 1
    maxReplicas: 4
    timeout: {timeout}
    terminationGracePeriodSeconds: {grace}
    containers:
{container}"""
KUBERNETES: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: 2
  selector:
    matchLabels:
      app: {name}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0  # a new version is ready before an old one ends
      maxSurge: 1
  template:
    metadata:
      labels:
        app: {name}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8000"
    spec:
      terminationGracePeriodSeconds: {grace}
      containers:
{container}---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector:
    app: {name}
  ports:
    - name: http
      port: 80
      targetPort: 8000
"""
MANIFESTS: Final[Mapping[str, tuple[str, str, int, str]]] = {
    "kserve": (KSERVE, "kserve-container", 6, "KServe"),  # KServe looks for a container of this name
    "kubernetes": (KUBERNETES, "model", 8, "Kubernetes"),
}
"""Name -> template, name and indentation of its container, and what reads it."""


def write_manifest(what: str) -> Callable[[Artifact, Path, Limits], list[Path]]:
    """What writes it: it returns the paths, and raises Misuse if the folder is not empty."""

    def write(artifact: Artifact, folder: Path, limits: Limits) -> list[Path]:
        written = write_docker(artifact, folder, limits)
        file = folder / f"{what}.yaml"
        try:
            file.write_text(manifest_of(what, artifact, limits), encoding="utf-8")
        except OSError as error:
            raise CannotSave(f"{file} could not be written ({error.strerror or error}).") from None
        return [*written, file]

    return write


def manifest_of(what: str, artifact: Artifact, limits: Limits) -> str:
    template, container, indent, reader = MANIFESTS[what]
    name, image = cluster_name(artifact), image_of(artifact)
    size = sum(each["bytes"] for each in artifact.files.values())
    memory = MEMORY + COPIES * math.ceil(size / 2**20)
    lines = CONTAINER.format(container=container, image=image, name=name, memory=memory).splitlines(keepends=True)
    head = HEAD.format(
        title=" ".join(artifact.name.split()),
        target=artifact.target,
        what=reader,
        target_name=what,
        image=image,
        name=name,
        file=f"{what}.yaml",
    )
    return head + template.format(
        name=name,
        timeout=math.ceil(limits.timeout),
        grace=math.ceil(limits.grace) + 5,  # then the process is killed
        container="".join(" " * indent + line for line in lines),
    )


def cluster_name(artifact: Artifact) -> str:
    """As DNS has it: letters, digits and '-', a letter first."""
    name = re.sub("^[^a-z]+", "", image_of(artifact))[:50].rstrip("-")
    return name or "model"
