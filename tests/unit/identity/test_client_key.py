import pytest

from proxy.identity import client_key
from proxy.identity.client_key import ClientKeys, key_of
from proxy.identity.networks import Networks, parse_address


def keys(*trusted, **settings):
    return ClientKeys(trusted_proxies=Networks(trusted), **settings)


@pytest.mark.parametrize(
    ("peer", "key", "address"),
    [
        ("192.0.2.1", "192.0.2.1", b"192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", b"2001:db8:1:2:3:4:5:6"),
        ("2001:DB8::1", "2001:db8::/64", b"2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1", b"192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1", b"192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64", b"fe80::1"),
        ("::1", "::/64", b"::1"),
        ("unix", "unix", b"127.0.0.1"),
    ],
)
def test_a_peer_is_known_by_its_address_or_prefix_and_told_whole_to_the_homeserver(peer, key, address):
    client = keys().resolve(peer)
    assert (client.key, client.address) == (key, address)
    assert not client.trusted


def test_addresses_of_one_prefix_are_one_client_key_and_its_length_is_a_setting():
    one, other = parse_address("2001:db8:1:2::1"), parse_address("2001:db8:1:ffff::1")
    assert key_of(one, 48) == key_of(other, 48) == "2001:db8:1::/48"
    assert key_of(one, 64) != key_of(other, 64)
    assert key_of(one, 128) == "2001:db8:1:2::1/128"


TRUSTED = ("10.0.0.0/8", "2001:db8:ffff::/48")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([b"192.0.2.1"], "192.0.2.1"),
        ([b"192.0.2.1, 10.0.0.2"], "192.0.2.1"),
        ([b"192.0.2.1, 10.0.0.2,10.0.0.3"], "192.0.2.1"),
        ([b"192.0.2.1", b"10.0.0.2"], "192.0.2.1"),
        ([b"6.6.6.6, 192.0.2.1"], "192.0.2.1"),
        ([b"6.6.6.6", b"192.0.2.1"], "192.0.2.1"),
        ([b"6.6.6.6, 192.0.2.1, 2001:db8:ffff::1"], "192.0.2.1"),
        ([b"192.0.2.1:4711"], "192.0.2.1"),
        ([b"[2001:db8::1]:443"], "2001:db8::/64"),
        ([b"[2001:db8::1]"], "2001:db8::/64"),
        ([b"2001:db8::1"], "2001:db8::/64"),
        ([b"fe80::1%eth0"], "fe80::/64"),
        ([b"[fe80::1%25eth0]:1"], "fe80::/64"),
        ([b"::ffff:192.0.2.1"], "192.0.2.1"),
        ([b"\t192.0.2.1 "], "192.0.2.1"),
    ],
)
def test_behind_a_trusted_proxy_the_right_most_untrusted_entry_is_the_client(values, key):
    client = keys(*TRUSTED).resolve("10.0.0.1", values)
    assert client.key == key
    assert client.trusted


@pytest.mark.parametrize(
    "values",
    [
        [b""],
        [b"6.6.6.6,"],
        [b"6.6.6.6", b""],
        [b"garbage"],
        [b"6.6.6.6, garbage"],
        [b"6.6.6.6, unknown"],
        [b"6.6.6.6, 1.2.3.4.5"],
        [b"6.6.6.6, 010.1.1.1"],
        [b"6.6.6.6, 256.1.1.1"],
        [b"6.6.6.6, 1.2.3.4:123456"],
        [b"6.6.6.6, [2001:db8::1"],
        [b"6.6.6.6, [2001:db8::1]x"],
        [b"6.6.6.6, 0.0.0.0"],
        [b"6.6.6.6, ::"],
        [b"6.6.6.6, 1.2.3.4 5.6.7.8"],
        [b'6.6.6.6, "1.2.3.4"'],
        [b"6.6.6.6, \xff"],
        [b"6.6.6.6, \xd9\xa1.1.1.1"],
        [b"6.6.6.6, unix:"],
        [b"6.6.6.6, " + b"1" * 600],
    ],
)
def test_a_trusted_proxy_that_names_nobody_usable_is_keyed_by_itself(values):
    client = keys(*TRUSTED).resolve("10.0.0.1", values)
    assert (client.key, client.address, client.trusted) == ("10.0.0.1", b"10.0.0.1", True)
    assert not client.address_exempt


