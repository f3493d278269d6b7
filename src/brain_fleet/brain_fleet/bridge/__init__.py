# SPDX-License-Identifier: Apache-2.0
"""Bridge between a robot's net and the cloud's: named topics go up, answers come down, nothing else crosses."""
