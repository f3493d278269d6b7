# SPDX-License-Identifier: Apache-2.0
"""Rights of each identity in a brain, from its graph: access rules, certificates, and the folder that holds them."""
