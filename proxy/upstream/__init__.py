"""The homeserver's side: connections, the pool, one exchange after another."""
