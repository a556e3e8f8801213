"""Every promise of `rota.storage.port`, on both databases."""

from rota.testing.store_contract import StoreContract


class TestStore(StoreContract):
    pass
