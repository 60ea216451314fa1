"""The `fairgate` command. Bad input is answered in sentences, never with a traceback.

Exit statuses: 0 fine, 1 the configuration is wrong or the start failed, 2 the command was written wrong.
"""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy import __version__
from proxy.config.load import ConfigError, load, load_with_warnings
from proxy.config.mistakes import Mistake

if TYPE_CHECKING:
    from proxy.admin.explain import Asked, Finding
    from proxy.cli.admin_client import AdminClient
    from proxy.config.settings import Settings

_FILE = click.Path(path_type=Path)
_ACCOUNT = re.compile(r"@[^:\s]*:\S+")
_TOKEN_TEXT = re.compile(r"[!-~]+")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Something is wrong? `fairgate check FILE` names every mistake in the configuration.",
)
def main() -> None:
    """Fairgate keeps a Matrix homeserver fair: a reverse proxy in front of it.

    \b
    In an emergency:
      is it alive, and does the homeserver answer?
        curl http://127.0.0.1:9403/healthz
        curl http://127.0.0.1:9403/readyz
      what is it doing?
        fairgate top
        a browser at http://127.0.0.1:9402/, or: curl http://127.0.0.1:9402/v1/status
      why is this request refused?
        fairgate explain GET '/_matrix/client/v3/sync' --account @alice:example.org
      stop it, letting requests end (a second signal stops at once):
        kill -TERM <pid>

    The ports are the defaults of `metrics.listen` and `admin.listen`.
    """  # noqa: D301 -- \b is click's mark for "keep these lines", not an escape we want raw


@main.command()
@click.option("--config", "file", type=_FILE, required=True, metavar="FILE", help="The configuration (YAML).")
def run(file: Path) -> None:
    """Run the proxy until it is stopped.

    The configuration is checked whole first; with a mistake in it nothing starts. Every key can be overridden
    by an environment variable: FAIRGATE_HOMESERVER__URL is homeserver.url, two underscores between levels.
    """
    try:
        settings, warnings = load_with_warnings(file)
    except ConfigError as error:
        _tell(file, error.mistakes, err=True)
        click.echo(f"fairgate: not started: {_count(error.mistakes)}", err=True)
        sys.exit(1)
    # Only here: `check` and `version` must work, and be quick, whatever state the rest is in.
    from proxy import process  # noqa: PLC0415
    from proxy.app import StartError  # noqa: PLC0415

    try:
        process.run(settings, file, warnings)
    except StartError as error:
        click.echo(f"fairgate: not started: {error}", err=True)
        sys.exit(1)


@main.command()
@click.argument("file", type=_FILE)
def check(file: Path) -> None:
    """Check a configuration and name every mistake in it.

    \b
    A mistake is told as
      FILE:LINE: key: what is wrong (did you mean ...?)
    and what is right and dangerous as
      FILE:LINE: warning: key: what it allows to whom

    FAIRGATE_ variables in the environment are checked too, as `run` would read them. The exit status is 0 if
    there is no mistake, else 1. Nothing is started or contacted.
    """  # noqa: D301 -- as above
    try:
        warnings = load_with_warnings(file).warnings
    except ConfigError as error:
        _tell(file, error.mistakes, err=False)
        click.echo(f"{_name(file)}: {_count(error.mistakes)}")
        sys.exit(1)
    for warning in warnings:
        click.echo(f"{_place(file, warning)}: warning: {warning}")
    rest = f", {_count(warnings, 'warning')}" if warnings else ""
    click.echo(f"{_name(file)}: fine{rest}")


_ADMIN = click.option(
    "--admin",
    "url",
    metavar="URL",
    default=None,
    help="Where admin.listen is: http://HOST:PORT or unix:/PATH.",
)
_TOKEN = click.option(
    "--token-file", type=_FILE, metavar="FILE", help="A file with admin.token in it, where one is set."
)


@main.command()
@click.argument("method")
@click.argument("target")
@click.option("--account", metavar="@NAME:SERVER", help="The account its token is confirmed for.")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header field; may be repeated."
)
@click.option("--config", "file", type=_FILE, metavar="FILE", help="Read this configuration; ask nobody.")
@click.option("--profile", help="The homeserver's profile, with --config; else the configuration's.")
@_ADMIN
@_TOKEN
def explain(
    method: str, target: str, account: str | None, headers: tuple[str, ...], file: Path | None, profile: str | None,
    url: str | None, token_file: Path | None,
) -> None:  # fmt: skip
    """Tell what would happen to a request, and why: its class, lane, budgets and rules.

    Without --config a running Fairgate is asked, which also says how full it is now.

    \b
    Example:
      fairgate explain GET '/_matrix/client/v3/sync?timeout=30000' --account @alice:example.org
    """  # noqa: D301 -- as above
    from proxy.admin.explain import Asked, fields_of, render  # noqa: PLC0415
    from proxy.cli.admin_client import DEFAULT  # noqa: PLC0415

    try:
        fields = fields_of(headers)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not target.startswith("/"):
        raise click.UsageError("TARGET is a path, with its query if it has one")
    if account is not None and not _ACCOUNT.fullmatch(account):
        raise click.UsageError(f"--account {account}: write @name:server, as @alice:example.org")
    if file is not None:
        findings = _explain_alone(Asked(method.upper(), target, account, fields), file, profile)
    else:
        query = [("method", method), ("target", target), *((("account", account),) if account else ())]
        query += [("header", header) for header in headers]
        findings = _findings(url or DEFAULT, token_file, query)
    click.echo(render(findings))


