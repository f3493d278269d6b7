# SPDX-License-Identifier: Apache-2.0
"""Trained: a region whose network has weights from a file, which may be another file while it runs."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from brain_regions.weight_files import WeightsError
from brain_runtime import ParameterError, Region, parameter
from brain_runtime.contract.declared import DeclaredError

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class TrainedParameters:
    """Choice of the weights, and of what computes with them."""

    weights: str = parameter("", "weight file: a path (with a / or ending in .safetensors), or the name of a set that "
                                 "comes with the package; empty: the region's own", local=True)
    device: str = parameter("cpu", "what the network is computed on", choices=DEVICES)


class Trained(Region):
    """Loads its weights when it is configured, and anew, between two steps, when ``weights`` or ``device`` is set.

    A subclass declares ``network`` and ``weights``, has :class:`TrainedParameters` among its parameters, and defines
    :meth:`load`.
    """

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Loads the weights.

        Raises:
            ParameterError, WeightsError: a parameter or the weight file does not fit.
        """
        super().configure(parameters)
        try:
            self._load()
        except DeclaredError as error:
            raise ParameterError(f"parameter weights of {self.name}: {error}") from error

    def load(self, path: Path, device: str) -> None:
        """Makes the network compute with the weights of a file from the next step on.

        It changes nothing unless all of it succeeds. The state of the network stays. It sets ``weights_hash``, which
        heartbeats tell and which a snapshot of the state must have been made with.

        Args:
            path: of the file.
            device: one of the network's devices.

        Raises:
            WeightsError: the file is missing, torn, or made for another network.
        """
        raise NotImplementedError(f"{type(self).__name__} must define load()")

    def on_parameter(self, name: str, value: Any) -> None:
        """Changes a parameter between two steps; the weights are read anew where it is theirs.

        Raises:
            ParameterError: see :meth:`brain_runtime.contract.region.Region.on_parameter`; or the weights cannot be
                used, and the region goes on with those that it has.
        """
        before = self.parameters
        super().on_parameter(name, value)
        if name not in ("weights", "device"):
            return
        loaded = False
        try:
            self._load()
            loaded = True
        except (DeclaredError, WeightsError) as error:
            raise ParameterError(f"{self.name} keeps the weights that it has: {error}") from error
        finally:
            if not loaded:
                self.parameters = before

    def _load(self) -> None:
        network, weights, device = self.network, self.weights, self.parameters.device
        if network is None or weights is None:
            raise DeclaredError(f"{type(self).__name__} must declare `network` and `weights`")
        if device not in network.devices:
            raise ParameterError(f"parameter device of {self.name} is {device}, but its network computes on "
                                 f"{', '.join(network.devices)} alone; set device to {network.devices[0]}")
        if device != "cpu":
            try:
                from brain_regions.torch_device import lacking
            except ModuleNotFoundError as missing:
                raise ParameterError(f"parameter device of {self.name} is {device}, but {missing.name} is not "
                                     f"installed; install it, or set device to cpu") from missing
            if why := lacking():
                raise ParameterError(f"parameter device of {self.name} is {device}, but {why}; set device to cpu")
        self.load(weights.path(self.parameters.weights), device)
