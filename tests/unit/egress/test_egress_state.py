import json

import pytest

from proxy.egress.state import FILE_NAME, read_known, rendered, write_whole
from proxy.policies.push_egress import KnownHosts


def known_of(directory):
    known = KnownHosts()
    read_known(directory, known)
    return known


def test_what_was_learned_survives(tmp_path):
    known = KnownHosts()
    known.learn("push.example", 443)
    known.learn("2001:db8::1", 5000)
    known.learn_peer("peer.example")
    write_whole(tmp_path, rendered(known))

    again = known_of(tmp_path)
    assert again.gateways == [("push.example", 443), ("2001:db8::1", 5000)]
    assert again.peers == ["peer.example"]


def test_the_file_holds_hosts_and_ports_and_is_nobody_elses_to_read(tmp_path):
    known = KnownHosts()
    known.learn("push.example", 443)
    write_whole(tmp_path, rendered(known))

    path = tmp_path / FILE_NAME
    assert json.loads(path.read_text()) == {"version": 1, "gateways": ["push.example:443"], "peers": []}
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path):
    write_whole(tmp_path, b"old")
    (tmp_path / f"{FILE_NAME}.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path, b"new")
    assert (tmp_path / FILE_NAME).read_bytes() == b"old"


def test_half_a_file_of_a_killed_writer_is_not_taken_for_one(tmp_path):
    write_whole(tmp_path, b'{"version":1,"gateways":["push.example:443"],"peers":[]}')
    (tmp_path / f"{FILE_NAME}.new").write_bytes(b'{"version":1,"gateways":["half')
    assert known_of(tmp_path).gateways == [("push.example", 443)]
    write_whole(tmp_path, b'{"version":1,"gateways":[],"peers":[]}')
    assert known_of(tmp_path).gateways == []


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"version":2}',
            b'{"version":1}',
            b'{"version":1,"gateways":7,"peers":[]}',
            b"\xff\xfe",
        ),
        *(
            b'{"version":1,"gateways":[7],"peers":[]}',
            b'{"version":1,"gateways":{"a":1},"peers":[]}',
            b"[" * 100_000,
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_told_and_counts_as_none(tmp_path, data, capsys):
    (tmp_path / FILE_NAME).write_bytes(data)
    assert known_of(tmp_path).gateways == []
    assert "cannot be read" in capsys.readouterr().out


def test_entries_that_are_no_hosts_are_left_out(tmp_path):
    text = '{"version":1,"gateways":["push.example:443","push.example","0x7f.1:80"],"peers":["a b","peer.example"]}'
    (tmp_path / FILE_NAME).write_text(text)
    known = known_of(tmp_path)
    assert known.gateways == [("push.example", 443)]
    assert known.peers == ["peer.example"]


def test_no_file_is_no_mistake(tmp_path, capsys):
    assert known_of(tmp_path).gateways == []
    assert capsys.readouterr().out == ""
