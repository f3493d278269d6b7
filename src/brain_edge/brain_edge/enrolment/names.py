# SPDX-License-Identifier: Apache-2.0
"""Names and numbers that both sides of the door know; nothing is imported here, so a robot may read it for nothing."""
from __future__ import annotations

FILE = "credentials.json5"  # in an edge's folder: what it enrolled with
FORMAT = 1                  # of questions at the door
PATIENCE = 10.0             # s that one who asks gets altogether
NO_CHECK_TIME = 0x200000    # of OpenSSL: X509_V_FLAG_NO_CHECK_TIME, for which Python has no name
GO = b'{"go": true}\n'     # what lets a file come
