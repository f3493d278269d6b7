# SPDX-License-Identifier: Apache-2.0
"""Joint inference over a fleet's links: hard pictures go from a robot's brain to the cloud, answers come back."""
