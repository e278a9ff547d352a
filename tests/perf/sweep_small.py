"""Small networks written for sweep.py: what the libraries have little of. A row of SMALL is
(inputs, options, build); inputs and options are those of sweep_networks.py."""
import torch
from torch import nn
from torch.nn import functional as F

SMALL = {}


def small(*inputs, **options):
    """Inputs: (name, shape of a sample, kind)."""
    def add(build):
        SMALL[build.__name__] = (inputs, options, build)
        return build
    return add


def image(size, channels=3):
    return ("x", (channels, size, size), "smooth")


def cba(i, o, k=3, s=1, act=nn.ReLU, g=1, d=1):
    """Convolution, batch normalization, activation."""
    return nn.Sequential(nn.Conv2d(i, o, k, s, d * (k // 2), d, g, bias=False), nn.BatchNorm2d(o), act())


class Net(nn.Module):
    """Parts by name, and what is done with them: call(self, *inputs)."""
    def __init__(self, call, **parts):
        super().__init__()
        self.call = call
        for k, v in parts.items():
            setattr(self, k, nn.Parameter(v) if torch.is_tensor(v) else v)

    def forward(self, *x):
        return self.call(self, *x)


class Single(Net):
    """Of one input, which the other exporter wants to see."""
    def forward(self, x):
        return self.call(self, x)


def backbone(*widths, act=nn.ReLU):
    return nn.ModuleList(cba(i, o, s=2, act=act) for i, o in zip((3, *widths), widths))


def levels(stages, x):
    out = []
    for stage in stages:
        x = stage(x)
        out.append(x)
    return out


# ---- detectors

@small(image(160), open={2: "H", 3: "W"})
def anchor_free_decoded():
    """Distances by a distribution (DFL), centres from a grid made in the graph."""
    def call(s, x):
        boxes, scores = [], []
        for n, y in enumerate(levels(s.stages, x)[-2:]):
            stride = 8 << n
            h, w = y.shape[2:]
            gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            centre = (torch.stack([gx, gy], -1).reshape(1, -1, 2) + 0.5) * stride
            d = s.box[n](y).flatten(2).transpose(1, 2).unflatten(-1, (4, 8)).softmax(-1) @ torch.arange(8.0) * stride
            boxes.append(torch.cat([centre - d[..., :2], centre + d[..., 2:]], -1))
            scores.append(s.score[n](y).flatten(2).transpose(1, 2).sigmoid())
        return torch.cat(boxes, 1), torch.cat(scores, 1)
    return Net(call, stages=backbone(16, 32, 48, 64, act=nn.SiLU), box=nn.ModuleList(nn.Conv2d(c, 32, 1) for c in (48, 64)),
               score=nn.ModuleList(nn.Conv2d(c, 20, 1) for c in (48, 64)))


@small(image(160), opset=12)
def anchor_decoded():
    """Anchors, offsets and in-place writes of slices, as the exporter makes ScatterND of them."""
    def call(s, x):
        y = s.head(levels(s.stages, x)[-1])
        b, _, h, w = y.shape
        y = y.view(b, 3, 9, h, w).permute(0, 1, 3, 4, 2).sigmoid().clone()
        gy, gx = torch.meshgrid(torch.arange(10.0), torch.arange(10.0), indexing="ij")
        y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + torch.stack([gx, gy], -1)) * 16
        y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * torch.tensor([[10.0, 13], [30, 61], [116, 90]]).view(1, 3, 1, 1, 2)
        return y.reshape(b, -1, 9)
    return Net(call, stages=backbone(16, 32, 48, 64, act=lambda: nn.LeakyReLU(0.1)), head=nn.Conv2d(64, 27, 1))


@small(image(128))
def heat_map_peaks():
    """Peaks of heat maps: max pool, top k, gathered offsets (centres as points)."""
    def call(s, x):
        y = s.up(levels(s.stages, x)[-1])
        heat = s.heat(y).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).float()
        score, at = heat.flatten(1).topk(20)
        place = at % (heat.shape[2] * heat.shape[3])
        offset = s.offset(y).flatten(2).transpose(1, 2)
        return score, at, offset.gather(1, place.unsqueeze(-1).expand(-1, -1, 2))
    return Net(call, stages=backbone(16, 32, 64), up=nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU()),
               heat=nn.Conv2d(32, 5, 3, padding=1), offset=nn.Conv2d(32, 2, 3, padding=1))


# ---- segmentation, depth, flow

@small(image(128), open={2: "H", 3: "W"})
def pyramid_pooling():
    def call(s, x):
        size, y = x.shape[2:], levels(s.stages, x)[-1]
        parts = [y] + [F.interpolate(p(F.avg_pool2d(y, k, ceil_mode=True)), size=y.shape[2:], mode="bilinear", align_corners=True)
                       for k, p in zip((16, 8, 6, 3), s.pooled)]
        return F.interpolate(s.head(torch.cat(parts, 1)), size=size, mode="bilinear", align_corners=True)
    return Net(call, stages=backbone(16, 32, 64), pooled=nn.ModuleList(cba(64, 16, 1) for _ in range(4)), head=nn.Conv2d(128, 8, 1))


@small(image(128))
def atrous():
    def call(s, x):
        y = levels(s.stages, x)[-1]
        mean = s.mean(y.mean((2, 3), keepdim=True)).expand(-1, -1, *y.shape[2:])
        y = s.join(torch.cat([b(y) for b in s.branches] + [mean], 1))
        return F.interpolate(s.head(y), scale_factor=8.0, mode="bicubic")
    return Net(call, stages=backbone(16, 32, 64), branches=nn.ModuleList(cba(64, 32, 3, d=d) for d in (1, 6, 12)),
               mean=cba(64, 32, 1), join=cba(128, 32, 1), head=nn.Conv2d(32, 4, 1))


@small(("x", (6, 96, 96), "smooth"))
def optical_flow():
    """Two images: correlation, flow, the second one moved by it, twice."""
    def call(s, x):
        a, b = s.front(x[:, :3]), s.front(x[:, 3:])
        h, w = a.shape[2:]
        gy, gx = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        grid = torch.stack([gx, gy], -1)[None]
        flow = torch.zeros_like(a[:, :2])
        for _ in range(2):
            moved = F.grid_sample(b, grid + flow.permute(0, 2, 3, 1) * 0.1, padding_mode="border", align_corners=True)
            cost = torch.stack([(a * torch.roll(moved, (i, j), (2, 3))).mean(1) for i in (-1, 0, 1) for j in (-1, 0, 1)], 1)
            flow = flow + s.step(torch.cat([a, cost, flow], 1))
        return flow
    return Net(call, front=nn.Sequential(cba(3, 24, s=2), cba(24, 32)), step=nn.Sequential(cba(43, 48), nn.Conv2d(48, 2, 3, padding=1)))


