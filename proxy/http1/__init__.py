"""The wire: heads, framing, the life of a connection, deadlines and the pool's books. Pure."""
