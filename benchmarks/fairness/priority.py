"""Who goes first on the cores: the measured ones before whatever else the machine does, the attackers after all.

Each child has a session of its own, and a kernel with autogroups shares the cores between sessions, whatever their processes'
niceness says; so a session's own is set beside it. Without the right to go first nothing is changed.
"""

import os
from contextlib import suppress
from pathlib import Path

_MAY_GO_FIRST = os.geteuid() == 0
#: Of what is measured.
FIRST = -15 if _MAY_GO_FIRST else 0
#: Of attackers: on a real network they have machines of their own.
LAST = 0 if _MAY_GO_FIRST else 10


def set_niceness(pid: int, niceness: int) -> None:
    """Set it for a process and its session, both or none being allowed."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
