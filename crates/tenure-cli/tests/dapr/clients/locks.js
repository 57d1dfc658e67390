// What a user of Dapr's JavaScript SDK does with locks, against the sidecar that the environment
// names, over HTTP or gRPC.

const assert = require("node:assert");
const { setTimeout: pause } = require("node:timers/promises");
const { DaprClient, CommunicationProtocolEnum } = require("@dapr/dapr");
const { LockStatus } = require("@dapr/dapr/types/lock/UnlockResponse");

const [protocol] = process.argv.slice(2);
const isHttp = protocol === "http";
const store = process.env.STORE ?? "lockstore";
const resource = `js/${protocol}`;
const client = new DaprClient({
  daprHost: "127.0.0.1",
  daprPort: isHttp ? process.env.DAPR_HTTP_PORT : process.env.DAPR_GRPC_PORT,
  daprApiToken: process.env.DAPR_API_TOKEN,
  communicationProtocol: isHttp ? CommunicationProtocolEnum.HTTP : CommunicationProtocolEnum.GRPC,
});

const take = async (owner, expiry = 60) =>
  (await client.lock.lock(store, resource, owner, expiry)).success;
const give = async (owner) => (await client.lock.unlock(store, resource, owner)).status;

async function acquiredRefusedUnlocked() {
  assert.equal(await give("one"), LockStatus.LockDoesNotExist);
  assert.equal(await take("one"), true);
  assert.equal(await take("two"), false);
  assert.equal(await take("one"), false, "not even for its own owner");
  assert.equal(await give("two"), LockStatus.LockBelongsToOthers);
  assert.equal(await give("one"), LockStatus.Success);
  assert.equal(await take("two"), true);
  assert.equal(await give("two"), LockStatus.Success);
}

async function expired() {
  assert.equal(await take("one", 1), true);
  await pause(1200);
  assert.equal(await give("one"), LockStatus.LockDoesNotExist);
  assert.equal(await take("two", 1), true);
  assert.equal(await give("two"), LockStatus.Success);
}

async function main() {
  await acquiredRefusedUnlocked();
  await expired();
  await assert.rejects(client.lock.lock("nowhere", resource, "one", 60), /lock store nowhere not found/);
  await client.stop();
  console.log("all is well");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
