"""Builds the parts that `app` puts together: from settings and figures to objects, without starting anything."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from proxy import clock
from proxy.addresses import Address, parse_homeserver_url
from proxy.admin.explain import Rules
from proxy.config.settings import Settings
from proxy.egress.egress import Egress
from proxy.gate.background import BackgroundWork
from proxy.gate.first_syncs import FirstSyncGate
from proxy.gate.gates import Gates
from proxy.gate.identity import IdentityGate
from proxy.gate.pushers import PusherGate
from proxy.gate.streamed_bodies import StreamedBodyGate
from proxy.gate.tunnels import TunnelGate
from proxy.gate.uploads import UploadGate
from proxy.gate.waits import WaitGate
from proxy.gate.workers import WorkerGate
from proxy.http1.deadlines import DeadlineSweep
from proxy.identity.client_key import ClientKeys
from proxy.identity.identities import Identities
from proxy.identity.networks import Networks
from proxy.identity.principal import Exemptions
from proxy.matrix.endpoint import Lane, RouteClass
from proxy.matrix.profiles import GENERIC, Figures, figures
from proxy.observability.recorder import Recorder
from proxy.observability.settings import LogSettings
from proxy.pipeline import Pipeline
from proxy.policies.background_gate import BackgroundGate
from proxy.policies.body_size import BodySizes
from proxy.policies.descriptors import Fit, fit
from proxy.policies.first_syncs import FirstSyncs
from proxy.policies.lanes import pool_rules
from proxy.policies.pusher_cap import PusherCap
from proxy.policies.settings import RuleMode, given_figures
from proxy.policies.streamed_bodies import StreamedBodies
from proxy.policies.sync_wait import SyncWait
from proxy.policies.tunnels import Tunnels
from proxy.policies.worker_share import WorkerShare
from proxy.spool.spool import Spool
from proxy.spool.stores import BodyStores, disk_budget, memory_budget
from proxy.upstream.bodies import Bodies
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.exchange import Exchange
from proxy.upstream.pool import Pool
from proxy.upstream.questions import Questions
from proxy.upstream.settings import HomeserverSettings


class LimitTooSmallError(Exception):
    """The limit of open files leaves no room for clients."""


#: Whose waits hold until the homeserver has said what it is: generous ones, since clients come back all at once (§8).
_WAITS_UNTIL_KNOWN = "synapse"
_CONNECTIONS_PER_TUNNEL = 4  # where the settings say how many connections there are


def figures_of(settings: Settings, profile: str | None) -> Figures:
    """Give the figures of a profile under the settings; None while the homeserver has not said what it is."""
    given = given_figures(settings.lanes, settings.sync, settings.from_environment)
    if profile is not None:
        return figures(profile, given)
    waits = figures(_WAITS_UNTIL_KNOWN, given)
    return replace(
        figures(GENERIC, given),
        sync_workers=waits.sync_workers,
        waits_per_account=waits.waits_per_account,
        waits_per_device=waits.waits_per_device,
    )


def worker_share(settings: Settings, found: Figures) -> WorkerShare:
    """Make the workers of all lanes."""
    lanes = settings.lanes
    return WorkerShare(
        pool_rules(found, history_per_account=lanes.history_per_account),
        now=clock.now(),
        address_share=lanes.address_share,
        max_lead_s=lanes.max_lead_seconds,
    )


class Fitted(NamedTuple):
    """What holds under a limit of open files: figures and connections; `wanted_waits` are those of the settings."""

    figures: Figures
    fit: Fit
    wanted_waits: int


def fitted(settings: Settings, profile: str | None, descriptor_limit: int) -> Fitted:
    """Fit the figures of a profile under a limit of open files (§8).

    Raises:
        LimitTooSmallError: if nothing works under it.
    """
    found = figures_of(settings, profile)
    own = sum(lane.workers for lane in found.lanes if not lane.in_pool)
    shared = found.lanes[Lane.REQUESTS].workers if found.lanes[Lane.REQUESTS].in_pool else 0
    fit_found = fit(
        descriptor_limit,
        clients=settings.connections.max,
        waits=found.sync_workers,
        workers=own + shared + settings.identity.lookups,
    )
    if fit_found is None:
        raise LimitTooSmallError
    if settings.homeserver.connections is not None:
        most = settings.homeserver.connections // _CONNECTIONS_PER_TUNNEL
        fit_found = fit_found._replace(tunnels=min(fit_found.tunnels, most))
    return Fitted(replace(found, sync_workers=fit_found.waits), fit_found, found.sync_workers)


def pool(settings: HomeserverSettings, limit: int, sweep: DeadlineSweep[UpstreamConnection]) -> Pool:
    """Make the connections to the homeserver: `limit` at most, unless the settings say less."""
    address = parse_homeserver_url(settings.url)
    return Pool(
        address.path if address.path is not None else (str(address.host), int(address.port or 80)),
        limit=settings.connections or limit,
        connect_timeout_s=settings.connect_timeout_seconds,
        idle_s=settings.idle_seconds,
        sweep=sweep,
        tls=_tls() if address.tls else None,
    )


def _tls() -> ssl.SSLContext:
    """Trust what the system trusts, or what SSL_CERT_FILE and SSL_CERT_DIR name."""
    context = ssl.create_default_context()
    # Python 3.13 refuses a private authority without key usage, as `openssl req -x509` makes it, and takes an intermediate for
    # an anchor; 3.11 does neither. What is trusted must not depend on the Python.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    return context


def pipeline(settings: Settings, found: Figures, tunnels: int, upstream: Pool, spool: Spool) -> Pipeline:
    """Make the way of a request, with all its rules; `tunnels` are how many there may be in all."""
    address = parse_homeserver_url(settings.homeserver.url)
    host = b"localhost" if address.path is not None else f"{address.host}:{address.port}".encode()
    return Pipeline(
        upstream,
        _gates(settings, found, tunnels, Questions(upstream, host, settings.identity.timeout_seconds)),
        _bodies(settings, spool),
        found,
        client_keys(settings),
        _recorder(settings.log),
        max_hold_s=settings.lanes.max_hold_seconds,
        max_timeout_s=settings.sync.max_timeout_seconds,
        forwarded_header=settings.clients.forwarded_header,
        homeserver_host=host,
    )


def rules(settings: Settings, profile: str | None) -> Rules:
    """Give what `explain` reads of the settings."""
    return Rules(
        profile=profile or GENERIC,
        lanes=settings.lanes,
        sync=settings.sync,
        background=settings.background,
        pushers=settings.pushers,
        bodies=settings.bodies,
        exempt=settings.clients.exempt,
        mode=settings.mode,
        from_environment=settings.from_environment,
    )


def _recorder(settings: LogSettings) -> Recorder:
    return Recorder(settings, [route.name.lower() for route in RouteClass], clock.now())


def reconfigure(way: Pipeline, settings: Settings, found: Figures, most_tunnels: int) -> None:
    """Let other settings, or the profile that was found out, take effect; permits given out stay right."""
    now = clock.now()
    gates, lanes, sync, tunnels = way.gates, settings.lanes, settings.sync, settings.connections.tunnels

    def enforces(mode: RuleMode) -> bool:
        return (mode or settings.mode) == "enforce"

    way.configure(
        found,
        client_keys(settings),
        max_hold_s=lanes.max_hold_seconds,
        max_timeout_s=sync.max_timeout_seconds,
        forwarded_header=settings.clients.forwarded_header,
    )
    way.recorder.configure(settings.log, now)
    way.bodies.reconfigure(settings.bodies.rate)
    gates.identity.identities.reconfigure(settings.identity, exemptions(settings))
    gates.identity.questions.timeout_s = settings.identity.timeout_seconds
    gates.tunnels.enforces = enforces(tunnels.mode)
    counted = gates.tunnels.tunnels
    counted.per_account, counted.per_address, counted.total = (
        tunnels.per_account,
        tunnels.per_address,
        most_tunnels,
    )
    gates.waits.enforces = enforces(sync.mode)
    gates.waits.grace_s, gates.waits.max_timeout_s = sync.grace_seconds, sync.max_timeout_seconds
    gates.waits.reconfigure(found, now)
    gates.first_syncs.enforces = enforces(sync.mode)
    gates.first_syncs.rule.max_wait_s = lanes.first_syncs.max_wait_seconds
    gates.uploads.enforces = enforces(settings.uploads.mode)
    gates.uploads.confirm_above_bytes = settings.bodies.confirm_above_bytes
    gates.uploads.sizes.configure(
        max_json_bytes=settings.bodies.max_json_bytes, max_upload_bytes=settings.uploads.max_bytes
    )
    gates.background.enforces = enforces(settings.background.mode)
    gates.background.reconfigure(settings.background)
    gates.pushers.enforces = enforces(settings.pushers.mode)
    gates.pushers.cap.max_per_user = settings.pushers.max_per_user
    gates.workers.enforces = enforces(lanes.mode)
    rules = pool_rules(found, history_per_account=lanes.history_per_account)
    gates.streams.enforces = enforces(lanes.mode)
    gates.streams.bodies.resize(rules)
    try:
        gates.workers.reconfigure(rules, now, address_share=lanes.address_share)
    except (
        ValueError
    ):  # of another profile: lanes of their own where there was one pool, or the other way round
        gates.workers.replace(worker_share(settings, found), now)


def _gates(settings: Settings, found: Figures, most_tunnels: int, questions: Questions) -> Gates:
    def enforces(mode: RuleMode) -> bool:
        return (mode or settings.mode) == "enforce"

    tunnels, bodies, background = settings.connections.tunnels, settings.bodies, settings.background
    return Gates(
        identity=IdentityGate(Identities(settings.identity, exemptions(settings)), questions),
        tunnels=TunnelGate(
            Tunnels(tunnels.per_account, tunnels.per_address, most_tunnels), enforces=enforces(tunnels.mode)
        ),
        waits=WaitGate(
            _waits(settings, found),
            grace_s=settings.sync.grace_seconds,
            max_timeout_s=settings.sync.max_timeout_seconds,
            enforces=enforces(settings.sync.mode),
        ),
        first_syncs=FirstSyncGate(
            FirstSyncs(settings.lanes.first_syncs.max_wait_seconds), enforces=enforces(settings.sync.mode)
        ),
        uploads=UploadGate(
            BodySizes(max_json_bytes=bodies.max_json_bytes, max_upload_bytes=settings.uploads.max_bytes),
            questions,
            confirm_above_bytes=bodies.confirm_above_bytes,
            enforces=enforces(settings.uploads.mode),
        ),
        streams=StreamedBodyGate(
            StreamedBodies(pool_rules(found, history_per_account=settings.lanes.history_per_account)),
            enforces=enforces(settings.lanes.mode),
        ),
        background=BackgroundWork(
            BackgroundGate(background, clock.now()),
            background,
            homeserver=homeserver_key(parse_homeserver_url(settings.homeserver.url)),
            enforces=enforces(background.mode),
        ),
        workers=WorkerGate(worker_share(settings, found), enforces=enforces(settings.lanes.mode)),
        pushers=PusherGate(
            PusherCap(settings.pushers.max_per_user), questions, enforces=enforces(settings.pushers.mode)
        ),
    )


def egress(settings: Settings, loop: asyncio.AbstractEventLoop) -> Egress:
    """Make the way out for push deliveries."""
    directory = settings.state_directory
    return Egress(
        settings.egress, loop, clock.now, state_directory=None if directory is None else Path(directory)
    )


def homeserver_key(address: Address) -> str:
    """Name a homeserver in logs and status: scheme, host in lower case and explicit port, or the socket's path (§6.8)."""
    return address.path if address.path is not None else address.origin.lower()


