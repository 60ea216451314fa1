"""The chart as Helm's own engine sees it, and what holds for every rendering of it."""

import contextlib
import shutil
import warnings

import helm_python
import kubernetes_validate
import yaml

from tools.console import ROOT

CHART = ROOT / "charts" / "fairgate"
#: Oldest and newest with native sidecars, and some between; the gateway also on the oldest the chart allows.
VERSIONS = ("1.25", "1.29", "1.31", "1.33", "1.35", "1.37")
SIDECAR_SINCE = "1.29"
#: Not built into Kubernetes: nothing here has their schemas.
FOREIGN = {"ServiceMonitor", "PrometheusRule", "HTTPRoute"}
MINIMUM = {
    "image": {"repository": "registry.example/fairgate"},
    "config": {"homeserver": {"url": "http://synapse:8008"}},
}


def render(values=None, chart=CHART, **more):
    """Render with MINIMUM and `values`; give {kind: object} without the empty ones. A kind there may be once only.

    Services beside the clients' are called "Service of metrics" and "Service of egress".
    """
    tree = merged(MINIMUM, values or {})
    with helm_python.Chart.load(str(chart)) as loaded:
        texts = loaded.render(tree, name=more.get("name", "release"), namespace="matrix")
    objects = [
        document
        for path, text in texts.items()
        if path.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]
    by_kind = {_kind(document): document for document in objects}
    assert len(by_kind) == len(objects)
    return by_kind


def notes(values):
    """Render what Helm prints after an installation."""
    with helm_python.Chart.load(str(CHART)) as loaded:
        texts = loaded.render(merged(MINIMUM, values), name="release", namespace="matrix")
    return next(text for path, text in texts.items() if path.endswith("NOTES.txt"))


def _kind(document):
    part = document["metadata"]["labels"].get("fairgate-service")
    return document["kind"] if part is None else f"{document['kind']} of {part}"


def merged(below, above):
    """Lay one tree over another, as Helm does; lists are replaced."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def demand_valid(document, version):
    """Raise unless Kubernetes of this version knows every field and type."""
    if document["kind"] in FOREIGN:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kubernetes_validate.validate(document, version, strict=True)


def demand_restricted(pod, containers):
    """Assert the restricted Pod Security Standard, and what we want beyond it."""
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        assert not pod.get(field)
    allowed = {
        "configMap",
        "emptyDir",
        "secret",
        "projected",
        "downwardAPI",
        "persistentVolumeClaim",
        "csi",
        "ephemeral",
    }
    for volume in pod.get("volumes", []):
        assert set(volume) - {"name"} <= allowed, volume
    for container in containers:
        context = {**pod.get("securityContext", {}), **container["securityContext"]}
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == 10001
        assert context["runAsGroup"] == 10001
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["allowPrivilegeEscalation"] is False
        assert context["privileged"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert all("hostPort" not in port for port in container["ports"])
        assert {"requests", "limits"} <= set(container["resources"])
        assert "cpu" not in container["resources"]["limits"]


@contextlib.contextmanager
def parent_chart(folder, values):
    """A homeserver's chart of somebody else that has ours as a dependency."""
    parent = folder / "homeserver"
    (parent / "templates").mkdir(parents=True)
    shutil.copytree(CHART, parent / "charts" / "fairgate")
    dependency = {"name": "fairgate", "version": "0.1.0", "repository": ""}
    chart = {"apiVersion": "v2", "name": "homeserver", "version": "1.0.0", "dependencies": [dependency]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (parent / "values.yaml").write_text(yaml.safe_dump({"fairgate": values}))
    (parent / "templates" / "statefulset.yaml").write_text(_STATEFUL_SET)
    yield parent


_STATEFUL_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: synapse
spec:
  serviceName: synapse
  selector:
    matchLabels: {app: synapse}
  template:
    metadata:
      labels: {app: synapse}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 991}
      initContainers:
        - {{- include "fairgate.sidecar.container" .Subcharts.fairgate | nindent 10 }}
      containers:
        - name: synapse
          image: matrixdotorg/synapse
          ports:
            - {name: http, containerPort: 8008}
      volumes:
        {{- include "fairgate.sidecar.volumes" .Subcharts.fairgate | nindent 8 }}
"""
