"""A collector for tests: decodes OTLP with the official definitions and writes one line of JSON per span and metric.

    otlp_receiver.py FILE

Prints the port it listens on. A request that the definitions do not know in every field is answered with 400.
"""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

lock = Lock()
out = open(sys.argv[1], "a", encoding="utf-8")


def value(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(one) for one in any_value.array_value.values]
    return getattr(any_value, kind)


def pairs(attributes):
    return {one.key: value(one.value) for one in attributes}


def hex_ids(message):
    """The JSON of OTLP has ids in hexadecimal digits, where the JSON of protobuf has base64."""
    import base64

    if isinstance(message, list):
        return [hex_ids(one) for one in message]
    if not isinstance(message, dict):
        return message
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(one)).decode() if key in ids else hex_ids(one)
        for key, one in message.items()
    }


def spans(request):
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
                yield {
                    "signal": "span",
                    "resource": pairs(resource.resource.attributes),
                    "scope": scope.scope.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "name": span.name,
                    "kind": span.kind,
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "attributes": pairs(span.attributes),
                    "events": [event.name for event in span.events],
                    "status": span.status.code,
                }


def metrics(request):
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    number = point.sum if kind == "histogram" else point.as_double
                    if kind == "histogram":
                        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                        assert sum(point.bucket_counts) == point.count
                    yield {
                        "signal": "metric",
                        "resource": pairs(resource.resource.attributes),
                        "name": metric.name,
                        "kind": kind,
                        "unit": metric.unit,
                        "attributes": pairs(point.attributes),
                        "value": number,
                    }


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request, read = {
            "/v1/traces": (ExportTraceServiceRequest(), spans),
            "/v1/metrics": (ExportMetricsServiceRequest(), metrics),
        }[self.path]
        kind = self.headers["content-type"]
        status = 200
        try:
            if kind == "application/json":
                json_format.ParseDict(hex_ids(json.loads(body)), request)
            else:
                assert kind == "application/x-protobuf", kind
                request.ParseFromString(body)
                assert request.SerializeToString(deterministic=True)
            lines = [
                json.dumps({**one, "content_type": kind, "api_key": self.headers.get("api-key")})
                for one in read(request)
            ]
        except Exception as error:
            status, lines = 400, [json.dumps({"signal": "error", "error": repr(error)})]
        with lock:
            out.writelines(line + "\n" for line in lines)
            out.flush()
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
