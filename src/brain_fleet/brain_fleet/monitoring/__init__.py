# SPDX-License-Identifier: Apache-2.0
"""A fleet seen from outside: figures of cloud and edge, and the files with which Prometheus and Grafana show them."""
