import dataclasses
import json

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from proxy.observability.metrics import SnapshotCollector
from proxy.observability.snapshot import PoolStatistics, Snapshot
from proxy.observability.status import status_document

POOL = PoolStatistics(
    limit=64,
    connecting=1,
    idle=2,
    busy=3,
    waiting=4,
    opened_total=5,
    reused_total=6,
    resent_total=7,
    failed_total=8,
    failing_since_s=None,
)
SNAPSHOT = Snapshot(
    version="0.1.0",
    started_at=1_700_000_000.0,
    uptime_s=12.5,
    stopping=False,
    homeserver="http://127.0.0.1:8008",
    connections={"parked": 9, "open": 10},
    connections_limit=20_000,
    accepted_total=11,
    requests_total={"vital": 12, "requests": 13},
    refused_total={"head_too_large": 14},
    left_total=15,
    open_descriptors=16,
    descriptor_limit=1024,
    loop_lag_s=0.001,
    pool=POOL,
)


def exposed(snapshot=SNAPSHOT):
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: snapshot))
    return list(text_string_to_metric_families(generate_latest(registry).decode()))


def samples(snapshot=SNAPSHOT):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in exposed(snapshot)
        for sample in family.samples
    }


def test_the_figures_of_the_snapshot_are_exposed():
    found = samples()
    assert found["fairgate_client_connections", "parked"] == 9
    assert found["fairgate_requests_total", "vital"] == 12
    assert found["fairgate_refused_total", "head_too_large"] == 14
    assert found["fairgate_upstream_connections", "busy"] == 3
    assert found["fairgate_upstream_requests_resent_total",] == 7
    assert found["fairgate_upstream_failing_seconds",] == 0


def test_every_metric_has_our_prefix_and_a_help_and_only_the_three_labels():
    for family in exposed():
        assert family.name.startswith("fairgate_")
        assert family.documentation.endswith(".")
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            assert set(sample.labels) <= {"state", "route_class", "reason"}
            assert sample.name.endswith("_total") == (family.type == "counter")


def test_every_number_of_the_snapshot_is_exposed_and_in_the_status():
    numbers = [value for part in (SNAPSHOT, POOL) for value in dataclasses.asdict(part).values()]
    flat = [
        inner for value in numbers if isinstance(value, dict) for inner in value.values() if inner is not None
    ]
    expected = {value for value in [*numbers, *flat] if isinstance(value, int | float)}
    assert expected <= set(samples().values())
    text = json.dumps(status_document(SNAPSHOT))
    assert all(f" {json.dumps(value)}" in text for value in expected)


@pytest.mark.parametrize("failing_s", [None, 3.5])
def test_an_outage_shows_its_length(failing_s):
    snapshot = dataclasses.replace(SNAPSHOT, pool=dataclasses.replace(POOL, failing_since_s=failing_s))
    assert samples(snapshot)["fairgate_upstream_failing_seconds",] == (failing_s or 0)
    assert status_document(snapshot)["upstream"]["pool"]["failing_seconds"] == failing_s


def test_one_scrape_looks_once():
    looks = []
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: looks.append(1) or SNAPSHOT))
    generate_latest(registry)
    assert looks == [1]
