# SPDX-License-Identifier: Apache-2.0
"""The files for Prometheus and Grafana ask for figures that there are: those that cloud, edge and brain really show."""
from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from importlib import resources

import pytest
import yaml
from typer.testing import CliRunner

from brain.cli import app
from brain_edge.processes.asking import Asking, NoCloud
from brain_wire.router import free_port

FILES = resources.files("brain_cloud.monitoring")
PATIENCE = 240.0     # s; only ends a hang
ORDER = {"apiVersion": "fleet.brain/v1", "kind": "Region", "metadata": {"name": "rest", "robots": "all"},
         "spec": {"region": "vision", "active": False}}
# In an expression: what is compared with labels or grouped by them, in quotes, a function, or a duration, is no figure.
LABELS = re.compile(r"\{[^}]*\}|\b(?:by|on|without|ignoring)\s*\([^)]*\)|\"[^\"]*\"|\[[^\]]*\]")
WORDS = {"and", "or", "unless", "bool", "sum", "max", "min", "by", "on", "without", "rate", "increase", "changes",
         "resets", "topk", "histogram_quantile"}


def figures(expression: str) -> set[str]:
    """Names of the figures that an expression asks for."""
    return set(re.findall(r"\b[a-zA-Z_]\w*", LABELS.sub(" ", expression))) - WORDS


