# SPDX-License-Identifier: Apache-2.0
"""RosLog: what Python code logs, told by a ROS 2 node: on its console and on /rosout."""
from __future__ import annotations

import logging
from typing import Any

from brain_wire import safe_text


class RosLog(logging.Handler):
    """Hands records on to a node's logger.

    Args:
        node: an rclpy node.
    """

    def __init__(self, node: Any) -> None:
        super().__init__()
        self._logger = node.get_logger()
        self.setFormatter(safe_text.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Hands one record on; rclpy remembers the severity of each line that logs, so each has a line of its own."""
        text = self.format(record)
        if record.levelno >= logging.CRITICAL:
            self._logger.fatal(text)
        elif record.levelno >= logging.ERROR:
            self._logger.error(text)
        elif record.levelno >= logging.WARNING:
            self._logger.warning(text)
        elif record.levelno >= logging.INFO:
            self._logger.info(text)
        else:
            self._logger.debug(text)
