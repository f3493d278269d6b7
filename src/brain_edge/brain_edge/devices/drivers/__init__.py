# SPDX-License-Identifier: Apache-2.0
"""The drivers that come with this package; each loads its library when it opens a device."""
