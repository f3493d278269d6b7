# SPDX-License-Identifier: Apache-2.0
"""A robot's processes in a fleet, and the verbs that start and ask them: ``brain edge``, ``brain fleet``."""
