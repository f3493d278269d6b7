# SPDX-License-Identifier: Apache-2.0
"""colcon runs this file; what it says stands in setup.cfg, but for what is compiled, which cannot stand there."""

from functools import partial

import setuptools

# It is no module, but is loaded by ctypes, and so needs no headers of Python and fits all of its versions. Without a C
# compiler brain_regions.convolutions goes without it.
EVENTS = setuptools.Extension("brain_regions._events", ["brain_regions/events.c"], py_limited_api=True, optional=True,
                              extra_compile_args=["-O3", "-ffp-contract=off"])
setup = partial(setuptools.setup, ext_modules=[EVENTS])

setup()     # without arguments, or colcon would ask this file what setup.cfg says, and not understand its answer
