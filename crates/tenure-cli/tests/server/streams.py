"""The lines of a stream that holds a lock, and events: each as the server's own document says."""

import json
import sys
import urllib.request

import jsonschema_rs

URL = sys.argv[1]


def ask(path, body=None, method=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, headers, method=method)
    return urllib.request.urlopen(request, timeout=30)


DOCUMENT = json.load(ask("/v1/openapi.json"))


def validator(name):
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return jsonschema_rs.validator_for(schema)


def lines(stream, line):
    """The lines of a stream up to one of this type, each checked."""
    check, seen = validator("HoldLine"), []
    while not seen or seen[-1]["type"] != line:
        text = stream.readline()
        assert text, f"the stream ended after {seen}"
        seen.append(json.loads(text))
        check.validate(seen[-1])
    return seen


def holds():
    stream = {"accept": "application/x-ndjson"}
    first = ask("/v1/locks/k", {"ttl": "1s"}, **stream)
    assert first.headers["content-type"] == "application/x-ndjson"
    assert lines(first, "acquired")[-1]["key"] == "k"
    lines(first, "ping")
    second = ask("/v1/locks/k", {"wait": "50ms"}, **stream)
    waiting = lines(second, "error")
    assert waiting[0]["type"] == "waiting", waiting
    assert waiting[-1]["error"]["code"] == "timed_out", waiting
    ask("/v1/locks/k", {"force": True, "reason": "test"}, "DELETE").read()
    assert lines(first, "error")[-1]["error"]["code"] == "lost"
    assert first.read() == b"", "something comes after the error"


def events():
    told = ask("/v1/events?prefix=e/")
    assert told.headers["content-type"] == "text/event-stream"
    ask("/v1/locks/e/1", {"lock_id": "x"}).read()
    ask("/v1/locks/e/1", {"lock_id": "x"}, "DELETE").read()
    check, kinds = validator("Event"), []
    while "released" not in kinds:
        line = told.readline().decode().rstrip("\n")
        if line.startswith("event: "):
            kinds.append(line.removeprefix("event: "))
        elif line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            check.validate(event)
            assert event["key"] == "e/1", event
    assert kinds == ["granted", "released"], kinds


holds()
events()
print("all is well")
