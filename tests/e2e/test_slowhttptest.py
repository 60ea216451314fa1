import csv
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from tools.parts import find_program

SECONDS = 12
MODES = {
    "slow headers": ["-H", "-i", "2", "-x", "24"],
    "slow bodies": ["-B", "-i", "2", "-x", "24", "-s", "8192"],
    "slow reads": ["-X", "-w", "10", "-y", "20", "-n", "5", "-z", "32", "-k", "3"],
    "ranges": ["-R", "-a", "10", "-b", "3000"],
}


def attack(mode, fairgate, folder):
    """Run one attack to its end; gives the rows of its own record of it."""
    out = folder / mode.replace(" ", "-")
    common = ["-c", "100", "-r", "100", "-l", str(SECONDS), "-p", "3", "-g", "-o", str(out)]
    method = [] if "-B" in MODES[mode] else ["-t", "GET"]
    url = f"{fairgate.url}/_matrix/client/versions"
    done = subprocess.run(
        [find_program("slowhttptest"), *MODES[mode], *common, *method, "-u", url],
        env={**os.environ, "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:]
    with out.with_suffix(".csv").open() as rows:
        return list(csv.DictReader(rows, skipinitialspace=True))


def test_the_service_stays_available_under_the_four_slow_attacks_at_once(fairgate, tmp_path):
    with ThreadPoolExecutor(len(MODES)) as pool:
        running = {mode: pool.submit(attack, mode, fairgate, tmp_path) for mode in MODES}
        rows = {mode: attempt.result() for mode, attempt in running.items()}

    for mode, seconds in rows.items():
        assert seconds, mode
        assert all(float(row["Service Available"]) > 0 for row in seconds), (mode, seconds)
