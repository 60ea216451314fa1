import json
import subprocess
from pathlib import Path

from tools.parts import CLIENTS_JS

STORY = Path(__file__).parent / "clients" / "js_story.mjs"


def story(url, synapse):
    people = {
        name: {"user": account.user_id, "password": account.password}
        for name, account in (("alice", synapse.alice), ("bob", synapse.bob))
    }
    done = subprocess.run(
        ["node", STORY],
        input=json.dumps({"url": url, **people}),
        capture_output=True,
        text=True,
        timeout=90,
        cwd=CLIENTS_JS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_js_sdk_client_sees_through_fairgate_what_it_sees_without(synapse, fairgate):
    direct = story(synapse.url, synapse)
    through = story(fairgate.url, synapse)

    assert through == direct
    assert through["woken"] == [["wake up"], True]
    assert through["heard"] is True
    assert through["media"] == [200, 5 * 1024 * 1024, True]
    assert through["sliding"] == [True, "A room", through["sliding"][2]]
    assert through["pages"][0] == [f"message {number}" for number in (11, 10, 9, 8, 7)]
    assert through["after"] == ["M_UNKNOWN_TOKEN", 401]
