# SPDX-License-Identifier: Apache-2.0
"""The chain of language: letters, words, context, recall, and what is said of them."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from brain_regions.language import sizes as z
from brain_training.definitions.language import Answer
from brain_training.parallel.chain import Chain, Kind, Micro, Said, Section, Values
from brain_training.task import Lost

SPIKES = ("letters", "words", "context")
NORMAL = ("", "_bias", "_gain", "_mean", "_variance")


class ReaderChain(Chain):
    """Of words and context the spikes skip to what is said of them; of letters how often each fired.

    Activities are made where the loss is: of words and context the spikes are there, and of letters a count is a whole
    number, of two bytes.
    """

    dims = 0, 0, 0, 0, 0

    def begin(self, micros: int) -> None:
        """Counts batches for all sections: each sees as many as the network does in one process."""
        self._before = self.network.batches.clone()
        self._training = self.network.training

    def sections(self, micro: Micro) -> list[Section]:
        """One after the other."""
        size, streams = micro.batch[0].shape[1], z.STREAMS
        own = {name: tuple(f"{name}{what}" for what in NORMAL) for name in (*SPIKES, "recall")}
        # a micro-step of the context is many small products, each with what it costs to begin it
        sizes = self.network.sizes
        cost = {name: streams * size * getattr(sizes, name) * float(getattr(self.network, name).shape[1])
                for name in SPIKES}
        return [
            Section("letters", self._letters, (), ("letters", "fired.letters"), ("bytes", *own["letters"]),
                    cost["letters"]),
            Section("words", self._words, ("letters",), ("words",), own["words"], cost["words"]),
            Section("context", self._context, ("words",), ("context",),
                    (*own["context"], "recurrent"), 2 * cost["context"]),
            Section("recall", self._recall, ("words", "context"), ("recall", "direct said"),
                    (*own["recall"], "direct"), size / z.STRIDE * self.network.recall.shape[1] * sizes.recall),
            Section("answer", self._answer, ("words", "context", "recall", "direct said", "fired.letters"), ("answer",),
                    ("evidence", "evidence_bias", "choice", "choice_bias", "verb"),
                    float(sizes.summary * sizes.choice + size * sizes.recall * z.OUTPUTS))]

    def kinds(self, micro: Micro) -> dict[str, Kind]:
        """Spikes [streams, bytes, batch, neurons], which lie with the bytes first."""
        batch, size = micro.batch[0].shape
        recalled = -(-size // z.STRIDE)
        sizes = self.network.sizes
        spikes = {name: Kind((z.STREAMS, size, batch, getattr(sizes, name)), True, (1, 0, 2, 3)) for name in SPIKES}
        fired = Kind((sizes.letters,), False, (0,), z.STREAMS * size * batch)
        return {**spikes, "fired.letters": fired, "recall": Kind((recalled, batch, sizes.recall), True, (0, 1, 2)),
                "direct said": Kind((recalled, batch, z.OUTPUTS), False, (0, 1, 2))}

    def _counted(self, micro: Micro) -> None:
        if self._training:
            self.network.batches.copy_(self._before).add_(micro.number + 1)

    def _weight(self, micro: Micro) -> Tensor:
        """1 within a sentence, [bytes, batch, 1]."""
        return self._inside(micro)[0].T[:, :, None].float()

    def _often(self, spikes: Tensor, micro: Micro) -> Tensor:
        """Counts the spikes of each neuron within sentences."""
        return (spikes * self._weight(micro)).sum((0, 1, 2))

    @staticmethod
    def _inside(micro: Micro) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the mask of bytes within a length, where the stream from the back has each, and lengths."""
        text, lengths = micro.batch[:2]
        place = torch.arange(text.shape[1], device=text.device)
        return place < lengths[:, None], (lengths[:, None] - 1 - place).clamp(min=0), lengths

    def _fired(self, x: Tensor, name: str, delays: tuple[int, ...], micro: Micro) -> Tensor:
        self._counted(micro)
        return self.network._fire(self.network._charge(x, name, delays), name)

    def _letters(self, values: Values, micro: Micro) -> Values:
        text, (_, mirror, _) = micro.batch[0], self._inside(micro)
        both = torch.stack([text, text.gather(1, mirror)])
        rows = both.transpose(1, 2) + 256 * torch.arange(z.STREAMS, device=text.device)[:, None, None]
        seen = F.embedding(rows, self.network.bytes.flatten(0, 1))
        spikes = self._fired(seen, "letters", z.LETTER_DELAYS, micro)
        return {"letters": spikes, "fired.letters": self._often(spikes, micro)}

    def _words(self, values: Values, micro: Micro) -> Values:
        return {"words": self._fired(values["letters"], "words", z.WORD_DELAYS, micro)}

    def _context(self, values: Values, micro: Micro) -> Values:
        self._counted(micro)
        return {"context": self.network._remember(self.network._charge(values["words"], "context", z.CONTEXT_DELAYS))}

    def _recall(self, values: Values, micro: Micro) -> Values:
        self._counted(micro)
        network, (_, mirror, lengths) = self.network, self._inside(micro)
        said = network._said(torch.cat([values["words"], values["context"]], -1), mirror, lengths)
        recall = network._fire(network._charge(said[None], "recall", (0,)), "recall")[0]
        return {"recall": recall, "direct said": said @ network.direct}

    def _answer(self, values: Values, micro: Micro) -> Values:
        network, (inside, _, lengths) = self.network, self._inside(micro)
        evidence = values["recall"] @ network.evidence + values["direct said"] + network.evidence_bias
        evidence = evidence.repeat_interleave(z.STRIDE, 0)[:inside.shape[1]].transpose(0, 1)
        verb, rates = network._decide(values["words"], values["context"], values["recall"], inside, lengths)
        # as the network has them, and in that order: gradients are summed as there
        often = [values["fired.letters"], *(self._often(values[name], micro) for name in ("words", "context"))]
        active = [each / (z.STREAMS * self._weight(micro).sum()) for each in often]
        return {"evidence": evidence, "verb": verb, "rates": rates} | {
            f"activity.{name}": each for name, each in zip(SPIKES, active)}

    def lost(self, values: Values, micro: Micro) -> Lost:
        """Of the whole answer."""
        activity = (*(values[f"activity.{name}"] for name in SPIKES), values["rates"].mean(0))
        said = Answer(values["evidence"], values["verb"], values["rates"], activity)
        return self.task.lost(Said([said]), micro.batch, micro.rng())
