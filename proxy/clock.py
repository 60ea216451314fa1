"""The only reader of time. Everything else takes `now`, in monotonic seconds, as an argument."""

import time

#: Monotonic seconds. Read it once per event and pass it on.
now = time.monotonic

#: Seconds since the epoch, for people and `Date` fields only, never for a deadline.
wall_time = time.time
