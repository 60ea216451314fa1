"""The settings tree: each part declares its own beside its code, here they are put together."""

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from proxy.admin.settings import AdminSettings, MetricsSettings
from proxy.downstream.settings import ConnectionSettings, ListenSettings
from proxy.egress.settings import EgressSettings
from proxy.identity.settings import ClientsSettings, IdentitySettings
from proxy.observability.settings import LogSettings
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.settings import LanesSettings, PusherSettings, SyncSettings, UploadSettings
from proxy.spool.settings import BodiesSettings, ResponsesSettings
from proxy.upstream.settings import HomeserverSettings


class Settings(BaseModel):
    """Everything in `config.yaml`. An unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["enforce", "report"] = "enforce"
    listen: tuple[ListenSettings, ...] = Field(default=(ListenSettings(),), min_length=1)
    homeserver: HomeserverSettings = HomeserverSettings()
    clients: ClientsSettings = ClientsSettings()
    connections: ConnectionSettings = ConnectionSettings()
    identity: IdentitySettings = IdentitySettings()
    bodies: BodiesSettings = BodiesSettings()
    responses: ResponsesSettings = ResponsesSettings()
    lanes: LanesSettings = LanesSettings()
    sync: SyncSettings = SyncSettings()
    uploads: UploadSettings = UploadSettings()
    background: BackgroundSettings = BackgroundSettings()
    pushers: PusherSettings = PusherSettings()
    egress: EgressSettings = EgressSettings()
    admin: AdminSettings = AdminSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
    state_directory: str | None = Field(default=None, min_length=1)

    _from_environment: frozenset[str] = PrivateAttr(default=frozenset())

    @property
    def from_environment(self) -> frozenset[str]:
        """The paths of keys and sections that a variable set, like `lanes.requests.workers`."""
        return self._from_environment

    def note_environment(self, paths: Iterable[str]) -> None:
        """Have `from_environment` name these; for who reads the variables."""
        self._from_environment = frozenset(paths)
