import pytest

from proxy.matrix.media_config import NotAConfigError, parse_upload_size


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (b'{"m.upload.size": 52428800}', 52_428_800),
        (b'{"m.upload.size": 0, "x": 1}', 0),
        (b"{}", None),
        (b'{"m.upload.size": null}', None),
    ],
)
def test_the_largest_upload_is_read(body, size):
    assert parse_upload_size(body) == size


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"<html>",
        b'{"m.upload.size": "50M"}',
        b'{"m.upload.size": -1}',
        b'{"m.upload.size": 1.5}',
        b'{"m.upload.size": true}',
        b'{"m.upload.size": ' + b"9" * 70_000 + b"}",
        b"[" * 65_000,
    ],
)
def test_an_answer_that_means_nothing_is_no_limit(body):
    with pytest.raises(NotAConfigError):
        parse_upload_size(body)
