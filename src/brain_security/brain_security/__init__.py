# SPDX-License-Identifier: Apache-2.0
"""Who may do what in a brain, from its graph: rights, access rules, certificates, and the folder that holds them."""
