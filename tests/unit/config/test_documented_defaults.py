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
            if (value == [] and key == 0) or value is None:
                return True  # what is empty or off has nothing to show
            value = value[key]
        return True

    assert [location for location in locations() if not has(location)] == []


def test_every_value_in_the_documented_configuration_has_a_comment_above_it_or_above_its_section():
    commented = {-1: False}  # by indentation: whether the section there, or one above it, says what it is
    for number, line in enumerate(TEXT.splitlines()):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        above = TEXT.splitlines()[number - 1].strip().startswith("#")
        outer = max(at for at in commented if at < depth)
        commented = {at: says for at, says in commented.items() if at < depth}
        commented[depth] = above or commented[outer]
        assert commented[depth] or text.endswith(":"), line
