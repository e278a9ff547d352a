"""Draws LSTM, GRU, RNN and DynamicQuantizeLSTM for random_cases.py. onnxruntime refuses layout 1."""
import numpy as np

ACTIVATIONS = ("Affine Elu HardSigmoid LeakyRelu Relu ScaledTanh Sigmoid Softsign Tanh ThresholdedRelu").split()
WITH_ALPHA = "Affine Elu HardSigmoid LeakyRelu ScaledTanh ThresholdedRelu".split()
WITH_BETA = "Affine HardSigmoid ScaledTanh".split()
NO_DEFAULTS = "Affine ScaledTanh ThresholdedRelu".split()  # that onnxruntime and the standard share


def activations(d, count):
    names = [d.pick(ACTIVATIONS) for _ in range(count)]
    d.attrs["activations"] = names
    if d.chance(0.5) or set(names) & set(NO_DEFAULTS):
        d.attrs["activation_alpha"] = [float(d.rng.uniform(0.1, 1)) for n in names if n in WITH_ALPHA]
        d.attrs["activation_beta"] = [float(d.rng.uniform(0.1, 1)) for n in names if n in WITH_BETA]
        d.attrs = {k: v for k, v in d.attrs.items() if v != []}


# onnxruntime saturates sums of two products at 16 bits on a processor without VNNI.
with open("/proc/cpuinfo") as info:
    MOST = 100 if "vnni" in info.read() else 64


def weights(d, shape, quantized):
    if not quantized:
        d.tensor(shape, spread=0.7, constant=True)
    else:
        d.give(d.rng.integers(-MOST, MOST, [shape[0], shape[2], shape[1]]).astype(np.int8), True)


def recurrent(gates, acts):
    def make(d):
        quantized = d.op == "DynamicQuantizeLSTM"
        lstm = gates == 4
        d.opset = max(d.opset, 14) if d.chance(0.5) else min(d.opset, 13)
        steps, batch, inputs, hidden = d.int(1, 6), d.int(1, 3), d.int(1, 5), d.int(1, 20)
        direction = d.pick(["forward", "reverse", "bidirectional"])
        ways = 2 if direction == "bidirectional" else 1
        d.attrs.update(hidden_size=hidden, direction=direction)
        if quantized:  # of several items onnxruntime's threads share ranges
            d.domain, batch = "com.microsoft", 1
        elif d.chance(0.3):
            activations(d, acts * ways)
        d.maybe(0.2, clip=float(d.rng.uniform(0.3, 2)))
        if lstm and not quantized:
            d.maybe(0.2, input_forget=1)
        if d.op == "GRU":
            d.maybe(linear_before_reset=1)
        d.tensor([steps, batch, inputs], spread=1.0, constant=False)
        weights(d, [ways, gates * hidden, inputs], quantized)
        weights(d, [ways, gates * hidden, hidden], quantized)
        optional = [lambda: d.tensor([ways, 2 * gates * hidden], spread=0.5, constant=True),
                    lambda: d.give(d.rng.integers(1, steps + 1, [batch]).astype(np.int32), False)]
        optional += [lambda: d.tensor([ways, batch, hidden], spread=0.5)] * (2 if lstm else 1)
        if lstm:
            optional.append(lambda: d.tensor([ways, 3 * hidden], spread=0.5, constant=True))
        for give in optional:
            if d.chance(0.5):
                give()
            else:
                d.absent()
        columns = [ways, gates * hidden] if d.chance(0.5) else [ways]
        for _ in range(2 if quantized else 0):
            d.give((d.rng.random(columns) * 0.01 + 0.001).astype(np.float32), True)
            d.give(np.zeros(columns, np.int8), True)
        d.n_out = 3 if lstm else 2
    return make


MAKERS = {"LSTM": recurrent(4, 3), "GRU": recurrent(3, 2), "RNN": recurrent(1, 1),
          "DynamicQuantizeLSTM": recurrent(4, 3)}
