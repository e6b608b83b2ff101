"""What nodes count, on a page for Prometheus.

The page is served by a thread of its own. It reads nothing but `MetricsPage.counts`, a mapping that is replaced as a
whole and never changed: no socket of the cluster, and nothing that a node works with.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from drom_net.core.closing import Closing
from drom_net.core.errors import ClusterError, UsageError
from drom_net.node.reports import Counts, Reporter
from drom_net.node.spec import NodeSpec

METRICS = {
    "drom_net_rounds_total": "Rounds closed by a reducer; begun by a task.",
    "drom_net_examples_total": "Examples predicted and learned.",
    "drom_net_errors_total": "Predictions that were wrong, on clean labels.",
    "drom_net_majority_errors_total": "Errors of always giving the label seen more often before, on clean labels.",
    "drom_net_seen_errors_total": "Predictions that were wrong on the labels seen, since the run began.",
    "drom_net_alone_errors_total": "The same of a task's own experts, which use nothing of the others.",
    "drom_net_sharing_weight": "The weight of a task's experts that share, from 0 to 1.",
    "drom_net_sharing_effect": "Whether sharing helps a task: 1, hurts it: -1, or cannot be told yet: 0; by errors, or "
    "by log loss where errors cannot tell yet (their bounds have 0 between them).",
    "drom_net_sharing_gain_points_low": "Sharing gains a task at least so many points of the error rate.",
    "drom_net_sharing_gain_points_high": "Sharing gains a task at most so many points of the error rate.",
    "drom_net_sharing_gain_nats_low": "Sharing gains a task at least so much log loss an example, in nats.",
    "drom_net_sharing_gain_nats_high": "Sharing gains a task at most so much log loss an example, in nats.",
    "drom_net_noise": "The share of labels contrary to what was predicted, where the surer ones count more.",
    "drom_net_accepted_examples_total": "Examples of a live source accepted, since the run began.",
    "drom_net_backlog_examples": "Accepted examples of a live source that wait to be learned.",
    "drom_net_left_out_rows_total": "Lines and requests of a live source that could not be used.",
    "drom_net_sent_bytes_total": "Bytes of messages sent.",
    "drom_net_received_bytes_total": "Bytes of messages received.",
    "drom_net_waiting_seconds_total": "Seconds in which a task had nothing to do but to wait for others.",
    "drom_net_resends_total": "Times that a node has asked again for what did not come.",
    "drom_net_refused_messages_total": "Messages refused: malformed, from strangers, or out of place.",
    "drom_net_checkpoints_total": "Checkpoints written.",
    "drom_net_checkpoint_seconds_total": "Seconds spent in writing checkpoints.",
    "drom_net_checkpoint_bytes_total": "Bytes of the checkpoints written.",
    "drom_net_connected_peers": "Nodes that this one is connected to and has let in.",
    "drom_net_overdue_peers": "Nodes that this one has waited for longer than timeouts.stall_s.",
    "drom_net_incarnation": "Which start of the node this is, from 1.",
    "drom_net_sigma_1": "The largest singular value of the last central step.",
    "drom_net_node_up": "Whether the node's process runs, as its launcher sees it.",
}
"""By name, what each says of a node. Those in ..._total are counters (from the start of the process), the others
gauges."""


_CONNECTIONS = 16
_SILENCE_S = 10.0
"""After so long a connection on which nothing comes is closed."""


class MetricsPage(Closing):
    """http://HOST:PORT/metrics, for one node or for all that a launcher has."""

    def __init__(self, endpoint: str) -> None:
        """
        Args:
            endpoint: Where to listen, host:port.

        Raises:
            UsageError: prometheus-client is missing.
            ClusterError: It cannot listen there.
        """
        require_prometheus()
        from prometheus_client import CollectorRegistry, make_wsgi_app
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        self.counts: Mapping[str, Counts] = {}
        """By node, a task's name in its safe form: beside the reducer's no name is ambiguous."""
        page = self

        class Collector:
            def collect(self) -> Iterator[Any]:
                counts = page.counts
                for name, doc in METRICS.items():
                    family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                    counted = family(name, doc, labels=["node"])
                    for node, its in counts.items():
                        if name in its:
                            counted.add_metric([node], its[name])
                    if counted.samples:
                        yield counted

        registry = CollectorRegistry()
        registry.register(Collector())
        host, _, port = endpoint.rpartition(":")
        try:
            self._server = _serve(host.strip("[]"), int(port), make_wsgi_app(registry))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ClusterError(f"cannot serve metrics on {endpoint}: {why}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _serve(host: str, port: int, app: Any) -> Any:
    """A server of that app with a thread for each of a few connections: of more than these the oldest is closed.

    Raises:
        OSError: It cannot listen there.
    """
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    class Handler(WSGIRequestHandler):
        timeout = _SILENCE_S

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True
        connections: ClassVar[deque[Any]] = deque()

        def process_request(self, request: Any, client_address: Any) -> None:
            self.connections.append(request)
            while len(self.connections) > _CONNECTIONS:
                with contextlib.suppress(OSError):  # closed already
                    self.connections.popleft().shutdown(socket.SHUT_RDWR)  # which ends its thread
            super().process_request(request, client_address)

        def shutdown_request(self, request: Any) -> None:
            with contextlib.suppress(ValueError):
                self.connections.remove(request)
            super().shutdown_request(request)

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # who left, fell silent or was closed

    Server.address_family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][
        0
    ]
    server = Server((host, port), Handler)
    server.set_app(app)
    return server


def serve_counts(spec: NodeSpec, reporter: Reporter) -> None:
    """Give a node the page that its spec asks for; who has a launcher tells that one instead.

    Raises:
        UsageError, ClusterError: As above.
    """
    if spec.launch.parent or not spec.launch.metrics:
        return
    page = MetricsPage(spec.launch.metrics)  # its thread ends with the process

    def publish(counts: Counts) -> None:
        page.counts = {spec.node: counts}

    reporter.publish = publish
    reporter.note(f"metrics at {page.url}", "metrics_served", url=page.url)


def require_prometheus() -> None:
    """Refuse to serve metrics where that is not possible, before anything is started.

    Raises:
        UsageError: prometheus-client is missing.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("--metrics needs prometheus-client: pip install 'drom-net[metrics]'")
