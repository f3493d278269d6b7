# SPDX-License-Identifier: Apache-2.0
# colcon has this run where the workspace is sourced (colcon.pkg): `brain` is found beside `ros2 run brain brain`.
_colcon_prepend_unique_value PATH "$COLCON_CURRENT_PREFIX/lib/brain"
