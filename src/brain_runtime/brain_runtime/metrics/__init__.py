# SPDX-License-Identifier: Apache-2.0
"""Figures of a running process for Prometheus: ``families`` says what they are, ``prometheus_server`` shows them.

Who has figures makes them from plain counts; only ``prometheus_server`` needs the package prometheus_client.
"""
