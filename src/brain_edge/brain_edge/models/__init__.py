# SPDX-License-Identifier: Apache-2.0
"""Models on a robot: files that come whole or not at all, and are loaded when no goal is pursued.

``model_file`` and ``model_signature`` say what a model is and who vouches for it, ``model_cache`` keeps files,
``fetching`` gets them, ``loading`` puts them into a brain and ``goals`` tells how its goals end with them.
"""