@small(("x", (6, 48, 64), "smooth"))
def stereo_volume():
    """A cost volume of shifted features, 3-D convolutions, soft argmin."""
    def call(s, x):
        a, b = s.front(x[:, :3]), s.front(x[:, 3:])
        volume = torch.stack([torch.cat([a, F.pad(b, (d, 0, 0, 0))[..., :a.shape[3]]], 1) for d in range(8)], 2)
        return (s.body(volume).squeeze(1).neg().softmax(1) * torch.arange(8.0).view(1, 8, 1, 1)).sum(1)
    return Net(call, front=nn.Sequential(cba(3, 16, s=2), cba(16, 16)),
               body=nn.Sequential(nn.Conv3d(32, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.AvgPool3d(3, 1, 1), nn.Conv3d(16, 1, 3, padding=1)))


@small(image(96), opset=13)
def nested_unet():
    def call(s, x):
        a, b, c = levels(s.stages, x)
        up = lambda y: F.interpolate(y, scale_factor=2, mode="nearest")
        b1 = s.j[0](torch.cat([b, up(c)], 1))
        a1 = s.j[1](torch.cat([a, up(b)], 1))
        a2 = s.j[2](torch.cat([a, a1, up(b1)], 1))
        return torch.cat([torch.sigmoid(s.head(y)) for y in (a1, a2)], 1)
    return Net(call, stages=backbone(16, 32, 64), j=nn.ModuleList([cba(96, 32), cba(48, 16), cba(64, 16)]), head=nn.Conv2d(16, 1, 1))


# ---- made images

class ResBlock(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.a, self.b = nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1)), nn.Linear(t, o)
        self.c = nn.Sequential(nn.GroupNorm(8, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1))
        self.d = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        return self.d(x) + self.c(self.a(x) + self.b(F.silu(t))[:, :, None, None])


@small(("x", (4, 32, 32), "smooth"), ("t", (1,), 1000))
def diffusion_unet():
    def call(s, x, t):
        f = t.float() * torch.exp(torch.arange(16) * -0.6)
        t = s.time(torch.cat([f.sin(), f.cos()], -1))
        a = s.r[0](s.first(x), t)
        b = s.r[1](s.down(a), t)
        y = s.norm(b).flatten(2).transpose(1, 2)
        b = b + s.attention(y, y, y, need_weights=False)[0].transpose(1, 2).reshape(b.shape)
        y = s.r[2](torch.cat([s.up(F.interpolate(b, scale_factor=2.0, mode="nearest")), a], 1), t)
        return s.last(y)
    return Net(call, time=nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64)), first=nn.Conv2d(4, 32, 3, padding=1),
               r=nn.ModuleList([ResBlock(32, 32, 64), ResBlock(64, 64, 64), ResBlock(64, 32, 64)]), down=nn.Conv2d(32, 64, 3, 2, 1),
               norm=nn.GroupNorm(8, 64), attention=nn.MultiheadAttention(64, 4, batch_first=True), up=nn.Conv2d(64, 32, 3, padding=1),
               last=nn.Conv2d(32, 4, 3, padding=1))


@small(("x", (64,), "smooth"), fixed=True)
def modulated_style():
    """Convolution weights that are computed from the input."""
    def call(s, x):
        y = s.const
        for n in range(2):
            w = s.weight[n] * (s.style[n](x) + 1)[0].view(1, -1, 1, 1)
            w = w * torch.rsqrt(w.square().sum((1, 2, 3), keepdim=True) + 1e-6)
            y = F.leaky_relu(F.conv2d(F.interpolate(y, scale_factor=2.0, mode="bilinear"), w, padding=1), 0.2)
        return s.out(y)
    return Net(call, const=torch.randn(1, 32, 8, 8), weight=nn.ParameterList([torch.randn(32, 32, 3, 3) * 0.1 for _ in range(2)]),
               style=nn.ModuleList(nn.Linear(64, 32) for _ in range(2)), out=nn.Conv2d(32, 3, 1))


@small(image(64), opset=14)
def dense_residual():
    """Dense blocks of a super resolution network."""
    def call(s, x):
        y = first = s.first(x)
        for block in (s.b0, s.b1):
            parts = [y]
            for conv in block:
                parts.append(F.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
            y = y + 0.2 * parts[-1]
        return s.last(F.pixel_shuffle(s.up(first + y), 2)).clamp(0, 1)
    block = lambda: nn.ModuleList(nn.Conv2d(32 + 16 * i, 16 if i < 3 else 32, 3, padding=1) for i in range(4))
    return Net(call, first=nn.Conv2d(3, 32, 3, padding=1), b0=block(), b1=block(), up=nn.Conv2d(32, 64, 3, padding=1), last=nn.Conv2d(16, 3, 3, padding=1))


@small(image(64))
def code_book():
    """The nearest code of a book, as in quantizing auto-encoders."""
    def call(s, x):
        z = levels(s.stages, x)[-1].permute(0, 2, 3, 1)
        flat = z.reshape(-1, 32)
        distance = flat.square().sum(1, keepdim=True) - 2 * flat @ s.book.t() + s.book.square().sum(1)
        code = distance.argmin(1)
        return s.up(F.embedding(code, s.book).view(z.shape).permute(0, 3, 1, 2)), code
    return Net(call, stages=backbone(16, 32), book=torch.randn(128, 32),
               up=nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()))


