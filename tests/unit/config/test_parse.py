import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.document import MAX_CHARACTERS
from proxy.config.environment import variable_name
from proxy.config.mistakes import path_text
from proxy.config.parse import parse
from proxy.config.schema import field_at, is_secret, locations
from proxy.config.settings import Settings


def mistakes(text, **environment):
    result = parse(text, environment)
    assert not isinstance(result, Settings), "the text was taken for right"
    return [(mistake.path, mistake.line, mistake.message, mistake.nearest) for mistake in result]


def the_mistake(text, **environment):
    (mistake,) = mistakes(text, **environment)
    return mistake


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "---\n", "null", "connections:\nlisten:\nlanes:\n  vital:\n"]
)
def test_what_says_nothing_means_the_defaults(text):
    assert parse(text, {}) == Settings()


def test_values_are_taken_from_the_file():
    settings = parse("listen:\n- address: '[::]:80'\n- address: unix:/run/f.sock\nlog: {level: debug}\n", {})
    assert [listen.address for listen in settings.listen] == ["[::]:80", "unix:/run/f.sock"]
    assert settings.log.level == "debug"


def test_every_mistake_is_told_with_its_path_and_line_and_nearest_key():
    text = """\
listen:
  - address: 127.0.0.1
  - adress: 0.0.0.0:80
homeserver:
  url: ftp://x
connections:
  head_seconds: soon
  max: 0
log:
  level: inf
head_seconds: 4
"""
    found = mistakes(text, FAIRGATE_LOG__FORMT="json")
    assert [(path, line, nearest) for path, line, _, nearest in found] == [
        ("listen[0].address", 2, None),
        ("listen[1].adress", 3, "address"),
        ("homeserver.url", 5, None),
        ("connections.head_seconds", 7, None),
        ("connections.max", 8, None),
        ("log.level", 10, "info"),
        ("head_seconds", 11, "connections.head_seconds"),
        ("FAIRGATE_LOG__FORMT", None, "FAIRGATE_LOG__FORMAT"),
    ]
    assert found[3][2] == 'must be a number, not the text "soon"'
    assert found[4][2] == "must be at least 1, not 0"


def test_an_unknown_key_like_no_other_is_answered_with_the_known_ones():
    path, line, message, nearest = the_mistake("log:\n  zzz: 1\n")
    assert (path, line, nearest) == ("log.zzz", 2, None)
    assert message.endswith("known here: level, format, access, slow_seconds, top_every_seconds, trace")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("yes", "not true (yes"),
        ('"5"', 'not the text "5"'),
        ("1.5", "whole number"),
        ("null", "not nothing"),
        ("[1]", "not a list"),
        ("{a: 1}", "not a section"),
        ("!!int q", "not a value YAML can read"),
        ("!!python/name:os.system x", "tag"),
        ("1" + "0" * 5000, "YAML can read"),
        ("2001-01-01", "whole number"),
    ],
)
def test_a_value_of_another_kind_is_named(value, words):
    path, line, message, _ = the_mistake(f"connections:\n  max: {value}\n")
    assert (path, line) == ("connections.max", 2)
    assert words in message


@pytest.mark.parametrize("value", [".inf", ".nan", "-1", "0", "true", "1:x"])
def test_a_duration_is_a_finite_number_above_nothing(value):
    assert the_mistake(f"connections: {{head_seconds: {value}}}")[0] == "connections.head_seconds"


def test_a_key_set_twice_is_a_mistake_and_both_lines_are_told():
    path, line, message, _ = the_mistake("log:\n  level: info\n\n  level: debug\n")
    assert (path, line, message) == ("log.level", 4, "is set twice; the first time in line 2")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("- 1", 1, "must be sections with keys, not a list"),
        ("5", 1, "must be sections"),
        ("a:\n\tb: c", 2, "a tab"),
        ("a: 1\nb: [1", 2, "not YAML"),
        ("log: {}\n  x: 1", 2, "not YAML"),
        ("a: \x01", 1, "control character"),
        ("listen:\n- address: [::1]:80\n", 2, "needs quotes"),
        ("log: {}\n---\nlog: {}\n", 2, "second document"),
        ("log: *nobody", 1, "anchor"),
        ("? [a]\n: b", 1, "keys are words"),
    ],
)
def test_what_is_not_a_mapping_in_yaml_is_told_with_its_line(text, line, words):
    path, found_line, message, _ = the_mistake(text)
    assert (path, found_line) == ("", line)
    assert words in message


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 10)}]\n" for name in "bcdefgh"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "more than 10000 values"),
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: *a}", "contains itself"),
        ("[" * 100_000, "nested more than 32"),
        ("a: [" + "1, " * 300_000, "more than 10000 values"),
        ("x" * (MAX_CHARACTERS + 1), "larger than 1 MiB"),
    ],
)
def test_a_document_made_to_exhaust_is_refused(text, words):
    assert words in the_mistake(text)[2]


