# SPDX-License-Identifier: Apache-2.0
"""Language: reads sentences with a spiking network, says what they ask for."""
from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Mapping, NamedTuple

import numpy as np

from brain_regions.language import halves, taught_words
from brain_regions.language import sizes as z
from brain_regions.language import weights as weight_file
from brain_regions.language.decode import framed, obeyed, spell
from brain_regions.language.goal import (
    ID, TEXT, UNDERSTOOD, Listener, codes, decoded, digest_of, features_of, next_number, remember)
from brain_regions.language.network import SpikingReader
from brain_regions.language.reasons import Why
from brain_regions.language.tokens import is_japanese
from brain_regions.language.understanding import MAX_CHARACTERS, Understanding
from brain_regions.lesions import Lesionable, LesionParameters
from brain_regions.membranes import MICRO_STEP, ticks
from brain_regions.trained import Trained, TrainedParameters
from brain_runtime import parameter
from brain_runtime.contract import taught
from brain_runtime.contract.declared import Network, Picture, Population, Weights

log = logging.getLogger(__name__)
REPUBLISH = 0.2     # s after which the newest answer is said again, for those who join late
HEARD_FOR = 1.0     # s for which it is not, after what is no order: that is said once, and has to be heard
READER = "reader_"  # what the names of the network's state begin with
ROLES = {"target": [z.TARGET], "avoid": [z.AVOID], "action": z.ACTION}
"""What a byte may be for, and the outputs that say so."""


class Reading(NamedTuple):
    """Progress of language in reading a sentence.

    Attributes:
        text: as the network hears it, without its frames.
        evidence: that spikes have brought so far for each role of each byte, float32[bytes, len(ROLES)].
        share: of the bytes that have been read, 0..1.
    """

    text: str
    evidence: np.ndarray
    share: float


@dataclass(frozen=True)
class LanguageParameters(LesionParameters, TrainedParameters):
    """Parameters of language."""

    silent: bool = parameter(False, "no neuron fires: a control, in which nothing is understood", live=False)
    lexicon: str = parameter("on", "on: it checks what the network says; off: the network alone; alone: the lexicon "
                                   "without the network", choices=("on", "off", "alone"), live=False)


