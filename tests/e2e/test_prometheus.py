"""Metrics, rules and dashboard before a real Prometheus that scrapes a Fairgate under siege."""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from e2e_support import ROOT, running_fairgate, wait_for
from siege import Siege, homeserver

from tools.processes import free_port

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason="needs prometheus")
RULES = ROOT / "observability" / "rules"
FAIRNESS = ROOT / "charts" / "fairgate" / "files" / "fairness-alerts.yaml"
RULE_FILES = (RULES / "recording.yaml", FAIRNESS, FAIRNESS.with_name("alerts.yaml"))
DASHBOARD = json.loads((ROOT / "observability" / "grafana" / "fairgate.json").read_text())
#: Queries without a figure in the siege: nothing of the kind happens in it.
MAY_BE_EMPTY = re.compile(r"egress|mode=\"report\"|upstream_broken|state=\"refusing\"")
#: Metrics there are only where a listener speaks TLS: `tests/wire/test_tls.py`.
WITH_TLS = {"fairgate_tls_certificate_expires_timestamp_seconds"}


@pytest.fixture(scope="module")
def besieged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scraped")
    settings = {"log": {"access": "none"}, "sync": {"per_account": 4, "per_device": 3}}
    with (
        homeserver() as upstream,
        running_fairgate(folder, upstream.url, profile="generic", **settings) as fairgate,
        Siege(fairgate.port),
    ):
        yield fairgate


class Prometheus:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=5) as answer:
            return json.load(answer)

    def query(self, expression):
        """The samples of an expression now."""
        return self.get("/api/v1/query", query=expression)["data"]["result"]

    def has_scraped(self):
        try:
            return len(self.query("count_over_time(fairgate_uptime_seconds[1m]) > 3"))
        except OSError:
            return 0


@pytest.fixture(scope="module")
def prometheus(besieged, tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file) for file in RULE_FILES],
        "scrape_configs": [
            {"job_name": "fairgate", "static_configs": [{"targets": [f"127.0.0.1:{besieged.metrics_port}"]}]}
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]  # fmt: skip
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        running = Prometheus(port)
        wait_for(running.has_scraped, 30, "four scrapes")
        yield running
    finally:
        child.terminate()
        child.wait(10)


def promtool(*arguments, given=None):
    return subprocess.run(
        [PROMTOOL, *map(str, arguments)], input=given, capture_output=True, check=False, timeout=60, cwd=RULES
    )


def panels():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
            yield pytest.param(expression, id=f"{panel['title']}: {target['refId']}")


def test_promtool_finds_nothing_to_say_about_the_metrics(besieged):
    with urllib.request.urlopen(f"http://127.0.0.1:{besieged.metrics_port}/metrics", timeout=5) as answer:
        metrics = answer.read()
    result = promtool("check", "metrics", given=metrics)
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")
    assert b"fairgate_request_wait_seconds_bucket" in metrics
    for person in (b"@", b"hog", b"127.0.0.1"):
        assert person not in re.sub(rb"(?m)^#.*", b"", metrics)


def test_the_rules_are_valid():
    result = promtool("check", "rules", *RULE_FILES)
    assert result.returncode == 0, result.stderr
    assert b"FAILED" not in result.stdout


@pytest.mark.parametrize("file", [file.name for file in sorted(RULES.glob("tests*.yaml"))])
def test_each_alert_is_raised_when_it_should_be_and_not_before(file):
    result = promtool("test", "rules", file)
    assert result.returncode == 0, (result.stdout + result.stderr).decode()


def test_every_alert_about_fairness_has_a_test():
    alerts = yaml.safe_load(FAIRNESS.read_text())["groups"][0]["rules"]
    tested = "".join(Path(RULES / name).read_text() for name in ("tests.yaml", "tests-of-weeks.yaml"))
    assert [rule["alert"] for rule in alerts if f"alertname: {rule['alert']}" not in tested] == []


@pytest.mark.parametrize("expression", list(panels()))
def test_every_query_of_the_dashboard_gives_figures(prometheus, expression):
    result = prometheus.query(expression)
    assert result or MAY_BE_EMPTY.search(expression), expression
    assert all(set(sample["metric"]) <= {"__name__", "instance", "job", "route_class", "reason", "mode", "lane", "state",
               "outcome", "direction", "kind"} for sample in result)  # fmt: skip


def test_every_rule_is_evaluated_without_an_error_and_every_record_has_a_figure(prometheus):
    groups = prometheus.get("/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 20
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    records = [rule["name"] for rule in rules if rule["type"] == "recording"]
    assert [name for name in records if not prometheus.query(name)] == []


def test_no_metric_that_a_rule_or_panel_names_is_missing(prometheus):
    known = set(prometheus.get("/api/v1/label/__name__/values")["data"])
    text = "".join(file.read_text() for file in RULE_FILES) + json.dumps(DASHBOARD)
    named = {name for name in re.findall(r"fairgate_[a-z_]+", text) if not name.startswith("fairgate_egress")}
    assert named - known == WITH_TLS