@main.command()
@click.option(
    "--by",
    type=click.Choice(["worker_seconds", "waiting", "waits", "refused", "kept_bytes"]),
    default="worker_seconds",
    show_default=True,
    help="What the flows are ordered by.",
)
@click.option(
    "--every", "every_s", type=click.FloatRange(0.2), default=1.0, show_default=True, metavar="SECONDS"
)
@click.option("--once", is_flag=True, help="Print one picture and end, as where the output is no terminal.")
@_ADMIN
@_TOKEN
def top(by: str, every_s: float, *, once: bool, url: str | None, token_file: Path | None) -> None:
    """Show who has what, live, until interrupted: workers, long polls, the gate, top flows, refusals."""
    from rich.console import Console  # noqa: PLC0415

    from proxy.cli import top as screen  # noqa: PLC0415
    from proxy.cli.admin_client import DEFAULT, AdminError  # noqa: PLC0415

    console = Console()
    client = _client(url or DEFAULT, token_file)
    try:
        if once or not console.is_terminal:
            console.print(screen.look(client, by, console.height))
        else:
            screen.watch(client, console, by, every_s)
    except AdminError as error:
        click.echo(f"fairgate: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        return


@main.command()
@click.argument("log", type=_FILE)
@click.option("--config", "file", type=_FILE, required=True, metavar="FILE", help="The configuration to try.")
@click.option(
    "--profile", help="The homeserver's profile; else the configuration's, generic where that is auto."
)
@click.option(
    "--top", "most", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Flows to name."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay(log: Path, file: Path, profile: str | None, most: int, *, as_json: bool) -> None:
    """Tell who would have waited or been refused under another configuration, from a recorded LOG.

    LOG is a file of log.trace, or an access log of Synapse, HAProxy (option httplog), nginx or Apache (combined); .gz is read
    too. Requests take as long as they took; clients do not react to what would have been otherwise. The worker share
    and the budgets of long polls are run, not the background gate.
    """
    from rich.console import Console  # noqa: PLC0415

    from proxy.cli import replay as player  # noqa: PLC0415
    from proxy.matrix.profiles import PROFILES  # noqa: PLC0415

    if profile is not None and profile not in PROFILES:
        raise click.UsageError(f"--profile must be one of {', '.join(PROFILES)}")
    settings = _settings(file)
    try:
        result, reading, kind = player.run(log, settings, profile, Console(stderr=True))
    except (player.UnreadableLogError, OSError, EOFError) as error:
        click.echo(f"fairgate: {_name(log)}: {error}", err=True)
        sys.exit(1)
    named = player.rules_of(settings, profile).figures.profile
    told = player.document(result, reading, kind, named, most)
    if as_json:
        click.echo(json.dumps(told, indent=2))
    else:
        Console().print(player.tables(told))


def _explain_alone(asked: "Asked", file: Path, profile: str | None) -> "list[Finding]":
    from proxy import parts  # noqa: PLC0415
    from proxy.admin.explain import explain as explained  # noqa: PLC0415
    from proxy.matrix.profiles import PROFILES  # noqa: PLC0415

    settings = _settings(file)
    named = profile or settings.homeserver.profile
    if named not in (*PROFILES, "auto"):
        raise click.UsageError(f"--profile must be one of {', '.join(PROFILES)}")
    return explained(asked, parts.rules(settings, None if named == "auto" else named))


def _settings(file: Path) -> "Settings":
    try:
        return load(file)
    except ConfigError as error:
        _tell(file, error.mistakes, err=True)
        sys.exit(1)


def _client(url: str, token_file: Path | None) -> "AdminClient":
    from proxy.cli.admin_client import AdminClient  # noqa: PLC0415

    try:
        token = None if token_file is None else token_file.read_text(errors="replace").strip()
    except OSError as error:
        click.echo(f"fairgate: {_name(token_file or Path())}: {error.strerror}", err=True)
        sys.exit(1)
    if token is not None and not _TOKEN_TEXT.fullmatch(token):  # http.client would show it
        click.echo(
            f"fairgate: {_name(token_file or Path())}: has no token, which is visible ASCII characters",
            err=True,
        )
        sys.exit(1)
    return AdminClient(url, token)


def _findings(url: str, token_file: Path | None, query: list[tuple[str, str]]) -> "list[Finding]":
    from proxy.admin.explain import Finding  # noqa: PLC0415
    from proxy.cli.admin_client import AdminError  # noqa: PLC0415

    client = _client(url, token_file)
    try:
        told = client.get("/v1/explain", query)
        try:
            return [Finding(**finding) for finding in told["findings"]]
        except (LookupError, TypeError):
            raise client.no_fairgate() from None
    except AdminError as error:
        click.echo(f"fairgate: {error}", err=True)
        sys.exit(1)


@main.command()
def version() -> None:
    """Print the version, and whether the hot path is compiled, as in the image, or interpreted."""
    found = find_spec("proxy.pipeline")
    interpreted = found is None or str(found.origin).endswith(".py")
    click.echo(f"fairgate {__version__}, {'interpreted' if interpreted else 'compiled'}")


def _tell(file: Path, mistakes: tuple[Mistake, ...], *, err: bool) -> None:
    for mistake in mistakes:
        click.echo(f"{_place(file, mistake)}: {mistake}", err=err)


def _place(file: Path, mistake: Mistake) -> str:
    if mistake.line is not None:
        return f"{_name(file)}:{mistake.line}"
    # Without a line but with a path it is a variable, or a key the file leaves to its default.
    return "environment" if mistake.path.startswith("FAIRGATE_") else _name(file)


def _name(file: Path) -> str:
    name = str(file)
    return name if name.isprintable() else ascii(name)


def _count(mistakes: tuple[Mistake, ...], word: str = "mistake") -> str:
    return f"1 {word}" if len(mistakes) == 1 else f"{len(mistakes)} {word}s"
