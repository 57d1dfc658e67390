"""As locks.py, with the SDK's asynchronous client."""

import asyncio
import os
import warnings

from dapr.aio.clients import DaprClient
from dapr.clients.grpc._response import UnlockResponseStatus as Status
from grpc import StatusCode
from grpc.aio import AioRpcError

warnings.simplefilter("ignore")
STORE = os.environ.get("STORE", "lockstore")


async def take(client, owner, expiry=60):
    return (await client.try_lock(STORE, "aio", owner, expiry)).success


async def give(client, owner):
    return (await client.unlock(STORE, "aio", owner)).status


async def acquired_refused_unlocked(client):
    assert await give(client, "one") == Status.lock_does_not_exist
    taken = await asyncio.gather(*(take(client, str(n)) for n in range(20)))
    assert taken.count(True) == 1, taken
    owner = str(taken.index(True))
    assert not await take(client, owner), "not even for its own owner"
    assert await give(client, "two") == Status.lock_belongs_to_others
    assert await give(client, owner) == Status.success


async def expired(client):
    assert await take(client, "one", expiry=1)
    await asyncio.sleep(1.2)
    assert await give(client, "one") == Status.lock_does_not_exist
    assert await take(client, "two", expiry=1)
    assert await give(client, "two") == Status.success


async def with_block(client):
    async with await client.try_lock(STORE, "aio", "one", 60) as lock:
        assert lock
        assert not await take(client, "two")
    assert await take(client, "two"), "the block did not give it back"
    assert await give(client, "two") == Status.success


async def refused_with_a_reason(client):
    try:
        await client.try_lock("nowhere", "aio", "one", 60)
    except AioRpcError as error:
        assert error.code() == StatusCode.INVALID_ARGUMENT, error
        assert error.details() == "lock store nowhere not found", error
    else:
        raise AssertionError("a store that does not exist gave a lock")


async def main():
    async with DaprClient() as client:
        await acquired_refused_unlocked(client)
        await expired(client)
        await with_block(client)
        await refused_with_a_reason(client)
        stores = [c.name for c in (await client.get_metadata()).registered_components]
        assert STORE in stores, stores


asyncio.run(main())
print("all is well")
