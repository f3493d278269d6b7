# SPDX-License-Identifier: Apache-2.0
"""Figures for Prometheus, asked for over HTTP as Prometheus does, and read with its own parser."""
from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from brain_runtime.metrics.address import MetricsProblem, read_address, shown_address
from brain_runtime.metrics.families import Histogram, Listed, counter, counters, gauge, one_of, quantiles
from brain_runtime.metrics.opening import open_server
from brain_runtime.metrics.prometheus_server import AT_ONCE, MetricsServer

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def get(server: MetricsServer, path: str = "/metrics", **headers: str) -> str:
    url = f"http://{shown_address(server.address)}{path}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.read().decode()


def samples(text: str, read=text_string_to_metric_families) -> dict:
    return {(one.name, *sorted(one.labels.items())): one.value for family in read(text) for one in family.samples}


@pytest.fixture
def server():
    with open_server("0") as found:
        yield found


def test_what_was_counted_is_what_is_read(server):
    took = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3.0):
        took.observe(value)
    nasty = 'a"b\\c\nd{e="f"} 1\n# HELP up no\r\u2028\u65e5'
    server.start(lambda: [counter("x_total", "Count.", 3), gauge("y", "One\nline \\ more.", -1.5),
                          gauge("z", "None.", None),
                          counters("n_total", "Named.", ("who", "kind"), [((nasty, "a"), 1), (("", "b"), 2)]),
                          took.family("took_seconds", "Time."), quantiles("late_seconds", "Quantiles.", ("who",), [
                              ((nasty, "0.5"), 0.25), ((nasty, "0.99"), 3.0)])])
    assert server.address[0] == "127.0.0.1"
    for text, read in ((get(server), text_string_to_metric_families),
                       (get(server, Accept=OPENMETRICS), read_openmetrics)):
        found = samples(text, read)
        assert found["x_total",] == 3 and found["y",] == -1.5 and ("z",) not in found
        assert found["n_total", ("kind", "a"), ("who", nasty)] == 1
        assert found["n_total", ("kind", "b"), ("who", "")] == 2
        assert [found["took_seconds_bucket", ("le", le)] for le in ("0.1", "1.0", "+Inf")] == [2, 3, 4]
        assert found["took_seconds_count",] == 4 and found["took_seconds_sum",] == pytest.approx(3.65)
        assert found["process_start_time_seconds",] > 1e9 and found["process_resident_memory_bytes",] > 1e6
        assert found["late_seconds", ("quantile", "0.99"), ("who", nasty)] == 3.0 and ("up",) not in found
        assert "# TYPE late_seconds summary" in text and "# TYPE took_seconds histogram" in text
        helps = {family.name: family.documentation for family in read(text)}
        assert helps["y"] == "One\nline \\ more." and all(helps.values())


def test_only_so_many_names_have_series():
    listed = Listed(3, "[a-z]+", first=["pfc"])
    assert [listed(name) for name in ("vision", "Bad\n", "motor", "late", "vision", "pfc", "motor", "x" * 999)] == [
        True, False, True, False, True, True, True, False]
    assert len(listed) == 3 and one_of("apply", ("apply",)) == "apply" and one_of("x\n", ("apply",)) == "other"


def test_who_asks_cannot_harm_who_is_asked(server, caplog):
    made = []

    def collect():
        made.append(threading.current_thread())
        if len(made) == 1:
            raise ValueError("no figure")
        return [gauge("fine", "It is.", 1)]

    server.start(collect)
    with pytest.raises(urllib.error.HTTPError, match="500") as refused:
        get(server)
    assert b"ValueError" in refused.value.read() and "no figure" in caplog.text     # the log says it, nobody else
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(server, "/etc/passwd")
    slow = [socket.create_connection(server.address) for _ in range(3 * AT_ONCE)]     # they ask for nothing
    slow[-1].sendall(b"GET /metr")
    assert samples(get(server))["fine",] == 1
    for one in slow:
        one.close()
    began, before = time.monotonic(), len(made)
    for _ in range(30):
        get(server)
    assert len(made) - before <= (time.monotonic() - began) / 0.2 + 1   # not once for each that asks
    assert threading.current_thread() not in made


def test_what_cannot_be_served_is_said_in_a_line(server):
    taken = server.address[1]
    with pytest.raises(MetricsProblem) as problem:
        open_server(str(taken))
    assert str(problem.value) == (f"metrics cannot be served at 127.0.0.1:{taken}: Address already in use; name "
                                  f"another port")
    for text in ("", "x", "70000", ":9460", "1.2.3.4:", "127.0.0.1:9:x", "9460\n", "-1", "١"):
        with pytest.raises(MetricsProblem, match="give a port, as 9460"):
            read_address(text)
    with pytest.raises(MetricsProblem, match="cannot be served at"):
        open_server("no.such.host.invalid:0")
    assert read_address("[::1]:9460") == ("::1", 9460) and shown_address(("::1", 9460)) == "[::1]:9460"
    assert read_address("0.0.0.0:9460") == ("0.0.0.0", 9460)


def test_without_prometheus_client_its_name_and_the_remedy_are_told():
    code = ("import sys; sys.modules['prometheus_client'] = None\n"
            "from brain_runtime.metrics.opening import open_server\n"
            "from brain_runtime.metrics.families import gauge\n"
            "try:\n    open_server('0')\nexcept RuntimeError as problem:\n    print(problem)")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "need the package prometheus_client" in told and "pip install prometheus_client" in told
    assert told.count("\n") == 1


def test_there_are_two_formats_whatever_a_client_names():
    made = []
    with MetricsServer(("127.0.0.1", 0)) as its:
        its.start(lambda: made.append(1) or [])
        asked = [f"application/openmetrics-text; version=1.0.0; escaping={how}" for how in ("dots", "values", "zz")]
        asked += [f"text/plain; version=1.0.{number}" for number in range(9)]
        asked.append("application/openmetrics-text;version=zz")
        kinds = {its.text(accept)[1] for accept in asked}
        assert len(kinds) == 2 and len(its._made) == 2, kinds
