# SPDX-License-Identifier: Apache-2.0
"""``brain fleet demo``: a cloud and robots in rooms that are not alike, as real processes of one machine."""
