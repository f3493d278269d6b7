# SPDX-License-Identifier: Apache-2.0
"""Membership in a fleet, the cloud's side: who gets a certificate, and what robots' owners let it have.

``authority`` says who gets one, ``server`` is where robots ask for it, ``service`` puts both together with the router
that lets robots in; ``admission`` says with whom messages are exchanged; ``uploads`` keeps what robots hand in;
``versions`` tells what robots of other versions cannot do.
"""
