# SPDX-License-Identifier: Apache-2.0
"""``brain robot new``: writes a robot's profile, by what a running robot tells and by questions about the rest."""
