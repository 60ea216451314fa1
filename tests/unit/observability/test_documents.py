"""What the documents say is what is."""

import dataclasses
import json
import re
from pathlib import Path

import jsonschema
import pytest
from picture_support import SNAPSHOT
from test_views import exposed

from proxy.downstream.listener import TlsStatistics
from proxy.egress.statistics import EgressStatistics, GatewayStatistics
from proxy.observability.status import status_document

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "status.schema.json").read_text())
EGRESS = dataclasses.asdict(
    EgressStatistics(
        address="127.0.0.1:9404", connections={"idle": 1}, connections_limit=2, accepted_total=3, strangers_total=4,
        requests_total={"delivery": 5}, refused_total={"breaker": 6}, deliveries_total={"reached": 7},
        deliveries_under_way=8, deliveries_waiting=9, rejected_filtered_total=10, lookups_running=11, gateways_known=12,
        peers_known=13, gateways={"admitting": 14},
        failing=(GatewayStatistics("push.example:443", "refusing", 3, 1.5),),
    )
)  # fmt: skip
TLS = dataclasses.asdict(TlsStatistics(19, 20, 21, 22, 23.5))
LISTENER = {"crowded": False, "turned_away_total": {"evicted": 15}, "tls": TLS}
OPERATORS = {"admin": {"open": 16, "displaced_total": 17, "late_total": 18}}
WHOLE = dataclasses.replace(SNAPSHOT, egress=EGRESS, listener=LISTENER, operators=OPERATORS)


@pytest.mark.parametrize("snapshot", [SNAPSHOT, WHOLE], ids=["least", "whole"])
def test_the_status_is_what_its_schema_says_and_nothing_else(snapshot):
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    document = json.loads(json.dumps(status_document(snapshot)))
    jsonschema.validate(document, SCHEMA)
    document["more"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_every_metric_is_in_the_document_with_its_type_and_words():
    text = (DOCS / "metrics.md").read_text()
    rows = dict(re.findall(r"^\| `(fairgate_\w+)` \| (.*) \|$", text, re.MULTILINE))
    found = {}
    for family in exposed(WHOLE):
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        found[name] = (
            f"{family.type} | {', '.join(f'`{label}`' for label in labels)} | {family.documentation}"
        )
    assert rows == found
