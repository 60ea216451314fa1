import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.addresses import Address, parse_homeserver_url, parse_listen_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8010", Address(host="127.0.0.1", port=8010)),
        ("[::1]:0", Address(host="::1", port=0)),
        ("my-host.example:65535", Address(host="my-host.example", port=65535)),
        ("unix:/run/fairgate.sock", Address(path="/run/fairgate.sock")),
    ],
)
def test_a_listen_address_is_read_and_written_back_the_same(text, address):
    assert parse_listen_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no host"),
        (":8010", "0.0.0.0"),
        ("127.0.0.1", "no port"),
        ("127.0.0.1:", "port"),
        ("127.0.0.1:65536", "65535"),
        ("127.0.0.1:-1", "port"),
        ("127.0.0.1:٣", "port"),
        ("256.0.0.1:80", "neither"),
        ("::1:8010", "brackets"),
        ("[::1]", "no port"),
        ("[::1]8010", "IPv6"),
        ("[::1:8010", "IPv6"),
        ("[nonsense]:80", "IPv6"),
        ("*:80", "every interface"),
        ("http://127.0.0.1:80", "scheme"),
        ("a b:80", "space"),
        ("-a:80", "neither"),
        ("unix:run/x", "absolute"),
        ("unix://run/x", "one slash"),
        ("unix:/run/", "directory"),
        ("unix:/a\x00b", "control"),
        ("unix:/" + "a" * 107, "107"),
    ],
)
def test_a_wrong_listen_address_is_refused_in_plain_words(text, words):
    with pytest.raises(ValueError, match=words):
        parse_listen_address(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://synapse:8008", Address(host="synapse", port=8008)),
        ("http://synapse", Address(host="synapse", port=80)),
        ("HTTP://[::1]:8008/", Address(host="::1", port=8008)),
        ("https://synapse", Address(host="synapse", port=443, tls=True)),
        ("HTTPS://synapse:8448", Address(host="synapse", port=8448, tls=True)),
        ("unix:/run/synapse.sock", Address(path="/run/synapse.sock")),
    ],
)
def test_a_homeserver_url_is_read(text, address):
    assert parse_homeserver_url(text) == address


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ftp://synapse", "unknown scheme"),
        ("synapse:8008", "not a URL"),
        ("http://", "no host"),
        ("http://synapse/_matrix", "path"),
        ("http://synapse?a", "query"),
        ("http://synapse/#a", "fragment"),
        ("http://me:secret@synapse", "user name or password"),
        ("http://synapse:0", "port 0"),
        ("http://[::1", "IPv6"),
        ("http://[zz]:1", "IPv6"),
        ("http://syn\\apse", "backslash"),
        ("http://syn apse", "space"),
    ],
)
def test_a_wrong_homeserver_url_is_refused_in_plain_words_and_never_repeated(text, words):
    with pytest.raises(ValueError, match=words) as caught:
        parse_homeserver_url(text)
    assert "secret" not in str(caught.value)


@given(
    st.text(max_size=40) | st.text(alphabet="[]:./@?#0123aun ixhtp%\\", max_size=20).map("http://".__add__)
)
def test_any_text_is_an_address_or_a_value_error(text):
    for parse in (parse_listen_address, parse_homeserver_url):
        try:
            address = parse(text)
        except ValueError:
            continue
        assert (address.path is None) == (address.host is not None and address.port is not None)
