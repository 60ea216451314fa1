"""The chart, rendered by Helm's own engine and judged by Kubernetes' own schemas. No cluster runs it here."""

import re

import helm_python
import promql_parser
import pytest
import yaml

from charts import (
    CHART,
    MINIMUM,
    SIDECAR_SINCE,
    VERSIONS,
    demand_restricted,
    demand_valid,
    merged,
    notes,
    parent_chart,
    render,
)
from proxy.config.parse import parse
from proxy.config.settings import Settings
from tools.console import ROOT

PEER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
EGRESS = {"egress": {"listen": {"address": "0.0.0.0:8011"}, "clients": ["10.0.0.0/8"]}}
VALUES = {
    "as it is": {},
    "two replicas": {"replicas": 2, "config": {"homeserver": {"profile": "synapse"}}},
    "spread by zone": {
        "replicas": 2,
        "config": {"homeserver": {"profile": "synapse"}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    },
    "autoscaled": {
        "autoscaling": {"enabled": True, "maxReplicas": 3},
        "config": {"homeserver": {"profile": "tuwunel"}},
        "podDisruptionBudget": {"enabled": True},
    },
    "everything there is": {
        "image": {"registry": "registry.example", "tag": "1", "pullSecrets": [{"name": "pull"}]},
        "labels": {"app.kubernetes.io/part-of": "matrix-stack"},
        "annotations": {"example.org/a": "b"},
        "podAnnotations": {"example.org/pod": "c"},
        "ingress": {
            "enabled": True,
            "host": "matrix.example.org",
            "className": "nginx",
            "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
        },
        "httpRoute": {
            "enabled": True,
            "parentRefs": [{"name": "gateway", "namespace": "ingress"}],
            "hostnames": ["matrix.example.org"],
            "timeouts": {"request": "660s"},
        },
        "serviceMonitors": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRules": {"enabled": True},
        "networkPolicy": {
            "enabled": True,
            "clients": [PEER],
            "metrics": [PEER],
            "homeserver": [{"podSelector": {}}],
        },
        "podDisruptionBudget": {"enabled": True},
        "service": {"ipFamilyPolicy": "PreferDualStack", "annotations": {"example.org/d": "e"}},
        "serviceAccount": {"name": "mine", "annotations": {"example.org/f": "g"}},
        "extraEnv": [{"name": "FAIRGATE_LOG__LEVEL", "value": "debug"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "extraInitContainers": [{"name": "first", "image": "busybox"}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["synapse"]}],
        "priorityClassName": "high",
        "schedulerName": "default-scheduler",
        "runtimeClassName": "gvisor",
    },
    "no extras of the pod": {
        "preStopSeconds": 0,
        "serviceAccount": {"create": False},
        "tmp": {"medium": "Memory"},
    },
    "open to the world": {
        "service": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "nodePort": 30008,
            "loadBalancerClass": "example.org/internal",
            "loadBalancerSourceRanges": ["192.0.2.0/24"],
        },
        "admin": {"existingSecret": {"name": "fairgate-admin"}},
        "config": EGRESS,
        "networkPolicy": {"enabled": True, "egressClients": [PEER], "homeserver": [PEER]},
    },
    "the documented configuration": {"config": yaml.safe_load((ROOT / "config.yaml").read_text())},
    "numbers that must stay whole": {
        "config": {"connections": {"max_head_bytes": 1048576, "max": 10_000_000}}
    },
    "reloading": {"onConfigChange": "reload"},
    "sidecar": {"mode": "sidecar", "config": {"homeserver": {"url": ""}}},
    "sidecar with a Service": {
        "mode": "sidecar",
        "sidecar": {"podLabels": {"app": "synapse"}, "homeserverContainer": "synapse"},
        "image": {"pullSecrets": [{"name": "pull"}]},
        "config": {"egress": {"listen": {"address": "127.0.0.1:8011"}}},
        "ingress": {"enabled": True, "host": "matrix.example.org"},
        "serviceMonitors": {"enabled": True},
    },
}


@pytest.fixture(params=VALUES)
def values(request):
    return VALUES[request.param]


def test_helm_lints_it_strictly():
    for values in ({}, {"mode": "sidecar"}):
        told = helm_python.lint(
            str(CHART), values=merged(MINIMUM, values), strict=True, kube_version="v1.33.0"
        )
        worse_than_icons = [message for message in told["messages"] if message["severity"] >= 2]
        assert worse_than_icons == []
        assert told["errors"] == []


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field_of_every_rendering(version):
    for values in VALUES.values():
        for document in render(values).values():
            demand_valid(document, version)


@pytest.mark.slow
@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= SIDECAR_SINCE])
def test_kubernetes_knows_every_field_of_a_patched_homeserver(version):
    for name in ("sidecar", "sidecar with a Service"):
        patch = yaml.safe_load(render(VALUES[name])["ConfigMap"]["data"]["sidecar-patch.yaml"])
        if version >= "1.30" or "containers" not in patch["spec"]["template"]["spec"]:
            demand_valid(_patched(patch), version)


