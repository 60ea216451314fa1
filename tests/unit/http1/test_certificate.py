import shutil
import ssl
import subprocess

import pytest

from proxy.http1.certificate import BadCertificateError, fits, read_certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")


def make(folder, subject, *extensions, days=30):
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", str(days), "-keyout", str(folder / "key"), "-out", str(folder / "crt"), "-subj", subject,
        *(part for extension in extensions for part in ("-addext", extension)),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    return ssl.PEM_cert_to_DER_cert((folder / "crt").read_text())


@pytest.fixture(scope="module")
def der(tmp_path_factory):
    names = "subjectAltName=DNS:a.example.org,DNS:*.B.example.org,IP:192.0.2.1,email:x@example.org"
    return make(
        tmp_path_factory.mktemp("c"),
        "/C=DE/O=Some/CN=ignored.example.org",
        names,
        "keyUsage=digitalSignature",
    )


def test_its_names_are_the_hosts_among_the_alternative_ones(der):
    assert read_certificate(der).names == ("a.example.org", "*.b.example.org")


def test_without_alternative_names_the_common_name_counts(tmp_path):
    assert read_certificate(make(tmp_path, "/O=Some/CN=Old.example.org")).names == ("old.example.org",)


def test_one_without_any_name_has_none(tmp_path):
    assert read_certificate(make(tmp_path, "/O=Some")).names == ()


@pytest.mark.parametrize("days", [30, 40_000])  # written in two digits of a year and in four
def test_its_end_is_as_openssl_says(tmp_path, days):
    der = make(tmp_path, "/CN=a", days=days)
    told = subprocess.run(
        ["openssl", "x509", "-in", str(tmp_path / "crt"), "-noout", "-enddate"],
        check=True, capture_output=True, text=True, timeout=20,
    ).stdout  # fmt: skip
    assert read_certificate(der).expires_at == ssl.cert_time_to_seconds(told.strip().partition("=")[2])


def test_what_is_cut_short_or_something_else_is_refused(der):
    for at in range(len(der)):
        with pytest.raises(BadCertificateError):
            read_certificate(der[:at])
    for data in (b"anything", b"\x30\x00", b"\x30\x02\x30\x00", b"\x04\x01a"):
        with pytest.raises(BadCertificateError):
            read_certificate(data)


@pytest.mark.parametrize(
    ("pattern", "name", "covers"),
    [
        ("a.example.org", "a.example.org", True),
        ("a.example.org", "b.example.org", False),
        ("*.example.org", "a.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", ".example.org", False),
        ("*.example.org", "a.b.example.org", False),
    ],
)
def test_a_star_stands_for_one_whole_label(pattern, name, covers):
    assert fits(pattern, name) is covers
