# SPDX-License-Identifier: Apache-2.0
# The workspace on an official ROS 2 image, over rmw_zenoh. Not run here: there is no container engine.
#   docker build --target test .                          # build it and run its tests
#   docker build --build-arg ROS_DISTRO=jazzy -t brain .  # the small image that runs; kilted without the argument
ARG ROS_DISTRO=kilted

# What rosdep does not install goes into an environment that sees the distribution's packages.
FROM ros:${ROS_DISTRO}-ros-base AS dependencies
SHELL ["/bin/bash", "-c"]
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY requirements-ros.txt /ws/src/brain/
RUN python3 -m venv --system-site-packages /opt/brain-env \
    && /opt/brain-env/bin/pip install --no-cache-dir -r /ws/src/brain/requirements-ros.txt

# The environment is active during the build: so its packages are found wherever /opt/brain/setup.bash is sourced.
FROM dependencies AS build
WORKDIR /ws
COPY src src/brain/src
RUN apt-get update && rosdep update --rosdistro "$ROS_DISTRO" \
    && rosdep install -y --from-paths src --ignore-src \
    && rosdep install -y --simulate --reinstall --ignore-src --dependency-types exec \
        --from-paths $(ls -d src/brain/src/* | grep -v brain_tests) \
        | awk '/apt-get install/ {print $NF}' >/opt/run-packages.txt \
    && rm -rf /var/lib/apt/lists/*
RUN source "/opt/ros/$ROS_DISTRO/setup.bash" && source /opt/brain-env/bin/activate \
    && colcon build --install-base /opt/brain

FROM build AS test
COPY . src/brain/
RUN source /opt/brain/setup.bash && export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST ROS_PYTHON_CHECK_FIELDS=1 \
    && colcon test --install-base /opt/brain --executor sequential --event-handlers console_direct+ \
        --return-code-on-test-failure --pytest-args " -m" "not slow" \
    && colcon test-result --verbose \
    && colcon test-result --all | python3 src/brain/scripts/count_tests.py log/latest_test

FROM ros:${ROS_DISTRO}-ros-core AS run
COPY --from=build /opt/run-packages.txt /opt/
RUN apt-get update && xargs apt-get install -y --no-install-recommends </opt/run-packages.txt \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home brain && install -d -o brain -g brain /var/lib/brain \
    && printf '#!/bin/bash\nset -e\nsource /opt/brain/setup.bash\nexec "$@"\n' >/enter && chmod +x /enter
COPY --from=dependencies /opt/brain-env /opt/brain-env
COPY --from=build /opt/brain /opt/brain
ENV RMW_IMPLEMENTATION=rmw_zenoh_cpp
USER brain
WORKDIR /home/brain
VOLUME /var/lib/brain
STOPSIGNAL SIGINT
# Healthy while every region of the graph is heard and active.
HEALTHCHECK --interval=10s --timeout=8s --start-period=30s CMD ["/enter", "ros2", "run", "brain", "brain", "status"]
ENTRYPOINT ["/enter"]
# A real robot by default, which BRAIN_ROBOT must name: docker run -e BRAIN_ROBOT=turtlebot3_burger brain
CMD ["bash", "-c", "exec ros2 launch brain bringup.launch.py state_dir:=/var/lib/brain world:=${BRAIN_WORLD:-none} ${BRAIN_ROBOT:+robot:=$BRAIN_ROBOT}"]
