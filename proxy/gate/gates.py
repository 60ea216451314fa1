"""All gates of one homeserver, in the order in which a request meets them."""

from typing import NamedTuple

from proxy.gate.background import BackgroundWork
from proxy.gate.first_syncs import FirstSyncGate
from proxy.gate.identity import IdentityGate
from proxy.gate.pushers import PusherGate
from proxy.gate.streamed_bodies import StreamedBodyGate
from proxy.gate.tunnels import TunnelGate
from proxy.gate.uploads import UploadGate
from proxy.gate.waits import WaitGate
from proxy.gate.workers import WorkerGate


class Gates(NamedTuple):
    """See the module."""

    identity: IdentityGate
    tunnels: TunnelGate
    waits: WaitGate
    first_syncs: FirstSyncGate
    uploads: UploadGate
    streams: StreamedBodyGate
    background: BackgroundWork
    workers: WorkerGate
    pushers: PusherGate
