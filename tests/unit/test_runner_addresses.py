"""Where webhooks may go."""

import ipaddress

import pytest

from rota.model.errors import Forbidden, InvalidInput
from rota.runner.addresses import Allowed, is_public, vetted


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1"),
        *("::ffff:100.64.0.1", "::ffff:224.0.0.1"),
        *("fec0::1", "feff::1", "::7f00:1", "::10.0.0.1", "::8.8.8.8"),
    ],
)
def test_an_address_inside_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_an_address_outside_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


async def test_a_private_address_is_refused_unless_it_is_allowed_by_name() -> None:
    with pytest.raises(Forbidden, match="not on the public internet"):
        await vetted("127.0.0.1", 80, Allowed.of([]))
    with pytest.raises(Forbidden):
        await vetted("localhost", 80, Allowed.of(["127.0.0.1.example.org"]))
    (found,) = await vetted("127.0.0.1", 80, Allowed.of(["127.0.0.0/8"]))
    assert str(found) == "127.0.0.1"
    for name, allowed in (("localhost", "LOCALHOST"), ("LocalHost", "localhost")):
        assert all(one.is_loopback for one in await vetted(name, 80, Allowed.of([allowed])))


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "017700000001"])
async def test_other_spellings_of_loopback_are_refused(host: str) -> None:
    with pytest.raises((Forbidden, InvalidInput)):
        await vetted(host, 80, Allowed.of([]))
