# SPDX-License-Identifier: Apache-2.0
"""The cloud's process, and the verbs that start it and give it orders: ``brain cloud``, ``brain fleet``."""
