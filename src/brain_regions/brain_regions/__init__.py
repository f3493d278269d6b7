# SPDX-License-Identifier: Apache-2.0
"""The regions of the brain: spiking neurons, vision, language, place, pfc, motor and brainstem, with their weights."""