def test_an_alias_is_followed():
    settings = parse("lanes:\n  media: &slow {deadline_seconds: 900}\n  remote: *slow\n", {})
    assert settings.lanes.media.deadline_seconds == settings.lanes.remote.deadline_seconds == 900


def test_a_path_in_a_mistake_never_holds_a_control_character():
    assert the_mistake('"a\\nb\\e[31m": 1')[0] == '"a\\nb\\u001b[31m"'


def test_two_listeners_in_one_place_are_a_mistake():
    path, line, message, _ = the_mistake("listen:\n- address: 0.0.0.0:9403\n")
    assert path == "metrics.listen"
    assert "listen[0].address" in message
    assert line is None
    assert isinstance(parse("listen:\n- address: 0.0.0.0:80\n- address: '[::]:80'\n", {}), Settings)
    assert isinstance(parse("admin: {listen: 'a:0'}\nmetrics: {listen: 'a:0'}", {}), Settings)


def test_forwarding_to_oneself_is_a_mistake():
    text = "listen:\n- address: 0.0.0.0:8008\nhomeserver:\n  url: http://{}:8008\n"
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        assert the_mistake(text.format(host))[:2] == ("homeserver.url", 4)
    for host in ("synapse", "10.0.0.5", "[::1]"):
        assert isinstance(parse(text.format(host), {}), Settings)


def test_the_environment_overrides_single_keys_and_lists_by_index():
    settings = parse(
        "listen:\n- address: a:1\nlog: {level: debug, access: all}\nconnections:\n",
        {
            "FAIRGATE_LISTEN__0__ADDRESS": "[::1]:2",
            "FAIRGATE_LISTEN__1__ADDRESS": "b:3",
            "FAIRGATE_LOG__LEVEL": "error",
            "FAIRGATE_CONNECTIONS__MAX": "7",
            "FAIRGATE_LANES__VITAL": "{deadline_seconds: 9}",
            "FAIRGATE_HOMESERVER__CONNECTIONS": "null",
            "HOME": "/root",
        },
    )
    assert [listen.address for listen in settings.listen] == ["[::1]:2", "b:3"]
    assert (settings.log.level, settings.log.access, settings.connections.max) == ("error", "all", 7)
    assert settings.lanes.vital.deadline_seconds == 9


@pytest.mark.parametrize(
    ("name", "value", "path", "nearest"),
    [
        ("FAIRGATE_CONECTIONS__MAX", "1", None, "FAIRGATE_CONNECTIONS__MAX"),
        ("FAIRGATE_log__level", "info", None, "FAIRGATE_LOG__LEVEL"),
        ("FAIRGATE_", "1", None, None),
        ("FAIRGATE_PORT", "8010", None, None),
        ("FAIRGATE_CONNECTIONS__MAX", "many", None, None),
        ("FAIRGATE_CONNECTIONS__MAX", "[1", None, None),
        ("FAIRGATE_LISTEN__5__ADDRESS", "a:1", None, None),
        ("FAIRGATE_ADMIN__LISTEN", "", None, None),
        ("FAIRGATE_CONNECTIONS", "{maxx: 1}", "FAIRGATE_CONNECTIONS.maxx", "max"),
        ("FAIRGATE_LISTEN", "[{address: 5}]", "FAIRGATE_LISTEN[0].address", None),
    ],
)
def test_a_mistake_in_a_variable_is_told_by_its_name(name, value, path, nearest):
    found = the_mistake("", **{name: value})
    assert found[:2] == (path or name, None)
    assert nearest is None or found[3] == nearest


def test_variables_that_kubernetes_makes_for_a_service_of_our_name_are_no_mistakes():
    linked = {
        "FAIRGATE_SERVICE_HOST": "10.0.0.1",
        "FAIRGATE_SERVICE_PORT": "8010",
        "FAIRGATE_SERVICE_PORT_HTTP": "8010",
        "FAIRGATE_PORT": "tcp://10.0.0.1:8010",
        "FAIRGATE_METRICS_PORT_9403_TCP_ADDR": "10.0.0.1",
    }
    assert parse("", linked) == Settings()


