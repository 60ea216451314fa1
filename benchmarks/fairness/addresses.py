"""Who is where and calls themselves what: every client has a loopback address of its own, all of 127/8 being local.

A token is `tok_<user>_<n>`: the homeserver's table is its text, `@<user>:bench`, device n. Anything else is garbage.
"""

#: Where many live behind one address (NAT): the honest clients beside an attacker, or a crowd.
SHARED_ADDRESS = "127.4.0.1"
#: The bridge's token: with `?user_id=` it acts as that ghost.
BRIDGE_TOKEN = "as_bridge"
_A_NET = 250


def honest_address(number: int) -> str:
    """Give the address of an honest client."""
    return f"127.1.0.{number + 1}"


def other_address(number: int) -> str:
    """Give the address of an attacker, or of one of a crowd."""
    return f"127.2.{number // _A_NET}.{number % _A_NET + 1}"


def token_of(user: str, device: int = 1) -> str:
    """Give a token of an account."""
    return f"tok_{user}_{device}"


def account_of(token: str, acts_as: str | None = None) -> tuple[str, str | None] | None:
    """Read a token as the homeserver does: (user id, device id), or None where it is no token."""
    if token == BRIDGE_TOKEN:
        return acts_as or "@bridge:bench", None
    parts = token.split("_")
    if len(parts) == 3 and parts[0] == "tok" and parts[1] and parts[2].isdecimal():
        return f"@{parts[1]}:bench", f"D{parts[2]}"
    return None
