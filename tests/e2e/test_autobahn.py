import pytest
from autobahn_suite import differing, judge_client, judge_server

from tools import autobahn

# All but the mass cases, of which some stand for the rest; 6.4 waits two seconds in each.
CASES = [
    *("1.*", "2.*", "3.*", "4.*", "5.*", "6.[^4]*", "6.4.1", "7.*", "10.*"),
    *("9.1.3", "9.2.3", "9.4.5", "9.5.6", "9.7.1", "12.1.10", "12.2.15", "12.4.1", "13.3.8", "13.7.18"),
]
COUNT = 254


@pytest.fixture(autouse=True)
def suite():
    if reason := autobahn.why_not_here():
        pytest.skip(reason)


@pytest.mark.parametrize("judge", [judge_server, judge_client])
def test_autobahns_verdicts_are_the_same_with_and_without_fairgate(judge, tmp_path):
    verdicts = judge(tmp_path, CASES, 5, 100)

    assert differing(verdicts) == {}
    assert len(verdicts["direct"]) == COUNT
    assert "FAILED" not in {verdict["behavior"] for verdict in verdicts["through"].values()}
