# SPDX-License-Identifier: Apache-2.0
"""Devices beside a robot's brain: registers, keys and topics as properties with units and limits.

``models`` says what a device is, ``driver`` what a driver is, ``region`` makes a region of both, ``process`` runs it,
``twin`` is what is believed of a device, ``device_manager`` keeps all processes and twins, ``rights`` says what they
may, ``fleet_devices`` joins them to the state of the fleet.
"""
