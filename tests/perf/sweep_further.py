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


# ---- what further papers have

@small(image(64), opset=17)
def residual_groups():
    """Super resolution: residual channel attention groups, PixelShuffle x4, mean shift."""
    def call(s, x):
        x = x - s.mean
        h = s.first(x)
        y = h
        for g in s.groups:
            z = y
            for b in g:
                r = b["body"](z)
                z = z + r * b["gate"](F.adaptive_avg_pool2d(r, 1))
            y = y + z
        return s.last(s.up(y + h)) + s.mean
    c = 32
    block = lambda: nn.ModuleDict(dict(body=nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)),
                                       gate=nn.Sequential(nn.Conv2d(c, 4, 1), nn.ReLU(), nn.Conv2d(4, c, 1), nn.Sigmoid())))
    return Net(call, mean=torch.tensor([0.4, 0.5, 0.6])[None, :, None, None], first=nn.Conv2d(3, c, 3, padding=1), groups=nn.ModuleList(nn.ModuleList(block() for _ in range(2)) for _ in range(2)),
               up=nn.Sequential(nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2)), last=nn.Conv2d(c, 3, 3, padding=1))


@small(("text", (40,), 60), fixed=True, opset=17)
def speech_synthesis():
    """Character CNN, BiLSTM, location-sensitive attention unrolled eight steps with LSTM cells, post-net."""
    def call(s, t):
        x = s.enc(s.embed(t).transpose(1, 2)).transpose(1, 2)
        m = s.lstm(x)[0]
        pm = s.mem(m)
        b = t.shape[0]
        h = c = ctx = torch.zeros(b, 128)
        w = cum = torch.zeros(b, 1, 40)
        frame, out = torch.zeros(b, 80), []
        for _ in range(8):
            p = s.pre(frame)
            h, c = s.cell(torch.cat([p, ctx], -1), (h, c))
            loc = s.loc_d(s.loc(torch.cat([w, cum], 1)).transpose(1, 2))
            e = s.v(torch.tanh(s.query(h).unsqueeze(1) + loc + pm)).squeeze(-1)
            a = e.softmax(-1)
            ctx = torch.bmm(a.unsqueeze(1), m).squeeze(1)
            w = a.unsqueeze(1); cum = cum + w
            frame = s.proj(torch.cat([h, ctx], -1))
            out.append(frame)
        y = torch.stack(out, 2)
        return y + s.post(y)
    cbt = lambda i, o, a: nn.Sequential(nn.Conv1d(i, o, 5, padding=2), nn.BatchNorm1d(o), a)
    return Net(call, embed=nn.Embedding(60, 128), enc=nn.Sequential(*[cbt(128, 128, nn.ReLU()) for _ in range(2)]), lstm=nn.LSTM(128, 64, batch_first=True, bidirectional=True),
               mem=nn.Linear(128, 64, bias=False), query=nn.Linear(128, 64, bias=False), loc=nn.Conv1d(2, 16, 31, padding=15, bias=False), loc_d=nn.Linear(16, 64, bias=False),
               v=nn.Linear(64, 1), pre=nn.Sequential(nn.Linear(80, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()), cell=nn.LSTMCell(192, 128), proj=nn.Linear(256, 80),
               post=nn.Sequential(cbt(80, 64, nn.Tanh()), nn.Conv1d(64, 80, 5, padding=2)))


@small(image(160), opset=12)
def focus_detector():
    """Focus slices, C3, SPPF, PAN, three heads with grids and anchors decoded."""
    silu = nn.SiLU
    class C3(nn.Module):
        def __init__(self, i, o, add=True):
            super().__init__()
            self.a, self.b, self.c = cba(i, o // 2, 1, act=silu), cba(i, o // 2, 1, act=silu), cba(o, o, 1, act=silu)
            self.m, self.add = nn.Sequential(cba(o // 2, o // 2, 1, act=silu), cba(o // 2, o // 2, 3, act=silu)), add
        def forward(self, x):
            y = self.a(x)
            return self.c(torch.cat([y + self.m(y) if self.add else self.m(y), self.b(x)], 1))
    def call(s, x):
        x = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
        p3 = s.b3(s.stem(x)); p4 = s.b4(p3); p5 = s.b5(p4)
        y = s.sp(p5); q = [y]
        for _ in range(3):
            q.append(F.max_pool2d(q[-1], 5, 1, 2))
        p5 = s.sp2(torch.cat(q, 1))
        u4 = s.u4(torch.cat([F.interpolate(s.l5(p5), scale_factor=2.0), p4], 1))
        u3 = s.u3(torch.cat([F.interpolate(s.l4(u4), scale_factor=2.0), p3], 1))
        d4 = s.d4(torch.cat([s.s3(u3), u4], 1))
        z = []
        for f, h, st in ((u3, s.h3, 8.0), (d4, s.h4, 16.0), (p5, s.h5, 32.0)):
            y = h(f)
            b, _, ny, nx = y.shape
            y = y.view(b, 3, 25, ny, nx).permute(0, 1, 3, 4, 2).sigmoid()
            gy, gx = torch.meshgrid(torch.arange(ny), torch.arange(nx), indexing="ij")
            grid = torch.stack((gx, gy), 2).float()
            xy = (y[..., 0:2] * 2 - 0.5 + grid) * st
            wh = (y[..., 2:4] * 2) ** 2 * st * 3
            z.append(torch.cat((xy, wh, y[..., 4:]), -1).reshape(b, -1, 25))
        return torch.cat(z, 1)
    return Net(call, stem=cba(12, 16, act=silu), b3=nn.Sequential(cba(16, 32, s=2, act=silu), C3(32, 32), cba(32, 48, s=2, act=silu)), b4=nn.Sequential(cba(48, 64, s=2, act=silu), C3(64, 64)),
               b5=nn.Sequential(cba(64, 96, s=2, act=silu), C3(96, 96)), sp=cba(96, 48, 1, act=silu), sp2=cba(192, 96, 1, act=silu), l5=cba(96, 64, 1, act=silu), u4=C3(128, 64, False),
               l4=cba(64, 48, 1, act=silu), u3=C3(96, 48, False), s3=cba(48, 48, s=2, act=silu), d4=C3(112, 64, False), h3=nn.Conv2d(48, 75, 1), h4=nn.Conv2d(64, 75, 1), h5=nn.Conv2d(96, 75, 1))


@small(image(160), opset=17)
def attended_detector():
    """C3k2, attention over positions with depthwise positions (C2PSA), distributed box regression, decoded."""
    silu = nn.SiLU
    def call(s, x):
        f = []
        for st in s.stages:
            x = st(x)
            f.append(x)
        b, c, h, w = x.shape
        n1, n2 = s.psa_in(x).split(48, 1)
        q, k, v = s.qkv(n2).view(b, 3, 48, h * w).unbind(1)
        q, k = q.reshape(b, 3, 16, h * w), k.reshape(b, 3, 16, h * w)
        a = (q.transpose(-2, -1) @ k * 0.25).softmax(-1)
        y = (v.reshape(b, 3, 16, h * w) @ a.transpose(-2, -1)).reshape(b, 48, h, w) + s.pe(v.reshape(b, 48, h, w))
        n2 = n2 + s.proj(y)
        n2 = n2 + s.ffn(n2)
        x = s.psa_out(torch.cat([n1, n2], 1))
        outs = []
        for z, bx, cl in zip((f[-2], x), s.box, s.cls):
            outs.append(torch.cat([bx(z), cl(z)], 1).flatten(2))
        y = torch.cat(outs, 2)
        d, c = y.split([64, 20], 1)
        d = F.conv2d(d.view(b, 4, 16, -1).transpose(2, 1).softmax(1), torch.arange(16.0).view(1, 16, 1, 1)).view(b, 4, -1)
        pts, st = [], []
        for n, stv in ((10, 16.0), (5, 32.0)):
            gy, gx = torch.meshgrid(torch.arange(n) + 0.5, torch.arange(n) + 0.5, indexing="ij")
            pts.append(torch.stack([gx, gy]).flatten(1)); st.append(torch.full((1, n * n), stv))
        pts, st = torch.cat(pts, 1)[None], torch.cat(st, 1)
        lt, rb = d.chunk(2, 1)
        a, z = pts - lt, pts + rb
        return torch.cat([torch.cat([(a + z) / 2, z - a], 1) * st, c.sigmoid()], 1)
    dw = lambda i, o, k=3: nn.Sequential(cba(i, i, k, g=i, act=silu), cba(i, o, 1, act=silu))
    return Net(call, stages=nn.ModuleList([cba(3, 16, s=2, act=silu), cba(16, 32, s=2, act=silu), nn.Sequential(cba(32, 48, s=2, act=silu), cba(48, 48, act=silu)),
               cba(48, 64, s=2, act=silu), nn.Sequential(cba(64, 96, s=2, act=silu), cba(96, 96, act=silu))]), psa_in=cba(96, 96, 1, act=silu), qkv=cba(48, 144, 1, act=nn.Identity),
               pe=cba(48, 48, 3, g=48, act=nn.Identity), proj=cba(48, 48, 1, act=nn.Identity), ffn=nn.Sequential(cba(48, 96, 1, act=silu), cba(96, 48, 1, act=nn.Identity)), psa_out=cba(96, 96, 1, act=silu),
               box=nn.ModuleList(nn.Sequential(cba(c, 32, act=silu), nn.Conv2d(32, 64, 1)) for c in (64, 96)), cls=nn.ModuleList(nn.Sequential(dw(c, 32), dw(32, 32), nn.Conv2d(32, 20, 1)) for c in (64, 96)))


@small(("x", (96, 7), "smooth"), opset=18)
def folded_series():
    """Series folded to images by periods, inception of 2-D convolutions, sums by weights."""
    def call(s, x):
        m = x.mean(1, keepdim=True)
        sd = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        y = s.embed((x - m) / sd)
        outs = []
        for p in (24, 12, 8):
            z = y.reshape(y.shape[0], 96 // p, p, 32).permute(0, 3, 1, 2)
            z = torch.stack([c(z) for c in s.a], -1).mean(-1)
            z = torch.stack([c(F.gelu(z)) for c in s.b], -1).mean(-1)
            outs.append(z.permute(0, 2, 3, 1).reshape(y.shape[0], 96, 32))
        w = s.w(y.mean(1)).softmax(-1)
        y = y + (torch.stack(outs, -1) * w[:, None, None]).sum(-1)
        return s.head(F.layer_norm(y, (32,))) * sd + m
    inc = lambda i, o: nn.ModuleList(nn.Conv2d(i, o, 2 * k + 1, padding=k) for k in range(4))
    return Net(call, embed=nn.Linear(7, 32), a=inc(32, 32), b=inc(32, 32), w=nn.Linear(32, 3), head=nn.Linear(32, 7))


@small(("x", (3, 5, 64, 64), "smooth"), fixed=True, opset=16)
def time_shift():
    """R(2+1)D, squeeze-excitation of volumes, temporal shifts (TSM), 3-D pools with ceil."""
    def call(s, x):
        for sp, t, se in zip(s.spatial, s.temporal, s.se):
            x = F.hardswish(t(F.relu(sp(x))))
            x = x * torch.sigmoid(se(x.mean((2, 3, 4), keepdim=True)))
            a, b, c = x.split([x.shape[1] // 4, x.shape[1] // 4, x.shape[1] // 2], 1)
            a = torch.cat([a[:, :, 1:], torch.zeros_like(a[:, :, :1])], 2)
            b = torch.cat([torch.zeros_like(b[:, :, :1]), b[:, :, :-1]], 2)
            x = torch.cat([a, b, c], 1)
        x = F.max_pool3d(x, (2, 2, 2), (1, 2, 2), ceil_mode=True)
        return s.head(x.mean((2, 3, 4)))
    ch = ((3, 24), (24, 48))
    return Net(call, spatial=nn.ModuleList(nn.Conv3d(i, o, (1, 3, 3), (1, 2, 2), (0, 1, 1)) for i, o in ch), temporal=nn.ModuleList(nn.Conv3d(o, o, (3, 1, 1), padding=(1, 0, 0), groups=o) for _, o in ch),
               se=nn.ModuleList(nn.Conv3d(o, o, 1) for _, o in ch), head=nn.Linear(48, 10))


@small(image(96), opset=17)
def restoration_gates():
    """SimpleGate, LayerNorm over channels of images, simplified channel attention, PixelShuffle up."""
    def ln(x, w, b):
        mu = x.mean(1, keepdim=True)
        v = (x - mu).pow(2).mean(1, keepdim=True)
        return w[:, None, None] * (x - mu) / (v + 1e-6).sqrt() + b[:, None, None]
    def block(l, x):
        y = l.dw(l.a(ln(x, l.w1, l.b1)))
        u, v = y.chunk(2, 1)
        y = u * v
        y = l.o(y * l.sca(F.adaptive_avg_pool2d(y, 1)))
        x = x + y * l.beta
        u, v = l.f(ln(x, l.w2, l.b2)).chunk(2, 1)
        return x + l.g(u * v) * l.gamma
    def call(s, x):
        h = s.first(x)
        for l in s.l0: h = block(l, h)
        k = h
        h = s.down(h)
        for l in s.l1: h = block(l, h)
        h = F.pixel_shuffle(s.up(h), 2) + k
        for l in s.l2: h = block(l, h)
        return s.last(h) + x
    mk = lambda c: Net(None, w1=torch.ones(c), b1=torch.zeros(c), w2=torch.ones(c), b2=torch.zeros(c), a=nn.Conv2d(c, 2 * c, 1), dw=nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c),
                       sca=nn.Conv2d(c, c, 1), o=nn.Conv2d(c, c, 1), f=nn.Conv2d(c, 2 * c, 1), g=nn.Conv2d(c, c, 1), beta=torch.rand(c, 1, 1), gamma=torch.rand(c, 1, 1))
    return Net(call, first=nn.Conv2d(3, 16, 3, padding=1), l0=nn.ModuleList([mk(16)]), down=nn.Conv2d(16, 32, 2, 2), l1=nn.ModuleList([mk(32), mk(32)]), up=nn.Conv2d(32, 64, 1, bias=False),
               l2=nn.ModuleList([mk(16)]), last=nn.Conv2d(16, 3, 3, padding=1))


@small(image(96), opset=16)
def channel_attention():
    """Attention across channels (transposed), normalized queries and keys, gated depthwise feed-forward."""
    def call(s, x):
        x = s.first(x)
        for l in s.layers:
            b, c, h, w = x.shape
            y = l.n1(x.flatten(2).transpose(1, 2)).transpose(1, 2).view(b, c, h, w)
            q, k, v = l.dw(l.qkv(y)).chunk(3, 1)
            q, k, v = (z.reshape(b, 4, c // 4, h * w) for z in (q, k, v))
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            a = ((q @ k.transpose(-2, -1)) * l.t).softmax(-1)
            x = x + l.o((a @ v).reshape(b, c, h, w))
            y = l.n2(x.flatten(2).transpose(1, 2)).transpose(1, 2).view(b, c, h, w)
            u, g = l.dw2(l.f(y)).chunk(2, 1)
            x = x + l.g(F.gelu(u) * g)
        return s.last(x)
    c = 48
    return Net(call, first=nn.Conv2d(3, c, 3, padding=1, bias=False), last=nn.Conv2d(c, 3, 3, padding=1), layers=nn.ModuleList(Net(None, n1=nn.LayerNorm(c), n2=nn.LayerNorm(c), qkv=nn.Conv2d(c, 3 * c, 1),
               dw=nn.Conv2d(3 * c, 3 * c, 3, padding=1, groups=3 * c), t=torch.ones(4, 1, 1), o=nn.Conv2d(c, c, 1), f=nn.Conv2d(c, 254, 1), dw2=nn.Conv2d(254, 254, 3, padding=1, groups=254), g=nn.Conv2d(127, c, 1)) for _ in range(2)))


@small(("x", (80, 100), "smooth"), fixed=True, opset=17)
def relative_conformer():
    """Strided 2-D front, half feed-forwards, relative-position attention by shift, GLU and depthwise 31."""
    def call(s, x):
        y = s.front(x.unsqueeze(1))
        y = s.proj(y.permute(0, 3, 1, 2).flatten(2))
        t = y.shape[1]
        for l in s.layers:
            y = y + 0.5 * l.f1(y)
            z = l.n(y)
            q, k, v = (heads(u, 4) for u in l.qkv(z).chunk(3, -1))
            p = heads(l.pos(s.rel[:2 * t - 1])[None], 4)
            ac = (q + l.u[:, None]) @ k.transpose(-1, -2)
            bd = (q + l.w[:, None]) @ p.transpose(-1, -2)
            bd = F.pad(bd, (1, 0)).reshape(-1, 4, 2 * t, t)[:, :, 1:].reshape(-1, 4, t, 2 * t - 1)[..., :t]
            y = y + l.o((((ac + bd) / math.sqrt(24)).softmax(-1) @ v).transpose(1, 2).flatten(2))
            z = F.glu(l.p1(l.n3(y).transpose(1, 2)), 1)
            y = y + l.p2(F.silu(l.bn(l.dw(z)))).transpose(1, 2)
            y = l.n4(y + 0.5 * l.f2(y))
        return s.head(y).log_softmax(-1)
    d = 96
    ff = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
    return Net(call, front=nn.Sequential(nn.Conv2d(1, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 2), nn.ReLU()), proj=nn.Linear(32 * 19, d), rel=torch.randn(47, d), head=nn.Linear(d, 40),
               layers=nn.ModuleList(Net(None, f1=ff(), n=nn.LayerNorm(d), qkv=nn.Linear(d, 3 * d), pos=nn.Linear(d, d, bias=False), u=torch.randn(4, 24), w=torch.randn(4, 24), o=nn.Linear(d, d), n3=nn.LayerNorm(d),
                                        p1=nn.Conv1d(d, 2 * d, 1), dw=nn.Conv1d(d, d, 31, padding=15, groups=d), bn=nn.BatchNorm1d(d), p2=nn.Conv1d(d, d, 1), f2=ff(), n4=nn.LayerNorm(d)) for _ in range(2)))


@small(("x", (100, 64), "any"), dynamo=True, opset=20)
def gated_scans():
    """minGRU-like scans: gates, cumulative log-sums, sLSTM-ish normalizers, depthwise causal convolution."""
    def call(s, x):
        y = s.conv(F.pad(x.transpose(1, 2), (3, 0))).transpose(1, 2)
        z, h = s.zh(F.silu(y)).chunk(2, -1)
        lf = -F.softplus(z).cumsum(1)
        li = -F.softplus(-z) + torch.log(F.relu(h) + 0.5)
        y = torch.exp(lf) * torch.exp((li - lf).clamp(max=30)).cumsum(1)
        return s.out(F.rms_norm(y.clamp(max=100), (64,)) * torch.sigmoid(s.g(x)))
    return Single(call, conv=nn.Conv1d(64, 64, 4, groups=64), zh=nn.Linear(64, 128), g=nn.Linear(64, 64), out=nn.Linear(64, 64))


@small(image(112), opset=11)
def local_responses():
    """Older forms: LRN, ceil pools, grouped shuffles, sum of scaled branches, maxout, LogSoftmax (GoogLeNet- and MobileFaceNet-like)."""
    def call(s, x):
        x = F.max_pool2d(F.local_response_norm(s.c1(x), 5), 3, 2, ceil_mode=True)
        m = s.c2(x)
        a, b = m.chunk(2, 1)
        x = torch.max(a, b)
        x = F.local_response_norm(x, 3)
        y = torch.cat([s.i1(x), s.i2(x), s.i3(F.avg_pool2d(x, 3, 1, 1, count_include_pad=False))], 1)
        y = 0.17 * s.lin(y) + torch.cat([x] * 2, 1)
        y = s.gd(F.prelu(y, s.slope))
        return F.log_softmax(s.head(y.flatten(1)), 1)
    return Net(call, c1=nn.Conv2d(3, 32, 7, 2, 3), c2=nn.Conv2d(32, 64, 3, padding=1), i1=cba(32, 16, 1), i2=nn.Sequential(cba(32, 24, 1), cba(24, 32, 5)), i3=cba(32, 16, 1), lin=nn.Conv2d(64, 64, 1), slope=torch.rand(64),
               gd=nn.Sequential(nn.Conv2d(64, 64, 28, groups=64, bias=False), nn.BatchNorm2d(64)), head=nn.Linear(64, 10))


@small(("x", (40,), "any"), opset=15)
def sparse_masks():
    """TabNet: features chosen step by step by sparsemax, whose support is counted in integers."""
    def sparsemax(z):
        most = torch.sort(z, dim=-1, descending=True)[0]
        over = most.cumsum(-1) - 1
        count = (torch.arange(1, z.shape[-1] + 1, dtype=z.dtype) * most > over).sum(-1, keepdim=True)
        return torch.clamp(z - over.gather(-1, count - 1) / count.to(z.dtype), min=0)

    def call(s, x):
        x = s.norm(x)
        prior, a, total = torch.ones_like(x), F.glu(s.first(x)), 0
        for step, gate in zip(s.steps, s.gates):
            mask = sparsemax(gate(a) * prior)
            prior = prior * (1.3 - mask)
            h = F.glu(step(mask * x))
            total, a = total + F.relu(h[:, :16]), h[:, 16:]
        return s.out(total)
    return Net(call, norm=nn.BatchNorm1d(40), first=nn.Linear(40, 32), steps=nn.ModuleList(nn.Linear(40, 64) for _ in range(3)),
               gates=nn.ModuleList(nn.Linear(16, 40) for _ in range(3)), out=nn.Linear(16, 3))


@small(("x", (96, 4), "any"), dynamo=True, opset=18)
def periods():
    """TimesNet: amplitudes of a spectrum weigh series that are folded by their periods."""
    def call(s, x):
        x = s.embed(x)
        parts = torch.view_as_real(torch.fft.rfft(x, dim=1))
        amplitude = torch.sqrt(parts[..., 0] ** 2 + parts[..., 1] ** 2).mean(-1)
        weight, total = F.softmax(amplitude[:, [4, 8, 12]], 1), x
        for i, period in enumerate((24, 12, 8)):
            y = s.body(x.reshape(x.shape[0], 96 // period, period, 16).permute(0, 3, 1, 2))
            total = total + weight[:, i, None, None] * y.permute(0, 2, 3, 1).reshape(x.shape)
        return s.out(total)
    return Net(call, embed=nn.Linear(4, 16), out=nn.Linear(16, 4),
               body=nn.Sequential(nn.Conv2d(16, 32, 3, 1, 1), nn.GELU(), nn.Conv2d(32, 16, 5, 1, 2)))


@small(image(48), dynamo=True, opset=18)
def overlapping_blocks():
    """Blocks that overlap, each through a small network, added back to an image (nn.Fold)."""
    def call(s, x):
        y = F.unfold(s.head(x), 3, padding=1, stride=2)
        return s.tail(F.fold(s.mix(y.transpose(1, 2)).transpose(1, 2), (48, 48), 3, padding=1, stride=2))
    return Net(call, head=nn.Conv2d(3, 16, 3, 1, 1), mix=nn.Sequential(nn.Linear(144, 64), nn.GELU(), nn.Linear(64, 144)),
               tail=nn.Conv2d(16, 3, 3, 1, 1))
