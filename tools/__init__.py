"""What `make` runs: only the standard library, since it works before any venv is there."""
