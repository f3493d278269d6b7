# SPDX-License-Identifier: Apache-2.0
"""Looking inside a running brain: pictures, recordings and the live view."""
