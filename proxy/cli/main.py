"""The `fairgate` command. Bad input is answered in sentences, never with a traceback.

Exit statuses: 0 fine, 1 the configuration is wrong or the start failed, 2 the command was written wrong.
"""

import sys
from pathlib import Path

import click

from proxy import __version__
from proxy.config.load import ConfigError, load
from proxy.config.mistakes import Mistake

_FILE = click.Path(path_type=Path)


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
        curl http://127.0.0.1:9402/v1/status
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
        settings = load(file)
    except ConfigError as error:
        _tell(file, error.mistakes, err=True)
        click.echo(f"fairgate: not started: {_count(error.mistakes)}", err=True)
        sys.exit(1)
    # Only here: `check` and `version` must work, and be quick, whatever state the rest is in.
    from proxy import app  # noqa: PLC0415

    try:
        app.run(settings, file)
    except app.StartError as error:
        click.echo(f"fairgate: not started: {error}", err=True)
        sys.exit(1)


@main.command()
@click.argument("file", type=_FILE)
def check(file: Path) -> None:
    """Check a configuration and name every mistake in it.

    \b
    A mistake is told as
      FILE:LINE: key: what is wrong (did you mean ...?)

    FAIRGATE_ variables in the environment are checked too, as `run` would read them. The exit status is 0 if
    all is fine, else 1. Nothing is started or contacted.
    """  # noqa: D301 -- as above
    try:
        load(file)
    except ConfigError as error:
        _tell(file, error.mistakes, err=False)
        click.echo(f"{_name(file)}: {_count(error.mistakes)}")
        sys.exit(1)
    click.echo(f"{_name(file)}: fine")


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"fairgate {__version__}")


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


def _count(mistakes: tuple[Mistake, ...]) -> str:
    return "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
