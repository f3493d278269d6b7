# SPDX-License-Identifier: Apache-2.0
"""A shard of a region, number 1 or up: ``python -m brain_collectives.shard_process``; :mod:`.shards` starts it.

It runs what the region's class names as its split until it is killed, by shard 0 or with it.
"""
from __future__ import annotations

import argparse
import logging
import signal
import sys
from datetime import timedelta
from typing import Sequence

from brain_runtime.hosts import shards
from brain_collectives.hosts.torch_exchange import Exchange, meeting
from brain_runtime.contract.declared import DeclaredError, named
from brain_runtime.hosts.backends import GroupError, backend, first_line
from brain_runtime.run.ending import leave
from brain_wire import safe_text
from brain_wire.logs import survive_full_disk

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Works for shard 0 until it is killed; returns the exit status where it cannot."""
    parser = argparse.ArgumentParser(prog="brain_collectives.shard_process", description="One of the processes of a "
                                     "region that is spread over several.")
    parser.add_argument("--work", required=True, help="package.module:function")
    parser.add_argument("--name", required=True, help="of the region")
    parser.add_argument("--rank", type=int, required=True, help="of this shard")
    parser.add_argument("--size", type=int, required=True, help="how many there are")
    parser.add_argument("--backend", required=True, help="of torch.distributed")
    parser.add_argument("--store", required=True, help="file by which they meet")
    options = parser.parse_args(argv)
    survive_full_disk()
    safe_text.log_to(sys.stderr, logging.INFO, f"%(asctime)s %(levelname)s [{options.name} shard {options.rank}] "
                                               f"%(message)s")
    facts = {"code": shards.code_hash(options.work), "work": options.work, "size": options.size,
             "backend": options.backend}
    try:
        work = named(options.work, f"the split of {options.name}")
        make = backend(options.backend)
        store = meeting(options.store, options.size)
        store.set(f"{options.rank} is here", "")
        group = make(store, options.rank, options.size, timedelta(seconds=shards.FORMING))
        exchange = Exchange(group, options.rank, options.size, 0.0, _lost)
        exchange.facts(facts)
        exchange.hear()
        work(exchange)
    except shards.ShardError as error:
        # Shard 0 knows by now, or will; it finds out who is to blame by who has ended.
        log.warning("%s; waiting for shard 0 to end this one", error)
        while True:
            signal.pause()
    except (GroupError, DeclaredError, ModuleNotFoundError) as error:
        print(f"cannot start: {safe_text.line(str(error))}", file=sys.stderr)
        return 2
    except Exception:   # whatever the region's code raises: shard 0 is not to wait for torch to be taken down
        log.exception("failed")
        return 1
    return 0


def _lost(rank: int, error: Exception, waited: bool) -> shards.ShardError:
    return shards.ShardError(f"shard {rank} is lost: {first_line(error)}")


if __name__ == "__main__":
    leave(main())