@small(("x", (6,), "smooth"), opset=11)
def radiance_field():
    def call(s, x):
        p = x[:, :3, None] * (2.0 ** torch.arange(6))
        p = torch.cat([p.sin(), p.cos()], -1).flatten(1)
        y = s.a(p)
        y = s.b(torch.cat([y, p], 1))
        return torch.cat([s.rgb(torch.cat([y, x[:, 3:]], 1)).sigmoid(), F.softplus(s.density(y))], 1)
    block = lambda i: nn.Sequential(nn.Linear(i, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    return Net(call, a=block(36), b=block(164), rgb=nn.Linear(131, 3), density=nn.Linear(128, 1))


# ---- sound and text

@small(("x", (80, 120), "smooth"), opset=15)
def wave_gates():
    """Gated dilated convolutions with skips."""
    def call(s, x):
        y, skip = s.first(x), 0
        for conv, out in zip(s.convs, s.outs):
            a, b = conv(y).chunk(2, 1)
            z = out(a.tanh() * b.sigmoid())
            skip, y = skip + z, (y + z) * 0.7071
        return s.last(F.relu(skip))
    return Net(call, first=nn.Conv1d(80, 48, 1), convs=nn.ModuleList(nn.Conv1d(48, 96, 3, padding=d, dilation=d) for d in (1, 2, 4, 8)),
               outs=nn.ModuleList(nn.Conv1d(48, 48, 1) for _ in range(4)), last=nn.Conv1d(48, 80, 1))


@small(("x", (4000,), "smooth"), opset=17)
def voice_activity():
    """A Fourier transform as convolution, a magnitude, an encoder, an LSTM."""
    def call(s, x):
        y = F.conv1d(F.pad(x[:, None], (0, 64), mode="reflect"), s.basis, stride=64)
        y = torch.sqrt(y[:, :65] ** 2 + y[:, 65:] ** 2 + 1e-6)
        y = s.cells(s.encoder(y).transpose(1, 2))[0]
        return s.head(F.relu(y)).sigmoid().mean(1)
    n = torch.arange(128.0)
    angle = 2 * torch.pi * n[None] * torch.arange(65.0)[:, None] / 128
    return Net(call, basis=(torch.cat([angle.cos(), -angle.sin()])[:, None] * torch.hann_window(128) / 8),
               encoder=nn.Sequential(nn.Conv1d(65, 64, 3, 1, 1), nn.ReLU(), nn.Conv1d(64, 64, 3, 2, 1), nn.ReLU()),
               cells=nn.LSTM(64, 64, batch_first=True), head=nn.Linear(64, 1))


@small(("x", (1, 80, 100), "smooth"), opset=16)
def speech_gru():
    def call(s, x):
        y = s.front(x).flatten(1, 2).transpose(1, 2)
        return s.head(s.cells(y)[0]).log_softmax(-1)
    return Net(call, front=nn.Sequential(nn.Conv2d(1, 16, (11, 5), (2, 2), (5, 2)), nn.BatchNorm2d(16), nn.Hardtanh(0, 20), nn.Conv2d(16, 16, (11, 3), (2, 1), (5, 1)),
                                         nn.BatchNorm2d(16), nn.Hardtanh(0, 20)),
               cells=nn.GRU(320, 96, 2, batch_first=True, bidirectional=True), head=nn.Linear(192, 30))


@small(("x", (24,), 500), opset=14)
def translate_attention():
    """A GRU encoder and a decoder that is unrolled, with additive attention."""
    def call(s, x):
        memory = s.encoder(s.embed(x))[0]
        keys, h, out = s.key(memory), memory[:, -1], []
        for _ in range(6):
            weight = s.score(torch.tanh(keys + s.query(h)[:, None])).softmax(1)
            h = s.cell((weight * memory).sum(1), h)
            out.append(s.out(h))
        return torch.stack(out, 1)
    return Net(call, embed=nn.Embedding(500, 48), encoder=nn.GRU(48, 64, batch_first=True), key=nn.Linear(64, 64), query=nn.Linear(64, 64),
               score=nn.Linear(64, 1), cell=nn.GRUCell(64, 64), out=nn.Linear(64, 100))


@small(("x", (48,), 500), ("mask", (48,), 2), open={1: "T"})
def masked_encoder():
    """Masks and positions that the graph computes, as RoBERTa's."""
    def call(s, x, mask):
        place = torch.cumsum(mask, 1) * mask + 1
        y = s.embed(x) + s.place(place)
        bias = (1 - mask[:, None, None, :].float()) * -1e4
        for q, k, v, o, norm, mlp in s.layers:
            heads = lambda f: f(y).unflatten(-1, (4, 16)).transpose(1, 2)
            w = (heads(q) @ heads(k).transpose(2, 3) / 4 + bias).softmax(-1)
            y = norm(y + o((w @ heads(v)).transpose(1, 2).flatten(2)))
            y = y + mlp(y)
        m = mask.unsqueeze(-1).float()
        return F.normalize((y * m).sum(1) / m.sum(1).clamp(min=1e-9), dim=-1)
    layer = lambda: nn.ModuleList([*(nn.Linear(64, 64) for _ in range(4)), nn.LayerNorm(64), nn.Sequential(nn.Linear(64, 128), nn.GELU(approximate="tanh"), nn.Linear(128, 64))])
    return Net(call, embed=nn.Embedding(500, 64), place=nn.Embedding(64, 64), layers=nn.ModuleList(layer() for _ in range(2)))


@small(("x", (1,), 500), ("past_k", (2, 4, 16, 24), "any"), ("past_v", (2, 4, 16, 24), "any"), opset=18)
def cached_decoder():
    """One token behind a cache of keys and values, with rotary positions."""
    def turn(y, angle):
        a, b = y.chunk(2, -1)
        return y * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def call(s, x, past_k, past_v):
        y, ks, vs = s.embed(x), [], []
        angle = past_k.shape[3] * s.frequency
        for n, (norm, qkv, o, up, down) in enumerate(s.layers):
            q, k, v = qkv(norm(y)).unflatten(-1, (3, 4, 24)).permute(2, 0, 3, 1, 4)
            k = torch.cat([past_k[:, n], turn(k, angle)], 2)
            v = torch.cat([past_v[:, n], v], 2)
            y = y + o((turn(q, angle) @ k.transpose(2, 3) * 24 ** -0.5).softmax(-1).matmul(v).transpose(1, 2).flatten(2))
            gate, value = up(y).chunk(2, -1)
            y = y + down(F.silu(gate) * value)
            ks, vs = ks + [k], vs + [v]
        return s.out(y), torch.stack(ks, 1), torch.stack(vs, 1)
    layer = lambda: nn.ModuleList([nn.LayerNorm(96), nn.Linear(96, 288), nn.Linear(96, 96), nn.Linear(96, 384), nn.Linear(192, 96)])
    f = torch.exp(torch.arange(12) * -0.5)
    return Net(call, embed=nn.Embedding(500, 96), layers=nn.ModuleList(layer() for _ in range(2)), out=nn.Linear(96, 500), frequency=torch.cat([f, f]))


@small(("x", (32, 64), "smooth"))
def experts():
    """A mixture of experts: the two best by a router, all computed and weighed."""
    def call(s, x):
        weight, at = s.router(x).softmax(-1).topk(2)
        gates = torch.zeros_like(s.router(x)).scatter(-1, at, weight / weight.sum(-1, keepdim=True))
        y = torch.einsum("bte,btd,edf->btef", gates, x, s.up)
        return x + torch.einsum("btef,efd->btd", F.gelu(y), s.down)
    return Net(call, router=nn.Linear(64, 6), up=torch.randn(6, 64, 96) * 0.1, down=torch.randn(6, 96, 64) * 0.1)


@small(("x", (8, 40), 300), ("weights", (8, 40), "any"))
def bags():
    """Bags of categories with weights, crossed with each other."""
    def call(s, x, weights):
        y = (s.embed(x) * weights.unsqueeze(-1)).sum(2)
        a, b = torch.triu_indices(8, 8, 1)
        cross = (y @ y.transpose(1, 2))[:, a, b]
        return s.head(torch.cat([y.flatten(1), cross], 1)).sigmoid()
    return Net(call, embed=nn.Embedding(300, 16), head=nn.Sequential(nn.Linear(156, 128), nn.PReLU(), nn.Dropout(), nn.Linear(128, 1)))


# ---- series, graphs, points

@small(("x", (12, 3, 32, 32), "smooth"))
def conv_lstm():
    def call(s, x):
        h = c = torch.zeros_like(s.first(x[:, 0]))
        for t in range(6):
            i, f, o, g = s.gates(torch.cat([s.first(x[:, t]), h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return s.head(h)
    return Net(call, first=cba(3, 16), gates=nn.Conv2d(32, 64, 3, padding=1), head=nn.Conv2d(16, 1, 1))


@small(("x", (96, 7), "smooth"))
def decomposed_linear():
    """A moving average and the rest, each with its own linear map."""
    def call(s, x):
        y = x.transpose(1, 2)
        padded = torch.cat([y[..., :1].expand(-1, -1, 12), y, y[..., -1:].expand(-1, -1, 12)], -1)
        trend = F.avg_pool1d(padded, 25, 1)
        mean, spread = y.mean(-1, keepdim=True), y.std(-1, keepdim=True, unbiased=False) + 1e-5
        return ((s.rest((y - trend) / spread) * spread + s.trend(trend - mean) + mean)).transpose(1, 2)
    return Net(call, rest=nn.Linear(96, 48), trend=nn.Linear(96, 48))


@small(("x", (96,), "smooth"), opset=12)
def stacked_residuals():
    """Blocks that explain away their input and add up their forecasts."""
    def call(s, x):
        y = 0
        for block, back, ahead in s.blocks:
            z = block(x)
            x, y = x - back(z), y + ahead(z)
        return y
    mlp = lambda: nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    return Net(call, blocks=nn.ModuleList(nn.ModuleList([mlp(), nn.Linear(128, 96), nn.Linear(128, 24)]) for _ in range(4)))


@small(("x", (168, 8), "smooth"), opset=13)
def long_short():
    """Convolution, a GRU, one that skips, and an autoregressive part."""
    def call(s, x):
        c = F.relu(s.conv(x.transpose(1, 2)))
        last = s.cells(c.transpose(1, 2))[0][:, -1]
        skip = c[:, :, -144:].reshape(c.shape[0], -1, 6, 24).permute(0, 3, 2, 1).reshape(-1, 6, 32)
        skip = s.skipped(skip)[0][:, -1].reshape(c.shape[0], -1)
        return s.head(torch.cat([last, skip], 1)) + s.auto(x[:, -24:].transpose(1, 2))[..., 0]
    return Net(call, conv=nn.Conv1d(8, 32, 6), cells=nn.GRU(32, 48, batch_first=True), skipped=nn.GRU(32, 5, batch_first=True),
               head=nn.Linear(48 + 120, 8), auto=nn.Linear(24, 1))


@small(("x", (50, 24), "smooth"), ("edges", (2, 180), 50), fixed=True, opset=16)
def graph_attention():
    """Edges as input: gathered ends, a softmax over each node's edges by scatter."""
    def call(s, x, edges):
        x, a, b = x[0], edges[0, 0], edges[0, 1]
        for lin, att in s.layers:
            h = lin(x)
            e = F.leaky_relu(att(torch.cat([h[a], h[b]], 1)), 0.2).exp()
            norm = torch.zeros(50, 1).scatter_add(0, b[:, None], e)
            x = F.elu(torch.zeros_like(h).scatter_add(0, b[:, None].expand(-1, 32), h[a] * e / (norm[b] + 1e-6)))
        return s.head(x)
    return Net(call, layers=nn.ModuleList(nn.ModuleList([nn.Linear(i, 32), nn.Linear(64, 1)]) for i in (24, 32)), head=nn.Linear(32, 5))


@small(("x", (60, 16), "smooth"), ("adjacency", (60, 60), "any"))
def dense_graph():
    def call(s, x, adjacency):
        a = (adjacency > 0.5).float() + torch.eye(60)
        d = a.sum(-1).rsqrt()
        a = d.unsqueeze(-1) * a * d.unsqueeze(-2)
        for lin in s.layers:
            x = F.relu(a @ lin(x))
        return torch.cat([x.mean(1), x.amax(1)], -1)
    return Net(call, layers=nn.ModuleList([nn.Linear(16, 32), nn.Linear(32, 32)]))


@small(("x", (256, 3), "smooth"))
def point_groups():
    """Points grouped about the nearest of some centres; interpolated back by distance."""
    def call(s, x):
        centre = x[:, ::4]
        distance = torch.cdist(centre, x)
        near = distance.topk(16, -1, largest=False).indices
        take = lambda f, i: f.gather(1, i.flatten(1)[..., None].expand(-1, -1, f.shape[-1])).unflatten(1, i.shape[1:])
        y = s.a(take(x, near) - centre[:, :, None]).amax(2)
        d, back = torch.cdist(x, centre).topk(3, -1, largest=False)
        w = 1 / (d + 1e-3)
        return s.b(torch.cat([(take(y, back) * (w / w.sum(-1, keepdim=True))[..., None]).sum(2), x], -1))
    return Net(call, a=nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64)), b=nn.Sequential(nn.Linear(67, 64), nn.ReLU(), nn.Linear(64, 8)))


# ---- rarer layers

@small(image(96))
def dynamic_convolution():
    """A sum of kernels by attention, and kernels from the pixel itself (involution)."""
    def call(s, x):
        y = s.first(x)
        w = s.inner(F.relu(s.reduce(y)))
        n, _, h, wd = y.shape
        w = w.view(n, 4, 1, 9, h, wd)
        patches = F.unfold(y, 3, padding=1).view(n, 4, 8, 9, h, wd)
        return s.last((w * patches).sum(3).view(n, 32, h, wd))
    return Net(call, first=cba(3, 32, s=4), reduce=nn.Conv2d(32, 8, 1), inner=nn.Conv2d(8, 36, 1), last=nn.Conv2d(32, 10, 1))


@small(image(64), opset=18)
def folded_windows():
    def call(s, x):
        y = s.first(x)
        p = F.unfold(y, 4, stride=2, padding=1)
        return s.last(F.fold(p * p.mean(1, keepdim=True).sigmoid(), y.shape[2:], 4, stride=2, padding=1))
    return Net(call, first=cba(3, 16), last=nn.Conv2d(16, 3, 1))


@small(image(80), opset=12)
def older_layers():
    """Local response normalization, maxout, pools with ceil_mode, hard and soft shrinks."""
    def call(s, x):
        y = s.norm(F.max_pool2d(F.relu(s.a(x)), 3, 2, ceil_mode=True))
        y = s.b(y).unflatten(1, (32, 2)).amax(2)
        y = F.avg_pool2d(F.hardshrink(y, 0.1), 3, 2, 1, ceil_mode=True, count_include_pad=False)
        y = F.softshrink(s.c(y), 0.05)
        return s.d(F.celu(F.lp_pool2d(y.abs(), 2, 2)).flatten(1))
    return Net(call, a=nn.Conv2d(3, 24, 7, 2), norm=nn.LocalResponseNorm(5), b=nn.Conv2d(24, 64, 3), c=nn.Conv2d(32, 32, 1), d=nn.Linear(32 * 16, 10))


@small(image(72), opset=19)
def octave():
    """Two frequencies that exchange, threshold, softsign, pixel unshuffle, channel shuffle."""
    def call(s, x):
        h, l = s.h(x), s.l(F.avg_pool2d(x, 2))
        for hh, hl, lh, ll in s.mix:
            h, l = F.relu(hh(h) + F.interpolate(lh(l), scale_factor=2, mode="nearest")), F.relu(ll(l) + hl(F.avg_pool2d(h, 2)))
        y = F.pixel_unshuffle(F.softsign(h), 2)
        y = torch.cat([F.channel_shuffle(y, 4), F.threshold(l, 0.1, 0.0)], 1)
        return s.out(y).mean((2, 3))
    c = lambda i, o: nn.Conv2d(i, o, 3, padding=1)
    return Net(call, h=c(3, 16), l=c(3, 16), mix=nn.ModuleList(nn.ModuleList(c(16, 16) for _ in range(4)) for _ in range(2)), out=nn.Conv2d(80, 12, 1))


@small(("x", (2, 12, 48, 48), "smooth"))
def video_shift():
    """Channels shifted in time between 2-D convolutions, a 3-D pool at the end."""
    def call(s, x):
        n, c, t, h, w = x.shape
        for conv in s.convs:
            y = x.transpose(1, 2)
            q = y.shape[2] // 4
            y = torch.cat([F.pad(y[:, 1:, :q], (0, 0, 0, 0, 0, 0, 0, 1)), F.pad(y[:, :-1, q:2 * q], (0, 0, 0, 0, 0, 0, 1, 0)), y[:, :, 2 * q:]], 2)
            y = conv(y.flatten(0, 1))
            x = y.view(n, t, *y.shape[1:]).transpose(1, 2)
        return s.head(F.adaptive_avg_pool3d(x, 1).flatten(1))
    return Net(call, convs=nn.ModuleList([cba(2, 16, s=2), cba(16, 32, s=2), cba(32, 64)]), head=nn.Linear(64, 20))


@small(("x", (3, 32, 128), "smooth"), opset=14)
def text_lines():
    """Mixing blocks over a line of text: local and global attention, height merged, logits a column."""
    def call(s, x):
        y = s.embed(x)
        n, c, h, w = y.shape
        mask = ((torch.arange(w)[:, None] - torch.arange(w)[None]).abs() > 5).float() * -1e4
        mask = mask.repeat(h, h)
        for k, (norm, qkv, o, norm2, mlp) in enumerate(s.layers):
            z = norm(y.flatten(2).transpose(1, 2))
            q, key, v = qkv(z).reshape(n, h * w, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
            a = q @ key.transpose(2, 3) * 0.25
            z = (a + mask if k == 0 else a).softmax(-1) @ v
            y = y + o(z.transpose(1, 2).reshape(n, h * w, c)).transpose(1, 2).reshape(n, c, h, w)
            y = y + mlp(norm2(y.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return s.head(s.merge(y).mean(2).transpose(1, 2)).softmax(-1)
    layer = lambda: nn.ModuleList([nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64), nn.LayerNorm(64), nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))])
    return Net(call, embed=nn.Sequential(cba(3, 32, s=2, act=nn.GELU), cba(32, 64, s=2, act=nn.GELU)), layers=nn.ModuleList(layer() for _ in range(2)),
               merge=nn.Conv2d(64, 64, 3, (2, 1), 1), head=nn.Linear(64, 97))


@small(image(64), dynamo=True, opset=20)
def window_shift():
    """Rolled windows with a mask that the graph makes, and normalization of all but the batch."""
    def call(s, x):
        y = s.first(x).permute(0, 2, 3, 1)
        n, h, w, c = y.shape
        z = torch.roll(s.norm(y), (-2, -2), (1, 2))
        z = z.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = s.qkv(z).chunk(3, -1)
        region = (torch.arange(h) >= h - 2).long() + (torch.arange(h) >= h - 4).long()
        region = (region[:, None] * 3 + region[None]).view(h // 4, 4, w // 4, 4).permute(0, 2, 1, 3).reshape(-1, 16)
        mask = torch.where(region[:, :, None] == region[:, None], 0.0, -100.0)
        a = (q @ k.transpose(1, 2) * c ** -0.5).view(n, -1, 16, 16) + mask
        z = a.view(-1, 16, 16).softmax(-1) @ v
        z = z.view(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        y = y + torch.roll(z, (2, 2), (1, 2))
        return F.layer_norm(y, y.shape[1:]).mean((1, 2))
    return Net(call, first=nn.Conv2d(3, 48, 4, 4), norm=nn.LayerNorm(48), qkv=nn.Linear(48, 144))


@small(image(64), half=True, opset=13)
def half_mobile():
    """Weights, input and output in f16."""
    return nn.Sequential(cba(3, 16, s=2, act=nn.Hardswish), cba(16, 16, g=16), cba(16, 48, 1, act=nn.Hardswish), cba(48, 48, 5, 2, g=48),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10), nn.Softmax(-1))


@small(("x", (32, 48), "smooth"), half=True)
def half_encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(48, 4, 96, batch_first=True), 2, enable_nested_tensor=False)


@small(("x", (20, 16), "smooth"), dynamo=True, opset=21)
def scanned():
    """Branches and loops whose conditions the exporter knows, sequences, chunks of unequal size."""
    def call(s, x):
        parts = torch.tensor_split(s.a(x), (5, 12), 1)
        y = torch.cat([p.cumsum(1) for p in parts], 1)
        y = torch.where(y.isnan() | y.isinf(), torch.zeros_like(y), y)
        y = y.tril(2) + torch.nan_to_num(y).flip(1).triu(-1)
        return s.b(F.one_hot(y.argmax(-1), 20).float() + y), y.sort(1, descending=True).values
    return Net(call, a=nn.Linear(16, 20), b=nn.Linear(20, 6))


# ---- stranger ones

@small(("x", (48,), "any"))
def spline_layers():
    """Linear layers whose weights act on B-splines of each input (KAN)."""
    def bases(x, grid):
        x = x.unsqueeze(-1)
        b = ((x >= grid[:-1]) & (x < grid[1:])).float()
        for k in range(1, 4):
            b = (x - grid[:-k - 1]) / (grid[k:-1] - grid[:-k - 1]) * b[..., :-1] + (grid[k + 1:] - x) / (grid[k + 1:] - grid[1:-k]) * b[..., 1:]
        return b

    def call(s, x):
        for base, spline in zip(s.base, s.spline):
            x = base(F.silu(x)) + F.linear(bases(x.clamp(-1.9, 1.9), s.grid).flatten(1), spline)
        return x
    sizes = (48, 64, 64, 10)
    return Net(call, grid=torch.arange(-3, 9) * 0.5 - 1.0, base=nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:])),
               spline=nn.ParameterList(torch.randn(o, i * 8) * 0.1 for i, o in zip(sizes, sizes[1:])))


