"""Guided by coverage: `pip install atheris`, then `python tests/fuzz/atheris_heads.py WHAT -max_total_time=600`.

WHAT is requests, answers or chunks; the rest are options of libFuzzer. Like `test_fuzz_heads.py`, but libFuzzer draws the
bytes, and keeps what reaches a new branch of `proxy.http1`. A message on which the readers do not agree ends it with a
traceback; it is then a case of the corpus. Not run by `make test`: atheris has wheels for few Pythons.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE),
    *(str(HERE.parent / name) for name in ("wire", "conformance")),
    str(HERE.parent.parent),
]

import atheris  # noqa: E402
import uvloop  # noqa: E402

with atheris.instrument_imports(include=["proxy.http1", "proxy.pipeline"]):
    from agreement import agree_on_answer_head, agree_on_chunks, agree_on_request_head, whole_head
    from fuzz_bytes import GOOD_ANSWERS, GOOD_BODIES, GOOD_HEADS
    from harness import World

END = b"\r\n\r\n"
SEEDS = {"requests": GOOD_HEADS, "answers": GOOD_ANSWERS, "chunks": [b"\3" + body for body in GOOD_BODIES]}


def one_of(name, world):
    """Give what is done with the bytes of one run."""

    def request(data):
        if head := whole_head(data + END):
            agree_on_request_head(world, head)

    def answer(data):
        if head := whole_head(data + END):
            agree_on_answer_head(head)

    def chunks(data):
        size = 1 + data[0] if data else 1
        agree_on_chunks(data[1:], lambda: size)

    return {"requests": request, "answers": answer, "chunks": chunks}[name]


def main():
    """Fuzz until libFuzzer's own options end it."""
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    world = World()
    loop.run_until_complete(world.start())
    what, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(SEEDS[what]):
            Path(corpus, str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], corpus, *options], one_of(what, world))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
