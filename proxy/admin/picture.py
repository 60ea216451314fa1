"""Takes the picture of one homeserver's rules, for status and metrics, when somebody looks."""

from proxy import clock
from proxy.gate.gates import Gates
from proxy.observability.snapshot import BodyStatistics, DirectionStatistics, RuleStatistics, SpoolFigures
from proxy.pipeline import Pipeline
from proxy.spool.stores import BodyStores


def rule_statistics(pipeline: Pipeline, profile: str | None) -> RuleStatistics:
    """Look at every rule; O(flows and addresses remembered). `profile` None: the homeserver has not said what it is."""
    now = clock.now()
    gates, recorder = pipeline.gates, pipeline.recorder
    return RuleStatistics(
        homeserver=gates.background.homeserver,
        profile=profile,
        figures=pipeline.figures.given,
        modes=modes(gates),
        reported_total={reason.value: number for reason, number in recorder.reported_total.items()},
        would_wait_total=gates.workers.would_wait_total,
        durations=recorder.durations.statistics(),
        workers=gates.workers.share.statistics(now, most_flows=0),
        waits=gates.waits.budgets.statistics(),
        background=gates.background.gate.statistics(now),
        identity=gates.identity.identities.statistics(),
        bodies=_bodies(pipeline),
        tunnels=gates.tunnels.tunnels.statistics(),
        pushers=gates.pushers.cap.statistics(),
    )


def modes(gates: Gates) -> dict[str, str]:
    """Give the mode of every rule, by the name of its section in the settings."""
    enforced = {
        "lanes": gates.workers.enforces,
        "sync": gates.waits.enforces,
        "uploads": gates.uploads.enforces,
        "background": gates.background.enforces,
        "pushers": gates.pushers.enforces,
        "connections.tunnels": gates.tunnels.enforces,
    }
    return {rule: "enforce" if enforces else "report" for rule, enforces in enforced.items()}


def _bodies(pipeline: Pipeline) -> BodyStatistics:
    bodies = pipeline.bodies
    spool = bodies.requests.spool.statistics()
    return BodyStatistics(
        sizes=pipeline.uploads.sizes.statistics(),
        relayed_total=pipeline.uploads.relayed_total,
        streaming_unconfirmed=pipeline.streams.bodies.streaming,
        memory=bodies.requests.memory.statistics(),
        requests=_direction(bodies.requests),
        answers=_direction(bodies.answers),
        spool=SpoolFigures(
            open_files=spool.open_files,
            disk_bytes=spool.disk_bytes,
            operations_in_flight=spool.operations_in_flight,
            written_bytes_total=spool.written_bytes_total,
            read_bytes_total=spool.read_bytes_total,
            failures_total=spool.failures_total,
        ),
    )


def _direction(stores: BodyStores) -> DirectionStatistics:
    figures = stores.statistics()
    return DirectionStatistics(figures.open, figures.spooled_total, figures.disk)
