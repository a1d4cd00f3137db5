"""The biLM of ELMo in plain NumPy, one token at a time: what every other implementation here is tested against.

It reads the original files as they are (an options.json and the arrays of a weights.hdf5), so it shares neither code
nor layout with the package. P is the projection size, H the cell size, D the character dimension, F the sum of
filters, L the number of layers.
"""

import numpy as np

MARKERS = {"<S>": 256, "</S>": 257}
WORD_BEGIN, WORD_END, FILL = 258, 259, 260


class ReferenceBilm:
    def __init__(self, options, arrays, dtype=np.float64):
        self.arrays = {path: np.asarray(array).astype(dtype) for path, array in arrays.items()}
        self.dtype = dtype
        lstm = options["lstm"]
        self.projection_size, self.cell_size, self.num_layers = lstm["projection_dim"], lstm["dim"], lstm["n_layers"]
        self.cell_clip, self.projection_clip = lstm.get("cell_clip"), lstm.get("proj_clip")
        self.use_skip_connections = lstm.get("use_skip_connections", False)
        self.character_cnn = options.get("char_cnn")  # None: the inputs are word ids
        # Options are silent or wrong about the number of directions in some published models; the arrays are not.
        self.num_directions = 2 if self.has("RNN_1/") else 1

        # The files leave out the row of id 0, "nothing here".
        table = self.arrays["char_embed" if self.character_cnn else "embedding"]
        self.embedding = np.vstack([np.zeros_like(table[:1]), table])  # (262, D) or (words + 1, P)

    @staticmethod
    def rows(words, max_characters=50):
        """The character ids of <S>, of every word and of </S>, shifted by one: a list of (max_characters,) arrays."""
        rows = []
        for word in ["<S>", *words, "</S>"]:
            if word in MARKERS:
                characters = [MARKERS[word]]
            else:
                characters = list(word.encode("utf-8", "ignore")[: max_characters - 2])
            row = [WORD_BEGIN, *characters, WORD_END]
            row += [FILL] * (max_characters - len(row))
            rows.append(np.array(row) + 1)
        return rows

    def token_vector(self, row):
        """The context-free vector (P,) of one token, given its character ids or its word id."""
        if not self.character_cnn:
            return self.embedding[int(row)]
        length = self.character_cnn["max_characters_per_token"]
        assert len(row) == length, f"a row has {len(row)} characters, the model takes {length}"
        characters = self.embedding[np.asarray(row)]  # (characters, D)
        activation = {"relu": relu, "tanh": np.tanh}[self.character_cnn["activation"]]

        pieces = []
        for i, (width, _) in enumerate(self.character_cnn["filters"]):
            weight = self.arrays[f"CNN/W_cnn_{i}"][0]  # (width, D, n)
            weight = weight.reshape(-1, weight.shape[-1])  # (width * D, n)
            windows = [characters[at : at + width].ravel() @ weight for at in range(length - width + 1)]
            pieces.append(activation(np.max(windows, axis=0) + self.arrays[f"CNN/b_cnn_{i}"]))
        x = np.concatenate(pieces)  # (F,)

        for k in range(self.character_cnn.get("n_highway") or 0):
            names = ("W_carry", "b_carry", "W_transform", "b_transform")
            carry, carry_bias, transform, transform_bias = (self.arrays[f"CNN_high_{k}/{name}"] for name in names)
            gate = sigmoid(x @ carry + carry_bias)
            x = gate * relu(x @ transform + transform_bias) + (1 - gate) * x

        if len(x) != self.projection_size:
            x = x @ self.arrays["CNN_proj/W_proj"] + self.arrays["CNN_proj/b_proj"]
        return x  # (P,)

    def __call__(self, sentences, states=None):
        """Run each sentence (a list of rows) by itself, from its state or from zeros.

        Returns a list of (L + 1, tokens, directions * P), and the final states: one per sentence, each
        state[direction][layer] = (h (P,), c (H,)), as `states` takes them.
        """
        outputs, final_states = [], []
        for number, sentence in enumerate(sentences):
            state = self.zero_state() if states is None else states[number]
            vectors = [self.token_vector(row) for row in sentence]
            directions, final_state = [], []
            for direction in range(self.num_directions):
                layers, final = self.run_direction(direction, vectors, state[direction])
                directions.append(layers)
                final_state.append(final)
            outputs.append(np.concatenate(directions, axis=-1))
            final_states.append(final_state)
        return outputs, final_states

    def zero_state(self):
        zero = np.zeros(self.projection_size, self.dtype), np.zeros(self.cell_size, self.dtype)
        return [[zero] * self.num_layers for _ in range(self.num_directions)]

    def run_direction(self, direction, vectors, state):
        """All layers (L + 1, tokens, P) of one direction, in the order of the sentence, and its final state."""
        inputs = vectors[::-1] if direction == 1 else vectors
        layers, final = [inputs], []
        for layer in range(self.num_layers):
            h, c = state[layer]
            outputs = []
            for x in inputs:
                h, c = self.step(direction, layer, x, h, c)
                # The state keeps h as it is: only what goes up has the input added.
                outputs.append(h + x if layer > 0 and self.use_skip_connections else h)
            layers.append(outputs)
            final.append((h, c))
            inputs = outputs
        layers = np.array(layers, self.dtype).reshape(self.num_layers + 1, len(vectors), self.projection_size)
        return (layers[:, ::-1] if direction == 1 else layers), final

    def step(self, direction, layer, x, h, c):
        weight, bias, projection = self.cell(direction, layer)
        i, j, f, o = np.split(np.concatenate([x, h]) @ weight + bias, 4)
        c = clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), self.cell_clip)  # (H,)
        m = sigmoid(o) * np.tanh(c)  # (H,)
        # Without a projection there is no projection clip either.
        return (m if projection is None else clip(m @ projection, self.projection_clip)), c

    def cell(self, direction, layer):
        """The arrays of one cell: (2P, 4H), (4H,) and (H, P), the last None where H == P."""
        if self.has("rnn/"):  # one direction only
            stack, names = "rnn", ("kernel", "bias", "projection/kernel")
        else:
            stack, names = f"RNN_{direction}/RNN", ("W_0", "B", "W_P_0")
        cell = f"{stack}/MultiRNNCell/Cell{layer}/LSTMCell"
        if self.num_layers == 1 and not self.has(cell):
            cell = f"{stack}/LSTMCell"  # how TensorFlow names a stack of one
        weight, bias = self.arrays[f"{cell}/{names[0]}"], self.arrays[f"{cell}/{names[1]}"]
        return weight, bias, None if self.cell_size == self.projection_size else self.arrays[f"{cell}/{names[2]}"]

    def has(self, prefix):
        return any(path.startswith(prefix) for path in self.arrays)


