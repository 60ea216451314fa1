"""How many clients, waits and tunnels fit the limit of open files (behaviour.md §8). Pure.

A client takes one descriptor, and so does each request at the homeserver: those of the lanes' workers, the waits with their
ghosts (a quarter of them: §5.6), tunnels and questions of our own. Lanes come first, since without them nothing works. Where
the rest does not suffice, waits get a third of it at most, for each of them needs a client too, and clients what is left. One
client in eight may have a tunnel.
"""

from typing import Final, NamedTuple

#: Listeners, probes, logs, libraries, spool files being opened.
OTHERS: Final = 128
#: Fewer clients than this are no service.
LEAST_CLIENTS: Final = 16
_GHOST_PART: Final = 4
_CLIENTS_PER_TUNNEL: Final = 8


class Fit(NamedTuple):
    """What holds: clients' connections, waits in all, connections to the homeserver, and of these tunnels in all."""

    clients: int
    waits: int
    upstream: int
    tunnels: int


def fit(limit: int, *, clients: int, waits: int, workers: int) -> Fit | None:
    """Fit what is wanted under `limit` open files; None where it is too small for anything.

    `workers` are those of all lanes and the questions of our own. Held workers may be as many again (ADR 24).
    """
    working = 2 * workers
    room = limit - OTHERS - working
    if room < LEAST_CLIENTS:
        return None
    if clients + _tunnels(clients) + _with_ghosts(waits) > room:
        waits = max(1, min(waits, room * _GHOST_PART // (3 * (_GHOST_PART + 1))))
        left = room - _with_ghosts(waits)
        clients = min(clients, left * _CLIENTS_PER_TUNNEL // (_CLIENTS_PER_TUNNEL + 1))
    return Fit(clients, waits, working + _with_ghosts(waits) + _tunnels(clients), _tunnels(clients))


def _tunnels(clients: int) -> int:
    return clients // _CLIENTS_PER_TUNNEL


def _with_ghosts(waits: int) -> int:
    return waits + waits // _GHOST_PART
