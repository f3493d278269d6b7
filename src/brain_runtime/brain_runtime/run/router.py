# SPDX-License-Identifier: Apache-2.0
"""A brain's Zenoh router: ``python -m brain_runtime.run.router``, with the options of ``brain_wire.router``.

It ends when its keeper is gone, after what moves the robot: brainstem's last word gets through.
"""
from __future__ import annotations

from brain_runtime.run.keeper import end_with_keeper
from brain_wire import router

if __name__ == "__main__":
    end_with_keeper()
    router.run()
