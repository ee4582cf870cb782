"""A store of promises that an earlier process has left nothing in, where there is no PostgreSQL."""

from softwalltime.service.promise_store import PromiseStore


def remembering() -> PromiseStore:
    """Return the store."""
    store = PromiseStore()
    store.restored.set()
    return store