def test_the_same_holds_for_each_trusted_proxy_of_a_chain():
    resolver = keys(*TRUSTED)
    assert resolver.resolve("10.0.0.1", [b"garbage, 10.0.0.2"]).key == "10.0.0.2"
    assert resolver.resolve("10.0.0.1", [b"10.0.0.3, 10.0.0.2"]).key == "10.0.0.3"
    assert resolver.resolve("10.0.0.1").key == "10.0.0.1"


def test_a_chain_is_followed_only_so_far():
    assert keys(*TRUSTED).resolve("10.0.0.1", [b"192.0.2.1" + b",10.9.9.9" * 40]).key == "10.9.9.9"


def test_a_header_from_an_untrusted_peer_is_ignored():
    client = keys(*TRUSTED).resolve("192.0.2.9", [b"6.6.6.6"])
    assert (client.key, client.address, client.trusted) == ("192.0.2.9", b"192.0.2.9", False)
    assert not client.suspected_ingress
    assert not client.address_exempt


@pytest.mark.parametrize(
    "peer",
    [
        "127.0.0.1",
        "::1",
        "10.1.1.1",
        "172.31.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.1.1",
        "fd00::1",
        "unix",
    ],
)
def test_a_peer_nearby_that_sends_the_header_untrusted_is_most_likely_an_ingress(peer):
    resolver = keys("203.0.113.1")
    suspect = resolver.resolve(peer, [b"6.6.6.6"])
    assert suspect.suspected_ingress
    assert suspect.address_exempt
    assert not suspect.exempt
    assert suspect.key == resolver.resolve(peer).key
    plain = resolver.resolve(peer)
    assert not plain.suspected_ingress
    assert not plain.address_exempt


@pytest.mark.parametrize("peer", ["172.32.0.1", "11.0.0.1", "2001:db8::1", "100.128.0.1"])
def test_a_peer_from_elsewhere_is_not(peer):
    assert not keys().resolve(peer, [b"6.6.6.6"]).suspected_ingress


def test_unix_peers_can_be_trusted_and_exempt_by_their_name():
    assert keys("unix").resolve("unix", [b"192.0.2.1"]).key == "192.0.2.1"
    assert keys(exempt=Networks(["unix"])).resolve("unix").exempt


def test_an_exempt_network_is_that_of_the_client_not_of_the_proxy():
    resolver = keys("10.0.0.1", exempt=Networks(["192.0.2.0/24"]))
    assert resolver.resolve("192.0.2.7").exempt
    assert resolver.resolve("10.0.0.1", [b"192.0.2.7"]).exempt
    assert resolver.resolve("10.0.0.1", [b"192.0.2.7"]).address_exempt
    assert not resolver.resolve("10.0.0.1", [b"198.51.100.1"]).exempt
    assert not keys("10.0.0.1", exempt=Networks(["10.0.0.1"])).resolve("10.0.0.1", [b"198.51.100.1"]).exempt


FORWARDED = {"forwarded_header": "Forwarded"}


@pytest.mark.parametrize(
    ("values", "key", "proto"),
    [
        ([b"for=192.0.2.1"], "192.0.2.1", None),
        ([b"For=192.0.2.1;Proto=https;by=10.0.0.1"], "192.0.2.1", b"https"),
        ([b'for="[2001:db8::1]:4711"; proto="http"'], "2001:db8::/64", b"http"),
        ([b'for="192.0.2.1:80"'], "192.0.2.1", None),
        ([b"for=192.0.2.1:80"], "192.0.2.1", None),
        ([b"for=[2001:db8::1]"], "2001:db8::/64", None),
        ([b"for=6.6.6.6, for=192.0.2.1;proto=https, for=10.0.0.2;proto=http"], "192.0.2.1", b"https"),
        ([b"for=6.6.6.6", b"for=192.0.2.1"], "192.0.2.1", None),
        ([b'for=6.6.6.6;ext="a,b\\",c";for=_x , for=192.0.2.1;ext="a,b\\",c"'], "192.0.2.1", None),
        ([b"proto=ftp;for=192.0.2.1"], "192.0.2.1", None),
        ([b'for="192\\.0.2.1"'], "192.0.2.1", None),
        ([b"host=x; for=192.0.2.1;"], "192.0.2.1", None),
    ],
)
def test_forwarded_is_read_as_rfc_7239_says(values, key, proto):
    client = keys(*TRUSTED, **FORWARDED).resolve("10.0.0.1", values)
    assert (client.key, client.proto) == (key, proto)


