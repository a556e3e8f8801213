"""A stand-in for a coding agent, as a program: takes items by MCP until none are left.

    python mcp_agent.py DIRECTORY COMMAND …

It starts COMMAND as its MCP server, as such agents do, and prints in lines of JSON what it does. An
item with `WAIT` in its text is kept until the program is told to go on, which may be never.
"""

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters

LEASE = 8  # seconds; long enough for an item, also on a busy machine


def say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


async def call(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    told: dict[str, Any] = (await client.call_tool(tool, given)).structured_content
    return told


async def work(client: Client) -> None:
    open_ones = ["queued", "dispatched", "in_progress"]
    while (await call(client, "work_list", status=open_ones, limit=1))["items"]:
        taken = await call(client, "work_claim", wait_seconds=0.5, lease_seconds=LEASE)
        if taken["claimed"]:
            await finish(client, taken)


async def finish(client: Client, taken: dict[str, Any]) -> None:
    item = taken["item"]
    say(event="claimed", id=item["id"])
    if "WAIT" in item["description"]:
        await asyncio.to_thread(sys.stdin.readline)
    await call(client, "work_progress", id=item["id"], progress="half")
    done = await call(client, "work_complete", id=item["id"], notes="done")
    say(event="completed", id=item["id"], error=done.get("error"))


async def main(directory: str, *command: str) -> None:
    server = StdioServerParameters(command=command[0], args=list(command[1:]), cwd=directory)
    async with Client(server) as client:
        say(event="ready")
        await asyncio.to_thread(sys.stdin.readline)
        await work(client)
    say(event="ended")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
