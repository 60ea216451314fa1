"""A homeserver's whoami, and a site that asks it: the I/O half of identity without I/O."""

import json
from urllib.parse import parse_qs

from proxy.identity.client_key import ClientKeys
from proxy.identity.identities import Identities
from proxy.identity.lookups import Wait
from proxy.identity.networks import Networks
from proxy.identity.principal import Exemptions
from proxy.identity.settings import IdentitySettings
from proxy.matrix.access_token import read_access_token


class Homeserver:
    """Answers as Synapse does: users' tokens ignore `user_id`, appservices' obey it within their namespace."""

    def __init__(self):
        self.users = {}  # token → (account, device, guest)
        self.appservices = {}  # token → (sender, ghosts)
        self.failing = None  # a status instead of an answer; 0 for silence
        self.asked = []

    def user(self, token, account, device="D", *, guest=False):
        self.users[token] = (account, device, guest)
        return token

    def appservice(self, token, sender, ghosts):
        self.appservices[token] = (sender, ghosts)
        return token

    def whoami(self, token, query):
        self.asked.append((token, query))
        if self.failing is not None:
            return self.failing, b"upstream request timeout"
        if token in self.appservices:
            sender, ghosts = self.appservices[token]
            account = parse_qs(query.decode()).get("user_id", [sender])[0]
            if account != sender and account not in ghosts:
                return 403, b'{"errcode": "M_FORBIDDEN"}'
            return 200, json.dumps({"user_id": account, "is_guest": False}).encode()
        if token not in self.users:
            return 401, b'{"errcode": "M_UNKNOWN_TOKEN"}'
        account, device, guest = self.users[token]
        return 200, json.dumps({"user_id": account, "device_id": device, "is_guest": guest}).encode()


class Site:
    """Requests, look-ups and time. `running` are the look-ups under way."""

    def __init__(self, *, trusted=(), exempt_networks=(), exemptions=None, **settings):
        self.homeserver = Homeserver()
        self.identities = Identities(IdentitySettings(**settings), exemptions or Exemptions())
        self.keys = ClientKeys(trusted_proxies=Networks(trusted), exempt=Networks(exempt_networks))
        self.now = 1000.0
        self.running = []
        self.resumed = []

    def request(self, token, address="192.0.2.1", query=b"", waiter=None):
        """Give the principal, or the wait."""
        read = read_access_token([b"Bearer " + token], query)
        client = self.keys.resolve(address)
        principal = self.identities.identify(read.token, read.user_id, client, self.now)
        if principal is None:
            principal = self.identities.wait(waiter, read.token, read.user_id, read.query, client, self.now)
        self.start()
        return principal

    def start(self):
        if self.identities.due:
            self.running += self.identities.start()

    def answer(self, lookup=None):
        """Let one look-up end as the homeserver says now; the oldest by default."""
        lookup = lookup or self.running[0]
        self.running.remove(lookup)
        status, body = self.homeserver.whoami(lookup.token, lookup.query)
        resumed = self.identities.answered(
            lookup, status, body, b"HTTP/1.1 %d\r\n\r\n" % status + body, self.now
        )
        self.resumed += resumed
        self.start()
        return resumed

    def settle(self):
        """Let all look-ups end."""
        while self.running:
            self.answer()

    def principal(self, token, address="192.0.2.1", query=b""):
        """Give who a request is in the end, however often the homeserver is asked."""
        found = self.request(token, address, query)
        if isinstance(found, Wait):
            self.settle()
            found = found.principal
        return found

    def asked(self):
        """Give how often whoami was asked since the last time."""
        count = len(self.homeserver.asked)
        self.homeserver.asked.clear()
        return count
