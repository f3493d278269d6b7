# SPDX-License-Identifier: Apache-2.0
"""pip runs this file; everything it says stands in setup.cfg."""

from setuptools import setup

setup()
