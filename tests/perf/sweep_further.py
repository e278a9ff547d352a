"""More small networks written for sweep.py, on what text books and newer papers have: positions by rotation and by
distance, grouped queries, state spaces, spectra, volumes, tables, graphs. Rows as those of sweep_small.py."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from sweep_small import SMALL, Net, Single, backbone, cba, image, levels, small  # noqa: F401


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def heads(x, n):
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def turned(x):
    """Rotary positions, halves apart."""
    t, d = x.shape[-2:]
    angle = torch.arange(t)[:, None] * torch.pow(10000.0, -torch.arange(0, d, 2) / d)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


# ---- attention

@small(("x", (48,), 400), opset=15)
def rotary_grouped():
    """Grouped queries, rotary positions, RMS norms, gated layers, a causal mask."""
    def call(s, x):
        x = s.embed(x)
        for b in s.blocks:
            y = b.n1(x)
            q, k, v = turned(heads(b.q(y), 8)), turned(heads(b.k(y), 2)), heads(b.v(y), 2)
            k, v = (z.unsqueeze(2).expand(-1, -1, 4, -1, -1).flatten(1, 2) for z in (k, v))
            mask = torch.full((x.shape[1], x.shape[1]), -1e4).triu(1)
            y = ((q @ k.transpose(-1, -2)) / math.sqrt(16) + mask).softmax(-1) @ v
            x = x + b.o(y.transpose(1, 2).flatten(2))
            y = b.n2(x)
            x = x + b.down(F.silu(b.gate(y)) * b.up(y))
        return s.head(s.norm(x))
    return Net(call, embed=nn.Embedding(400, 128), norm=RMSNorm(128), head=nn.Linear(128, 400), blocks=nn.ModuleList(
        Net(None, n1=RMSNorm(128), q=nn.Linear(128, 128, bias=False), k=nn.Linear(128, 32, bias=False), v=nn.Linear(128, 32, bias=False),
            o=nn.Linear(128, 128, bias=False), n2=RMSNorm(128), gate=nn.Linear(128, 256, bias=False), up=nn.Linear(128, 256, bias=False),
            down=nn.Linear(256, 128, bias=False)) for _ in range(2)))


@small(("x", (64, 96), "any"), ("length", (1,), 64), opset=13)
def alibi_padded():
    """Biases that grow with the distance, a mask from lengths, key padding."""
    def call(s, x, length):
        t = x.shape[1]
        at = torch.arange(t)
        bias = -(at[:, None] - at[None]).abs() * torch.pow(2.0, -torch.arange(1, 5.0))[:, None, None]
        open_ = (at[None] <= length)[:, None, None]
        for a, n, f in zip(s.attention, s.norms, s.feed):
            q, k, v = (heads(y, 4) for y in a[0](n(x)).chunk(3, -1))
            score = (q @ k.transpose(-1, -2) * 0.2 + bias).masked_fill(~open_, float("-inf"))
            x = x + a[1]((score.softmax(-1) @ v).transpose(1, 2).flatten(2))
            x = x + f(x)
        return x.masked_fill(~open_[:, 0, 0, :, None], 0.0).sum(1) / (length + 1)
    return Net(call, norms=nn.ModuleList(nn.LayerNorm(96) for _ in range(2)),
               attention=nn.ModuleList(nn.ModuleList([nn.Linear(96, 288), nn.Linear(96, 96)]) for _ in range(2)),
               feed=nn.ModuleList(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 192), nn.GELU(approximate="tanh"), nn.Linear(192, 96)) for _ in range(2)))


@small(("x", (256, 64), "any"), opset=17)
def linear_attention():
    """Products of keys and values first, positive features, chunks with a causal sum."""
    def call(s, x):
        q, k, v = (heads(y, 4) for y in s.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2) + 1e-3)
        c = (k * v).cumsum(2) / (k.cumsum(2) + 1e-3)
        return s.out((y + c).transpose(1, 2).flatten(2))
    return Net(call, qkv=nn.Linear(64, 192), out=nn.Linear(64, 64))


@small(("x", (16, 128), "any"), ("memory", (100, 128), "any"), opset=14)
def latents():
    """A few learned queries read a long input, crosswise (Perceiver)."""
    def call(s, x, memory):
        z = s.z[None].expand(x.shape[0], -1, -1)
        for c, a, f in zip(s.cross, s.own, s.feed):
            z = z + c(z, memory, memory, need_weights=False)[0]
            z = z + a(z, z, z, need_weights=False)[0]
            z = z + f(z)
        return s.last(x, z, z, need_weights=False)[0]
    attention = lambda: nn.MultiheadAttention(128, 4, batch_first=True)
    return Net(call, z=torch.randn(12, 128), cross=nn.ModuleList(attention() for _ in range(2)), own=nn.ModuleList(attention() for _ in range(2)),
               feed=nn.ModuleList(nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 128)) for _ in range(2)),
               last=attention())


# ---- sequences

@small(("x", (64, 32), "any"), fixed=True, opset=18)
def state_space():
    """A diagonal state space: its kernel by exponentials, then a long convolution of each channel."""
    def call(s, x):
        for d, mix in zip(s.decay, s.mix):
            a = torch.exp(-torch.exp(d))[:, :, None] ** torch.arange(64.0)
            kernel = (s.c[:, :, None] * a).sum(1)
            y = F.conv1d(F.pad(x.transpose(1, 2), (63, 0)), kernel.flip(-1)[:, None], groups=32).transpose(1, 2)
            x = x + F.glu(mix(F.gelu(y)), -1)
        return x.mean(1)
    return Net(call, decay=nn.ParameterList([torch.randn(32, 8) for _ in range(2)]), c=torch.randn(32, 8),
               mix=nn.ModuleList(nn.Linear(32, 64) for _ in range(2)))


@small(("x", (1, 2048), "smooth"), opset=12)
def wave_unet():
    """1-D convolutions, strides, transposed convolutions (also grouped), skips, Snake activations."""
    snake = lambda x: x + torch.sin(x) ** 2
    def call(s, x):
        kept = []
        for d in s.down:
            x = snake(d(x))
            kept.append(x)
        for u, g, k in zip(s.up, s.grouped, kept[-2::-1]):
            x = snake(g(u(x)) + F.leaky_relu(k, 0.2))
        return torch.tanh(s.last(x))
    return Net(call, down=nn.ModuleList(nn.Conv1d(i, o, 8, 4 if i > 1 else 2, 3, padding_mode="zeros") for i, o in ((1, 16), (16, 32), (32, 64))),
               up=nn.ModuleList(nn.ConvTranspose1d(i, o, 8, 4, 2) for i, o in ((64, 32), (32, 16))),
               grouped=nn.ModuleList(nn.ConvTranspose1d(c, c, 3, 1, 1, groups=g) for c, g in ((32, 4), (16, 16))),
               last=nn.ConvTranspose1d(16, 1, 4, 2, 1))


@small(("x", (8000,), "smooth"), opset=17)
def spectral_mask():
    """A spectrum by convolutions with sines, a mask by a GRU, back by a transposed convolution."""
    def call(s, x):
        y = F.conv1d(F.pad(x[:, None], (128, 128), mode="reflect"), s.basis, stride=64)
        re, im = y.chunk(2, 1)
        size = (re ** 2 + im ** 2 + 1e-6).sqrt()
        mask = torch.sigmoid(s.out(s.gru(s.norm(size.log().transpose(1, 2)))[0])).transpose(1, 2)
        return F.conv_transpose1d(torch.cat([re * mask, im * mask], 1), s.basis / 256, stride=64)[:, 0, 128:-128]
    n = torch.arange(256.0)
    k = torch.arange(129.0)[:, None] * n * 2 * math.pi / 256
    return Net(call, basis=(torch.cat([k.cos(), -k.sin()]) * torch.hann_window(256))[:, None], norm=nn.LayerNorm(129),
               gru=nn.GRU(129, 64, batch_first=True, bidirectional=True), out=nn.Linear(128, 129))


@small(("x", (6000,), "smooth"), dynamo=True, opset=18)
def spectrogram_net():
    """STFT of the exporter, its power, a bank of filters, then images."""
    def call(s, x):
        y = torch.view_as_real(torch.stft(x, 256, 128, window=s.window, return_complex=True)).pow(2).sum(-1)
        y = torch.log1p(s.bank @ y).unsqueeze(1)
        for stage in s.stages:
            y = stage(y)
        return s.head(y.amax((2, 3)))
    return Single(call, window=torch.hann_window(256), bank=torch.rand(40, 129), stages=nn.ModuleList([cba(1, 16, s=2), cba(16, 32, s=2)]),
                  head=nn.Linear(32, 10))


@small(("x", (96, 8), "smooth"), dynamo=True, opset=18)
def fourier_mixer():
    """A real transform along time, learned filters of a few frequencies, and back (FNO, FreTS)."""
    def call(s, x):
        y = torch.fft.rfft(s.lift(x), dim=1)
        r, i = torch.view_as_real(y).unbind(-1)
        r, i = r * s.r - i * s.i, r * s.i + i * s.r
        y = torch.fft.irfft(torch.complex(r, i), n=96, dim=1)
        return s.last(F.gelu(y))
    return Single(call, lift=nn.Linear(8, 32), r=torch.randn(49, 32), i=torch.randn(49, 32), last=nn.Linear(32, 4))


@small(("x", (30, 20), "any"), ("length", (1,), 30), opset=12)
def lstm_lengths():
    """Two layers both ways, a GRU and a plain RNN behind it, the last valid step by a gather."""
    def call(s, x, length):
        y = s.rnn(s.gru(s.lstm(x)[0])[0])[0]
        at = length.clamp(0, 29).view(-1, 1, 1).expand(-1, 1, y.shape[2])
        return s.head(torch.cat([y.gather(1, at)[:, 0], y.max(1)[0]], -1))
    return Net(call, lstm=nn.LSTM(20, 32, 2, batch_first=True, bidirectional=True), gru=nn.GRU(64, 32, batch_first=True),
               rnn=nn.RNN(32, 24, batch_first=True), head=nn.Linear(48, 5))


# ---- images and volumes

@small(image(64), opset=13)
def grouped_upsampling():
    """Transposed convolutions in groups, with output padding and dilation, PReLU, pixel unshuffle."""
    def call(s, x):
        x = s.first(F.pixel_unshuffle(x, 2))
        for u, a in zip(s.up, s.act):
            x = a(u(x))
        return s.last(F.interpolate(x, size=(96, 80), mode="bilinear"))
    return Net(call, first=cba(12, 32, act=nn.PReLU), up=nn.ModuleList([
        nn.ConvTranspose2d(32, 32, 4, 2, 1, groups=4), nn.ConvTranspose2d(32, 24, 3, 2, 1, output_padding=1, groups=8),
        nn.ConvTranspose2d(24, 24, 3, 1, 2, dilation=2, groups=24)]), act=nn.ModuleList([nn.PReLU(32), nn.Softplus(), nn.Mish()]), last=nn.Conv2d(24, 3, 5, padding=2))


@small(("x", (1, 16, 32, 32), "smooth"), opset=14)
def volume_unet():
    """Strided, depthwise and transposed 3-D convolutions, InstanceNorm, trilinear."""
    def call(s, x):
        a = s.a(x)
        b = s.c(s.b(a))
        y = s.up(b) + a
        z = F.interpolate(b, scale_factor=2.0, mode="trilinear", align_corners=False)
        return s.head(torch.cat([y, z], 1))
    cna = lambda i, o, k=3, st=1, g=1: nn.Sequential(nn.Conv3d(i, o, k, st, k // 2, groups=g), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01))
    return Net(call, a=cna(1, 16), b=cna(16, 32, 3, 2), c=nn.Sequential(cna(32, 32, 5, 1, 32), cna(32, 32, 1)), up=nn.ConvTranspose3d(32, 16, 2, 2),
               head=nn.Conv3d(48, 3, 1))


@small(image(96), opset=16)
def star_blocks():
    """Depthwise 7 x 7, products of two branches, ReLU6, channel attention of a 1-D convolution."""
    def call(s, x):
        x = s.stem(x)
        for dw, a, b, o, e in zip(s.dw, s.a, s.b, s.o, s.eca):
            y = dw(x)
            y = o(F.relu6(a(y)) * b(y))
            gate = torch.sigmoid(e(y.mean((2, 3)).unsqueeze(1))).squeeze(1)[:, :, None, None]
            x = x + y * gate
        return s.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
    n = 3
    return Net(call, stem=cba(3, 40, 4, 4), dw=nn.ModuleList(cba(40, 40, 7, g=40, act=nn.Identity) for _ in range(n)),
               a=nn.ModuleList(nn.Conv2d(40, 120, 1) for _ in range(n)), b=nn.ModuleList(nn.Conv2d(40, 120, 1) for _ in range(n)),
               o=nn.ModuleList(nn.Conv2d(120, 40, 1) for _ in range(n)), eca=nn.ModuleList(nn.Conv1d(1, 1, 3, padding=1, bias=False) for _ in range(n)),
               head=nn.Linear(40, 10))


@small(image(80), opset=18)
def partial_convolutions():
    """A quarter of the channels convolved, channel shuffle, split batch norms, circular and replicated padding."""
    def call(s, x):
        x = s.stem(x)
        for c, m, d in zip(s.part, s.mix, s.ring):
            a, b = x[:, :12], x[:, 12:]
            x = x + m(torch.cat([c(a), b], 1))
            x = d(x).unflatten(1, (4, 12)).transpose(1, 2).flatten(1, 2)
        return s.head(F.lp_pool2d(x, 2, 4).flatten(1)), F.logsigmoid(x.std((2, 3)))
    n = 2
    return Net(call, stem=cba(3, 48, s=2), part=nn.ModuleList(nn.Conv2d(12, 12, 3, padding=1, bias=False) for _ in range(n)),
               mix=nn.ModuleList(nn.Sequential(cba(48, 96, 1), nn.Conv2d(96, 48, 1, bias=False)) for _ in range(n)),
               ring=nn.ModuleList(nn.Conv2d(48, 48, 3, padding=1, groups=6, padding_mode=p) for p in ("circular", "replicate")), head=nn.Linear(4800, 7))


@small(image(64), opset=12)
def coordinates_and_spatial():
    """Added coordinates, channel and spatial attention (CBAM), coordinate attention, a dilated ladder."""
    def call(s, x):
        h, w = x.shape[2:]
        gy, gx = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        x = s.stem(torch.cat([x, torch.stack([gx, gy])[None].expand(x.shape[0], -1, -1, -1)], 1))
        x = x * torch.sigmoid(s.mlp(x.mean((2, 3))) + s.mlp(x.amax((2, 3))))[:, :, None, None]
        x = x * torch.sigmoid(s.spatial(torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], 1)))
        line = s.line(torch.cat([x.mean(3), x.mean(2)], 2).unsqueeze(-1))
        a, b = line.split([x.shape[2], x.shape[3]], 2)
        x = x * torch.sigmoid(s.rows(a)) * torch.sigmoid(s.columns(b).transpose(2, 3))
        for l in s.ladder:
            x = F.hardtanh(x + l(x), -3, 3)
        return x
    return Net(call, stem=cba(5, 32, s=2), mlp=nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 32)), spatial=nn.Conv2d(2, 1, 7, padding=3),
               line=cba(32, 8, 1, act=nn.Hardswish), rows=nn.Conv2d(8, 32, 1), columns=nn.Conv2d(8, 32, 1),
               ladder=nn.ModuleList(nn.Conv2d(32, 32, 3, padding=d, dilation=d) for d in (1, 2, 4)))


@small(("x", (14, 3, 32, 32), "smooth"), opset=15)
def gated_frames():
    """Frames as a batch, a spatial network of each, softmax over time, shifted differences."""
    def call(s, x):
        b, t = x.shape[:2]
        y = x.flatten(0, 1)
        for stage in s.stages:
            y = stage(y)
        y = y.mean((2, 3)).view(b, t, -1)
        y = torch.cat([y, y - torch.cat([y[:, :1], y[:, :-1]], 1)], -1)
        w = s.weight(torch.tanh(s.gate(y))).softmax(1)
        return s.head((w * y).sum(1))
    return Net(call, stages=backbone(16, 32, 48, act=nn.Hardswish), gate=nn.Linear(96, 32), weight=nn.Linear(32, 1), head=nn.Linear(96, 12))


# ---- tables, graphs, points

@small(("x", (24,), "any"), ("kind", (8,), 50), opset=17)
def feature_tokens():
    """Numbers and categories as tokens, attention over them (FT-Transformer), ReGLU."""
    def call(s, x, kind):
        t = torch.cat([s.first.expand(x.shape[0], 1, -1), x[..., None] * s.w + s.b, s.embed(kind + torch.arange(8) * 50)], 1)
        for a, n, f, o in zip(s.attention, s.norms, s.feed, s.out):
            y = n(t)
            t = t + a(y, y, y, need_weights=False)[0]
            u, g = f(t).chunk(2, -1)
            t = t + o(u * F.relu(g))
        return s.head(t[:, 0])
    return Net(call, first=torch.randn(1, 1, 64), w=torch.randn(24, 64), b=torch.randn(24, 64), embed=nn.Embedding(400, 64),
               attention=nn.ModuleList(nn.MultiheadAttention(64, 4, batch_first=True) for _ in range(2)), norms=nn.ModuleList(nn.LayerNorm(64) for _ in range(2)),
               feed=nn.ModuleList(nn.Linear(64, 256) for _ in range(2)), out=nn.ModuleList(nn.Linear(128, 64) for _ in range(2)), head=nn.Linear(64, 3))


@small(("x", (40,), "any"), opset=13)
def soft_trees():
    """Decisions as sparse choices of features, leaves by products of probabilities (NODE), sparsemax."""
    def sparsemax(z):
        top = z.sort(-1, descending=True)[0]
        at = torch.arange(1, z.shape[-1] + 1.0)
        sums = top.cumsum(-1)
        k = (1 + at * top > sums).float().sum(-1, keepdim=True)
        tau = (sums.gather(-1, k.long() - 1) - 1) / k
        return (z - tau).clamp(min=0)
    def call(s, x):
        m = sparsemax(s.mask(x))
        f = (x * m) @ s.choice.softmax(0)
        p = torch.sigmoid((f.unflatten(-1, (16, 4)) - s.at) * 2)
        p = torch.stack([p, 1 - p], -1)
        leaf = torch.einsum("bti,btj,btk,btl->btijkl", *p.unbind(2)).flatten(2)
        return torch.einsum("btl,tlo->bo", leaf, s.value)
    return Net(call, mask=nn.Linear(40, 40), choice=torch.randn(40, 64), at=torch.randn(16, 4), value=torch.randn(16, 16, 5))


@small(("x", (120, 24), "any"), ("edges", (2, 400), 120), ("weight", (400, 6), "any"), fixed=True, opset=18)
def edge_networks():
    """Messages by edge features, means, softmax over neighbours by scattering (PNA)."""
    def call(s, x, edges, weight):
        x, (a, b), w = x[0], edges[0], weight[0]
        for m, u in zip(s.message, s.update):
            y = m(torch.cat([x[a], x[b], w], -1))
            to = b[:, None].expand(-1, y.shape[1])
            count = torch.zeros(120).scatter_add(0, b, torch.ones(400)).clamp(min=1)[:, None]
            mean = torch.zeros(120, 32).scatter_add(0, to, y) / count
            weight_of = torch.exp(y - y.amax(0, keepdim=True))
            soft = torch.zeros(120, 32).scatter_add(0, to, y * weight_of) / (torch.zeros(120, 32).scatter_add(0, to, weight_of) + 1e-3)
            x = x + u(torch.cat([x, mean, soft], -1))
        return x.mean(0, keepdim=True), x
    return Net(call, message=nn.ModuleList(nn.Sequential(nn.Linear(54, 32), nn.ELU(), nn.Linear(32, 32)) for _ in range(2)),
               update=nn.ModuleList(nn.Sequential(nn.Linear(88, 48), nn.CELU(), nn.Linear(48, 24)) for _ in range(2)))


@small(("x", (200, 3), "smooth"), opset=16)
def neighbours():
    """Nearest points by distances and top k, differences to them, maxima (DGCNN)."""
    def call(s, x):
        for layer in s.layers:
            d = (x ** 2).sum(-1, keepdim=True) - 2 * x @ x.transpose(1, 2) + (x ** 2).sum(-1).unsqueeze(1)
            at = d.topk(8, largest=False)[1].flatten(1)
            near = x.gather(1, at.unsqueeze(-1).expand(-1, -1, x.shape[2])).view(x.shape[0], 200, 8, -1)
            x = layer(torch.cat([x.unsqueeze(2).expand(-1, -1, 8, -1), near - x.unsqueeze(2)], -1)).amax(2)
        return s.head(x.amax(1))
    mlp = lambda i, o: nn.Sequential(nn.Linear(2 * i, o), nn.LeakyReLU(0.2), nn.Linear(o, o))
    return Net(call, layers=nn.ModuleList([mlp(3, 32), mlp(32, 48)]), head=nn.Linear(48, 10))


@small(("x", (64, 48), "any"), ("step", (1,), 64), opset=14)
def written_cache():
    """A row of a cache is replaced by a one-hot product and by a scatter, then read up to there."""
    def call(s, x, step):
        here = F.one_hot(step[:, 0].clamp(0, 63), 64).to(x.dtype).unsqueeze(-1)
        new = s.new(x.mean(1, keepdim=True))
        cache = x * (1 - here) + here * new
        other = x.scatter(1, step.clamp(0, 63).unsqueeze(-1).expand(-1, 1, 48), new)
        seen = (torch.arange(64)[None] <= step).unsqueeze(1)
        q = s.q(new)
        a = (q @ cache.transpose(1, 2) * 0.15).masked_fill(~seen, -1e9).softmax(-1) @ other
        return s.out(a), torch.tril(cache @ other.transpose(1, 2)).sum(-1)
    return Net(call, new=nn.Linear(48, 48), q=nn.Linear(48, 48), out=nn.Linear(48, 20))


@small(("x", (48, 64), "any"), dynamo=True, opset=21)
def group_and_rms():
    """RMS and group norms, softcapped scores, squared ReLU, a router of two experts as the newer exporter has it."""
    def call(s, x):
        for n, qkv, o, u, d, r in zip(s.norm, s.qkv, s.o, s.up, s.down, s.route):
            q, k, v = (heads(y, 4) for y in qkv(n(x)).chunk(3, -1))
            score = 20 * torch.tanh(q @ k.transpose(-1, -2) / 80)
            x = x + o((score.softmax(-1) @ v).transpose(1, 2).flatten(2))
            gate = r(x).softmax(-1)
            w, at = gate.topk(2, -1)
            gate = torch.zeros_like(gate).scatter(-1, at, w / w.sum(-1, keepdim=True))
            y = F.relu(torch.einsum("btd,edf->betf", x, u)) ** 2
            x = x + torch.einsum("betf,efd,bte->btd", y, d, gate)
        return F.group_norm(x.transpose(1, 2), 8)
    n = 2
    return Single(call, norm=nn.ModuleList(nn.RMSNorm(64) for _ in range(n)), qkv=nn.ModuleList(nn.Linear(64, 192) for _ in range(n)),
                  o=nn.ModuleList(nn.Linear(64, 64) for _ in range(n)), up=nn.ParameterList([torch.randn(4, 64, 96) * 0.1 for _ in range(n)]),
                  down=nn.ParameterList([torch.randn(4, 96, 64) * 0.1 for _ in range(n)]), route=nn.ModuleList(nn.Linear(64, 4) for _ in range(n)))


@small(image(96), opset=13)
def two_stage():
    """Scores of anchors, the best by TopK, boxes gathered, regions averaged by masks of their coordinates."""
    def call(s, x):
        y = levels(s.stages, x)[-1]
        score, box = s.score(y).flatten(1), s.box(y).unflatten(1, (3, 4)).permute(0, 1, 3, 4, 2).flatten(1, 3)
        best, at = score.topk(16, 1)
        box = box.gather(1, at.unsqueeze(-1).expand(-1, -1, 4)).sigmoid() * 12
        grid = torch.arange(12.0)
        inside = lambda lo, size: ((grid >= lo) & (grid <= lo + size)).float()
        mask = inside(box[..., 1:2], box[..., 3:4])[..., None] * inside(box[..., 0:1], box[..., 2:3])[:, :, None]
        region = torch.einsum("bchw,brhw->brc", y, mask) / (mask.sum((2, 3)).unsqueeze(-1) + 1)
        return best.sigmoid(), box, s.head(region)
    return Net(call, stages=backbone(16, 32, 64), score=nn.Conv2d(64, 3, 1), box=nn.Conv2d(64, 12, 1), head=nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 6)))
