# SPDX-License-Identifier: Apache-2.0
"""colcon runs this file; everything it says stands in setup.cfg."""

from setuptools import setup

setup()
