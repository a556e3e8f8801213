"""The contract of `rota.storage.port`, as tests over any store.

    class TestMyStore(StoreContract): ...

It needs a fixture `store` that yields an open, empty store, and `another_store`, a function that
opens one more on the same database. Both must already listen for other processes, because a store
that begins to listen while a test counts wake-ups counts one for that. Test names that begin with a
verb's name are about that verb.
"""

from rota.testing.store_contract.care import CareContract
from rota.testing.store_contract.claims import ClaimsContract
from rota.testing.store_contract.declarations import DeclarationsContract
from rota.testing.store_contract.items import ItemsContract
from rota.testing.store_contract.keys import KeysAndTokensContract
from rota.testing.store_contract.links import LinksContract
from rota.testing.store_contract.log import LogAndEventsContract
from rota.testing.store_contract.records import ProjectsAndAgentsContract
from rota.testing.store_contract.sources import SourcesContract
from rota.testing.store_contract.transactions import TransactionsContract
from rota.testing.store_contract.wakeups import WakeupsContract


class StoreContract(
    TransactionsContract,
    WakeupsContract,
    ProjectsAndAgentsContract,
    ItemsContract,
    LinksContract,
    ClaimsContract,
    LogAndEventsContract,
    KeysAndTokensContract,
    SourcesContract,
    CareContract,
    DeclarationsContract,
):
    """All parts of the contract."""
