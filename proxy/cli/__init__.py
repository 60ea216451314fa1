"""The `fairgate` command."""
