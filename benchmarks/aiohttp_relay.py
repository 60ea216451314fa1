"""A plain relay of `aiohttp.web` and `ClientSession` on uvloop: what the comfortable way costs.

Usage: aiohttp_relay.py PORT UPSTREAM_PORT
"""

import asyncio
import sys

import uvloop
from aiohttp import ClientSession, TCPConnector, web

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
_SMALL_BYTES = 65_536


async def _serve(port: int, upstream: str) -> None:
    async with ClientSession(connector=TCPConnector(limit=0), auto_decompress=False) as session:

        async def relay(request: web.Request) -> web.StreamResponse:
            fields = [
                (name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP
            ]
            fields.append(("X-Forwarded-For", request.remote or ""))
            async with session.request(
                request.method,
                upstream + request.raw_path,
                headers=fields,
                data=request.content if request.can_read_body else None,
                allow_redirects=False,
            ) as answer:
                kept = [
                    (name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP
                ]
                if (answer.content_length or _SMALL_BYTES) < _SMALL_BYTES:
                    return web.Response(status=answer.status, headers=dict(kept), body=await answer.read())
                response = web.StreamResponse(status=answer.status, headers=dict(kept))
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", relay)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), f"http://127.0.0.1:{sys.argv[2]}"))
