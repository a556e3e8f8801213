"""The client on asyncio. `_sync` is made from this directory by tools/generate_sync_client.py."""
