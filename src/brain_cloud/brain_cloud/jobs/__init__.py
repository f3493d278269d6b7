# SPDX-License-Identifier: Apache-2.0
"""Jobs as manifests: Kubeflow's TrainJob and Sedna's jobs, run by processes on this machine as a cluster would by pods.

``kinds`` and ``manifests`` read and check what people write; ``training``, ``sedna`` and ``learning`` say what a job
means, wherever it runs, and ``status`` how far it is. ``local_plan`` says which ``workers`` of this machine a job has,
and ``pod_commands`` what each pod's containers come to; ``runner`` runs them, each under a ``keeper``, and keeps what
it knows in ``records``; ``stages`` drives Sedna's jobs that learn again and again; ``served`` and ``verbs`` are the
cloud's and the command's side.
"""
