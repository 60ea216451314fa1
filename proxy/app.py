"""The composition root: settings in, a running application out. The only builder of concretes."""

import asyncio
import resource
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog

import proxy
from proxy import clock, parts
from proxy.admin.explain import Rules
from proxy.admin.picture import rule_statistics
from proxy.admin.server import OperatorListeners
from proxy.admin.views import Views
from proxy.config.changes import changed_keys, keys_needing_restart
from proxy.config.load import ConfigError, load_with_warnings
from proxy.config.mistakes import Mistake
from proxy.config.settings import Settings
from proxy.config.watch import FileWatch
from proxy.downstream.connection import ClientConnection
from proxy.downstream.listener import Listener
from proxy.http1.deadlines import DeadlineSweep
from proxy.http1.drain import Drain, Verdict
from proxy.http1.request_head import forget_fields
from proxy.http1.response_head import forget_heads
from proxy.matrix.endpoint import RouteClass
from proxy.matrix.profiles import GENERIC
from proxy.matrix.routes import forget_paths
from proxy.mechanisms.recent_maximum import RecentMaximum
from proxy.observability.log_lines import LogLines
from proxy.observability.logs import configure_logs
from proxy.observability.snapshot import SettingsFigures, Snapshot
from proxy.policies.descriptors import Fit
from proxy.spool.settings import spool_directory
from proxy.spool.spool import MAX_FILES, Spool, SpoolDirectoryError
from proxy.supervisor.handed_over import HandedOverSockets, HandOverError
from proxy.supervisor.notify import Notify
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.probe import HomeserverProbe
from proxy.upstream.profile_detection import detect_profile

_TURNS_PER_ROUND = 4
TURN_S = 0.25  # a deadline is found within a round of a second
_LAG_SPAN_S = 60.0  # of which the worst lag is told
_ENDED_AT_ONCE = 32  # a millisecond's work
_BETWEEN_ENDS_S = 0.004
_LAST_CALL_S = 0.5  # after the drain deadline, for the last answers to be taken
_WATCH_EVERY_S = 2.0
_LOOK_S = 0.05  # how often a stop looks whether all is done
# Of the limit of open files at most; the rest is for clients and the homeserver.
_SPOOL_FILES_PART = 16
_EGRESS_PART = 4

_log = structlog.get_logger("fairgate")


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What came of reading the settings again: keys that changed, those that wait for a restart, or the mistakes."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]
    mistakes: tuple[str, ...]


class StartError(Exception):
    """Fairgate cannot start; the text says why in one line."""


