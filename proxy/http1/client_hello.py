"""Whether all of a TLS client's first word has arrived (RFC 8446 §5.1, §4.1.2). Pure; strict.

Until it has, nothing is spent on a connection but these bytes: no TLS object, no place among the handshakes. What the hello
says is OpenSSL's to read. Asked again with all bytes so far, any cut of them gives the same. Bound: `MAX_BYTES` in
`_MAX_RECORDS`; clients send one record of 200 to 1,800 bytes, and some cut it into a few to pass through censors.
"""

from typing import Final

MAX_BYTES: Final = 16_384
_MAX_RECORDS: Final = 16  # each is looked at in every call
_RECORD_HEAD_BYTES: Final = 5
_HANDSHAKE: Final = 0x16  # of a record
_CLIENT_HELLO: Final = 1  # of a message
_MESSAGE_HEAD_BYTES: Final = 4


class BadClientHelloError(Exception):
    """The bytes are no TLS ClientHello: the connection is closed."""


def is_whole(data: bytes) -> bool:
    """Tell whether `data`, all that came so far, holds a whole ClientHello.

    Raises:
        BadClientHelloError: if it can become none.
    """
    message = b""
    position = records = 0
    while position < len(data):
        records += 1
        if data[position] != _HANDSHAKE or data[position + 1 : position + 2] not in (b"", b"\x03"):
            raise BadClientHelloError("is no TLS")
        head_end = position + _RECORD_HEAD_BYTES
        if len(data) < head_end:
            break
        size = int.from_bytes(data[position + 3 : head_end], "big")
        if not size:
            raise BadClientHelloError("has an empty record")
        message += data[head_end : head_end + size]
        if message[0:1] not in (b"", bytes((_CLIENT_HELLO,))):
            raise BadClientHelloError("is no ClientHello")
        if len(message) >= _MESSAGE_HEAD_BYTES:
            needed = _MESSAGE_HEAD_BYTES + int.from_bytes(message[1:_MESSAGE_HEAD_BYTES], "big")
            if needed > MAX_BYTES:
                raise BadClientHelloError("is too long")
            if len(message) >= needed:
                return True
        position = head_end + size
    if len(data) > MAX_BYTES or records > _MAX_RECORDS:
        raise BadClientHelloError("is too long")
    return False
