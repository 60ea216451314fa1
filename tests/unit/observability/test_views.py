import dataclasses
import json

import pytest
from picture_support import POOL, SNAPSHOT, figures_in, histogram, with_rules
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from proxy.mechanisms.breaker import BreakerState
from proxy.observability.durations import BOUNDS_S, DurationStatistics, Histogram
from proxy.observability.metrics import SnapshotCollector
from proxy.observability.snapshot import SettingsFigures
from proxy.observability.status import status_document

LABELS = {
    "state", "route_class", "reason", "mode", "lane", "rule", "verdict", "outcome", "direction", "profile",
    "version", "le", "kind", "status_class",
}  # fmt: skip


def exposed(snapshot=SNAPSHOT):
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: snapshot))
    return list(text_string_to_metric_families(generate_latest(registry).decode()))


def samples(snapshot=SNAPSHOT):
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in exposed(snapshot)
        for sample in family.samples
    }


def test_the_figures_of_the_snapshot_are_exposed():
    found = samples()
    assert found["fairgate_client_connections", "parked"] == SNAPSHOT.connections["parked"]
    assert found["fairgate_requests_total", "vital"] == SNAPSHOT.requests_total["vital"]
    assert found["fairgate_upstream_connections", "busy"] == POOL.busy
    assert found["fairgate_upstream_requests_resent_total",] == POOL.resent_total
    assert found["fairgate_upstream_failing_seconds",] == 0
    assert found["fairgate_lane_running", "requests"] == SNAPSHOT.rules.workers.lanes[0].running


def test_refusals_are_told_by_reason_and_mode():
    found = samples()
    enforced = SNAPSHOT.refused_total["head_too_large"]
    assert found["fairgate_refused_total", "enforce", "head_too_large"] == enforced
    reported = SNAPSHOT.rules.reported_total["sync_total"]
    assert found["fairgate_refused_total", "report", "sync_total"] == reported
    assert found["fairgate_rule_enforced", "lanes"] == 1
    assert found["fairgate_rule_enforced", "sync"] == 0


def test_every_metric_has_our_prefix_a_help_and_only_labels_that_name_nobody():
    for family in exposed():
        assert family.name.startswith("fairgate_")
        assert family.documentation.endswith(".")
        assert family.type in ("gauge", "counter", "histogram")
        for sample in family.samples:
            assert set(sample.labels) <= LABELS
            assert sample.name.endswith("_total") == (family.type == "counter")


def test_every_number_of_the_snapshot_is_in_the_status():
    text = json.dumps(status_document(SNAPSHOT))
    for path, value in figures_in(SNAPSHOT):
        # A histogram's buckets are in the metrics only, and PARK is never the last word.
        if ".durations." not in path and path != ".rules.waits.totals.verdicts.1":
            assert f" {json.dumps(value)}" in text, path


def test_every_number_of_the_snapshot_is_exposed_but_what_only_a_person_wants():
    seen = set(samples().values())
    only_status = ("settings.read_at", "figures", "sizes", "reopened", "next_probe_in_s", "reports_", "growths", ".flows",
        ".addresses", "unconfirmed_bytes", "disk_bytes", "tunnels.accounts", "totals.outside", "ghosts_expired",
        "pushers.in_turn", "pushers.known", "verdicts.1", ".durations.")  # fmt: skip
    for path, value in figures_in(SNAPSHOT):
        if not any(part in path for part in only_status) or path.startswith(
            ".rules.background.totals.outside"
        ):
            assert value in seen, path


def test_histograms_are_cumulated_by_their_bounds():
    waits = Histogram((3, *(0 for _ in BOUNDS_S[2:]), 1, 2), 1300.5)
    durations = DurationStatistics({"media": waits}, {"media": histogram()})
    found = samples(with_rules(durations=durations))
    name = "fairgate_request_wait_seconds"
    assert found[f"{name}_bucket", "0.001", "media"] == 3
    assert found[f"{name}_bucket", "180.0", "media"] == 3
    assert found[f"{name}_bucket", "600.0", "media"] == 4
    assert found[f"{name}_bucket", "+Inf", "media"] == 6
    assert found[f"{name}_count", "media"] == 6
    assert found[f"{name}_sum", "media"] == 1300.5


def test_the_breaker_is_in_exactly_one_state():
    for state in BreakerState:
        gate = dataclasses.replace(SNAPSHOT.rules.background, state=state)
        found = samples(with_rules(background=gate))
        shown = {name[1] for name, value in found.items() if name[0].endswith("breaker_state") and value}
        assert shown == {state.name.lower()}
        status = status_document(with_rules(background=gate))
        assert status["homeservers"][0]["breaker"]["state"] == state.name.lower()


def test_the_status_says_where_each_figure_comes_from():
    status = status_document(SNAPSHOT)
    assert status["profile"]["name"] == "synapse"
    assert status["profile"]["figures"]["sync.workers"]["origin"] == "profile"


@pytest.mark.parametrize("failing_s", [None, 3.5])
def test_an_outage_shows_its_length(failing_s):
    snapshot = dataclasses.replace(SNAPSHOT, pool=dataclasses.replace(POOL, failing_since_s=failing_s))
    assert samples(snapshot)["fairgate_upstream_failing_seconds",] == (failing_s or 0)
    assert status_document(snapshot)["upstream"]["pool"]["failing_seconds"] == failing_s


def test_settings_that_are_wrong_show_until_they_are_read_again():
    assert samples()["fairgate_settings_last_read_ok",] == 1
    assert status_document(SNAPSHOT)["settings"]["needs_restart"] == ["admin.listen"]
    wrong = SettingsFigures(7.5, (), ("line 3: mode: is wrong",))
    snapshot = dataclasses.replace(SNAPSHOT, settings=wrong)
    assert samples(snapshot)["fairgate_settings_last_read_ok",] == 0
    assert status_document(snapshot)["settings"] == {
        "read_at": 7.5,
        "needs_restart": [],
        "mistakes": ["line 3: mode: is wrong"],
    }


def test_one_scrape_looks_once():
    looks = []
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: looks.append(1) or SNAPSHOT))
    looks.clear()
    generate_latest(registry)
    assert looks == [1]


def test_who_is_turned_away_at_the_door_is_told_by_reason():
    listener = {"crowded": True, "turned_away_total": {"evicted": 7}, "tls": None}
    snapshot = dataclasses.replace(SNAPSHOT, listener=listener)
    found = samples(snapshot)
    assert found["fairgate_client_connections_crowded",] == 1
    assert found["fairgate_client_connections_turned_away_total", "evicted"] == 7
    assert status_document(snapshot)["connections"]["turned_away_total"] == {"evicted": 7}
    assert not any(name.startswith("fairgate_tls") for name, *_ in found)
