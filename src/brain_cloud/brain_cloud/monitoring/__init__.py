# SPDX-License-Identifier: Apache-2.0
"""A fleet seen from outside: the cloud's figures, and the files with which Prometheus and Grafana show a fleet."""
