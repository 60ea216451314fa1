"""Who is asking: client keys, tokens confirmed at the homeserver, principals. Pure."""
