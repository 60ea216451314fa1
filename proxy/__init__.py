"""Fairgate: a reverse-proxy sidecar that stands in front of a Matrix homeserver and keeps it fair."""

__version__ = "0.1.0"