def test_every_key_may_be_set_alone_but_in_entries_of_lists():
    """A certificate needs its key; elsewhere no key is needed because another is set."""
    needed = [
        path_text(location)
        for location in locations()
        if (field := field_at(location)) is not None and field.is_required() and 0 not in location
    ]
    assert needed == ["egress.listen.address"]  # the only key there, and the section may be null


@pytest.mark.parametrize("who", ["confirmed", "unconfirmed"])
def test_a_least_speed_may_be_set_by_the_file_or_a_variable_without_its_grace(who):
    default = getattr(Settings().bodies.rate, who)
    settings = parse(f"bodies: {{rate: {{{who}: {{bytes_per_second: 7}}}}}}", {})
    assert getattr(settings.bodies.rate, who) == default.model_copy(update={"bytes_per_second": 7})
    settings = parse("", {f"FAIRGATE_BODIES__RATE__{who.upper()}__GRACE_SECONDS": "7"})
    assert getattr(settings.bodies.rate, who) == default.model_copy(update={"grace_seconds": 7})


# Secrets.

SECRETS = [location for location in locations() if (field := field_at(location)) and not field.repr]
TOKEN = "s3cr3t-s3cr3t-s3cr3t"
WRONG = [
    "12345678901234567",
    "-1234567890.1234567",
    "1e17",
    f"'{TOKEN} {TOKEN}'",
    "s3cr3t",
    f"[{TOKEN}]",
    f"{{{TOKEN}: 1}}",
    f"!{TOKEN} x",
    f"!{TOKEN}!x y",
    f"&{TOKEN} &{TOKEN} x",
    f"*{TOKEN}",
    f'"{TOKEN}',
    f"@{TOKEN}",
    f"{TOKEN}: {TOKEN}",
]


def test_the_token_is_known_as_a_secret():
    assert ("admin", "token") in SECRETS
    assert is_secret(("admin",))
    assert not is_secret(("admin", "listen"))


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("location", SECRETS, ids=path_text)
def test_no_mistake_shows_a_secret(location, value):
    *above, key = location
    lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(location)]
    lines[-1] += f" {value}"
    section = "__".join(above).upper()
    told = [
        parse("\n".join(lines), {}),
        parse("", {variable_name(location): value}),
        parse("", {f"FAIRGATE_{section}": f"{{{key}: {value}}}"}),
    ]
    if ": " not in value:  # else it is keys, and those that are not known are told
        told += [parse(f"{above[0]}: {value}", {}), parse("", {f"FAIRGATE_{section}": value})]
    for result in told:
        for text in () if isinstance(result, Settings) else map(str, result):
            for part in ("s3cr3t", "12345678", "1e17", "100000000"):
                assert part not in text.replace(path_text(location), ""), text


@pytest.mark.parametrize("value", ["s3cr3t", f"{TOKEN} x", "x" * 4097])
def test_what_a_token_needs_is_said_in_words(value):
    path, line, message, _ = the_mistake(f"admin:\n  token: {value}\n")
    assert (path, line) == ("admin.token", 2)
    assert message == "needs 16 to 4096 visible ASCII characters, no space among them"


@pytest.mark.parametrize(
    "value", ["12345678901234567", f"#{TOKEN}", f"!{TOKEN}", f"[{TOKEN}]", "0x1234567890abcdef"]
)
def test_a_variable_for_a_text_is_taken_as_it_stands(value):
    assert parse("", {"FAIRGATE_ADMIN__TOKEN": value}).admin.token == value


@pytest.mark.parametrize("value", ["", "null", "~"])
def test_a_variable_can_take_a_text_away_where_there_may_be_none(value):
    text = f"admin: {{token: {TOKEN}}}"
    assert parse(text, {}).admin.token == TOKEN
    assert parse(text, {"FAIRGATE_ADMIN__TOKEN": value}).admin.token is None


@pytest.mark.parametrize("text", ["state_directory: ''", "background: {match: {user_agents: ['']}}"])
def test_an_empty_text_is_told_in_words(text):
    assert the_mistake(text)[2] == "must not be empty"


YAML_LIKE = st.text(alphabet="abl:-[]{}&*!?|>%@#'\"\\\n\t 0.,", max_size=60)


@given(
    st.text(max_size=60) | YAML_LIKE,
    st.dictionaries(st.just("FAIRGATE_LISTEN") | st.text(), YAML_LIKE, max_size=2),
)
def test_any_text_and_environment_give_settings_or_mistakes(text, environment):
    result = parse(text, environment)
    assert isinstance(result, Settings) or (result and all(str(mistake).isprintable() for mistake in result))
