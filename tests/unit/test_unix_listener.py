import socket

import pytest

from proxy.unix_listener import free_path


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "s.sock")


def left_at(path, kind=socket.SOCK_STREAM):
    """Bind a socket and close it: its file stays."""
    with socket.socket(socket.AF_UNIX, kind) as gone:
        gone.bind(path)


def test_where_nothing_is_there_is_nothing_to_free(path):
    free_path(path)


def test_what_a_process_that_is_gone_left_is_removed(path, tmp_path):
    left_at(path)
    free_path(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_a_socket_that_is_listened_at_is_taken(path, kind):
    with socket.socket(socket.AF_UNIX, kind) as listening:
        listening.bind(path)
        listening.listen()
        with pytest.raises(OSError, match="already in use"):
            free_path(path)


def test_a_socket_whose_line_is_full_is_taken(path):
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as waiting:
        listening.bind(path)
        listening.listen(0)
        waiting.connect(path)
        with pytest.raises(OSError, match="already in use"):
            free_path(path)


@pytest.mark.parametrize("content", [b"", b"a letter"])
def test_a_file_is_never_removed(path, tmp_path, content):
    (tmp_path / "s.sock").write_bytes(content)
    with pytest.raises(OSError, match="already in use"):
        free_path(path)
    assert (tmp_path / "s.sock").read_bytes() == content


def test_a_link_is_never_removed(path, tmp_path):
    left_at(str(tmp_path / "other.sock"))
    (tmp_path / "s.sock").symlink_to(tmp_path / "other.sock")
    with pytest.raises(OSError, match="already in use"):
        free_path(path)
    assert (tmp_path / "s.sock").is_symlink()
