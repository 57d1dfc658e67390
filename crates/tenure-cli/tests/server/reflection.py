"""A client by gRPC that knows no message and no method before the server tells it of them."""

import sys

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from grpc_status import rpc_status

CHANNEL = grpc.insecure_channel(sys.argv[1])
DATABASE = ProtoReflectionDescriptorDatabase(CHANNEL)
POOL = DescriptorPool(DATABASE)
LOCKS = "tenure.v1.LockService"


def call(service, method, **fields):
    """Calls a method with a message made of these fields. Answers are dictionaries."""
    found = POOL.FindServiceByName(service).FindMethodByName(method)
    request = json_format.ParseDict(fields, GetMessageClass(found.input_type)())
    kind = CHANNEL.unary_stream if found.server_streaming else CHANNEL.unary_unary
    answer = kind(
        f"/{service}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(found.output_type).FromString,
    )(request, timeout=30)
    return answer if found.server_streaming else told(answer)


def told(message):
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def refused(service, method, **fields):
    """The code of a call that must fail, and the exact one beside it."""
    try:
        call(service, method, **fields)
    except grpc.RpcError as error:
        info = ErrorInfo()
        assert rpc_status.from_call(error).details[0].Unpack(info), error
        return error.code(), info.domain, info.reason, dict(info.metadata)
    raise AssertionError(f"{method} was not refused")


def services():
    expected = {
        LOCKS,
        "tenure.v1.StoreService",
        "dapr.proto.runtime.v1.Dapr",
        "grpc.health.v1.Health",
    }
    assert expected <= set(DATABASE.get_services()), DATABASE.get_services()
    # Under its newer name too.
    reflect = CHANNEL.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=ServerReflectionRequest.SerializeToString,
        response_deserializer=ServerReflectionResponse.FromString,
    )
    answer = next(reflect(iter([ServerReflectionRequest(list_services="")]), timeout=30))
    names = {service.name for service in answer.list_services_response.service}
    assert expected <= names, names
    assert call("grpc.health.v1.Health", "Check") == {"status": "SERVING"}


def locked_waited_for_unlocked():
    target = {"key": "job/1"}
    first = call(LOCKS, "Lock", target=target, ttl="30s", note="by reflection")
    held = call(LOCKS, "Get", target=target)["lock"]
    assert held["fence"] == first["fence"] and held["holder"].endswith("by reflection"), held

    refusal = refused(LOCKS, "Lock", target=target, immediate=True)
    assert refusal == (grpc.StatusCode.ABORTED, "tenure", "held", {"retry": "safe"}), refusal
    refusal = refused(LOCKS, "Unlock", target=target, lock_id="guessed")
    assert refusal[:3] == (grpc.StatusCode.FAILED_PRECONDITION, "tenure", "wrong_owner"), refusal

    stream = call(LOCKS, "Hold", target=target, wait="0.050s", ttl="30s")
    waiting = told(next(stream))["waiting"]
    assert waiting["held_by"]["fence"] == first["fence"], waiting
    assert call(LOCKS, "Unlock", target=target, lock_id=first["lock_id"]) == {}
    event = told(next(stream))
    while "acquired" not in event:
        event = told(next(stream))
    assert int(event["acquired"]["fence"]) > int(first["fence"]), event
    assert "ping" in told(next(stream))
    assert refused(LOCKS, "Lock", target=target, immediate=True)[2] == "held"
    stream.cancel()
    last = call(LOCKS, "Lock", target=target, wait="0.050s")
    assert int(last["fence"]) > int(event["acquired"]["fence"]), last


services()
locked_waited_for_unlocked()
print("all is well")
