# SPDX-License-Identifier: Apache-2.0
"""Training by several processes: what ``brain train REGION --parallel dp=2,zero=3`` does."""
