"""A training step over the vocabulary of the 1 Billion Word benchmark: its time, its memory, the rows that it touches.

python benchmarks/large_vocabulary.py --size original --steps 5
"""

import argparse
import resource
import time

import torch

from elmo_hf import ElmoForPreTraining
from elmo_hf.pretraining import config_of_size
from elmo_hf.pretraining.optimization import clip_by_global_norm, original_adagrad, use_sparse_gradients


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="original")
    parser.add_argument("--words", type=int, default=793_471)
    parser.add_argument("--num-sampled", type=int, default=8192)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--unroll-steps", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5)
    given = parser.parse_args()

    config = config_of_size(given.size)
    config.vocab_size, config.num_sampled = given.words, given.num_sampled
    model = ElmoForPreTraining(config).train()
    use_sparse_gradients(model)
    torch.sparse.check_sparse_tensor_invariants.disable()
    trained = [p for name, p in model.named_parameters() if "scalar_mix" not in name]
    optimizer = original_adagrad(trained, 0.2, given.unroll_steps)
    print(f"{sum(p.numel() for p in trained):,} parameters, {model.softmax.weight.numel():,} of them in the softmax")

    shape, states = (given.batch_size, given.unroll_steps), None
    for step in range(given.steps):
        ids = [torch.randint(1, 257, (*shape, 12)) for _ in range(2)]
        labels = [_zipf(shape, given.words) for _ in range(2)]
        before = model.softmax.weight.detach()[::1000].clone()
        start = time.perf_counter()
        output = model(ids[0], None, labels[0], ids[1], labels[1], past_states=states, use_cache=True)
        forward = time.perf_counter()
        output.loss.backward()
        backward = time.perf_counter()
        touched = len(model.softmax.weight.grad.coalesce().indices()[0])
        clip_by_global_norm(model, 10 / given.unroll_steps)
        optimizer.step()
        optimizer.zero_grad()
        end = time.perf_counter()
        states = tuple(tuple(part.detach() for part in layer) for layer in output.past_states)
        changed = int((model.softmax.weight.detach()[::1000] != before).any(1).sum())
        print(
            f"step {step + 1}: {end - start:.2f} s (forward {forward - start:.2f}, backward {backward - forward:.2f}, "
            f"update {end - backward:.2f}); rows touched {touched:,} of {given.words:,}; of every thousandth row, "
            f"{changed} of {len(before)} changed"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


def _zipf(shape: tuple[int, int], words: int) -> torch.Tensor:
    """Lines of the vocabulary as often as they come in text."""
    return (torch.exp(torch.rand(shape, dtype=torch.float64) * torch.log(torch.tensor(words + 1.0))) - 1).long()


if __name__ == "__main__":
    main()
