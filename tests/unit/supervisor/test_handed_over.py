import contextlib
import os
import socket

import pytest

from proxy.supervisor import handed_over
from proxy.supervisor.handed_over import HandOverError, take_over


@pytest.fixture
def hand_over(monkeypatch):
    """Hand these sockets over: a process under test cannot have them at 3, so the first descriptor is where they are."""
    with contextlib.ExitStack() as stack:

        def give(*sockets, **variables):
            low = 60
            for place, one in enumerate(sockets, low):
                os.dup2(one.fileno(), place)
                one.close()
                stack.callback(_close, place)
            monkeypatch.setattr(handed_over, "FIRST_DESCRIPTOR", low)
            environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(sockets)), **variables}
            return take_over(environment), environment

        yield give


def _close(descriptor):
    with contextlib.suppress(OSError):
        os.close(descriptor)


def listening(address="127.0.0.1", family=socket.AF_INET):
    return socket.create_server((address, 0), family=family)


def taken(sockets, text):
    found = sockets.take(text)
    for one in found:
        one.close()
    return len(found)


def test_a_socket_is_the_listeners_whose_address_it_has(hand_over):
    one, other = listening(), listening("127.0.0.2")
    ports = [held.getsockname()[1] for held in (one, other)]
    sockets, environment = hand_over(one, other, LISTEN_FDNAMES="fairgate.socket:fairgate.socket")
    assert environment == {}
    assert taken(sockets, f"127.0.0.1:{ports[1]}") == 0
    assert taken(sockets, f"127.0.0.2:{ports[1]}") == 1
    assert taken(sockets, f"127.0.0.2:{ports[1]}") == 0
    with pytest.raises(HandOverError, match=rf"127\.0\.0\.1:{ports[0]} \(fairgate\.socket\); write the same"):
        sockets.demand_all_taken()
    assert taken(sockets, f"localhost:{ports[0]}") == 1
    sockets.demand_all_taken()


def test_ipv6_and_unix_sockets_are_told_by_their_addresses_too(hand_over, tmp_path):
    six = listening("::1", socket.AF_INET6)
    port = six.getsockname()[1]
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(tmp_path / "sock"))
    local.listen()
    sockets, _ = hand_over(six, local)
    assert taken(sockets, f"[0:0::1]:{port}") == 1
    assert taken(sockets, f"unix:{tmp_path}/sock") == 1
    sockets.demand_all_taken()


def test_what_is_taken_is_not_passed_on_to_programs(hand_over):
    held = listening()
    port = held.getsockname()[1]
    sockets, _ = hand_over(held)
    (one,) = sockets.take(f"127.0.0.1:{port}")
    with one:
        assert not one.get_inheritable()


def test_a_free_port_is_asked_of_the_kernel_even_where_sockets_were_handed_over(hand_over):
    held = listening()
    port = held.getsockname()[1]
    sockets, _ = hand_over(held)
    assert taken(sockets, "127.0.0.1:0") == 0
    assert taken(sockets, f"127.0.0.1:{port}") == 1


@pytest.mark.parametrize("pid", ["", "1", "not a number"])
def test_what_was_meant_for_another_process_is_left_alone(pid):
    environment = {"LISTEN_PID": pid, "LISTEN_FDS": "1", "HOME": "/"}
    assert taken(take_over(environment), "127.0.0.1:8010") == 0
    assert environment == {"HOME": "/"}


def test_without_the_variables_nothing_was_handed_over():
    take_over({}).demand_all_taken()


@pytest.mark.parametrize("number", ["one", "-1", "²"])
def test_a_number_of_sockets_that_is_none_is_told(number):
    with pytest.raises(HandOverError, match="LISTEN_FDS is no number"):
        take_over({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": number})


@pytest.mark.parametrize(
    "make",
    [socket.socket, lambda: socket.socket(type=socket.SOCK_DGRAM)],
    ids=["deaf", "datagrams"],
)
def test_a_socket_at_which_nobody_listens_is_told(hand_over, make):
    with pytest.raises(HandOverError, match=r"descriptor 60 \(mine\) .* is no listening stream socket"):
        hand_over(make(), LISTEN_FDNAMES="mine")


def test_a_descriptor_that_is_no_socket_is_told(hand_over):
    with pytest.raises(HandOverError, match="descriptor 60 was handed over, but cannot be used"):
        hand_over(open(os.devnull))  # noqa: SIM115, PTH123  (closed by who hands it over)