class Language(Trained, Listener, Lesionable):
    """Reads the newest sentence, a byte every 5 ms, recalls it, and says what it asks for; and says so again later.

    So an answer to a sentence of 60 bytes takes 0.5 s, to the longest, of 256 bytes, 2 s. A sentence that comes while
    another is read takes its place; the other one is answered as not understood, for this reason. All that is read so
    far is in the state, so that a region that was killed in the middle of a sentence reads on where it was. When there
    is nothing to read, nothing is computed.

    Each sentence gets the next goal id, but for one that is no order while there is a goal: that changes nothing. It is
    said once, under the goal's id and slots, with its own text and the reason. A sentence that comes again only because
    it is latched, right after this region was restored, keeps its id. A restored region first listens to
    ``pfc/control``: if a newer goal than the snapshot's is followed there, what the snapshot knows is past, and it
    stays silent until the next sentence. ``SILENCE`` says nothing, and changes nothing.
    """

    rate = 20.0
    Parameters = LanguageParameters
    network = Network("brain_training.definitions.language:SpikingReader", work=("_reader.read",))
    weights = Weights(weight_file.SHIPPED.parent, weight_file.SHIPPED.stem)
    populations = (
        Population("letters", (z.STREAMS, z.LETTERS), ("stream", "neuron"), told=False),
        Population("words", (z.STREAMS, z.WORDS), ("stream", "neuron"), told=False),
        Population("context", (z.STREAMS, z.CONTEXT), ("stream", "neuron"), told=False),
        Population("recall", (z.RECALL,), ("neuron",), told=False),
        Population("choice", (z.CHOICE,), ("neuron",), told=False))
    baselines = {"ann": "brain_eval.baselines.ann_language:AnnLanguage",
                 "conventional": "experiments.grammar.region:GrammarLanguage"}
    ablations = {"silent": {"silent": True}, "lexicon=off": {"lexicon": "off"}, "lexicon=alone": {"lexicon": "alone"}}
    task = "brain_training.language:LanguageTask"
    pictures = (Picture("brain_eval.panels:reading", below=112, of="reading"),)
    _reader_class = SpikingReader

    def configure(self, parameters):
        """Takes parameters; see :class:`Listener`."""
        super().configure(parameters)
        self._stand_ins: list[taught_words.StandIn] | None = None

    def load(self, path, device):
        """See :meth:`brain_regions.trained.Trained.load`."""
        tensors, _, digest = weight_file.load(path, self._reader_class)
        self._reader, self.weights_hash = self._reader_class(
            tensors, self.parameters.silent, self._lesions), digest

    @classmethod
    def circuit(cls):
        """The network with the shipped weights, for other simulators: a :class:`brain_regions.circuits.Circuit`.

        Raises:
            WeightsError: the weight file does not fit.
        """
        from brain_regions.language.circuit import circuit

        return circuit(weight_file.load(weight_file.SHIPPED, SpikingReader)[0])

    def initial_state(self):
        """State of the newest answer (see :class:`Listener`) and of reading.

        ``next_text``, ``next_digest``: of the sentence that is read; ``rates``: embedding of the newest answer (Hz);
        ``left``: time that was too short for a micro-step (s); ``spoken``: time since the answer was said last (s).
        """
        reader = {READER + name: value for name, value in self._reader.rest().items()}
        return {**super().initial_state(), **reader, "next_text": codes(""), "next_digest": np.zeros(4, np.float32),
                "rates": np.zeros(z.CHOICE, np.float32),
                "left": np.zeros(1, np.float32), "spoken": np.full(1, REPUBLISH, np.float32)}

    def snapshot_metadata(self):
        """A snapshot fits only the weights it was made with."""
        return {"weights": self.weights_hash, "h": repr(MICRO_STEP)}

    def step(self, inbox, state, dt, rng):
        self._lesions.draw_by(rng)
        followed, early = self._listen(inbox, dt)
        if early:
            return {}, state
        state = {**state, "spoken": state["spoken"] + np.float32(dt)}
        said: list[Any] = []
        reader = {name.removeprefix(READER): value for name, value in state.items() if name.startswith(READER)}
        if self._restored and followed > state["goal"][ID] and not self._reader.done(reader):
            reader = self._reader.rest()    # what was read has been answered since
        sentence, self._unheard = self._unheard, None
        if sentence is not None and not self._known(sentence, state, reader, followed):
            if not self._reader.done(reader) and not self._restored:
                state = self._refuse(state, followed, Why.INTERRUPTED)
                said.append(self._features(state))
            state, reader = self._begin(sentence, state, followed)
        elif not self._reader.done(reader):
            count = ticks(dt, float(state["left"][0]))
            state["left"] = np.array([count.left], np.float32)
            reader, effort = self._reader.read(reader, count.steps)
            self.count(**effort._asdict())
            if self._reader.done(reader):
                state, aside = self._understand(state, followed, reader)
                said += aside
        if sentence is not None:
            self._restored = False
        state = {**state, **{READER + name: value for name, value in reader.items()}}
        if state["spoken"][0] > REPUBLISH - 1e-4 and followed <= state["goal"][ID]:
            said.append(self._features(state))
            state["spoken"] = np.zeros(1, np.float32)
        return {"features": said} if said else {}, state

    def view(self, state):
        """``reading``: how far the newest sentence has been read, see :class:`Reading`; not before the first one."""
        length = int(state["reader_length"][0])
        if not length:
            return {}
        text = state["reader_sentence"][1:length - 1].astype(np.uint8).tobytes().decode("utf-8", "replace")
        steps = int(state["reader_place"][1])       # of the recall, so far
        evidence = np.zeros((len(state["reader_sentence"]), z.OUTPUTS), np.float32)
        evidence[:z.STRIDE * steps] = np.repeat(state["reader_evidence"][:steps], z.STRIDE, axis=0)[:len(evidence)]
        evidence = evidence[1:length - 1]
        told = np.stack([evidence[:, of].max(1) for of in ROLES.values()], 1)
        return {"reading": Reading(text, told, float(state["reader_place"][0]) / length)}

    # -- a sentence ------------------------------------------------------------------------------------------------

    def _known(self, sentence: str, state: Mapping[str, np.ndarray], reader: Mapping[str, np.ndarray],
               followed: int) -> bool:
        """Tells whether a sentence only comes again because it is latched: it is answered, or is being read."""
        if not self._restored:
            return False
        digest = digest_of(sentence)
        reading = not self._reader.done(reader) and np.array_equal(digest, state["next_digest"])
        return reading or np.array_equal(digest, state["digest"]) and followed <= state["goal"][ID]

    def _begin(self, sentence: str, state: dict[str, np.ndarray], followed: int) -> tuple[dict, dict]:
        state = {**state, "next_text": codes(sentence), "next_digest": digest_of(sentence),
                 "left": np.zeros(1, np.float32)}
        mend = self.parameters.lexicon != "off"
        said, self._stand_ins = taught_words.put_in(sentence, self._taught()) if len(
            sentence.encode("utf-8", "replace")) <= TEXT else (sentence, [])
        text = framed(spell(said, mend)) if len(sentence) <= MAX_CHARACTERS else b""
        if len(framed("")) < len(text) <= z.LONGEST:
            return state, self._reader.begin(text)
        why = Why.LONG if len(sentence) > MAX_CHARACTERS else Why.BYTES if text[1:-1] else (
            Why.LANGUAGE if sentence.strip() else Why.EMPTY)
        return self._refuse(state, followed, why), self._reader.rest()

    def _understand(self, state: dict[str, np.ndarray], followed: int, reader: Mapping[str, np.ndarray]
                    ) -> tuple[dict, list[Any]]:
        """The state with the answer to what was read; where that is no order, the old one, and what is said of it."""
        heard = self._reader.heard(reader)
        length = int(reader["length"][0])
        spelled = reader["sentence"][1:length - 1].astype(np.uint8).tobytes().decode()
        if self.parameters.lexicon == "alone":
            heard = heard._replace(**halves.of_lexicon(spelled))
        meant, why, word = halves.of_network(heard) if self.parameters.lexicon == "off" else obeyed(spelled, heard)
        if self._stand_ins is None:     # the sentence was begun by a process before this one
            self._stand_ins = taught_words.put_in(decoded(state["next_text"]), self._taught())[1]
        meant, why, word = taught_words.meant(meant, why, word, self._stand_ins)
        if why is not None:
            text = decoded(state["next_text"])
            meant = Understanding(reason=why.text(any(map(is_japanese, text)), word))
            if why is Why.NO_ORDER and state["goal"][UNDERSTOOD] and followed <= state["goal"][ID]:
                said = self._features(state)
                said.text, said.reason = text, meant.reason
                return {**state, "spoken": np.full(1, REPUBLISH - HEARD_FOR, np.float32)}, [said]
        rates = heard.rates / np.float32(MICRO_STEP)
        return self._answer({**state, "rates": rates.astype(np.float32)}, followed, meant), []

    def _taught(self) -> dict[int, str]:
        """Names of taught things; hosts in lockstep keep nothing, and know of none."""
        try:
            return taught.names() if self.storage is not None else {}
        except taught.TaughtError as error:
            log.error("%s", error)
            return {}

    def _refuse(self, state: dict[str, np.ndarray], followed: int, why: Why) -> dict:
        text = why.text(any(map(is_japanese, decoded(state["next_text"]))))
        return self._answer({**state, "rates": np.zeros_like(state["rates"])}, followed, Understanding(reason=text))

    def _answer(self, state: dict[str, np.ndarray], followed: int, meant: Understanding) -> dict:
        spoken = np.full(1, REPUBLISH, np.float32)      # at once
        return {**state, **remember(next_number(state, followed), state["next_text"], state["next_digest"], meant),
                "spoken": spoken}

    def _features(self, state: Mapping[str, np.ndarray]) -> Any:
        return features_of(state, self.features, state["rates"] if state["goal"][ID] else ())
