from pathlib import Path

import yaml

from proxy.config.parse import parse
from proxy.config.schema import locations
from proxy.config.settings import Settings

TEXT = (Path(__file__).parents[3] / "config.yaml").read_text()


def test_the_documented_configuration_gives_exactly_the_defaults():
    assert parse(TEXT, {}) == Settings()


def test_the_documented_configuration_has_every_key():
    def has(location):
        value = yaml.safe_load(TEXT)
        for key in location:
            if isinstance(value, dict) and key not in value:
                return False
            value = value[key]
        return True

    assert [location for location in locations() if not has(location)] == []


def test_every_value_in_the_documented_configuration_has_a_comment_above_it_or_above_its_section():
    lines = TEXT.splitlines()
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#") and not line.rstrip().endswith(":"):
            above = [other.strip() for other in lines[max(0, number - 2) : number]]
            assert any(other.startswith("#") for other in above), line
