# SPDX-License-Identifier: Apache-2.0
"""Whether messages arrive: two ends as processes, a link that is cut, kills, and counters outside of all of it."""
