# SPDX-License-Identifier: Apache-2.0
"""Twice what it hears, as a node of rclpy and nothing else."""
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from std_msgs.msg import Float32


class Doubler(Node):
    """Twice what it hears."""

    def __init__(self):
        super().__init__("doubler")
        self.doubled = self.create_publisher(Float32, "bench/doubled", 1)
        self.create_subscription(Float32, "bench/number", self.step, 1)

    def step(self, number):
        self.doubled.publish(Float32(data=2.0 * number.data))


if __name__ == "__main__":
    rclpy.init()
    try:
        rclpy.spin(Doubler())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass    # asked to end
    finally:
        rclpy.try_shutdown()
