# SPDX-License-Identifier: Apache-2.0
"""The simulated robot, its rooms, the language-v1 suite and its referee."""