@small(image(32))
def spiking():
    """Leaky neurons over eight steps: charge, spike where it is above one, reset."""
    def call(s, x):
        y, va, vb, out = s.a(x), 0.0, 0.0, 0.0
        for _ in range(8):
            va = va * 0.6 + y
            spike = (va > 1.0).float()
            va = torch.where(va > 1.0, torch.zeros_like(va), va)
            vb = vb + (s.b(spike) - vb) * 0.5
            second = (vb - 0.5 >= 0).float()
            vb = vb * (1 - second)
            out = out + s.c(F.avg_pool2d(second, 4).flatten(1))
        return out / 8
    return Net(call, a=cba(3, 16), b=cba(16, 24, s=2), c=nn.Linear(24 * 16, 10))


@small(image(28, 1))
def capsules():
    """Routing by agreement: products of small matrices, a softmax over an axis in the middle, squashes."""
    def squash(v):
        n = v.square().sum(-1, keepdim=True)
        return v * (n / (1 + n) / (n + 1e-8).sqrt())

    def call(s, x):
        u = squash(s.second(F.relu(s.first(x))).unflatten(1, (4, 8)).flatten(3).transpose(2, 3).flatten(1, 2))
        votes = (s.weight @ u[:, None, :, :, None]).squeeze(-1)
        logits = torch.zeros_like(votes[..., :1])
        for _ in range(3):
            v = squash((logits.softmax(1) * votes).sum(2, keepdim=True))
            logits = logits + (votes * v).sum(-1, keepdim=True)
        return v.squeeze(2).norm(dim=-1)
    return Net(call, first=nn.Conv2d(1, 32, 9), second=nn.Conv2d(32, 32, 9, 2), weight=torch.randn(1, 10, 144, 16, 8) * 0.1)


