# SPDX-License-Identifier: Apache-2.0
"""Runs a command that dies with its parent: ``python end_with_parent.py PARENT_PID COMMAND...``.

A supervisor that is killed with SIGKILL cannot end its children, so the kernel is asked to do it. The request must be
made in the child before it becomes the command, hence this small step between. It is run by its path and imports
nothing of this package, so it costs about 20 ms. Linux only; elsewhere the command outlives it.

The kernel watches the *thread* that started the child: start children from one that lives as long as they shall.
"""
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Replaces this process by ``argv[1:]``; ends with status 125 if process ``argv[0]`` is not the parent any more."""
    die_with(int(argv[0]))
    os.execvp(argv[1], argv[1:])


def die_with(parent: int) -> None:
    """Has the kernel kill this process when its parent ends, however it ends (Linux only; elsewhere nothing happens).

    For workers of a pool, which are no command. What the kernel watches is the thread that
    started them.

    Args:
        parent: process that started this one. If it is not the parent any more, this process ends with status 125.
            Where it had a server of :mod:`multiprocessing` fork this one, the server is watched, which ends with it.
    """
    try:
        signalled(signal.SIGKILL)
    except OSError as error:
        sys.exit(str(error))
    if os.getppid() != parent and not _forked_for(parent):  # it died before the kernel had been asked
        os._exit(125)           # a pool would catch an exception, and there is nobody left to tell


def signalled(number: int) -> None:
    """Has the kernel send this process a signal when the thread ends that started it (Linux only).

    Raises:
        OSError: the kernel does not do it.
    """
    if sys.platform == "linux":
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")


def _forked_for(parent: int) -> bool:
    process = sys.modules.get("multiprocessing.process")    # of a command this file is all that is imported
    starter = process and process.parent_process()
    return starter is not None and starter.pid == parent and starter.is_alive()


if __name__ == "__main__":
    main(sys.argv[1:])
