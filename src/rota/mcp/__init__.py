"""The ledger for coding agents, by the Model Context Protocol.

A conversation runs over stdio (`rota mcp`), or as one HTTP request at a time (`/mcp`). Either way
its tools call the HTTP API by `rota.client`, so that an agent meets the same rules as everywhere.
The SDK is an extra and slow to import: only `server`, `stdio`, `unreadable` and the first request
to `/mcp` import it.
"""
