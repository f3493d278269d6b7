# SPDX-License-Identifier: Apache-2.0
"""Classes of regions that have another name now, so that an old graph is told the new one."""
from __future__ import annotations

_BASELINES = {
    "brain_regions.vision.region:AnnVision": "ann_vision:AnnVision",
    "brain_regions.language:AnnLanguage": "ann_language:AnnLanguage",
    "brain_regions.language.region:AnnLanguage": "ann_language:AnnLanguage",
    "brain_regions.pfc:AnnPrefrontalCortex": "ann_pfc:AnnPrefrontalCortex",
    "brain_regions.pfc.region:AnnPrefrontalCortex": "ann_pfc:AnnPrefrontalCortex",
    "brain_regions.pfc:TablePrefrontalCortex": "table_pfc:TablePrefrontalCortex",
    "brain_regions.pfc.table:TablePrefrontalCortex": "table_pfc:TablePrefrontalCortex",
    "brain_regions.motor:AnnMotor": "ann_motor:AnnMotor",
    "brain_regions.motor.region:AnnMotor": "ann_motor:AnnMotor",
    "brain_regions.motor:WindowMotor": "dynamic_window_motor:DynamicWindowMotor",
    "brain_regions.motor.window:WindowMotor": "dynamic_window_motor:DynamicWindowMotor",
    "brain.color_vision:ColorVision": "color_vision:ColorVision",
    "brain.confused_vision:ConfusedVision": "confused_vision:ConfusedVision",
    "brain.late_vision:LateVision": "late_vision:LateVision",
}
_BASELINES |= {f"brain_baselines.{new}": new for new in {
    *_BASELINES.values(), "no_place:NoPlace", "passive_brainstem:PassiveBrainstem"}}
MOVED: dict[str, str] = {
    **{f"{old}:GrammarLanguage": "experiments.grammar.region:GrammarLanguage" for old in (
        "brain_baselines.grammar_language", "brain_regions.language", "brain_regions.language.grammar_region")},
    **{old: f"brain_eval.baselines.{new}" for old, new in _BASELINES.items()},
    "brain.blind:BlindCamera": "brain_sim.blind_camera:BlindCamera",
    "brain_baselines.window_motor:WindowMotor": "brain_eval.baselines.dynamic_window_motor:DynamicWindowMotor",
    "brain_sim.strangers:Sonar": "brain_sim.plugin_sensors:Sonar",
    "brain_sim.strangers:Bumper": "brain_sim.plugin_sensors:Bumper",
    "brain_sim.strangers:SecondCamera": "brain_sim.plugin_sensors:SecondCamera",
    "brain_regions.window:Window": "brain_observe.introspection:Introspection",
    "brain_regions.window.region:Window": "brain_observe.introspection:Introspection",
}
"""From an old ``package.module:Class``, or an old ``package.module`` all of whose classes moved, to the new one."""


def new_name(cls: str) -> str | None:
    """The new name of a class that is not where it was, as ``package.module:Class``; None: it never had another."""
    module, _, name = cls.partition(":")
    return MOVED.get(cls) or (f"{MOVED[module]}:{name}" if module in MOVED else None)
