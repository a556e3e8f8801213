"""`python -m tests.faults.signal_processor DATABASE OWNER`: fires signals until it is killed.

Leases are short, so that a successor soon takes over.
"""

import asyncio
import json
import sys

from rota.app import open_store
from rota.signals import SignalScheduler, processor


async def process(database: str, owner: str) -> None:
    processor.LEASE_SECONDS = 0.3
    processor.AT_ONCE = 20
    async with open_store(database) as store:
        signals = SignalScheduler(store, owner=owner)
        while True:
            fired = await signals.tick()
            sys.stdout.write(json.dumps(fired) + "\n")
            sys.stdout.flush()
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(process(*sys.argv[1:]))
