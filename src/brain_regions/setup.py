# SPDX-License-Identifier: Apache-2.0
"""colcon runs this file; what it says stands in setup.cfg, but for what is compiled, which cannot stand there."""

from setuptools import Extension, setup

# It is no module, but is loaded by ctypes, and so needs no headers of Python and fits all of its versions. Without a C
# compiler brain_regions.convolutions goes without it.
setup(ext_modules=[Extension("brain_regions._events", ["brain_regions/events.c"], py_limited_api=True, optional=True,
                             extra_compile_args=["-O3", "-ffp-contract=off"])],
      options={"bdist_wheel": {"py_limited_api": "cp311"}})
