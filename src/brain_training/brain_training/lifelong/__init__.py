# SPDX-License-Identifier: Apache-2.0
"""Lifelong learning of vision: a library of tasks, and which of them a robot's pictures belong to.

A task is a site whose pictures look alike. The :mod:`.library` keeps for each its weights, a few clips, and what its
pictures look like in numbers (:mod:`.pictures`, :mod:`.descriptor`). From these :mod:`.allocation` tells to which task
pictures belong, or that they belong to none. :mod:`.learners` has other ways to learn one task after another, which
forget more.
"""
