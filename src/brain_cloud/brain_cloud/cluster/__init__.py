# SPDX-License-Identifier: Apache-2.0
"""The operator: jobs and fleet nodes as Kubernetes resources. Pure functions say what is wanted; one process does it.

``trainjob``, ``sedna`` and ``stages`` map a resource to the objects below it and to its status, without a cluster;
``pods`` is what they have in common. ``reconcile`` brings it about at a served API, ``mirror`` shows the fleet
there, and ``handlers`` are what kopf calls. Nothing of this is installed on a robot.
"""
