# SPDX-License-Identifier: Apache-2.0
"""Placement by tiers: which region of a brain may live on the robot, near it or far from it, and which should.

:mod:`.tiers` and :mod:`.files` are what people or a measurement wrote. :mod:`.demand` makes of them and a graph what
has to be decided, :mod:`.solve` decides it, :mod:`.planning` asks it all that a person wants to know, and :mod:`.words`
says so. :mod:`.channel` is what one link does to bytes: :mod:`.rehearsal` plays a plan with it.
"""
