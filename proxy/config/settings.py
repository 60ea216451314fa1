"""The settings tree: each part declares its own beside its code, here they are put together."""

from pydantic import BaseModel, ConfigDict, Field

from proxy.admin.settings import AdminSettings, MetricsSettings
from proxy.downstream.settings import ConnectionSettings, ListenSettings
from proxy.observability.settings import LogSettings
from proxy.upstream.settings import HomeserverSettings, LanesSettings


class Settings(BaseModel):
    """Everything in `config.yaml`. An unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: tuple[ListenSettings, ...] = Field(default=(ListenSettings(),), min_length=1)
    homeserver: HomeserverSettings = HomeserverSettings()
    connections: ConnectionSettings = ConnectionSettings()
    lanes: LanesSettings = LanesSettings()
    admin: AdminSettings = AdminSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
