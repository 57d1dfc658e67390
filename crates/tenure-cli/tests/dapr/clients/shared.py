"""One lock that another sidecar holds already, and one that another will find held."""

import warnings

from dapr.clients import DaprClient
from dapr.clients.grpc._response import UnlockResponseStatus as Status

warnings.simplefilter("ignore")

with DaprClient() as client:
    assert not client.try_lock("lockstore", "shared", "ours", 60).success
    assert client.unlock("lockstore", "shared", "ours").status == Status.lock_belongs_to_others
    assert client.unlock("lockstore", "shared", "theirs").status == Status.success
    assert client.try_lock("lockstore", "ours", "ours", 60).success
print("all is well")
