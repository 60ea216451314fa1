"""`python -m proxy` is the `fairgate` command."""

from proxy.cli.main import main

main()
