import json

import pytest

from benchmarks.fairness import report
from benchmarks.fairness.addresses import BRIDGE_TOKEN, account_of, honest_address, other_address, token_of
from benchmarks.fairness.cell import Cell
from benchmarks.fairness.rows import ROWS
from benchmarks.fairness.scoring import Watched
from benchmarks.fairness.siege import KEYS

ROW = {row.key: row for row in ROWS}
POOLS = {pool: {"most_at_once": 3} for pool in ("requests", "syncs", "lookups")}


def cell(key="none", light=(6.0,), failures=None, found=(), outcomes=None, *, repeated=False):
    base = Watched.of(
        {"ms": {"light": [6.0], "sync": [500.0], "upload": [9.0]}, "failures": {}, "late_ms": [1.0]}
    )
    served = {"light": list(light), "sync": [500.0], "upload": [9.0]}
    seen = Watched.of({"ms": served, "failures": failures or {}, "late_ms": [1.0]})
    siege = {"began": 1, "outcomes": outcomes or {}, "ms": []}
    return Cell(ROW[key], "nginx", base, seen, POOLS, siege, None, list(found), repeated)


def test_every_row_is_an_attack_or_crowd_that_exists_and_none_is_left_out():
    assert sorted(ROW) == sorted(KEYS)


def test_a_cell_tells_success_and_percentiles_and_is_bold_where_it_fails():
    assert report.cell_text(cell()) == "1.00 6.0/6.0 · 1.00 · 1.00"
    failed = cell(light=(), failures={"light 429": 2}, found=["light 0.000"])
    assert report.cell_text(failed) == "**0.00 · 1.00 · 1.00**"


def test_a_crowd_has_its_success_in_the_cell():
    assert report.cell_text(cell("bridge", outcomes={"200": 3, "429": 1})).endswith("crowd 0.75")


def test_the_table_has_a_line_for_each_row_and_a_column_for_each_proxy():
    table = report.peers_table([cell("idle"), cell("none")], {"nginx": "nginx 1", "Fairgate": "Fairgate 0"})
    lines = table.splitlines()
    assert lines[0] == "| beside the honest clients | nginx 1 | Fairgate 0 |"
    assert [line.split(" |")[0] for line in lines[2:]] == ["| none", "| 4,000 idle connections"]
    assert all(line.count("|") == 4 for line in lines)


def test_a_row_measured_again_says_so():
    assert "measured again" in report.verdicts([cell(repeated=True)])
    assert "measured again" not in report.verdicts([cell()])


def test_figures_are_json_also_where_nothing_was_served():
    told = report.document(cell(light=(), failures={"light 429": 2}))
    assert json.loads(json.dumps(told, allow_nan=False))["attacked"]["p99_ms"] is None


@pytest.mark.parametrize(
    ("token", "acts_as", "account"),
    [
        (token_of("alice", 3), None, ("@alice:bench", "D3")),
        (BRIDGE_TOKEN, None, ("@bridge:bench", None)),
        (BRIDGE_TOKEN, "@ghost1:bench", ("@ghost1:bench", None)),
        ("garbage7", None, None),
        ("tok__1", None, None),
        ("tok_alice_x", None, None),
    ],
)
def test_a_token_names_its_account_and_garbage_none(token, acts_as, account):
    assert account_of(token, acts_as) == account


def test_no_two_clients_share_an_address_unless_they_are_told_to():
    addresses = [honest_address(number) for number in range(7)] + [
        other_address(number) for number in range(1000)
    ]
    assert len(set(addresses)) == len(addresses)
