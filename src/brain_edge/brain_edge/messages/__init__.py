# SPDX-License-Identifier: Apache-2.0
"""Messages that arrive: kept on disk at both ends, acknowledged, applied once and in order. See docs/fleet.md.

``outbox`` keeps what waits to be delivered, ``sender`` delivers it, ``receiver`` takes what others deliver and
``inbox`` applies it; ``history`` tells an end that has lost its database, or gone back to an older one, from one that
was only cut off; ``envelope`` is the format on the wire.
"""