@small(image(112))
def large_kernels():
    """Depthwise kernels of 31 x 31 and strips of 1 x 21 beside small ones."""
    def call(s, x):
        x = s.stem(x)
        for norm, big, small_, a, b, mlp in s.blocks:
            y = F.relu(norm(x))
            x = x + big(y) + small_(y)
            x = x + b(a(x)) * x
            x = x + mlp(x)
        return s.head(x.mean((2, 3)))
    dw = lambda k, c=32: nn.Conv2d(c, c, k, padding=tuple(d // 2 for d in (k if isinstance(k, tuple) else (k, k))), groups=c)
    block = lambda k: nn.ModuleList([nn.BatchNorm2d(32), dw(k), dw(5), dw((1, 21)), dw((21, 1)),
                                     nn.Sequential(nn.Conv2d(32, 128, 1), nn.GELU(), nn.Conv2d(128, 32, 1))])
    return Net(call, stem=cba(3, 32, 4, 4), blocks=nn.ModuleList([block(31), block(29)]), head=nn.Linear(32, 10))


@small(image(96), opset=13)
def haar_waves():
    """Wavelets by strided slices, worked on in each band, put back by stacks."""
    def down(x):
        a, b, c, d = x[:, :, ::2, ::2], x[:, :, 1::2, ::2], x[:, :, ::2, 1::2], x[:, :, 1::2, 1::2]
        return torch.cat([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d], 1) / 2

    def up(y):
        a, b, c, d = y.chunk(4, 1)
        even = torch.stack([a + b + c + d, a - b + c - d], 3).flatten(2, 3)
        odd = torch.stack([a + b - c - d, a - b - c + d], 3).flatten(2, 3)
        return torch.stack([even, odd], 4).flatten(3) / 2

    def call(s, x):
        y = s.first(x)
        z = s.inner(down(y))
        z = z + up(s.deep(down(z)))
        return s.last(y + up(z)) + x
    return Net(call, first=nn.Conv2d(3, 16, 3, padding=1), inner=cba(64, 64, act=nn.PReLU), deep=cba(256, 256, 1, act=nn.PReLU), last=nn.Conv2d(16, 3, 3, padding=1))


@small(("x", (2, 64, 96), "any"))
def complex_pairs():
    """Spectra: complex convolutions by pairs, a mask of magnitude and phase."""
    class Complex(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.r, self.i, self.n = nn.Conv2d(i, o, (5, 2), (2, 1), (2, 0)), nn.Conv2d(i, o, (5, 2), (2, 1), (2, 0)), nn.BatchNorm2d(2 * o)

        def forward(self, r, i):
            r, i = F.pad(r, (1, 0)), F.pad(i, (1, 0))
            return F.leaky_relu(self.n(torch.cat([self.r(r) - self.i(i), self.r(i) + self.i(r)], 1)), 0.2).chunk(2, 1)

    def call(s, x):
        r, i = s.b(*s.a(x[:, :1], x[:, 1:]))
        y = s.cells(torch.cat([r, i], 1).flatten(1, 2).transpose(1, 2))[0]
        m = s.mask(y).transpose(1, 2).unflatten(1, (2, 64))
        size = (m.square().sum(1) + 1e-8).sqrt()
        phase = torch.atan2(m[:, 1], m[:, 0]) + torch.atan2(x[:, 1], x[:, 0])
        size = size.tanh() * (x.square().sum(1) + 1e-8).sqrt()
        return torch.stack([size * phase.cos(), size * phase.sin()], 1)
    return Net(call, a=Complex(1, 8), b=Complex(8, 16), cells=nn.LSTM(512, 64, batch_first=True), mask=nn.Linear(64, 128))


@small(image(64))
def deformed_samples():
    """A deformable convolution as exported by hand: offsets, four gathered corners, their weights."""
    def call(s, x):
        y = s.first(x)
        n, c, h, w = y.shape
        offset, mask = s.offset(y), s.mask(y).sigmoid()
        gy, gx = torch.meshgrid(torch.arange(h, dtype=torch.float32), torch.arange(w, dtype=torch.float32), indexing="ij")
        ky, kx = torch.meshgrid(torch.arange(-1.0, 2), torch.arange(-1.0, 2), indexing="ij")
        py = offset[:, :9] + gy + ky.reshape(9, 1, 1)
        px = offset[:, 9:] + gx + kx.reshape(9, 1, 1)
        y0, x0 = py.floor(), px.floor()
        flat, out = y.flatten(2), 0
        for dy in (0, 1):
            for dx in (0, 1):
                qy, qx = y0 + dy, x0 + dx
                inside = ((qy >= 0) & (qy < h) & (qx >= 0) & (qx < w)).float()
                at = (qy.clamp(0, h - 1) * w + qx.clamp(0, w - 1)).long().flatten(1)
                v = flat.gather(2, at[:, None].expand(-1, c, -1)).unflatten(2, (9, h, w))
                out = out + v * ((1 - (py - qy).abs()) * (1 - (px - qx).abs()) * inside)[:, None]
        out = (out * mask[:, None]).flatten(1, 2)
        return s.last(F.relu(s.mix(out)))
    return Net(call, first=cba(3, 16, s=2), offset=nn.Conv2d(16, 18, 3, padding=1), mask=nn.Conv2d(16, 9, 3, padding=1),
               mix=nn.Conv2d(144, 32, 1), last=nn.Conv2d(32, 5, 1))


@small(image(128))
def pose_integral():
    """Key points: an integral over heat maps, and two one-dimensional classifications."""
    def call(s, x):
        y = s.up(levels(s.stages, x)[-1])
        heat = s.heat(y)
        p = heat.flatten(2).softmax(-1).view(heat.shape)
        at = torch.stack([(p.sum(2) * torch.arange(32.0)).sum(-1), (p.sum(3) * torch.arange(32.0)).sum(-1)], -1)
        token = s.token(heat.flatten(2))
        token = token + s.gate(token)
        sx, sy = s.sx(token), s.sy(token)
        score = torch.minimum(sx.amax(-1), sy.amax(-1))
        simple = torch.stack([sx.argmax(-1), sy.argmax(-1)], -1).float() / 2
        return torch.where(score.unsqueeze(-1) > 0, simple, at), at, score
    return Net(call, stages=backbone(16, 32, 64, 96, act=nn.SiLU), up=nn.Sequential(*[m for i in (96, 64) for m in (
        nn.ConvTranspose2d(i, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())]), heat=nn.Conv2d(64, 17, 1),
        token=nn.Linear(1024, 64), gate=nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.SiLU()), sx=nn.Linear(64, 256), sy=nn.Linear(64, 256))


@small(image(96), open={2: "H", 3: "W"})
def depth_bins():
    """Depth as a sum over bins whose widths the image decides."""
    def call(s, x):
        y = levels(s.stages, x)[-1]
        width = F.relu(s.bins(y.mean((2, 3)))) + 0.1
        width = 9.9 * width / width.sum(1, keepdim=True)
        edge = torch.cumsum(F.pad(width, (1, 0), value=0.1), 1)
        centre = 0.5 * (edge[:, :-1] + edge[:, 1:])
        y = F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=True)
        return (s.out(y).softmax(1) * centre[:, :, None, None]).sum(1, keepdim=True)
    return Net(call, stages=backbone(16, 32, 64), bins=nn.Linear(64, 48), out=nn.Conv2d(64, 48, 1))


@small(("x", (16000,), "smooth"))
def keyword_mel():
    """Mel spectra by convolution, a log, broadcasted residuals over frequency and time, subspectral norms."""
    def call(s, x):
        y = F.conv1d(F.pad(x[:, None], (200, 200), mode="reflect"), s.basis, stride=160)
        y = torch.log(s.mel @ (y[:, :201].square() + y[:, 201:].square()) + 1e-6)
        y = (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1e-5)
        y = s.first(y[:, None])
        for f2, norm, f1, pw in s.blocks:
            z = f2(y)
            n, c, f, t = z.shape
            z = norm(z.view(n, c * 5, f // 5, t)).view(n, c, f, t)
            y = F.relu(y + z + pw(F.silu(f1(z.mean(2, keepdim=True)))))
        return s.head(y.mean((2, 3)))
    n = torch.arange(400.0)
    angle = 2 * torch.pi * n * torch.arange(201.0)[:, None] / 400
    block = lambda d: nn.ModuleList([nn.Conv2d(16, 16, (3, 1), padding=(1, 0), groups=16), nn.BatchNorm2d(80),
                                     nn.Conv2d(16, 16, (1, 3), padding=(0, d), dilation=(1, d), groups=16), nn.Conv2d(16, 16, 1)])
    return Net(call, basis=(torch.cat([angle.cos(), angle.sin()])[:, None] * torch.hann_window(400)), mel=torch.rand(40, 201) ** 8,
               first=cba(1, 16, 5, (2, 1)), blocks=nn.ModuleList(block(d) for d in (1, 2, 4)), head=nn.Linear(16, 12))


@small(image(64))
def unpooled():
    """Pools that keep where their values came from, and their inverse."""
    def call(s, x):
        x = s.a(x)
        x, i = F.max_pool2d(x, 2, return_indices=True)
        x = s.b(x)
        x, j = F.max_pool2d(x, 2, return_indices=True)
        back = lambda y, at, w: torch.zeros(y.shape[0], y.shape[1], w * w).scatter(2, at.flatten(2), y.flatten(2)).unflatten(2, (w, w))
        return s.e(back(s.d(back(s.c(x), j, 32)), i, 64))
    return Net(call, a=cba(3, 16), b=cba(16, 32), c=cba(32, 32), d=cba(32, 16), e=nn.Conv2d(16, 5, 1))


@small(image(64))
def simple_gates():
    """Restoration: norms over channels of maps, halves that gate each other, channel weights, shuffles both ways."""
    def norm(x, w, b):
        m = x.mean(1, keepdim=True)
        return w[:, None, None] * (x - m) / ((x - m).pow(2).mean(1, keepdim=True) + 1e-6).sqrt() + b[:, None, None]

    def call(s, x):
        y = s.first(F.pixel_unshuffle(x, 2))
        for n1, a, dw, att, b, n2, c, d in s.blocks:
            p, q = dw(a(norm(y, n1.weight, n1.bias))).chunk(2, 1)
            z = p * q
            y = y + b(z * att(z.mean((2, 3), keepdim=True))) * 0.3
            p, q = c(norm(y, n2.weight, n2.bias)).chunk(2, 1)
            y = y + d(p * q) * 0.3
        return x + F.pixel_shuffle(s.last(y), 2)
    c = lambda i, o, k=1, g=1: nn.Conv2d(i, o, k, padding=k // 2, groups=g)
    block = lambda: nn.ModuleList([nn.LayerNorm(32), c(32, 64), c(64, 64, 3, 64), c(32, 32), c(32, 32), nn.LayerNorm(32), c(32, 64), c(32, 32)])
    return Net(call, first=c(12, 32, 3), blocks=nn.ModuleList(block() for _ in range(3)), last=c(32, 12, 3))


@small(("x", (500, 3), "smooth"), dynamo=True, opset=18)
def hash_grids():
    """Coordinates into tables by exclusive or of products of primes, corners weighed."""
    def call(s, x):
        p, out = (x.clamp(-3, 3) + 3) / 6, []
        for n, table in enumerate(s.tables):
            q = p * (8 << n)
            low = q.floor()
            f, at, sum_ = q - low, low.long(), 0
            for corner in range(8):
                bit = torch.tensor([corner & 1, corner >> 1 & 1, corner >> 2])
                c = at + bit
                index = (c[..., 0] ^ c[..., 1] * 2654435761 ^ c[..., 2] * 805459861) % 2048
                w = torch.where(bit.bool(), f, 1 - f).prod(-1, keepdim=True)
                sum_ = sum_ + F.embedding(index, table) * w
            out.append(sum_)
        return s.mlp(torch.cat(out, -1))
    return Single(call, tables=nn.ParameterList(torch.randn(2048, 2) for _ in range(4)), mlp=nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)))


@small(("x", (64, 64), "any"))
def retention():
    """Linear attention by sums along time, and its twin with a matrix of decays."""
    def call(s, x):
        q, k, v, g = s.qkvg(x).unflatten(-1, (4, 4, 16)).permute(2, 0, 3, 1, 4).unbind(0)
        fq, fk = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.cumsum(fk.unsqueeze(-1) * v.unsqueeze(-2), 2)
        a = (fq.unsqueeze(-2) @ kv).squeeze(-2) / ((fq * torch.cumsum(fk, 2)).sum(-1, keepdim=True) + 1e-6)
        t = torch.arange(64.0)
        d = t[:, None] - t
        decay = torch.where(d >= 0, s.gamma ** d.clamp(min=0), 0.0)
        b = (q @ k.transpose(2, 3) * decay) @ v
        b = b / (b.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return s.out(((a + b) * F.silu(g)).transpose(1, 2).flatten(2))
    return Net(call, qkvg=nn.Linear(64, 256), gamma=(1 - 2.0 ** -torch.arange(3.0, 7))[:, None, None], out=nn.Linear(64, 64))


@small(image(128), fixed=True)
def matrix_suppression():
    """Kernels by the best places, masks of them, scores lowered by overlap (matrix suppression)."""
    def call(s, x):
        y = levels(s.stages, x)[-1]
        score, at = s.score(y).sigmoid().flatten(1).topk(40)
        kernel = s.kernel(y).flatten(2).transpose(1, 2)[0][at[0] % 256]
        mask = F.conv2d(s.feature(y), kernel[:, :, None, None]).sigmoid()[0]
        hard = (mask > 0.5).float().flatten(1)
        area = hard.sum(1)
        inter = hard @ hard.t()
        iou = (inter / (area[:, None] + area[None] - inter + 1e-3)).triu(1)
        iou = iou * (at[0][:, None] // 256 == at[0][None] // 256)
        decay = (torch.exp(-2 * iou ** 2) / torch.exp(-2 * iou.max(0).values[:, None] ** 2)).min(0).values
        score = score[0] * decay * (mask.flatten(1) * hard).sum(1) / (area + 1e-3)
        order = score.argsort(descending=True)[:20]
        return score[order], F.interpolate(mask[None, order], scale_factor=4.0, mode="bilinear") > 0.5
    return Net(call, stages=backbone(16, 32, 64), score=nn.Conv2d(64, 8, 3, padding=1), kernel=nn.Conv2d(64, 24, 3, padding=1), feature=nn.Conv2d(64, 24, 1))


@small(("x", (300, 5), "smooth"))
def short_rows():
    """Norms and softmaxes over rows of three to nine values, axes in odd places."""
    def call(s, x):
        y = s.a(x).unflatten(-1, (6, 7))
        y = s.norm(y)
        y = y * y.softmax(2) + F.normalize(y, dim=-1)
        z = y.transpose(2, 3).reshape(-1, 300, 14, 3)
        z = z - z.logsumexp(-1, keepdim=True) + (z / z.abs().amax(-1, keepdim=True).clamp(min=1e-3))
        z = z.flatten(2).unflatten(2, (2, 3, 7)).softmax(1)
        v = z.var(3, keepdim=True) + z.mean((2, 4), keepdim=True)
        return s.b((z * 2 - v).flatten(2)), F.softmin(y.flatten(1, 2)[..., :5], -1)
    return Net(call, a=nn.Linear(5, 42), norm=nn.LayerNorm(7), b=nn.Linear(42, 9))


@small(image(32))
def slots():
    """Slots that compete for places by a softmax over them, updated by GRU cells, decoded by broadcast."""
    def call(s, x):
        y = s.norm((s.enc(x) + s.place).flatten(2).transpose(1, 2))
        k, v = s.k(y), s.v(y)
        h = s.start.expand(x.shape[0], -1, -1)
        for _ in range(3):
            w = (k @ s.q(s.ns(h)).transpose(1, 2) * 32 ** -0.5).softmax(-1) + 1e-8
            w = w / w.sum(1, keepdim=True)
            u = w.transpose(1, 2) @ v
            h = s.cell(u.flatten(0, 1), h.flatten(0, 1)).view(h.shape)
            h = h + s.mlp(h)
        z = h.flatten(0, 1)[:, :, None, None].expand(-1, -1, 16, 16) + s.place
        rgb, alpha = s.dec(z).unflatten(0, (-1, 5)).split((3, 1), 2)
        return (rgb * alpha.softmax(1)).sum(1), w
    return Net(call, enc=nn.Sequential(cba(3, 32, 5, 2), cba(32, 32, 5)), place=torch.randn(32, 16, 16) * 0.2, norm=nn.LayerNorm(32), k=nn.Linear(32, 32), v=nn.Linear(32, 32),
               q=nn.Linear(32, 32), ns=nn.LayerNorm(32), start=torch.randn(1, 5, 32), cell=nn.GRUCell(32, 32), mlp=nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)),
               dec=nn.Sequential(cba(32, 32, 5), nn.Conv2d(32, 4, 3, padding=1)))


@small(("a", (60, 34), "any"), ("b", (60, 34), "any"))
def matched_points():
    """Two sets matched: cross attention, scores, rows and columns normalized in turn in logs, mutual best."""
    def call(s, a, b):
        enc = lambda p: s.place(p[..., :2]) + s.lift(p[..., 2:])
        a, b = enc(a), enc(b)
        for att, mlp in s.layers:
            a, b = (a + mlp(torch.cat([a, att(a, b, b, need_weights=False)[0]], -1)), b + mlp(torch.cat([b, att(b, a, a, need_weights=False)[0]], -1)))
        z = F.pad(a @ b.transpose(1, 2) / 48 ** 0.5, (0, 1, 0, 1), value=0.5)
        u = v = torch.zeros_like(z[:, 0])
        for _ in range(10):
            u = s.mu - torch.logsumexp(z + v[:, None], 2)
            v = s.mu - torch.logsumexp(z + u[..., None], 1)
        z = z + u[..., None] + v[:, None]
        best, at = z[:, :-1, :-1].max(2)
        back = z[:, :-1, :-1].argmax(1)
        mutual = torch.arange(60)[None] == back.gather(1, at)
        return torch.where(mutual & (best.exp() > 0.01), at, -1), torch.where(mutual, best.exp(), 0.0)
    return Net(call, place=nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 48)), lift=nn.Linear(32, 48), mu=torch.randn(61) * 0.1 - 4,
               layers=nn.ModuleList(nn.ModuleList([nn.MultiheadAttention(48, 4, batch_first=True), nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 48))]) for _ in range(2)))
