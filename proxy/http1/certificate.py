"""For which names a certificate is, and until when: what choosing between several needs (RFC 5280). Pure.

Reads DER as far as that: the subject's alternative names, else its common name; nothing is verified. `ssl` gives these only
for certificates of a peer.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

_OID: Final = 0x06
_EXTENSIONS: Final = 0xA3
_DNS_NAME: Final = 0x82  # of a GeneralName
_ALTERNATIVE_NAMES: Final = bytes((0x55, 0x1D, 0x11))
_COMMON_NAME: Final = bytes((0x55, 0x04, 0x03))
_UTC_TIME: Final = 0x17
_VERSION: Final = 0xA0


class BadCertificateError(ValueError):
    """It cannot be read as a certificate."""


class Certificate(NamedTuple):
    """`names` in lower case, `*.` in front where any one label fits; `expires_at` in seconds since 1970."""

    names: tuple[str, ...]
    expires_at: float


def read_certificate(der: bytes) -> Certificate:
    """Read one certificate.

    Raises:
        BadCertificateError: if it is none.
    """
    try:
        return _read(der)
    except (IndexError, ValueError, UnicodeDecodeError, StopIteration) as error:
        raise BadCertificateError("cannot be read as a certificate") from error


def _read(der: bytes) -> Certificate:
    ((_, certificate),) = _parts(der)
    _, to_be_signed = next(_parts(certificate))
    parts = list(_parts(to_be_signed))
    if parts[0][0] == _VERSION:
        del parts[0]
    _serial, _algorithm, _issuer, validity, subject, *rest = parts
    extensions = [content for tag, content in rest if tag == _EXTENSIONS]
    names = tuple(_alternative_names(extensions[0])) if extensions else ()
    expires_tag, expires = list(_parts(validity[1]))[1]
    return Certificate(names or tuple(_common_names(subject[1])), _instant(expires_tag, expires))


def _alternative_names(extensions: bytes) -> Iterator[str]:
    ((_, sequence),) = _parts(extensions)
    for _, extension in _parts(sequence):
        fields = list(_parts(extension))
        if fields[0] == (_OID, _ALTERNATIVE_NAMES):
            ((_, names),) = _parts(fields[-1][1])
            yield from (name.decode("ascii").lower() for tag, name in _parts(names) if tag == _DNS_NAME)


def _common_names(subject: bytes) -> Iterator[str]:
    for _, relative in _parts(subject):
        for _, attribute in _parts(relative):
            (_, kind), (_, value) = _parts(attribute)
            if kind == _COMMON_NAME:
                yield value.decode("utf-8").lower()


def _instant(tag: int, text: bytes) -> float:
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Give tag and content of each part in a row."""
    position = 0
    while position < len(data):
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            digits = size & 0x7F
            size = int.from_bytes(data[position : position + digits], "big")
            position += digits
        if position + size > len(data):
            raise BadCertificateError("is cut short")
        yield tag, data[position : position + size]
        position += size


def fits(pattern: str, name: str) -> bool:
    """Tell whether a certificate's name covers a host; both in lower case. `*` stands for exactly the first label."""
    if pattern.startswith("*."):
        label, dot, rest = name.partition(".")
        return bool(label and dot) and rest == pattern[2:]
    return pattern == name
