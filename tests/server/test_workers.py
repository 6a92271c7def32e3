"""What several processes that serve together share: counts of connections, messages, and what they measured."""

import os
import socket

from prometheus_client.parser import text_string_to_metric_families

from holdfast.server.workers.channel import CONNECTION, READY, channels
from holdfast.server.workers.siblings import summed
from holdfast.server.workers.tally import OpenCounts
from holdfast.surfaces.http.protocol.connections import Connections
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.telemetry.metrics import Metrics


class _Open:
    def hang_up(self) -> None:
        raise AssertionError("nobody is hung up on here")


def test_limits_on_connections_hold_over_all_workers_and_a_dead_one_leaves_room() -> None:
    tally = OpenCounts(2)
    one, other = (
        Connections(most=6, most_per_address=3, proxies=Proxies(()), elsewhere=tally.of(place)) for place in range(2)
    )
    held = [_Open() for _ in range(8)]
    assert [one.enter(held[0], "192.0.2.1"), other.enter(held[1], "192.0.2.1"), other.enter(held[2], "192.0.2.1")] == [
        True
    ] * 3
    assert not one.enter(held[3], "192.0.2.1") and one.enter(held[3], "192.0.2.2")
    assert (tally.open(0), tally.open(1)) == (2, 2)
    one.leave(held[0])
    one.leave(held[0])
    assert tally.open(0) == 1 and other.enter(held[4], "192.0.2.1") and not one.enter(held[5], "192.0.2.1")
    tally.forget(1)
    assert one.enter(held[5], "192.0.2.1") and (tally.open(0), tally.open(1)) == (2, 0)


def test_a_worker_writes_what_the_other_reads_after_a_fork() -> None:
    tally = OpenCounts(2)
    pid = os.fork()
    if pid == 0:
        tally.of(1).opened("192.0.2.1")
        os._exit(0)
    os.waitpid(pid, 0)
    assert tally.of(0).held_by("192.0.2.1") == tally.of(0).of_all() == 1


def test_a_connection_crosses_whole_and_an_end_is_noticed() -> None:
    parent, worker = channels()
    here, there = socket.socketpair()
    assert parent.heard() == [] and worker.say(READY, "now") and parent.hand(here)
    here.close()
    (said,) = worker.heard() or []
    assert said.kind == CONNECTION and said.connection is not None
    said.connection.send(b"through")
    assert there.recv(10) == b"through"
    said.connection.close()
    there.close()
    assert [(each.kind, each.text) for each in parent.heard() or []] == [(READY, "now")]
    parent.close()
    assert worker.heard() is None and not worker.say(READY)
    worker.close()


def test_what_workers_measured_adds_up() -> None:
    measured = []
    for count in (1, 2):
        metrics = Metrics()
        for _ in range(count):
            metrics.request({"path": "/api/me", "method": "GET"}, 200, 0.003)
        metrics.refusals().labels('odd"\\\n').inc(count)
        metrics.gauge("http_connections", "Open connections").set(count)
        measured.append(metrics.own())
    # The one that is just being started anew tells nothing.
    text = summed([*measured, b""]).decode()
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["holdfast_http_requests_total", "200", "GET", "rest"] == 3
    assert samples["holdfast_http_request_seconds_count", "rest"] == 3
    assert samples["holdfast_http_request_seconds_bucket", "0.005", "rest"] == 3
    assert samples["holdfast_http_request_seconds_bucket", "0.002", "rest"] == 0
    assert samples["holdfast_http_refusals_total", 'odd"\\\n'] == 3
    assert samples["holdfast_http_connections",] == 3
    assert text.count("# TYPE holdfast_http_requests_total counter") == 1
    alone = {family.name for family in text_string_to_metric_families(measured[0].decode())}
    assert {family.name for family in text_string_to_metric_families(text)} == alone
