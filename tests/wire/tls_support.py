"""TLS from the client's side: certificates made for a test, a client that cuts its bytes anywhere, a world that speaks TLS."""

import asyncio
import contextlib
import ssl
import subprocess

from harness import PATIENCE_S, WHOLE, Line, World, turn


def make_certificate(folder, name, *names, issuer=None):
    """Write `name.crt` and `name.key` for these host names, by `issuer` or self-signed: openssl is there everywhere."""
    alternative = ",".join(f"DNS:{each}" for each in names)
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
        "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"), "-subj", f"/CN={name}",
    ]  # fmt: skip
    if alternative:
        command += ["-addext", f"subjectAltName={alternative}"]
    if issuer is not None:
        command += ["-CA", issuer["certificate"], "-CAkey", issuer["key"]]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    return {"certificate": str(folder / f"{name}.crt"), "key": str(folder / f"{name}.key")}


def trusting(*pairs, version=None):
    """Make a client's context that trusts these certificates alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for pair in pairs:
        context.load_verify_locations(pair["certificate"])
    context.set_alpn_protocols(["h2", "http/1.1"])
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


class Through:
    """What a test does with a line's transport, through TLS."""

    def __init__(self, line):
        self._line = line

    def write(self, data):
        self._line.tls.write(data)
        self._line.flush()

    def write_eof(self):
        """Say so in TLS, then in TCP."""
        self._line.notify()
        self._line.raw.write_eof()

    def close(self):
        if not self._line.raw.is_closing():
            self._line.notify()
            self._line.raw.close()

    def abort(self):
        self._line.raw.abort()

    def is_closing(self):
        return self._line.raw.is_closing()

    def get_extra_info(self, name):
        return self._line.raw.get_extra_info(name)


class TlsLine(Line):
    """A client on memory of its own. `cuts` is how its first flights are cut; `notified`: the server's stream ended in TLS.

    `silent`: it says its first word and answers nothing.
    """

    def __init__(self, context, name, *, silent=False):
        super().__init__()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        self.raw = None
        self.shaken = self.notified = self.silent = False
        self.failure = None
        self._silent = silent

    def connection_made(self, transport):
        self.raw = transport
        super().connection_made(Through(self))
        self._shake()

    def data_received(self, data):
        if self._silent:
            return
        self.incoming.write(data)
        if not self.shaken:
            self._shake()
        if self.shaken:
            self._read()

    def eof_received(self):
        return super().eof_received() and not self._silent

    def _shake(self):
        try:
            self.tls.do_handshake()
            self.shaken = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.failure = error
            self.ended = self.ended or "failed"
        self.flush()
        self._changed.set()

    def _read(self):
        try:
            while data := self.tls.read(65_536):
                super().data_received(data)
            self.notified = True
            super().eof_received()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.failure = error
            self.ended = self.ended or "failed"
            self._changed.set()
        self.flush()

    def flush(self):
        if self.outgoing.pending and not self.raw.is_closing():
            self.raw.write(self.outgoing.read())

    def notify(self):
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        self.flush()

    def reset(self):
        self.transport = self.raw
        super().reset()

    async def send_cut(self, data, cut=WHOLE):
        """Encrypt at once, and cut what comes of it."""
        self.tls.write(data)
        for piece in cut(self.outgoing.read()):
            self.raw.write(piece)
            await turn()

    async def until_shaken(self):
        await self.until(lambda: self.shaken or self.ended is not None)
        return self


class TlsWorld(World):
    """Speaks TLS with the first of its certificates, which is for `a.example.org`."""

    def __init__(self, pairs, settings=None, *, proxy_protocol=False, minimum_version="1.2", **more):
        tls = {"certificates": pairs, "minimum_version": minimum_version}
        listen = [{"address": "127.0.0.1:0", "tls": tls, "proxy_protocol": proxy_protocol}]
        super().__init__({"listen": listen, **(settings or {})}, **more)
        self.client_context = trusting(*pairs)

    async def line(self, *, address="127.0.0.1", name="a.example.org", context=None, silent=False):
        """Open a connection, without waiting for its handshake."""
        _, line = await asyncio.get_running_loop().create_connection(
            lambda: TlsLine(context or self.client_context, name, silent=silent),
            "127.0.0.1",
            self.port,
            local_addr=(address, 0),
        )
        return line

    async def connect(self, address="127.0.0.1", **more):
        line = await self.line(address=address, **more)
        async with asyncio.timeout(PATIENCE_S):
            return await line.until_shaken()

    def turned_away(self):
        totals = self.application.listener.statistics().turned_away_total
        return {name: total for name, total in totals.items() if total}