class Application:
    """Everything that runs, from `start` to `stop`. `turn_s`: from one look at the deadlines to the next."""

    def __init__(
        self, settings: Settings, path: Path | None = None, log_lines: LogLines | None = None, *,
        handed_over: HandedOverSockets | None = None, notify: Notify | None = None, turn_s: float = TURN_S,
    ) -> None:  # fmt: skip
        self._settings = self._started_with = settings
        self._log_lines = log_lines
        self._handed_over = handed_over or HandedOverSockets([])
        self._notify = notify or Notify({})
        self._path = path
        self._watch = None if path is None else FileWatch(path)
        self._watched_at = clock.now()
        clients: DeadlineSweep[ClientConnection] = DeadlineSweep(_TURNS_PER_ROUND)
        self._upstreams: DeadlineSweep[UpstreamConnection] = DeadlineSweep(_TURNS_PER_ROUND)
        self._descriptor_limit = _raise_descriptor_limit()
        self._spool = _spool(settings, min(MAX_FILES, self._descriptor_limit // _SPOOL_FILES_PART))
        #: None while the homeserver has not said what it is.
        self.profile: str | None = None
        if settings.homeserver.profile != "auto":
            self.profile = settings.homeserver.profile
        #: As it was started: another `egress.listen` needs a restart.
        self._egress_listens = settings.egress.listen is not None
        self._fit = Fit(0, 0, 0, 0)
        fitted = self._fitted(settings, self.profile)
        self._adopt_fit(settings, fitted)
        self.pool = parts.pool(settings.homeserver, self._fit.upstream, self._upstreams)
        self.pipeline = parts.pipeline(settings, fitted.figures, self._fit.tunnels, self.pool, self._spool)
        self.listener = Listener(
            self.pipeline,
            settings.connections,
            max_connections=self._fit.clients,
            access=settings.log.access,
            sweep=clients,
        )
        self._probe = HomeserverProbe(settings.homeserver.url)
        views = Views(self.snapshot, self.pipeline, self._rules, self.reload)
        self.operators = OperatorListeners(
            settings.admin, settings.metrics, views, self._why_not_ready, self._not_serving
        )
        self.egress = parts.egress(settings, asyncio.get_running_loop())
        self.pipeline.pushers.learn = self.egress.learn
        if self._egress_listens:
            self.pipeline.lessons.learn_peer = self.egress.federation_peer
        self._detection: asyncio.Task[None] | None = None
        self._started_at = clock.wall_time()
        self._settings_read = SettingsFigures(self._started_at)
        self._started = clock.now()
        self._turn_s = turn_s
        self._turn: asyncio.TimerHandle | None = None
        self._overdue: list[ClientConnection] = []
        self._ends: asyncio.TimerHandle | None = None
        self._turn_due = 0.0
        self._lag_s = 0.0
        self._worst_lag = RecentMaximum(_LAG_SPAN_S, clock.now())

    async def start(self) -> None:
        """Listen everywhere.

        Raises:
            StartError: if an address cannot be listened at, or what was handed over is for no listener.
        """
        settings, take = self._settings, self._handed_over.take
        admin, metrics = take(settings.admin.listen), take(settings.metrics.listen)
        places = [(place, take(place.address)) for place in settings.listen]
        way_out = None if settings.egress.listen is None else settings.egress.listen.address
        handed_way_out = [] if way_out is None else take(way_out)
        try:
            self._handed_over.demand_all_taken()
        except HandOverError as error:
            raise StartError(str(error)) from None
        # The operators' first: a second start on one machine most often ends here, before a client could come to it.
        await _started(
            self.operators.start(admin, metrics), f"{settings.admin.listen} or {settings.metrics.listen}"
        )
        for place, sockets in places:
            await _started(self.listener.listen(place, sockets), place.address)
        if way_out is not None:
            await _started(self.egress.start(handed_way_out), way_out)
        self._schedule_turn()
        if self.profile is None:
            self._detection = asyncio.create_task(self._detect_profile())
        _log.info(
            "started",
            listen=self.listener.addresses,
            homeserver=self._settings.homeserver.url,
            admin=self.operators.admin_address,
            metrics=self.operators.metrics_address,
        )
        self._notify.ready("Serving")

    async def _detect_profile(self) -> None:
        profile = await detect_profile(self._settings.homeserver.url)
        if self._settings.homeserver.profile != "auto":
            return  # a reload said it meanwhile
        try:
            fitted = self._fitted(self._settings, profile)
        except StartError as error:
            _log.error(
                "the homeserver's profile does not fit: the conservative `generic` figures stay",
                detail=str(error),
            )
            self.profile = GENERIC
            return
        self.profile = profile
        self._reconfigure(self._settings, fitted)

    def reload(self) -> Reloaded:
        """Read the settings file again and let it take effect, whole or not at all."""
        self._notify.reloading()
        if self._path is None:
            mistakes: tuple[str, ...] = ("there is no settings file to read again",)
            return self._not_reloaded(mistakes)
        try:
            new, dangers = load_with_warnings(self._path)
            profile = self.profile if new.homeserver.profile == "auto" else new.homeserver.profile
            fitted = self._fitted(new, profile)
        except ConfigError as error:
            return self._not_reloaded(tuple(mistake.with_line() for mistake in error.mistakes))
        except StartError as error:
            return self._not_reloaded((str(error),))
        old, self._settings = self._settings, new
        changed, later = tuple(changed_keys(old, new)), tuple(keys_needing_restart(self._started_with, new))
        self.profile = profile
        configure_logs(new.log, self._log_lines)
        tell_dangers(dangers)
        self.operators.configure(new.admin)
        self._reconfigure(new, fitted)
        self.egress.reload(new.egress)
        _log.info("settings read again", changed=changed, needs_restart=later)
        self._notify.ready(f"Settings read again; waiting for a restart: {', '.join(later) or 'none'}")
        self._settings_read = SettingsFigures(clock.wall_time(), later)
        return Reloaded(changed, later, ())

    def _fitted(self, settings: Settings, profile: str | None) -> parts.Fitted:
        """Fit the figures under the limit of open files; nothing holds yet.

        Raises:
            StartError: if nothing works under it.
        """
        limit = self._descriptor_limit
        others = self._spool.max_files
        if self._egress_listens:
            # The homeserver's and the gateway's, all in use only in a flood: a low limit is not spent on them.
            others += min(2 * settings.egress.max_connections, limit // _EGRESS_PART)
        try:
            return parts.fitted(settings, profile, limit - others)
        except parts.LimitTooSmallError:
            raise StartError(
                f"the limit of open files, {limit}, is too small: raise it (ulimit -n, LimitNOFILE)"
            ) from None

    def _adopt_fit(self, settings: Settings, fitted: parts.Fitted) -> None:
        """Adopt a fit; warn once where the limit of open files lowers settings."""
        before, self._fit = self._fit, fitted.fit
        wanted = (settings.connections.max, fitted.wanted_waits)
        if self._fit != before and (self._fit.clients, self._fit.waits) != wanted:
            _log.warning(
                "connections.max and sync.workers are lowered to fit the limit of open files",
                connections=f"{self._fit.clients} of {settings.connections.max}",
                waits=f"{self._fit.waits} of {fitted.wanted_waits}",
                limit=self._descriptor_limit,
            )

    def _reconfigure(self, settings: Settings, fitted: parts.Fitted) -> None:
        self._adopt_fit(settings, fitted)
        parts.reconfigure(self.pipeline, settings, fitted.figures, self._fit.tunnels)
        self.pool.resize(settings.homeserver.connections or self._fit.upstream)
        self.listener.configure(
            settings.connections, max_connections=self._fit.clients, access=settings.log.access
        )

    def _not_reloaded(self, mistakes: tuple[str, ...]) -> Reloaded:
        _log.error("the settings are invalid: those of before stay in force", mistakes=mistakes)
        self._notify.ready("The settings are invalid: those of before stay in force")
        self._settings_read = replace(self._settings_read, read_at=clock.wall_time(), mistakes=mistakes)
        return Reloaded((), (), mistakes)

    async def _why_not_ready(self) -> str | None:
        """Give None where the homeserver answers and we know what it is."""
        if not await self._probe.answers():
            return "the homeserver does not answer"
        return None if self.profile is not None else "the homeserver answers, and has not said yet what it is"

    def _not_serving(self) -> str | None:
        """Tell why no client should be sent here. An outage is no reason: our answer to it (§10.1) is the one clients heed."""
        if self.listener.stopping:
            return "stopping"
        return "the homeserver has not said what it is" if self.profile is None else None

    async def stop(self, at_once: asyncio.Event) -> None:
        """End as §1.8 says: requests in flight may end within the drain time, unless `at_once` is set."""
        await self.listener.accept_queued()
        self.listener.stop_accepting()
        self.operators.let_go()
        self.egress.let_go()
        self._notify.stopping()
        _log.info("stopping", connections=self.listener.states())
        await self._drain(at_once)
        self.listener.close_all()
        await asyncio.gather(
            self._last_call(at_once), self.operators.stop(), self._probe.close(), self.egress.stop()
        )
        self.listener.abort_all()
        self.pool.close()
        if self._detection is not None:
            self._detection.cancel()
        for timer in (self._turn, self._ends):
            if timer is not None:
                timer.cancel()
        await asyncio.sleep(0)  # aborted transports end in the next turn of the loop
        self.listener.hangups.close()
        self._spool.close()
        self.pipeline.recorder.close()
        _log.info("stopped")

    async def _drain(self, at_once: asyncio.Event) -> None:
        """Let requests end until the deadline, then whom nobody would miss."""
        listener = self.listener
        drain = Drain(clock.now())
        ends_at = clock.now() + self._settings.connections.drain_seconds
        while len(listener.connections) and clock.now() < ends_at and not at_once.is_set():
            await _wait(at_once, _LOOK_S)
            busy, waits = listener.under_way()
            verdict = drain.look(
                clock.now(),
                asked_total=sum(self.pipeline.requests_total),
                busy=busy,
                waits=waits,
                newcomers=listener.holds_up_newcomers(),
            )
            if verdict is not Verdict.GO_ON and listener.end_parked() and verdict is Verdict.END_WAITS:
                return

    async def _last_call(self, at_once: asyncio.Event) -> None:
        """Give clients a moment to take the last answers."""
        ends_at = clock.now() + _LAST_CALL_S
        while len(self.listener.connections) and clock.now() < ends_at and not at_once.is_set():
            await _wait(at_once, 0.02)

    def _rules(self) -> Rules:
        return parts.rules(self._settings, self.profile)

    def snapshot(self) -> Snapshot:
        """Take the picture that status and metrics show."""
        return Snapshot(
            version=proxy.__version__,
            started_at=self._started_at,
            uptime_s=clock.now() - self._started,
            stopping=self.listener.stopping,
            settings=self._settings_read,
            homeserver=self._settings.homeserver.url,
            connections=self.listener.states(),
            connections_limit=self._fit.clients,
            accepted_total=self.listener.accepted_total,
            requests_total={route.name.lower(): self.pipeline.requests_total[route] for route in RouteClass},
            answers_total=self.pipeline.recorder.answers_total(),
            refused_total={reason.value: number for reason, number in self.pipeline.refused_total.items()},
            left_total=self.listener.left_total,
            open_descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            descriptor_limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            loop_lag_s=self._lag_s,
            loop_lag_worst_s=self._worst_lag.value(clock.now()),
            log_lines_lost_total=0 if self._log_lines is None else self._log_lines.lost_total,
            trace_lines_lost_total=self.pipeline.recorder.trace_lost_total,
            pool=self.pool.statistics(),
            rules=rule_statistics(self.pipeline, self.profile),
            egress=None if not self._egress_listens else asdict(self.egress.statistics()),
            listener=self._listener_figures(),
            operators={name: asdict(figures) for name, figures in self.operators.statistics().items()},
        )

    def _listener_figures(self) -> dict[str, object]:
        figures = self.listener.statistics()
        return {
            "crowded": figures.crowded,
            "turned_away_total": dict(figures.turned_away_total),
            "tls": None if figures.tls is None else asdict(figures.tls),
        }

    def _end_overdue(self) -> None:
        """Act on clients' deadlines, a few at a time: thousands of idle connections may be due together, and others wait.

        One chain of these at a time, which ends 8,000 a second: with more of them due, a deadline is found later.
        """
        now = clock.now()
        overdue, self._overdue = self._overdue[:_ENDED_AT_ONCE], self._overdue[_ENDED_AT_ONCE:]
        self._ends = None
        if self._overdue:
            self._ends = asyncio.get_running_loop().call_later(_BETWEEN_ENDS_S, self._end_overdue)
        for client in overdue:
            if client.deadline_at <= now:
                client.deadline_passed(now)

    def _schedule_turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._turn_due = clock.now() + self._turn_s
        self._turn = loop.call_later(self._turn_s, self._take_turn)

    def _take_turn(self) -> None:
        """Look at a part of all deadlines; let go of what is kept for a moment only."""
        now = clock.now()
        self._lag_s = lag_s = max(0.0, now - self._turn_due)
        self._worst_lag.latest = max(self._worst_lag.latest, lag_s)
        self._worst_lag.value(now)  # turns the slots
        self._notify.alive(now)
        try:
            if self._ends is None:  # else the next part waits until those of before are ended
                self._overdue = self.listener.connections.passed(now)
                self._end_overdue()
            for upstream in self._upstreams.passed(now):
                upstream.deadline_passed(now)
            self.pool.end_waits(now)
            self.pipeline.turn(now)
            self.listener.turn(now)
            if self._watch is not None and now - self._watched_at >= _WATCH_EVERY_S:
                self._watched_at = now
                if self._watch.has_changed():
                    self.reload()
            forget_fields()
            forget_heads()
            forget_paths()
        finally:
            self._schedule_turn()


def tell_dangers(warnings: Sequence[Mistake]) -> None:
    """Have the log name what is right and dangerous in the settings."""
    for warning in warnings:
        _log.warning("a setting is dangerous", detail=warning.with_line())


async def _started(starting: Awaitable[None], what: str) -> None:
    try:
        await starting
    except OSError as error:
        raise StartError(f"cannot listen at {what}: {error.strerror or error}") from error


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _raise_descriptor_limit() -> int:
    """Raise the limit of open files to what is allowed, and give it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _spool(settings: Settings, max_files: int) -> Spool:
    try:
        directory = spool_directory(settings.bodies.spool_directory, settings.state_directory)
        return Spool(directory, max_files=max_files)
    # FileNotFoundError: no temporary directory can be used.
    except (SpoolDirectoryError, FileNotFoundError) as error:
        raise StartError(f"spool files need a directory that can be written to: {error}") from error