def test_fairgate_takes_every_configuration_the_chart_makes(values):
    text = render(values)["ConfigMap"]["data"]["config.yaml"]
    settings = parse(text, {})
    assert isinstance(settings, Settings), settings
    assert settings.admin.listen == "127.0.0.1:9402"


def test_every_pod_keeps_the_restricted_pod_security_standard(values):
    documents = render(values)
    if "Deployment" in documents:
        pod = documents["Deployment"]["spec"]["template"]["spec"]
        demand_restricted(pod, pod["containers"])
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
    else:
        patch = yaml.safe_load(documents["ConfigMap"]["data"]["sidecar-patch.yaml"])
        pod = patch["spec"]["template"]["spec"]
        demand_restricted(pod, pod["initContainers"])


def test_selectors_find_the_pods_and_the_ports_exist(values):
    documents = render(values)
    if "Deployment" not in documents:
        return
    template = documents["Deployment"]["spec"]["template"]
    labels = template["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    services = [document["spec"] for document in documents.values() if document["kind"] == "Service"]
    for service in services:
        assert service["selector"].items() <= labels
    assert {port["targetPort"] for service in services for port in service["ports"]} == set(ports)
    assert documents["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        if kind in documents:
            spec = documents[kind]["spec"]
            assert spec.get("selector", spec.get("podSelector"))["matchLabels"].items() <= labels
    if "ServiceMonitor" in documents:
        wanted = documents["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
        assert wanted <= documents["Service of metrics"]["metadata"]["labels"].items()
        assert not wanted <= documents["Service"]["metadata"]["labels"].items()
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert template["spec"]["containers"][0][probe]["httpGet"]["port"] == "metrics"
    for spread in template["spec"].get("topologySpreadConstraints", []):
        assert spread["labelSelector"]["matchLabels"].items() <= labels


def test_an_outage_of_the_homeserver_takes_no_pod_out_of_the_service():
    def probed(values):
        return render(values)["Deployment"]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]

    assert probed({})["httpGet"]["path"] == "/servez"
    assert set(probed({})) == {"httpGet", "periodSeconds", "timeoutSeconds", "failureThreshold"}
    assert probed({"readinessProbe": {"path": "/readyz"}})["httpGet"]["path"] == "/readyz"


def test_the_memory_limit_holds_what_ten_thousand_hostile_clients_were_seen_to_take():
    (container,) = render()["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "1Gi"}


def test_a_drain_fits_into_what_kubernetes_waits():
    def grace(values):
        return render(values)["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert grace({}) == 35
    assert grace({"preStopSeconds": 0, "config": {"connections": {"drain_seconds": 7.5}}}) == 13
    assert grace({"terminationGracePeriodSeconds": 60}) == 60
    with pytest.raises(helm_python.HelmRenderError, match="must be at least 105"):
        grace({"terminationGracePeriodSeconds": 60, "config": {"connections": {"drain_seconds": 95}}})


def test_the_spools_fit_into_the_only_place_that_can_be_written_to():
    def size(values):
        (volume,) = (
            volume
            for volume in render(values)["Deployment"]["spec"]["template"]["spec"]["volumes"]
            if "emptyDir" in volume
        )
        return volume["emptyDir"]["sizeLimit"]

    assert size({}) == str((2 << 30) + (256 << 20))
    assert size({"config": {"bodies": {"spool_bytes": 4 << 30}}}) == str((5 << 30) + (256 << 20))
    assert size({"tmp": {"sizeLimit": "1Gi"}}) == "1Gi"


def test_a_changed_configuration_rolls_the_pods_or_is_left_to_reload():
    def annotations(values):
        return render(values)["Deployment"]["spec"]["template"]["metadata"]["annotations"]

    key = "checksum/config"
    changed = {"config": {"connections": {"max": 5}}}
    assert annotations({})[key] != annotations(changed)[key]
    assert annotations({"onConfigChange": "reload"}) == annotations({"onConfigChange": "reload", **changed})


def test_figures_that_limit_the_homeserver_are_divided_by_the_number_of_processes():
    figures = {"config": {"homeserver": {"connections": 64, "profile": "synapse"}}}

    def connections(values):
        config = yaml.safe_load(render(merged(figures, values))["ConfigMap"]["data"]["config.yaml"])
        return config["homeserver"]["connections"]

    assert connections({}) == 64
    assert connections({"replicas": 3}) == 21
    assert connections({"autoscaling": {"enabled": True, "maxReplicas": 4}}) == 16
    assert connections({"mode": "sidecar", "replicas": 3}) == 64


def test_every_figure_of_the_homeserver_has_its_part_in_each_of_two_processes():
    known = yaml.safe_load((CHART / "files" / "per-process.yaml").read_text())
    for profile, figures in known["profiles"].items():
        values = {"replicas": 2, "config": {"homeserver": {"profile": profile}}}
        config = yaml.safe_load(render(values)["ConfigMap"]["data"]["config.yaml"])
        for path, figure in known["figures"].items():
            whole = figures.get(path) if figure["default"] == "profile" else figure["default"]
            if isinstance(whole, int):
                assert _at(config, path) == max(figure["least"], whole // 2), path


def test_replicas_without_a_known_profile_are_refused_where_figures_hang_on_it():
    with pytest.raises(helm_python.HelmRenderError, match=r"needs config\.homeserver\.profile"):
        render({"replicas": 2})


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"config": {"homeserver": {"url": ""}}}, "config.homeserver.url is required"),
        ({"image": {"repository": ""}}, "image.repository is required"),
        ({"config": {"listen": [{"address": "unix:/tmp/s"}]}}, "config.listen needs a TCP address"),
        ({"config": {"metrics": {"listen": "unix:/tmp/m"}}}, "config.metrics.listen must be host:port"),
        ({"ingress": {"enabled": True}}, "ingress.host is required"),
        ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs is required"),
        (
            {"replicas": 8, "config": {"homeserver": {"profile": "generic"}}},
            "8 replicas are too many for lanes.requests.workers, 16: each needs at least 4",
        ),
        ({"mode": "sidecar", "ingress": {"enabled": True, "host": "a"}}, "ingress needs a Service"),
        ({"mode": "sidecar", "networkPolicy": {"enabled": True}}, "networkPolicy is for gateway mode"),
        ({"mode": "sidecar", "podAnnotations": {"a": "b"}}, "podAnnotations is for gateway mode"),
        ({"mode": "sidecar", "tolerations": [{"operator": "Exists"}]}, "tolerations is for gateway mode"),
        ({"mode": "sidecar", "autoscaling": {"enabled": True}}, "autoscaling is for gateway mode"),
        ({"config": {"admin": {"token": "a-token-of-length"}}}, "config.admin.token would be readable"),
        (
            {"config": {"egress": {"listen": {"address": "127.0.0.1:8011"}}}},
            "must be one the homeserver's pods reach",
        ),
        (
            {"config": {"egress": {"listen": {"address": "0.0.0.0:8011"}}}},
            "config.egress.clients is required",
        ),
        ({"service": {"nodePort": 30008}}, "service.nodePort is for"),
        ({"service": {"externalTrafficPolicy": "Local"}}, "service.externalTrafficPolicy is for"),
        ({"service": {"loadBalancerClass": "a"}}, "are for service.type LoadBalancer"),
    ],
)
def test_what_cannot_work_is_refused_in_words(values, told):
    with pytest.raises(helm_python.HelmRenderError, match=told):
        render(values)


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 2},
        {"mode": "daemonset"},
        {"replicas": "2"},
        {"config": {"homserver": {}}},
        {"config": {"connections": {"max": 0}}},
        {"config": {"connections": {"max_fields": 5}}},
        {"config": {"log": {"level": "loud"}}},
        {"config": {"listen": []}},
        {"image": {"digest": "latest"}},
        {"livenessProbe": {"period": 1}},
        {"livenessProbe": {"path": "/readyz"}},
    ],
)
def test_values_that_are_no_values_are_refused_by_the_schema(values):
    with pytest.raises(helm_python.HelmValuesError):
        render(values)


