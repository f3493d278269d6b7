# SPDX-License-Identifier: Apache-2.0
"""Devices beside a robot's brain: registers, keys and topics as properties with units and limits.

``models`` says what a device is, ``driver`` what a driver is, ``process`` runs one, ``supervised`` starts it and starts
it again, ``twin`` is what is believed of a device, ``mapper`` keeps them all, ``shown`` publishes them, ``keeping``
joins them to the state of the fleet.
"""
