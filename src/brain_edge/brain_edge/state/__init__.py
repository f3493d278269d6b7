# SPDX-License-Identifier: Apache-2.0
"""State that is desired of this robot, and what it reports: resources with versions.

``kinds`` says what there can be, ``manifests`` reads what people write, ``desired_state`` is what this robot goes by,
``apply`` brings a running ``brain`` to it, in the threads of ``worker``. The cloud's side is brain_cloud.state.
"""
