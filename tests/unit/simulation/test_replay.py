from proxy import parts
from proxy.config.settings import Settings
from proxy.matrix.endpoint import Lane
from proxy.simulation.recorded import Recorded
from proxy.simulation.replay import Rules, replay


def rules(profile="generic", **settings):
    tree = Settings.model_validate(settings)
    return Rules(parts.figures_of(tree, profile))


def asks(flow, at, service_s=1.0, **fields):
    told = {"device": None, "address": f"192.0.2.{len(flow)}", "label": "requests", "lane": Lane.REQUESTS,
            "history": False, "poll_s": None}  # fmt: skip
    return Recorded(at=at, account=flow, service_s=service_s, **(told | fields))


def polls(flow, at, service_s=30.0, **fields):
    return asks(flow, at, service_s, label="sync", lane=Lane.NONE, poll_s=30.0, device="D", **fields)


def test_nobody_waits_where_there_is_room():
    result = replay([asks("@a:b", 0.0), asks("@bb:b", 0.1)], rules())
    assert (result.total.asked, result.total.waited, result.total.refused) == (2, 0, {})
    assert result.total.worker_seconds == 2.0
    assert result.most_running == 2


def test_fewer_workers_make_the_greedy_wait_and_the_modest_not():
    requests = [asks("@hog:b", 0.01 * number) for number in range(40)] + [asks("@alice:b", 1.5)]
    result = replay(requests, rules(lanes={"requests": {"workers": 4}}))
    assert result.flows["@hog:b"].waited >= 30
    assert result.flows["@alice:b"].waited == 0
    roomy = replay(requests, rules("synapse"))
    assert roomy.flows["@hog:b"].longest_wait_s < result.flows["@hog:b"].longest_wait_s / 5
    assert roomy.total.refused == {}


def test_who_waits_too_long_or_finds_the_line_full_would_be_refused():
    requests = [asks("@hog:b", 0.01 * number, 100.0) for number in range(30)]
    result = replay(requests, rules(lanes={"line": 10, "requests": {"workers": 4, "max_wait_seconds": 5}}))
    fate = result.flows["@hog:b"]
    assert fate.refused["line_full"] + fate.refused["line_timeout"] == fate.refused_in_all >= 20


def test_long_polls_beyond_their_budget_would_be_refused():
    requests = [polls("@hog:b", 0.01 * number) for number in range(5)] + [polls("@alice:b", 1.0)]
    result = replay(
        requests, rules(sync={"per_account": 4, "per_device": 2, "grace_seconds": 1, "workers": 32})
    )
    assert result.flows["@hog:b"].refused_in_all == 3
    assert result.flows["@alice:b"].refused_in_all == 0
    assert result.most_polls == 3


def test_a_long_poll_that_parks_is_admitted_when_its_device_has_a_place():
    requests = [polls("@a:b", 0.0, 1.5), polls("@a:b", 0.5, 1.0)]
    result = replay(requests, rules(sync={"per_account": 4, "per_device": 1, "grace_seconds": 2}))
    assert result.total.refused == {}


def test_the_exempt_are_not_refused():
    figures = rules(sync={"per_account": 1, "per_device": 1, "grace_seconds": 0}).figures
    requests = [polls("@bot:b", 0.01 * number) for number in range(5)]
    exempting = Rules(figures, exempt=lambda account, _device, _appservice: account == "@bot:b")
    assert replay(requests, exempting).total.refused == {}
    assert replay(requests, Rules(figures, grace_s=0.0)).total.refused_in_all == 4


def test_a_request_without_a_duration_takes_as_long_as_others_of_its_class():
    result = replay([asks("@a:b", 0.0, 3.0), asks("@a:b", 10.0, None)], rules())
    assert result.total.worker_seconds == 6.0
    assert result.without_duration == 1


def test_what_was_refused_then_is_told_beside():
    result = replay([asks("@a:b", 0.0, None, was_refused="line_full")], rules())
    assert (result.total.was_refused, result.total.refused) == (1, {})


def test_nothing_recorded_gives_an_empty_result():
    assert replay([], rules()).total.asked == 0
