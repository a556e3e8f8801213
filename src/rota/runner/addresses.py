"""Addresses that a webhook may be sent to: those of the public internet, and those allowed by
name."""

import asyncio
import ipaddress
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rota.model.errors import Forbidden, InvalidInput

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Translation (NAT64, 6to4) would lead from a public address to a private one, and so would an IPv4
# address in the deprecated IPv6 form (::/96). Site-local addresses are private.
_INWARD = tuple(
    ipaddress.ip_network(net)
    for net in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96", "fec0::/10")
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hosts by name and networks by CIDR that may be reached although they are not public."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    @classmethod
    def of(cls, names: Collection[str]) -> "Allowed":
        hosts, networks = set(), []
        for name in names:
            try:
                networks.append(ipaddress.ip_network(name, strict=False))
            except ValueError:
                hosts.add(name.lower())
        return cls(frozenset(hosts), tuple(networks))

    def permits(self, host: str, address: IPAddress) -> bool:
        named = host.lower() in self.hosts or any(address in net for net in self.networks)
        return named or is_public(address)


def is_public(address: IPAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if any(address in net for net in _INWARD):
            return False
    return address.is_global and not address.is_multicast


async def vetted(host: str, port: int, allowed: Allowed) -> tuple[IPAddress, ...]:
    """The addresses to connect to, the best one first. Looked up once: the checked addresses are
    those that are used."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InvalidInput(f"{host} cannot be looked up: {error.strerror}") from error
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    for address in addresses:
        if not allowed.permits(host, address):
            raise Forbidden(
                f"{host} is at {address}, which is not on the public internet; if that is meant,"
                " name the host among those that webhooks may reach"
            )
    return tuple(dict.fromkeys(addresses))


def unreached(failures: Iterable[Exception]) -> str:
    """Why no address of a host could be reached. The last one tried often says least: that this
    machine has no IPv6."""
    return "; ".join(dict.fromkeys(f"{type(one).__name__}: {one}" for one in failures))[:300]
