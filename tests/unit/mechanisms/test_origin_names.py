import pytest

from proxy.mechanisms.origin_names import normal_host, split_authority, written


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Push.Example.", "push.example"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b-c.d", "a_b-c.d"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("1.example", "1.example"),
        ("0x7f.example", "0x7f.example"),
    ],
)
def test_spellings_of_one_host_become_one(text, host):
    assert normal_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ".",
            "a..b",
            "a.b..",
            "2130706433",
            "0177.0.0.1",
            "0x7f000001",
            "0x7f.1",
            "127.1",
            "0x7f.0.0.0x1",
            "1.2.3.4.5",
        ),
        *(
            "256.1.1.1",
            "0x",
            "a.0x7f",
            "example.1",
            "127.0.0.01",
            "a b",
            "a%2eb",
            "a@b",
            "a/b",
            "a\\b",
            "a:b",
            "*",
            "bücher.example",
        ),
        *(
            "\uff11\uff12\uff17.0.0.1",
            "127\u30020\u30020\u30021",
            "a\x00b",
            "a\nb",
            "[::1",
            "::1]",
            "[::1]x",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            "[127.0.0.1]",
        ),
        "a" * 64,
        ".".join(["a" * 60] * 5),
    ],
)
def test_what_could_be_read_in_two_ways_is_no_host(text):
    assert normal_host(text) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("push.example", ("push.example", 443)),
        ("PUSH.example.:8443", ("push.example", 8443)),
        ("push.example:0443", ("push.example", 443)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", 443)),
        ("2001:db8::1:443", ("2001:db8::1", 443)),  # as Synapse writes it in CONNECT
    ],
)
def test_an_authority_is_a_host_and_a_port(text, place):
    assert split_authority(text, 443) == place
    assert split_authority(written(*place), None) == place


@pytest.mark.parametrize(
    "text",
    [
        "a:",
        "a:0",
        "a:65536",
        "a:-1",
        "a:+80",
        "a: 80",
        "a:\uff18\uff10",
        "a:http",
        ":80",
        "u:p@a:80",
        "[::1]:",
        "a:080000",
    ],
)
def test_a_port_is_a_number_from_1_to_65535(text):
    assert split_authority(text, 443) is None


def test_without_a_default_the_port_must_be_there():
    assert split_authority("push.example", None) is None