def client_keys(settings: Settings) -> ClientKeys:
    """Make what tells clients apart by address."""
    clients = settings.clients
    return ClientKeys(
        trusted_proxies=Networks(clients.trusted_proxies),
        forwarded_header=clients.forwarded_header,
        ipv6_prefix=clients.ipv6_prefix,
        exempt=Networks(clients.exempt.networks),
    )


def exemptions(settings: Settings) -> Exemptions:
    """Make what tells who is exempt."""
    exempt = settings.clients.exempt
    return Exemptions(accounts=exempt.accounts, devices=exempt.devices, appservices=exempt.appservices)


def _waits(settings: Settings, found: Figures) -> SyncWait[Exchange]:
    return SyncWait(
        workers=found.sync_workers,
        per_account=found.waits_per_account,
        per_device=found.waits_per_device,
        grace_s=settings.sync.grace_seconds,
    )


def _bodies(settings: Settings, spool: Spool) -> Bodies:
    bodies, responses = settings.bodies, settings.responses
    memory = memory_budget(bodies.memory_total_bytes)
    return Bodies(
        BodyStores(
            spool, memory=memory, disk=disk_budget(bodies.spool_bytes), memory_bytes=bodies.memory_bytes
        ),
        BodyStores(
            spool,
            memory=memory,
            disk=disk_budget(responses.spool_bytes),
            memory_bytes=responses.memory_bytes,
        ),
        bodies.rate,
    )
