# SPDX-License-Identifier: Apache-2.0
"""Episodes and what comes of them: evaluations, ablations, comparisons, the demo and films."""
