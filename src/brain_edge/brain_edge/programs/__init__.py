# SPDX-License-Identifier: Apache-2.0
"""Programs beside a robot's brain that the cloud has run, as a learner or a collector: its owner says which there are.

The owner names each with its whole command; an order names one of them and nothing else, so nothing that comes from
the cloud becomes a command or a word of one.
"""