@pytest.mark.slow
def test_a_homeservers_own_chart_can_take_the_sidecar_in(tmp_path):
    values = merged(
        MINIMUM, {"mode": "sidecar", "config": {"homeserver": {"url": ""}}, "fullnameOverride": "fair"}
    )
    with parent_chart(tmp_path, values) as parent, helm_python.Chart.load(str(parent)) as loaded:
        texts = loaded.render({}, name="release", namespace="matrix")
    documents = [
        document
        for path, text in texts.items()
        if path.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]
    stateful_set = next(document for document in documents if document["kind"] == "StatefulSet")
    pod = stateful_set["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert {volume["name"] for volume in pod["volumes"]} >= {
        mount["name"] for mount in sidecar["volumeMounts"]
    }
    assert pod["volumes"][0]["configMap"]["name"] == "fair"
    assert {document["kind"] for document in documents} == {"StatefulSet", "ConfigMap"}
    for version in VERSIONS:
        if version >= SIDECAR_SINCE:
            demand_valid(stateful_set, version)
    demand_restricted({**pod, "securityContext": {}}, [sidecar])


def test_no_load_balancer_publishes_metrics_or_the_way_out():
    documents = render(VALUES["open to the world"])
    assert documents["Service"]["spec"]["type"] == "LoadBalancer"
    assert [port["name"] for port in documents["Service"]["spec"]["ports"]] == ["http"]
    for part in ("metrics", "egress"):
        service = documents[f"Service of {part}"]
        assert service["metadata"]["name"] == f"release-fairgate-{part}"
        assert service["spec"]["type"] == "ClusterIP"
        assert [port["name"] for port in service["spec"]["ports"]] == [part]


