# SPDX-License-Identifier: Apache-2.0
# The workspace on an official ROS 2 image, over rmw_zenoh. Not run here: there is no container engine.
#   docker build --target run -t brain .                        # what a robot needs; kilted, or --build-arg ROS_DISTRO=jazzy
#   docker build --target simulator -t brain:simulator .        # and the simulated robot
#   docker build --target test .                                # build everything and run its tests
ARG ROS_DISTRO=kilted

# What rosdep does not install goes into an environment that sees the distribution's packages.
FROM ros:${ROS_DISTRO}-ros-base AS dependencies
SHELL ["/bin/bash", "-c"]
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY requirements-ros.txt /ws/src/brain/
RUN python3 -m venv --system-site-packages /opt/brain-env \
    && /opt/brain-env/bin/pip install --no-cache-dir -r /ws/src/brain/requirements-ros.txt

# The environment's Python builds, and so it runs what is built. First what a robot needs; its rosdep keys are put down.
FROM dependencies AS build
WORKDIR /ws
COPY src src/brain/src
RUN apt-get update && rosdep update --rosdistro "$ROS_DISTRO" \
    && robot="$(printf "src/brain/src/%s " brain_interfaces brain_wire brain_runtime brain_security brain_regions \
            brain brain_edge)" \
    && rosdep install -y --ignore-src --from-paths $robot \
        --dependency-types build --dependency-types buildtool --dependency-types build_export --dependency-types exec \
    && keys="rosdep install -y --simulate --reinstall --ignore-src --dependency-types exec --from-paths" \
    && $keys $robot | awk '/apt-get install/ {print $NF}' >/opt/run-packages.txt \
    && $keys src/brain/src/{brain_sim,brain_observe,brain_collectives,brain_eval} \
        | awk '/apt-get install/ {print $NF}' >/opt/simulator-packages.txt \
    && rm -rf /var/lib/apt/lists/*
RUN source "/opt/ros/$ROS_DISTRO/setup.bash" \
    && /opt/brain-env/bin/python -m colcon build --install-base /opt/brain \
        --packages-select brain_interfaces brain_wire brain_runtime brain_security brain_regions brain brain_edge

FROM build AS build-simulator
RUN source "/opt/ros/$ROS_DISTRO/setup.bash" && source /opt/brain/setup.bash \
    && /opt/brain-env/bin/python -m colcon build --install-base /opt/brain \
        --packages-select brain_sim brain_observe brain_collectives brain_eval

FROM build-simulator AS test
COPY . src/brain/
RUN apt-get update && rosdep install -y --from-paths src --ignore-src && rm -rf /var/lib/apt/lists/* \
    && /opt/brain-env/bin/pip install --no-cache-dir -r src/brain/requirements-ros-test.txt
RUN source "/opt/ros/$ROS_DISTRO/setup.bash" && /opt/brain-env/bin/python -m colcon build --install-base /opt/brain
RUN source /opt/brain/setup.bash && export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST ROS_PYTHON_CHECK_FIELDS=1 \
    && colcon="/opt/brain-env/bin/python -m colcon" \
    && $colcon test --install-base /opt/brain --executor sequential --event-handlers console_direct+ \
        --return-code-on-test-failure --pytest-args " -m" "not slow and not alone" \
    && $colcon test-result --verbose \
    && $colcon test-result --all | python3 src/brain/scripts/count_tests.py log/latest_test

# What a robot runs: no simulator, no MuJoCo, nothing of the training or the tests.
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

# The same with the simulated robot, for a desk.
FROM run AS simulator
USER root
COPY --from=build /opt/simulator-packages.txt /opt/
COPY requirements-ros.txt requirements-ros-sim.txt /opt/
RUN apt-get update && xargs apt-get install -y --no-install-recommends </opt/simulator-packages.txt \
    && rm -rf /var/lib/apt/lists/* \
    && /opt/brain-env/bin/pip install --no-cache-dir -r /opt/requirements-ros-sim.txt
COPY --from=build-simulator /opt/brain/brain_sim /opt/brain/brain_sim
COPY --from=build-simulator /opt/brain/brain_observe /opt/brain/brain_observe
COPY --from=build-simulator /opt/brain/brain_eval /opt/brain/brain_eval
USER brain
CMD ["ros2", "launch", "brain", "bringup.launch.py", "world:=sim", "state_dir:=/var/lib/brain"]
