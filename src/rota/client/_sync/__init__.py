"""The client for threads, made from `_async` by tools/generate_sync_client.py.

Only `runtime.py` is written by hand here: it holds what asyncio and threads do differently.
"""