def scalar_mix(layers, weights, gamma, layer_norm=None, words=None):
    """gamma * sum_j softmax(weights)_j * layer_j for each sentence's (L + 1, tokens, dim): a list of (tokens, dim).

    layer_norm "sentence" or "batch" first takes from each layer one mean and divides by one standard deviation,
    those of all numbers of the sentence's (the batch's) words; `words` holds for each sentence a boolean per position,
    False at <S> and </S>, which do not count but are normalised all the same. Without `words` every position counts.
    """
    shares = np.exp(weights - np.max(weights))
    shares /= shares.sum()
    words = [np.ones(sentence.shape[1], bool) for sentence in layers] if words is None else words

    mixes = []
    for number, sentence in enumerate(layers):
        mix = np.zeros(sentence.shape[1:], sentence.dtype)
        for j, share in enumerate(shares):
            layer = sentence[j]
            if layer_norm is not None:
                counted = {"sentence": [number], "batch": range(len(layers))}[layer_norm]
                values = np.concatenate([layers[n][j][np.asarray(words[n])] for n in counted])  # (words, dim)
                layer = (layer - values.mean()) / np.sqrt(values.var() + 1e-12)
            mix += share * layer
        mixes.append(gamma * mix)
    return mixes


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))  # the same as 1 / (1 + exp(-x)), and cannot overflow


def clip(x, limit):
    return x if limit is None else np.clip(x, -limit, limit)
