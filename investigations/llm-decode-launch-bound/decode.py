"""A small transformer that decodes token by token: decode.py eager|graph [TOKENS [BLOCK]].

Twelve layers, 512 wide, with a static key-value cache, so that a step can be captured as a CUDA graph. With BLOCK, each
block of so many tokens is told when it is done: BLOCK, the monotonic clock, and the seconds that it took.
"""

import sys
import time

import torch
import torch.nn.functional as F

mode = sys.argv[1]
tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 500
block = int(sys.argv[3]) if len(sys.argv) > 3 else 0
layers, width, heads, longest, vocabulary = 12, 512, 8, 1024, 32000
torch.set_num_threads(1)
torch.manual_seed(1)
dtype, device = torch.float16, "cuda"


def weight(*shape):
    return torch.randn(*shape, device=device, dtype=dtype) * 0.02


embedding = weight(vocabulary, width)
blocks = [(weight(3 * width, width), weight(width, width), weight(4 * width, width), weight(width, 4 * width)) for _ in range(layers)]
keys = torch.zeros(layers, heads, longest, width // heads, device=device, dtype=dtype)
values = torch.zeros_like(keys)
token = torch.zeros(1, device=device, dtype=torch.long)
position = torch.zeros(1, device=device, dtype=torch.long)
places = torch.arange(longest, device=device)


def step():
    x = embedding[token]
    mask = (places <= position)[None, None, :]
    for layer, (qkv, out, up, down) in enumerate(blocks):
        q, k, v = F.linear(F.layer_norm(x, (width,)), qkv).view(3, heads, 1, width // heads)
        keys[layer].index_copy_(1, position, k)
        values[layer].index_copy_(1, position, v)
        attended = F.scaled_dot_product_attention(q, keys[layer], values[layer], attn_mask=mask)
        x = x + F.linear(attended.reshape(1, width), out)
        x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (width,)), up)), down)
    token.copy_(F.linear(F.layer_norm(x, (width,)), embedding).argmax(-1))
    position.add_(1).remainder_(longest)


with torch.no_grad():
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    run = step
    if mode == "graph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    position.zero_()
    torch.cuda.synchronize()
    start = time.time()
    since = time.monotonic()
    for i in range(tokens):
        run()
        token.item()  # the text goes out token by token
        if block and i % block == block - 1:
            now = time.monotonic()
            print(f"BLOCK {now:.6f} {now - since:.6f}", flush=True)
            since = now
    took = time.time() - start
print(f"TOKENS {tokens} in {took:.3f} s, {tokens / took:.0f} a second, {mode}", flush=True)
