"""The corpus: cases written as data, read into dialogues of the wire tests' player.

A file under `cases/requests` or `cases/answers` is one tier: `tier`, and `groups` of cases that share what a group says.

    group      what its cases have in common
    source     the clause that decides: RFC 9110, RFC 9112, or § for behaviour.md
    sent       what the client sends; a list where it waits or ends in between (below)
    answer     what the homeserver answers; `then` it may `close` or `reset` its connection
    forwarded  the exact bytes that the homeserver gets: one request, or a list of them
    client     the exact bytes that the client gets
    refused    in place of `client`: status and reason of Fairgate's own answer
    closed     who Fairgate hangs up on is the client: by `eof` or `reset`; without it the connection serves another request
    reused     false where the homeserver's connection must never serve another request
    cuts       whole, bytes, splits: how the bytes are cut; without it all that fit

A case is `name: put`, or `name: [put, other]`: `put` stands for `<put>` in the group's `sent` or `answer`, `other` (or `put`)
for `<put>` in `forwarded` (requests) or `client` (answers). Where the group refuses, `other` is the case's own refusal. A
case may also be a mapping with any of the keys above. Text stands for bytes, one each (Latin-1); `<5*ab>` is `ababababab`.
`<via>` and `<id>` are the fields that Fairgate adds, `<ok>` is the homeserver's everyday answer.

Steps in `sent`: a text is sent, `{await: text}` waits until the answer so far ends so, `END` and `RESET` end the client's side.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from harness import END, LEAVE, OK, Answer, Await, Dialogue, Step

HERE = Path(__file__).resolve().parent / "cases"
REQUESTS, ANSWERS = "requests", "answers"
_KEYS = {
    "group", "source", "sent", "answer", "answers", "then", "forwarded", "client", "refused", "closed", "reused", "cuts",
    "put", "on",
}  # fmt: skip
_TIMES = re.compile(r"<([0-9]+)\*([^<>]*)>")
_CUTS = ("whole", "bytes", "splits")
_GET = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
_GOT = "GET /x HTTP/1.1\r\nHost: a\r\n<via><id>\r\n"


@dataclass(frozen=True)
class Case:
    """One case; `cuts` are the ways to cut its bytes, `refused` whether Fairgate answers by itself."""

    kind: str
    tier: str
    group: str
    source: str
    dialogue: Dialogue
    cuts: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.tier}: {self.dialogue.name}"


def cases(kind: str) -> list[Case]:
    """Read all cases of a kind, in the order of their files."""
    return [case for path in sorted((HERE / kind).glob("*.yaml")) for case in _tier(kind, path)]


def _tier(kind: str, path: Path) -> Iterator[Case]:
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    for group in written["groups"]:
        common = {key: value for key, value in group.items() if key != "cases"}
        for entry in group["cases"]:
            [(name, told)] = entry.items()
            yield _case(kind, written["tier"], str(name), common, told)


def _case(kind: str, tier: str, name: str, common: dict, told: object) -> Case:
    what = dict(common)
    other = None
    if isinstance(told, dict):
        what |= told
    elif isinstance(told, list):
        what["put"], other = told
    else:
        what["put"] = told
    if other is not None and "refused" in what:
        what["refused"], other = other, None
    unknown = what.keys() - _KEYS
    if unknown:
        raise ValueError(f"{tier}: {name}: {sorted(unknown)}")
    put = what.get("put", "")
    make = _request if kind == REQUESTS else _answer
    dialogue = make(name, what, str(put), str(put if other is None else other))
    return Case(kind, tier, what["group"], what["source"], dialogue, tuple(what.get("cuts", _CUTS)))


def _request(name: str, what: dict, put: str, other: str) -> Dialogue:
    written = what["sent"]
    sent = tuple(_step(step, put) for step in (written if isinstance(written, list) else [written]))
    refusal = _refusal(what)
    got = what.get("forwarded", [] if refusal else None)
    if got is None:
        raise ValueError(f"{name}: it says neither what is refused nor what is forwarded")
    got = tuple(_bytes(text, other) for text in (got if isinstance(got, list) else [got]))
    answers = what.get("answers", [what.get("answer", "<ok>")] * len(got))
    client = what.get("client", "" if refusal else "<ok>" * len(got))
    return Dialogue(
        name,
        sent,
        got,
        tuple(Answer(_bytes(text, put), then=what.get("then", "keep")) for text in answers),
        _bytes(client, other),
        refusal,
        what.get("closed", "eof" if refusal else ""),
        what.get("reused", True),
        tuple(what["on"]) if "on" in what else None,
    )


def _answer(name: str, what: dict, put: str, other: str) -> Dialogue:
    refusal = _refusal(what)
    sent = what.get("sent", _GET)
    client = what.get("client", "" if refusal else what["answer"])
    return Dialogue(
        name,
        (_bytes(sent, put),),
        (_bytes(what.get("forwarded", _GOT), put),),
        (Answer(_bytes(what["answer"], put), then=what.get("then", "keep")),),
        _bytes(client, other),
        refusal,
        what.get("closed", ""),
        what.get("reused", not refusal),
    )


def _refusal(what: dict) -> tuple[int, str] | None:
    if not what.get("refused"):
        return None
    status, reason = what["refused"].split()
    return int(status), reason


def _step(written: object, put: str) -> Step:
    if isinstance(written, dict):
        return Await(_bytes(written["await"], put))
    if written in ("END", "RESET"):
        return END if written == "END" else LEAVE
    return _bytes(str(written), put)


def _bytes(text: str, put: str) -> bytes:
    text = text.replace("<put>", put).replace("<ok>", OK.decode())
    while (longer := _TIMES.sub(lambda times: times[2] * int(times[1]), text)) != text:
        text = longer  # one may stand in another
    return text.encode("latin-1")
