# SPDX-License-Identifier: Apache-2.0
"""``brain doctor``: judges a live robot, the machine and a graph before the brain may drive.

One module listens (:mod:`.listening`); all others are pure functions from what was heard to findings, one a theme.
"""
