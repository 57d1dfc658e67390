"""A Forrst server in another language, for the tests of the gateway. Prints its port."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROTOCOL = {"name": "forrst", "version": "0.1.0"}
calls = {}
running = {"now": 0, "most": 0}
guard = threading.Lock()


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request = json.loads(body)
        function = request["call"]["function"]
        arguments = request["call"].get("arguments", {})
        with guard:
            calls[function] = calls.get(function, 0) + 1
        if function == "test.echo":
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.answer(request, {"request": body.decode(), "headers": headers})
        elif function == "test.count":
            self.answer(request, {"calls": calls, "most": running["most"]})
        elif function.startswith("test.work"):
            with guard:
                running["now"] += 1
                running["most"] = max(running["most"], running["now"])
            time.sleep(arguments["ms"] / 1000)
            with guard:
                running["now"] -= 1
            self.answer(request, {"done": True})
        elif function == "test.die":
            os._exit(1)
        elif function == "test.garbage":
            self.write(arguments.get("status", 200), b"<html>nothing of yours</html>")
        elif function == "test.stranger":
            self.write(200, b'{"protocol": {"name": "forrst"}, "id": "another", "result": 1}')
        elif function == "test.odd":
            self.document(200, request, {"result": 1, "extensions": None})
        elif function.endswith(":fn:capabilities"):
            self.answer(request, {"service": "py", **arguments})
        elif function == "test.tell":
            self.document(200, request, {"result": 1, "extensions": arguments["extensions"]})
        elif function == "test.fail":
            errors = [{"code": "CARD_DECLINED", "message": "no funds"}]
            told = [{"urn": "urn:forrst:ext:quota", "data": {"left": 1}}]
            self.document(400, request, {"result": None, "errors": errors, "extensions": told})
        else:
            errors = [{"code": "FUNCTION_NOT_FOUND", "message": "Function not found: " + function}]
            self.document(404, request, {"result": None, "errors": errors})

    def answer(self, request, result):
        self.document(200, request, {"result": result})

    def document(self, status, request, members):
        document = {"protocol": PROTOCOL, "id": request["id"], **members}
        self.write(status, json.dumps(document).encode())

    def write(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Upstream)
print(server.server_port, flush=True)
server.serve_forever()
