import json
import subprocess
from pathlib import Path

from tools.parts import CLIENTS_VENV

STORY = Path(__file__).parent / "clients" / "nio_story.py"


def story(url, synapse):
    people = {
        name: {"user": account.user_id, "password": account.password}
        for name, account in (("alice", synapse.alice), ("bob", synapse.bob))
    }
    done = subprocess.run(
        [CLIENTS_VENV / "bin" / "python", STORY],
        input=json.dumps({"url": url, **people}),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_nio_client_sees_through_fairgate_what_it_sees_without(synapse, fairgate):
    direct = story(synapse.url, synapse)
    through = story(fairgate.url, synapse)

    assert through == direct
    assert through["woken"] == ["RoomSendResponse", "SyncResponse", ["wake up"], True]
    assert through["media"] == ["UploadResponse", "MemoryDownloadResponse", 5 * 1024 * 1024, True]
    assert through["messages"][0] == [f"message {number}" for number in (11, 10, 9, 8, 7)]
    assert through["logout"] == ["LogoutResponse", "LogoutResponse", "WhoamiError"]
