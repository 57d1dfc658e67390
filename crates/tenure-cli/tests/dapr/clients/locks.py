"""What a user of Dapr's Python SDK does with locks, against the sidecar that the environment names."""

import os
import time
import warnings

from dapr.clients import DaprClient
from dapr.clients.grpc._response import UnlockResponseStatus as Status
from grpc import RpcError, StatusCode

warnings.simplefilter("ignore")
STORE = os.environ.get("STORE", "lockstore")


def take(client, owner, expiry=60, resource="python"):
    return client.try_lock(STORE, resource, owner, expiry).success


def give(client, owner, resource="python"):
    return client.unlock(STORE, resource, owner).status


def acquired_refused_unlocked(client):
    assert give(client, "one") == Status.lock_does_not_exist
    assert take(client, "one")
    assert not take(client, "two")
    assert not take(client, "one"), "not even for its own owner"
    assert give(client, "two") == Status.lock_belongs_to_others
    assert give(client, "one") == Status.success
    assert take(client, "two")
    assert give(client, "two") == Status.success


def expired(client):
    assert take(client, "one", expiry=1)
    time.sleep(1.2)
    assert give(client, "one") == Status.lock_does_not_exist
    assert take(client, "two", expiry=1)
    assert give(client, "two") == Status.success


def with_block(client):
    with client.try_lock(STORE, "python", "one", 60) as lock:
        assert lock
        with client.try_lock(STORE, "python", "two", 60) as other:
            assert not other
        assert not take(client, "three"), "the inner block gave it back"
    assert take(client, "two"), "the block did not give it back"
    assert give(client, "two") == Status.success


def refused_with_a_reason(client):
    try:
        client.try_lock("nowhere", "python", "one", 60)
    except RpcError as error:
        assert error.code() == StatusCode.INVALID_ARGUMENT, error
        assert error.details() == "lock store nowhere not found", error
    else:
        raise AssertionError("a store that does not exist gave a lock")


with DaprClient() as client:
    acquired_refused_unlocked(client)
    expired(client)
    with_block(client)
    refused_with_a_reason(client)
    stores = [c.name for c in client.get_metadata().registered_components]
    assert STORE in stores, stores
print("all is well")