def test_names_of_services_stay_short_enough():
    documents = render({"fullnameOverride": "a" * 63, "config": EGRESS})
    names = [document["metadata"]["name"] for document in documents.values() if document["kind"] == "Service"]
    assert sorted(map(len, names)) == [63, 63, 63]
    assert len(set(names)) == 3


def test_the_admin_token_comes_from_a_secret():
    (container,) = render(VALUES["open to the world"])["Deployment"]["spec"]["template"]["spec"]["containers"]
    reference = {"secretKeyRef": {"name": "fairgate-admin", "key": "token"}}
    assert container["env"] == [{"name": "FAIRGATE_ADMIN__TOKEN", "valueFrom": reference}]


def test_a_sidecars_image_can_be_pulled():
    patch = yaml.safe_load(
        render(VALUES["sidecar with a Service"])["ConfigMap"]["data"]["sidecar-patch.yaml"]
    )
    assert patch["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "pull"}]


@pytest.mark.parametrize(
    ("values", "command"),
    [
        ({}, "exec -it deployment/release-fairgate -- fairgate top\n"),
        ({"mode": "sidecar"}, "exec -it POD -c fairgate -- fairgate top\n"),
        ({"config": {"admin": {"listen": "127.0.0.1:99"}}}, "fairgate top --admin http://127.0.0.1:99\n"),
        ({"config": {"admin": {"listen": "unix:/tmp/a"}}}, "fairgate top --admin unix:/tmp/a\n"),
        ({"admin": {"existingSecret": {"name": "a"}}}, "fairgate top --token-file FILE\n"),
    ],
)
def test_the_notes_tell_how_to_look_inside(values, command):
    assert command in notes(values)


def test_a_sidecars_names_do_not_meet_those_of_the_homeserver():
    patch = yaml.safe_load(render(VALUES["sidecar"])["ConfigMap"]["data"]["sidecar-patch.yaml"])
    pod = patch["spec"]["template"]["spec"]
    assert {port["name"] for port in pod["initContainers"][0]["ports"]} == {"fairgate", "fairgate-probes"}
    assert all(volume["name"].startswith("fairgate-") for volume in pod["volumes"])


def test_alerts_can_be_read_by_prometheus_and_ask_only_for_metrics_there_are():
    source = "".join(file.read_text() for file in (ROOT / "proxy" / "observability").glob("*metrics.py"))
    groups = render({"prometheusRules": {"enabled": True}})["PrometheusRule"]["spec"]["groups"]
    assert [group["name"] for group in groups] == ["fairgate", "fairgate-fairness"]
    for rule in (rule for group in groups for rule in group["rules"]):
        promql_parser.parse(rule["expr"])
        for name in re.findall(r"\bfairgate_(\w+)", rule["expr"]):
            assert f'"{name.removesuffix("_total")}"' in source, rule["alert"]
        assert f"`{rule['alert']}`" in (ROOT / "docs" / "operations.md").read_text()


def _at(config, path):
    for key in path.split("."):
        config = config[key]
    return config


def _patched(patch):
    """A plain Deployment of a homeserver with the patch laid over it, lists merged by name as Kubernetes does."""
    pod = patch["spec"]["template"]["spec"]
    synapse = {"name": "synapse", "image": "matrixdotorg/synapse"}
    for container in pod.get("containers", []):
        assert container["name"] == "synapse"
        synapse |= container
    labels = {"app": "synapse"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "synapse"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**pod, "containers": [synapse]}},
        },
    }
