#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test: the workspace built by colcon, with the tests that prove something there (marked colcon), and beside that
# all tests from the sources, those that are to run alone at the end.
# It tells of the part under colcon first, then of the one from the sources; the last line is pytest's own. The status
# is 0 only if both parts passed. WORKERS says how many tests from the sources run side by side: two more than there are
# cores, since half of the time tests wait for processes that begin or end.
#   scripts/run_tests.sh [--no-ros | --ros DISTRIBUTION] [arguments of pytest]
#   scripts/run_tests.sh --build DISTRIBUTION       only builds, for --built in place of --ros; needs no .venv
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ros=kilted
build=
case "${1:-}" in
  --build) ros=$2; build=only; shift 2;;
  --built) ros=$2; build=before; shift 2;;
  --no-ros) ros=; shift;;
  --ros) ros=$2; shift 2;;
esac
# Kilted's environment and builds are those without a name: .venv-ros and .ros.
suffix=${ros:+-$ros}
suffix=${suffix%-kilted}
environment=.venv-ros$suffix
work=.ros$suffix
# nproc takes these for a number of cores.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
workers=${WORKERS:-$((cores + 2))}

# A ROS that the caller has sourced must not get into either part.
unset PYTHONPATH PYTHONHOME AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH ROS_DISTRO ROS_VERSION \
  ROS_PYTHON_VERSION RMW_IMPLEMENTATION ROS_DOMAIN_ID VIRTUAL_ENV
# Nothing that a test does leaves this machine.
export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST
# One thread a process: the tests start many of them.
export OMP_NUM_THREADS=1
# Only the plugins that are named, whatever else is installed.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1

# Remove what earlier runs built, since files that are gone from the sources would stay installed. Messages take
# a minute to compile, so theirs are kept while nothing that they are made from has changed.
clear_builds() {
  local made_from
  made_from=$(find "$environment/ros-installed" src/brain_interfaces -type f -not -path '*.egg-info/*' \
    -exec sha256sum {} + | sort | sha256sum)
  mkdir -p "$work"
  if [ "$(cat "$work/interfaces.sha256" 2>/dev/null)" != "$made_from" ]; then
    rm -rf "$work"
  else
    find "$work/build" "$work/install" -mindepth 1 -maxdepth 1 -type d -not -name brain_interfaces \
      -exec rm -rf {} +
  fi
  mkdir -p "$work"
  echo "$made_from" >"$work/interfaces.sha256"
}

source_ros() {
  # The setup files of ROS use unset variables.
  set +u
  source "$environment/setup.bash" || return 1
  set -u
  colcon=("$environment/bin/colcon" --log-base "$work/log")
}

build_colcon() {
  SECONDS=0
  clear_builds
  # Without it colcon lets make wait until the machine's load is low, which it never is beside the other part.
  export MAKEFLAGS=-j$cores
  "${colcon[@]}" build --base-paths src --build-base "$work/build" --install-base "$work/install" \
    --event-handlers console_cohesion+ >"$work/build.log" 2>&1 || {
    tail -n 100 "$work/build.log"
    echo "brain: colcon build failed; the whole log is $work/build.log"
    return 1
  }
  grep -E '^(Finished|Summary)' "$work/build.log"
  echo "brain: colcon build: $SECONDS s"
}

run_colcon() {
  source_ros || return 1
  [ "$build" = before ] || build_colcon || return 1
  SECONDS=0
  export ROS_PYTHON_CHECK_FIELDS=1
  "${colcon[@]}" test --base-paths src --build-base "$work/build" --install-base "$work/install" \
    --executor sequential --event-handlers console_direct+ --return-code-on-test-failure \
    --pytest-args " -p" timeout " -m" colcon " -q" " --durations=15" || return 1
  "${colcon[@]}" test-result --test-result-base "$work/build" || return 1
  "${colcon[@]}" test-result --test-result-base "$work/build" --all |
    "$environment/bin/python" scripts/count_tests.py "$work/log/latest_test" || return 1
  echo "brain: tests under colcon: $SECONDS s"
}

run_sources() {
  # A module has one worker, so that what it starts once is started once; see conftest.py for brains.
  .venv/bin/python -m pytest -p timeout -p xdist -n "$workers" --dist loadfile --no-loadscope-reorder \
    --durations=25 "$@"
}

if [ "$build" = only ]; then
  source_ros && build_colcon
  exit
fi
if [ -z "$ros" ]; then
  run_sources "$@"
  exit
fi

# The part from the sources runs in a process group of its own, and what it says waits in a file until colcon's has
# been told: in a group of ours it would be deaf to SIGINT, and so would be what its tests start.
mkdir -p .pytest_cache
export BRAIN_TEST_TURNS=1   # both parts start brains
said=$(mktemp)
set -m
run_sources "$@" >"$said" 2>&1 </dev/null &
sources=$!
set +m
trap 'kill -INT -- "-$sources" 2>/dev/null; rm -f "$said"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

status=0
# What runs alone waits for the tests under colcon.
(flock -s 9; run_colcon 9>&-) 9>.pytest_cache/alone.lock || {
  status=1
  echo "brain: the part under colcon FAILED"
}
tail -n +1 -f --pid="$sources" "$said"
wait "$sources" || status=1
exit "$status"
