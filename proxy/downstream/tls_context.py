"""The certificates of one listener: which one a client gets, and new ones when their files change.

Which: the one with the name that the client asks for (SNI), else the first. When: files are looked at every few seconds
through all symbolic links, since Kubernetes swaps those. New files are used whole or not at all; connections keep what they
began with.
"""

import os
import ssl
from collections.abc import Callable
from typing import Final

import structlog

from proxy import clock
from proxy.downstream.settings import CertificateSettings, TlsSettings
from proxy.http1.certificate import BadCertificateError, Certificate, fits, read_certificate

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

_log = structlog.get_logger("fairgate.tls")

#: Of a file: what changes with it.
_Signature = tuple[tuple[int, int, int], ...]


class CertificateError(OSError):
    """A certificate or its key cannot be used; the text says which and why, for the operator."""


class TlsContexts:
    """One listener's. `certificates` in the order of the settings."""

    def __init__(self, settings: TlsSettings) -> None:
        """Load all.

        Raises:
            CertificateError: if one cannot be used.
        """
        self._settings = settings
        self._looked_at = _signature(settings)
        self._contexts, self.certificates = _load(settings)

    @property
    def context(self) -> ssl.SSLContext:
        """Where every connection begins; it goes on to another by the name that the client asks for."""
        return self._contexts[0]

    def reload(self) -> bool:
        """Use the files anew if they changed; tell whether new ones are used. What cannot be used is said once."""
        looked_at = _signature(self._settings)
        if looked_at == self._looked_at:
            return False
        self._looked_at = looked_at
        try:
            self._contexts, self.certificates = _load(self._settings)
        except CertificateError as error:
            _log.warning("changed certificates are not used, the ones before are", reason=str(error))
            return False
        _log.info("changed certificates are used", names=[each.names for each in self.certificates])
        return True


def _load(settings: TlsSettings) -> tuple[list[ssl.SSLContext], list[Certificate]]:
    contexts, certificates = [], []
    for pair in settings.certificates:
        certificate = _read(pair)
        contexts.append(_context(pair, _VERSIONS[settings.minimum_version]))
        certificates.append(certificate)
        if certificate.expires_at < clock.wall_time():
            _log.warning("a certificate has expired", certificate=pair.certificate, names=certificate.names)
    contexts[0].sni_callback = _chooser(contexts, certificates)
    return contexts, certificates


def _read(pair: CertificateSettings) -> Certificate:
    try:
        with open(pair.certificate, encoding="ascii", errors="replace") as file:  # noqa: PTH123  (as given)
            text = file.read()
        with open(pair.key, "rb") as file:  # noqa: PTH123  (as given)
            file.read(1)
    except OSError as error:
        raise CertificateError(f"{error.filename}: {error.strerror}") from error
    start = text.find(_BEGIN)
    end = text.find(_END, start)
    if start < 0 or end < 0:
        raise CertificateError(f"{pair.certificate}: holds no certificate in PEM")
    try:
        return read_certificate(ssl.PEM_cert_to_DER_cert(text[start : end + len(_END)]))
    except (BadCertificateError, ValueError) as error:
        raise CertificateError(f"{pair.certificate}: cannot be read as a certificate") from error


def _context(pair: CertificateSettings, minimum_version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum_version
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])

    def no_password() -> str:
        raise CertificateError(
            f"{pair.key}: is encrypted; write it without a password, readable by Fairgate alone"
        )

    try:
        context.load_cert_chain(pair.certificate, pair.key, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError(
                f"{pair.key}: does not belong to the certificate in {pair.certificate}"
            ) from error
        raise CertificateError(f"{pair.key}: holds no private key in PEM that can be used") from error
    return context


def _chooser(
    contexts: list[ssl.SSLContext], certificates: list[Certificate]
) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    exact: dict[str, ssl.SSLContext] = {}
    patterns: list[tuple[str, ssl.SSLContext]] = []
    for context, certificate in zip(contexts, certificates, strict=True):
        for name in certificate.names:
            if name.startswith("*."):
                patterns.append((name, context))
            else:
                exact.setdefault(name, context)

    def choose(tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is None:
            return
        name = name.lower()
        found = exact.get(name)
        if found is None:
            found = next((context for pattern, context in patterns if fits(pattern, name)), None)
        if found is not None:
            tls.context = found

    return choose


def _signature(settings: TlsSettings) -> _Signature:
    found = []
    for pair in settings.certificates:
        for path in (pair.certificate, pair.key):
            try:
                status = os.stat(path)  # noqa: PTH116  (through all links, as given)
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)
