from proxy.config.changes import NEEDS_RESTART, changed_keys, keys_needing_restart
from proxy.config.schema import locations
from proxy.config.settings import Settings

OLD = Settings()


def with_settings(**sections):
    return Settings.model_validate(sections)


def test_equal_settings_have_no_changes():
    assert changed_keys(OLD, Settings()) == []


def test_each_changed_value_is_told_by_its_path():
    new = with_settings(lanes={"requests": {"workers": 32}}, sync={"per_device": 1}, mode="report")
    assert sorted(changed_keys(OLD, new)) == ["lanes.requests.workers", "mode", "sync.per_device"]
    assert keys_needing_restart(OLD, new) == []


def test_what_is_used_at_start_only_needs_a_restart():
    new = with_settings(
        listen=[{"address": "127.0.0.1:1"}], homeserver={"url": "http://a:1"}, log={"level": "debug"}
    )
    assert sorted(keys_needing_restart(OLD, new)) == ["homeserver.url", "listen"]


def test_a_whole_section_may_need_a_restart():
    assert keys_needing_restart(OLD, with_settings(responses={"memory_bytes": 65_536})) == [
        "responses.memory_bytes"
    ]


def test_every_key_that_needs_a_restart_is_a_key():
    assert set(NEEDS_RESTART) <= set(locations())
