# SPDX-License-Identifier: Apache-2.0
"""The processes of a fleet, and the verbs that start and ask them: ``brain cloud``, ``brain edge``, ``brain fleet``."""
