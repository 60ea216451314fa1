import json
import re

import jsonschema
import yaml

from proxy.config.changes import NEEDS_RESTART
from proxy.config.schema import locations
from tools import reference
from tools.console import ROOT


def test_what_is_committed_is_what_the_settings_give():
    for path, text in reference.generate().items():
        assert path.read_text() == text, f"{path.name} is not current: python -m tools.reference"


def test_the_reference_names_every_key():
    text = (ROOT / "docs" / "configuration.md").read_text()
    for location in locations():
        if isinstance(location[-1], str):
            name = "".join("[]" if isinstance(key, int) else f".{key}" for key in location).removeprefix(".")
            assert f"`{name}" in text, name


def test_what_is_changed_in_an_emergency_are_keys_that_a_reload_changes():
    known = {".".join(map(str, location)) for location in locations()}
    section = (ROOT / "docs" / "operations.md").read_text().partition("\n## 3 a.m.")[2].partition("\n## ")[0]
    named = set(re.findall(r"`((?:background|lanes|clients|mode)\b[a-z_.]*)", section))
    assert len(named) >= 7
    assert named <= known
    assert not [key for key in named if tuple(key.split(".")) in NEEDS_RESTART]


def test_the_charts_schema_takes_the_documented_configuration():
    schema = json.loads((ROOT / "charts" / "fairgate" / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((ROOT / "charts" / "fairgate" / "values.yaml").read_text())
    values["config"] = yaml.safe_load((ROOT / "config.yaml").read_text())
    jsonschema.validate(values, schema)


def test_the_charts_schema_knows_every_value_of_the_chart():
    schema = json.loads((ROOT / "charts" / "fairgate" / "source" / "values.schema.json").read_text())
    values = yaml.safe_load((ROOT / "charts" / "fairgate" / "values.yaml").read_text())
    assert set(schema["properties"]) - {"global", "enabled"} == set(values)
    for key, part in schema["properties"].items():
        if isinstance(values.get(key), dict) and "properties" in part:
            assert set(part["properties"]) == set(values[key]), key
