"""Random .tflite networks, some of whose tensors wait for the next call, beside TensorFlow Lite Micro, call by call."""

import random
from dataclasses import replace

import numpy as np
import pytest
from tflite_models import Step, Told
from tflite_states import handle, named
from tools import require, require_modules

require_modules("onnxruntime", "tflite_micro")

from fuzz_networks import tflite  # noqa: E402
from fuzz_networks.tflm import TfliteJudge  # noqa: E402

import qcgen  # noqa: E402

CALLS = 5
OPTIONS = [{}, {"arena": "least"}, {"io_memory": "arena"}, {"state": "caller"}, {"simplify": False}]


class Waiting(tflite.Growing):
    """A network in which readers get what another tensor of the same shape was in the call before."""

    def finish(self) -> bytes:
        made = [y for step in self.steps for y in step.outputs if self.tensors[y].dtype == "int8"]
        before, after = [], []
        for number in range(self.rng.randint(1, 3)):
            pairs = [
                (place, k, y)
                for place, step in enumerate(self.steps)
                for k, x in enumerate(step.inputs)
                for y in made
                if x in (*self.inputs, *made) and self.shape(x) == self.shape(y) and self.tensors[x].dtype == "int8"
            ]
            if not pairs:
                break
            place, k, y = self.rng.choice(pairs)
            inputs = list(self.steps[place].inputs)
            variable = self.tensor(handle("v"))
            inputs[k] = self.tensor(Told("", self.shape(inputs[k]), *self.meaning_of(inputs[k])))
            before += [named(f"v{number}", variable), Step("READ_VARIABLE", (variable,), (inputs[k],))]
            after.append(Step("ASSIGN_VARIABLE", (variable, y), ()))
            self.steps[place] = replace(self.steps[place], inputs=tuple(inputs))
        self.steps = [*before, *self.steps, *after]
        return super().finish()


@pytest.mark.parametrize("number", [*range(1, 6), *(pytest.param(n, marks=pytest.mark.all) for n in range(6, 40))])
def test_calls_one_after_the_other_give_what_tensorflow_lite_micro_gives(number, monkeypatch):
    require("gcc")
    monkeypatch.setattr(tflite, "Growing", Waiting)
    content = tflite.random_tflite(random.Random(number))
    try:
        model = qcgen.compile(content, name="net", **OPTIONS[number % len(OPTIONS)]).load("-O1")
    except qcgen.ModelRejected:
        return
    judge = TfliteJudge(content)
    interpreter = judge._interpreter()
    for feeds in judge.feeds(number, CALLS):
        for place, port in enumerate(judge.inputs):
            interpreter.set_input(feeds[port.name], place)
        interpreter.invoke()
        got = model.run(None, {x.name: feeds[x.name] for x in model.get_inputs()})
        for place, y in enumerate(got):
            np.testing.assert_array_equal(y, interpreter.get_output(place))
