// Dense networks with ReLU between their layers, on made up data.

// shapeOf reads "mlp:784,200,62", "linear:5000,2" or "logistic:20,5,0.05": the layers, and the factor of the
// squared norm in the loss.
export function shapeOf(model) {
  const [kind, numbers] = model.split(":");
  const sizes = numbers.split(",").map(Number);
  const norm = kind === "logistic" ? sizes.pop() : 0;
  return { layers: sizes.slice(1).map((out, i) => ({ inputs: sizes[i], outputs: out })), norm };
}

// random is a small generator with a seed (a linear congruential one, after
// Numerical Recipes): good enough to make up data.
function random(seed) {
  let state = seed >>> 0;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

// madeUp is this device's own data: of each class a pattern, and some noise that differs from client to
// client.
export const madeUp = {
  samples: 64,
  sample(client, index, features, classes) {
    const label = index % Math.min(classes, 8);
    const pattern = random(1 + label), noise = random(1000 * (1 + client) + index);
    return { x: Float32Array.from({ length: features }, () => (pattern() < 0.2 ? 1 : 0) * (0.5 + 0.5 * noise())), label };
  },
};

// unable says why this device cannot take the steps of a run; it is empty if it can.
export function unable({ spec, params, kept, schema }) {
  const { algorithm } = JSON.parse(spec.algorithm || '{"algorithm":"fedavg"}');
  if (!/^(mlp|linear|logistic):/.test(spec.model)) return `it does not know the architecture ${spec.model}`;
  if (shapeOf(spec.model).layers.reduce((n, { inputs, outputs }) => n + (inputs + 1) * outputs, 0) !== params) return "some of the model is frozen";
  if (spec.local || spec.noiseMultiplier || spec.compression || kept) return "it takes plain steps of SGD and sends what comes of them";
  if (schema?.targetMean?.length) return "it knows classes and no targets";
  if (!["fedavg", "fedprox", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "fednova"].includes(algorithm)) return `it does not know the algorithm ${algorithm}`;
  return "";
}

// proximalOf reads mu of FedProx, which is 0 for algorithms that differ from FedAvg only at the server.
export function proximalOf(text) {
  const { algorithm, mu } = JSON.parse(text || "{}");
  return algorithm === "fedprox" ? mu : 0;
}

// localSteps runs SGD from a model and returns the next one, with the mean loss on
// the first minibatch before its step. Both are NaN where the steps do not stay finite.
export function localSteps({ layers, norm }, start, { client, steps, rate, batch, proximal, from }) {
  const model = Float32Array.from(start);
  const { inputs } = layers[0], { outputs } = layers.at(-1);
  let first;
  for (let k = 0; k < steps; k++) {
    const gradient = new Float64Array(model.length);
    let loss = 0;
    for (let b = 0; b < batch; b++) {
      const { x, label } = madeUp.sample(client, ((from + k) * batch + b) % madeUp.samples, inputs, outputs);
      loss += backward(layers, model, gradient, x, label) / batch;
    }
    first ??= loss + (norm / 2) * model.reduce((sum, x) => sum + x * x, 0);
    for (let i = 0; i < model.length; i++) model[i] -= rate * (gradient[i] / batch + norm * model[i] + proximal * (model[i] - start[i]));
  }
  return model.every(Number.isFinite) ? { model, loss: first } : { model: Float32Array.of(NaN), loss: NaN };
}

// backward adds one sample's gradient and returns its cross-entropy. A layer's
// parameters are its weights, a row for each output, then its biases.
function backward(layers, model, gradient, x, label) {
  const seen = [x];
  let offset = 0;
  const offsets = [];
  layers.forEach(({ inputs, outputs }, l) => {
    offsets.push(offset);
    const y = new Float64Array(outputs), input = seen[l];
    for (let o = 0; o < outputs; o++) {
      let sum = model[offset + inputs * outputs + o];
      for (let i = 0; i < inputs; i++) sum += model[offset + o * inputs + i] * input[i];
      y[o] = l < layers.length - 1 ? Math.max(0, sum) : sum;
    }
    seen.push(y);
    offset += (inputs + 1) * outputs;
  });
  const logits = seen.at(-1);
  const top = Math.max(...logits);
  const exps = Array.from(logits, (z) => Math.exp(z - top));
  const total = exps.reduce((a, b) => a + b, 0);
  let delta = exps.map((e, i) => e / total - (i === label ? 1 : 0));
  for (let l = layers.length - 1; l >= 0; l--) {
    const { inputs, outputs } = layers[l], input = seen[l], below = new Float64Array(inputs), at = offsets[l];
    for (let o = 0; o < outputs; o++) {
      gradient[at + inputs * outputs + o] += delta[o];
      for (let i = 0; i < inputs; i++) {
        gradient[at + o * inputs + i] += delta[o] * input[i];
        if (input[i] > 0) below[i] += delta[o] * model[at + o * inputs + i];
      }
    }
    delta = below;
  }
  return Math.log(total) + top - logits[label];
}