def labels(expression: str) -> set[str]:
    """Names of the labels that it asks for."""
    return set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)) | {
        name.strip() for group in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expression)
        for name in group.split(",")}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Names of all figures of a cloud, an edge and a brain, with the text of each; labels that they have."""
    folder, running, port = tmp_path_factory.mktemp("monitoring"), [], free_port()
    endpoint, texts = f"tcp/127.0.0.1:{port}", []
    ports = [free_port() for _ in range(3)]

    def start(*words):
        with (folder / "said").open("ab") as said:
            running.append(subprocess.Popen([sys.executable, "-m", *map(str, words)], stdout=said, stderr=said))

    def get(number):
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/metrics", timeout=10) as answer:
            return answer.read().decode()

    start("brain_cloud.processes.run_cloud", "--listen", endpoint, "--folder", folder / "cloud", "--metrics", ports[0])
    start("brain_edge.processes.run_edge", "--name", "robot1", "--cloud", endpoint, "--folder", folder / "edge",
          "--router", "tcp/127.0.0.1:1", "--metrics", ports[1])
    start("brain", "metrics", ports[2], "--router", endpoint)       # the cloud's router is one as any other
    try:
        end = time.monotonic() + PATIENCE
        while len(texts) < 3 or 'brain_cloud_robot_connected{robot="robot1"} 1' not in texts[0] \
                or "brain_fleet_resources{" not in texts[0] or "brain_region_up{" not in texts[2]:
            assert all(process.poll() is None for process in running) and time.monotonic() < end, (
                texts, (folder / "said").read_text(errors="replace"))
            try:
                texts = [get(number) for number in ports]
                with Asking(endpoint, None) as asking:
                    asking("apply", resources=[ORDER])
            except (OSError, NoCloud):
                time.sleep(0.2)
        yield texts
    finally:
        for process in running:
            process.kill()
            process.wait(PATIENCE)


def queries() -> dict[str, str]:
    """All expressions of the dashboard and of the alerts, by where they stand."""
    dashboard = json.loads(FILES.joinpath("dashboard.json").read_text(encoding="utf-8"))
    alerts = yaml.safe_load(FILES.joinpath("alerts.yaml").read_text(encoding="utf-8"))
    return {**{f"{panel['title']} {target['refId']}": target["expr"] for panel in dashboard["panels"]
               for target in panel.get("targets", ())},
            **{rule["alert"]: rule["expr"] for group in alerts["groups"] for rule in group["rules"]}}


@pytest.mark.slow
def test_every_query_asks_for_figures_that_there_are(shown):
    told = "\n".join(shown)
    known = set(re.findall(r"^# TYPE (\S+) ", told, re.M)) | {"up"}
    known |= {f"{name}_{part}" for name in re.findall(r"^# TYPE (\S+) histogram", told, re.M)
              for part in ("bucket", "count", "sum")}
    assert all(len(text) > 10 for text in re.findall(r"^# HELP \S+ ?(.*)$", told, re.M))
    assert set(re.findall(r"^# HELP (\S+) ", told, re.M)) == set(re.findall(r"^# TYPE (\S+) ", told, re.M))
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)", told, re.M):
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(r"_(ms|us|milliseconds|kb|mb|percent)(_|$)", name), name
    asked = {where: figures(query) for where, query in queries().items()}
    assert len(asked) > 45 and all(asked.values())
    assert {where: missing for where, names in asked.items() if (missing := names - known)} == {}
    named = {"job", "instance", "le", "stream", "topic", "source", "region", "quantile", "action", "robot"} | set(
        re.findall(r"[{,](\w+)=\"", told))
    assert {where: missing for where, query in queries().items() if (missing := labels(query) - named)} == {}


def test_one_that_asks_for_another_would_be_found():
    assert figures('rate(no_such_total{job="x"}[5m]) / on (region) up > 0.5') == {"no_such_total", "up"}
    assert labels('a{state="x", b!~"y"} / on (c, d) up') == {"state", "b", "c", "d"}


def test_each_alert_says_why_and_the_jobs_are_those_of_the_configuration():
    alerts = yaml.safe_load(FILES.joinpath("alerts.yaml").read_text(encoding="utf-8"))
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len(rules) == len({rule["alert"] for rule in rules}) >= 15
    for rule in rules:
        assert len(rule["annotations"]["why"]) > 40 and rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
    config = yaml.safe_load(FILES.joinpath("prometheus.yaml").read_text(encoding="utf-8"))
    jobs = {one["job_name"] for one in config["scrape_configs"]}
    asked = {job for query in queries().values() for jobs in re.findall(r"job=~?\"([^\"]*)\"", query)
             for job in jobs.split("|")}
    assert asked <= jobs == {"cloud", "edge", "brain"}
    assert set(yaml.safe_load(FILES.joinpath("compose.yaml").read_text())["services"]) == {"prometheus", "grafana"}


def test_they_are_written_out_and_what_is_there_stays(tmp_path):
    folder = tmp_path / "monitoring"
    done = CliRunner().invoke(app, ["fleet", "monitoring", str(folder)])
    assert done.exit_code == 0, done.output
    (folder / "alerts.yaml").write_text("mine")
    again = CliRunner().invoke(app, ["fleet", "monitoring", str(folder), "--json"])
    assert json.loads(again.output)["written"] == [] and (folder / "alerts.yaml").read_text() == "mine"
    assert (folder / "dashboard.json").read_bytes() == FILES.joinpath("dashboard.json").read_bytes()
    assert CliRunner().invoke(app, ["fleet", "monitoring", str(folder / "alerts.yaml")]).exit_code == 1


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed")
def test_prometheus_takes_them(tmp_path):
    assert CliRunner().invoke(app, ["fleet", "monitoring", str(tmp_path)]).exit_code == 0
    done = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yaml"], capture_output=True, text=True)
    assert done.returncode == 0 and "rules found" in done.stdout, done.stdout + done.stderr


# Series, a value each 10 s, and which alerts then fire when.
CASES = """
rule_files: [alerts.yaml]
evaluation_interval: 10s
tests:
  - interval: 10s
    input_series:
      - {series: 'brain_cloud_audit_entries_total{job="cloud", instance="c"}', values: '8x6 5x30'}
      - {series: 'brain_cloud_robots{job="cloud", instance="c", state="away"}', values: '6x60'}
      - {series: 'brain_cloud_robots{job="cloud", instance="c", state="connected"}', values: '4x60'}
      - {series: 'brain_region_up{job="brain", instance="b", region="/vision"}', values: '0x60'}
      - {series: 'brain_region_up{job="brain", instance="b", region="/pfc"}', values: '0x60'}
      - {series: 'brain_region_critical{job="brain", instance="b", region="/vision"}', values: '0x60'}
      - {series: 'brain_region_critical{job="brain", instance="b", region="/pfc"}', values: '1x60'}
      - {series: 'brain_hop_lost_total{job="brain", region="/pfc", topic="/scan", source="/w"}', values: '0+2x60'}
      - {series: 'brain_hop_messages_total{job="brain", region="/pfc", topic="/scan", source="/w"}', values: '0+98x60'}
      - {series: 'brain_cloud_robot_waiting_messages{job="cloud", robot="r"}', values: '60000x60'}
    alert_rule_test:
      - {eval_time: 50s, alertname: BrainAuditLogShorter, exp_alerts: []}
      - {eval_time: 2m, alertname: BrainAuditLogShorter, exp_alerts: [
          {exp_labels: {severity: page, job: cloud, instance: c}}]}
      - {eval_time: 1m, alertname: BrainFleetAway, exp_alerts: []}
      - {eval_time: 3m, alertname: BrainFleetAway, exp_alerts: [{exp_labels: {severity: page}}]}
      - {eval_time: 1m, alertname: BrainRegionDown, exp_alerts: [
          {exp_labels: {severity: page, job: brain, instance: b, region: /pfc}}]}
      - {eval_time: 9m, alertname: BrainMessagesLost, exp_alerts: [
          {exp_labels: {severity: ticket, job: brain, region: /pfc, topic: /scan, source: /w}}]}
      - {eval_time: 9m, alertname: BrainOutboxFills, exp_alerts: [
          {exp_labels: {severity: ticket, job: cloud, robot: r}}]}
"""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed")
def test_alerts_fire_when_they_should(tmp_path):
    rules = yaml.safe_load(FILES.joinpath("alerts.yaml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]     # of which a test would have to repeat each word
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "cases.yaml").write_text(CASES)
    done = subprocess.run(["promtool", "test", "rules", "cases.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed")
def test_prometheus_finds_nothing_to_say_about_names_and_helps(shown):
    for text in shown:
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
