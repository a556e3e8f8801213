"""The HTTP face of the ledger.

app = create_app(ledger, ApiSettings(host="127.0.0.1"), stopping=stopping)
"""

from rota.api.app import Api, Mount, create_app
from rota.api.settings import ApiSettings

__all__ = ["Api", "ApiSettings", "Mount", "create_app"]