@pytest.mark.parametrize(
    "element",
    [
        b"",
        b"for=",
        b"for=unknown",
        b"for=_hidden",
        b"for=_SEVKISEK",
        b"proto=https",
        b"for",
        b"192.0.2.1",
        b"for=1.2.3.4;for=5.6.7.8",
        b'for="1.2.3.4',
        b'for=1.2.3.4"',
        b"for=1.2.3.4 5.6.7.8",
        b"for = 1.2.3.4",
        b"f\xffor=1.2.3.4",
        b"for=1.2.3.4;ext=" + b"x" * 600,
    ],
)
def test_an_element_that_is_hidden_or_malformed_names_nobody(element):
    resolver = keys(*TRUSTED, **FORWARDED)
    assert resolver.resolve("10.0.0.1", [element]).key == "10.0.0.1"
    assert resolver.resolve("10.0.0.1", [b"for=6.6.6.6, " + element]).key == "10.0.0.1"


@pytest.mark.parametrize(
    "invented", [b'for="', b'for="6.6.6.6', b'"', b"\\", b'for="a\\', b",;=", b'for=6.6.6.6;x="\\"']
)
@pytest.mark.parametrize("true", [b"for=192.0.2.1", b'for="192.0.2.1:80";proto=https'])
def test_what_a_client_wrote_before_does_not_change_what_the_proxy_added(invented, true):
    client = keys(*TRUSTED, **FORWARDED).resolve("10.0.0.1", [invented + b", " + true])
    assert client.key == "192.0.2.1"


def test_commas_and_quotes_without_end_cost_no_more_than_one_entry():
    assert keys(*TRUSTED, **FORWARDED).resolve("10.0.0.1", [b"," * 60_000 + b'"']).key == "10.0.0.1"


@pytest.mark.parametrize(
    ("trusted", "values", "scheme"),
    [
        (True, [b"https"], b"https"),
        (True, [b"http"], b"http"),
        (True, [], b"http"),
        (True, [b"HTTPS"], b"http"),
        (True, [b"https,http"], b"http"),
        (True, [b"https", b"https"], b"http"),
        (True, [b"wss"], b"http"),
        (False, [b"https"], b"http"),
    ],
)
def test_x_forwarded_proto_is_kept_from_a_trusted_proxy_where_it_is_exact(trusted, values, scheme):
    client = keys(*("10.0.0.1",) * trusted).resolve("10.0.0.1", [b"192.0.2.1"])
    assert client.scheme(values, b"http") == scheme
    other = b"https"
    assert client.scheme([], other) == other


def test_the_scheme_of_forwarded_counts_where_x_forwarded_proto_does_not_say():
    client = keys("10.0.0.1", **FORWARDED).resolve("10.0.0.1", [b"for=192.0.2.1;proto=https"])
    assert client.scheme([], b"http") == b"https"
    assert client.scheme([b"http"], b"https") == b"http"


def test_the_homeserver_is_told_the_client_alone():
    client = keys("10.0.0.1").resolve("10.0.0.1", [b"6.6.6.6, [2001:db8::7]:80"])
    lines = b"\r\nX-Forwarded-For: 2001:db8::7\r\nX-Forwarded-Proto: https"
    assert client.fields(b"https") == lines
    assert client.fields(b"https") is client.fields(b"https")
    assert client.fields(b"http").endswith(b": http")


def test_a_client_seen_lately_is_the_same_object_and_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(client_key, "_GENERATION", 100)
    resolver = keys("10.0.0.1")
    first = resolver.resolve("192.0.2.1")
    forgotten = resolver.resolve("192.0.2.2")
    named = resolver.resolve("10.0.0.1", [b"192.0.2.1"])
    for number in range(500):
        resolver.resolve(f"198.18.{number // 256}.{number % 256}")
        if number % 50 == 0:
            assert resolver.resolve("192.0.2.1") is first, "used again and again"
    assert resolver.resolve("192.0.2.2") is not forgotten
    assert resolver.resolve("10.0.0.1", [b"192.0.2.1"]) is named
    assert len(resolver._peers.young) <= 100
    assert resolver.resolve("10.0.0.1", [b"192.0.2.2" + b" " * 300]).key == "192.0.2.2"
    assert len(resolver._named.young) == 1, "long values are not kept"


def test_a_peer_without_an_address_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="a peer is an address"):
        keys().resolve("localhost")


def test_a_client_tells_its_key_and_no_more():
    assert repr(keys().resolve("192.0.2.1")) == "<Client 192.0.2.1>"
