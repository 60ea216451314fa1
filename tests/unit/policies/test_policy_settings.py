import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from proxy.matrix.profiles import PROFILES, Figure, figures
from proxy.policies.settings import LanesSettings, SyncSettings, given_figures


class Sections(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    lanes: LanesSettings = LanesSettings()
    sync: SyncSettings = SyncSettings()


def read(tree):
    return Sections.model_validate(tree, strict=True)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_defaults_of_the_settings_complete_every_profile(profile):
    settings = read({})
    found = figures(profile, given_figures(settings.lanes, settings.sync))
    assert {lane.name: (lane.deadline_s, lane.max_wait_s) for lane in found.lanes} == {
        "requests": (180, 30),
        "vital": (30, 5),
        "media": (600, 30),
        "remote": (600, 60),
        "first_syncs": (600, 60),
        "federation": (180, 50),
        "appservices": (180, 30),
    }
    assert {figure.origin for figure in found.given.values()} == {"default", "profile"}


def test_figures_from_file_and_environment_are_told_apart():
    settings = read({"lanes": {"media": {"workers": 9, "share": 1}}, "sync": {"workers": 40}})
    given = given_figures(settings.lanes, settings.sync, {"sync.workers"})
    assert given["lanes.media.workers"] == Figure(9, "file")
    assert given["lanes.media.share"] == Figure(1, "file")
    assert given["sync.workers"] == Figure(40, "environment")
    assert given["lanes.media.max_wait_seconds"] == Figure(30, "default")


def test_what_a_variable_sets_of_a_section_is_from_the_environment():
    settings = read({"lanes": {"media": {"workers": 9}, "mode": "report"}, "sync": {"per_account": 3}})
    given = given_figures(settings.lanes, settings.sync, {"lanes.media", "sync.per"})
    assert given["lanes.media.workers"].origin == "environment"
    assert given["lanes.media.max_wait_seconds"].origin == "default"
    assert given["sync.per_account"].origin == "file"


def test_profile_as_a_value_leaves_the_figure_to_the_profile():
    settings = read({"lanes": {"media": {"workers": "profile"}}})
    assert "lanes.media.workers" not in given_figures(settings.lanes, settings.sync)


@pytest.mark.parametrize(
    ("tree", "location", "message"),
    [
        (
            {"lanes": {"requests": {"workers": 3}}},
            ("lanes", "requests", "workers"),
            "must be profile, or a whole number from 4 to 4096",
        ),
        (
            {"lanes": {"media": {"workers": 0}}},
            ("lanes", "media", "workers"),
            "must be profile, or a whole number from 1 to 4096",
        ),
        (
            {"lanes": {"media": {"workers": True}}},
            ("lanes", "media", "workers"),
            "must be profile, or a whole number from 1 to 4096",
        ),
        (
            {"lanes": {"media": {"share": "all"}}},
            ("lanes", "media", "share"),
            "must be profile, or a number above 0 and at most 1",
        ),
        (
            {"lanes": {"media": {"share": 0}}},
            ("lanes", "media", "share"),
            "must be profile, or a number above 0 and at most 1",
        ),
        (
            {"sync": {"per_device": "2"}},
            ("sync", "per_device"),
            "must be profile, or a whole number from 1 to 1000000",
        ),
    ],
)
def test_a_bad_figure_is_one_mistake_at_its_own_place(tree, location, message):
    with pytest.raises(ValidationError) as caught:
        read(tree)
    (error,) = caught.value.errors()
    assert error["loc"] == location
    assert str(error["ctx"]["error"]) == message
