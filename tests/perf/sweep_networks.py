"""The architectures of sweep.py: how each is built, what goes in, how it is exported.

A network is a row (build, inputs, options). `inputs` are (name, shape of a sample, kind): an image or a
wave whose neighbours are alike, or integers below `kind`. Options: dynamo (torch.export's exporter),
opset, fixed (the batch is 1: detectors whose ends follow the data).
"""
import functools

NETWORKS = {}


def add(name, build, *inputs, **options):
    NETWORKS[name] = (build, inputs, options)


def image(size=224, channels=3):
    return ("x", (channels, size, size) if isinstance(size, int) else (channels, *size), "smooth")


def ids(n=64, below=1000):
    return ("x", (n,), below)


def picked(model, key, **more):
    """One tensor, or a tuple of some, of what a model returns: its name, or a function. `more` are inputs
    made of the first one."""
    import torch

    class Pick(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *x):
            y = self.model(*x, **{k: f(x[0]) for k, f in more.items()})
            return key(y) if callable(key) else y[key]

    return Pick()


# ---- torchvision

def tv(name, **more):
    import torchvision
    return torchvision.models.get_model(name, weights=None, **more)


def tv_part(name, key):
    return picked(tv(name, weights_backbone=None), key)


def boxes(y):
    return tuple(y[0][k] for k in ("boxes", "scores", "labels"))


def listed(names):
    for word in names.split():
        name, _, size = word.partition(":")
        yield name, int(size or 224)


for n, size in listed(
        "resnet18 resnext50_32x4d shufflenet_v2_x1_0 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 regnet_y_400mf "
        "regnet_x_400mf efficientnet_v2_s convnext_tiny swin_t vit_b_32 squeezenet1_1 alexnet swin_v2_t maxvit_t"):
    add(n, functools.partial(tv, n), image(size))
add("googlenet", functools.partial(tv, "googlenet", init_weights=False, aux_logits=False), image())
add("inception_v3", functools.partial(tv, "inception_v3", init_weights=False, aux_logits=False), image(299))
for n in "lraspp_mobilenet_v3_large deeplabv3_mobilenet_v3_large fcn_resnet50".split():
    add(n, functools.partial(tv_part, n, "out"), image(256))
for n, size in listed("ssdlite320_mobilenet_v3_large:320 fasterrcnn_mobilenet_v3_large_320_fpn:320 "
                      "retinanet_resnet50_fpn:320 fcos_resnet50_fpn:320"):
    add(n, functools.partial(tv_part, n, boxes), image(size), fixed=True)
for n in "r3d_18 mc3_18 r2plus1d_18 s3d".split():
    add(n, functools.partial(tv, n), ("x", (3, 16 if n == "s3d" else 8, 112, 112), "smooth"))

# ---- timm

def tm(name):
    import timm
    return timm.create_model(name, pretrained=False, exportable=True)


for n, size in listed(
        "efficientnet_b0 tinynet_a ghostnet_100 lcnet_100 rexnet_100 hardcorenas_a mobilenetv4_conv_small efficientvit_b0 "
        "fastvit_t8 edgenext_small mobilevit_s efficientformer_l1 levit_128s cait_xxs24_224 mixer_s16_224 resmlp_12_224 "
        "poolformer_s12 pvt_v2_b0 twins_svt_small tiny_vit_5m_224 convnextv2_atto focalnet_tiny_srf res2net50_26w_4s "
        "dla34 hrnet_w18_small cspdarknet53 repvgg_a0 coatnet_0_rw_224 "
        "maxvit_tiny_rw_224 davit_tiny hgnet_tiny hgnetv2_b0 inception_next_atto mobileone_s0 repvit_m0_9 "
        "ghostnetv2_100 skresnet18 resnest14d nf_resnet26 efficientvit_m0 swinv2_tiny_window8_256:256 gcvit_xxtiny "
        "xcit_nano_12_p16_224 crossvit_tiny_240:240 convmixer_768_32 visformer_tiny coat_lite_tiny convit_tiny "
        "efficientformerv2_s0 mobilevitv2_050:256 mvitv2_tiny nest_tiny pit_ti_224 sequencer2d_s starnet_s1 "
        "fasternet_t0 shvit_s1 rdnet_tiny vovnet39a ese_vovnet19b_dw selecsls42b semnasnet_075 spnasnet_100 fbnetv3_b "
        "mixnet_s tf_efficientnet_lite0 eca_resnet33ts gernet_s gmixer_12_224 gmlp_ti16_224 halonet26t:256 "
        "bat_resnext26ts:256 botnet26t_256:256 lambda_resnet26t:256 hrnet_w18_small_v2 dpn48b pnasnet5large:331 "
        "nextvit_small mambaout_femto csatv2:512 eva02_tiny_patch14_224 vit_tiny_patch16_224 deit3_small_patch16_224 "
        "beit_base_patch16_224 volo_d1_224 cs3darknet_s:256 darknetaa53:256 regnetz_005 resnetv2_50d_gn "
        "tresnet_m dm_nfnet_f0 seresnext26d_32x4d legacy_xception:299 repghostnet_050 repvgg_a0 tnt_s_legacy_patch16_224 "
        "vitamin_small_224 hiera_tiny_224 mobilenet_edgetpu_v2_xs mobilenetv4_hybrid_medium swiftformer_xs "
        "xception41:299 densenet121 inception_v4:299 sam2_hiera_tiny:224 samvit_base_patch16_224 convformer_s18 "
        "caformer_s18 pvt_v2_b1 twins_pcpvt_small levit_conv_128s edgenext_xx_small efficientvit_l1 metaformer_s "
        "naflexvit_base_patch16_gap resnet10t resnet50_clip_gap:224 test_vit test_convnext test_mambaout"):
    add(n, functools.partial(tm, n), image(size))

# ---- transformers: random configurations

SMALL = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, vocab_size=1000)


def hf(model, config, key="last_hidden_state", eager=True, mask=False, **sizes):
    """With a mask of ones: without one, decoders look for packed sequences, which have no ONNX form."""
    import torch
    import transformers as t
    c = getattr(t, config)(**sizes)
    if eager:
        c._attn_implementation = "eager"
    c.use_cache = False
    m = getattr(t, model)(c)
    m.config.use_cache, m.config.return_dict = False, True
    return picked(m, lambda y: getattr(y, key), **(dict(attention_mask=torch.ones_like) if mask else {}))


def text(name, model, config, key="last_hidden_state", **sizes):
    mask = model not in ("FNetModel", "MambaModel")
    add(name, functools.partial(hf, model, config, key, mask=mask, **{**SMALL, **sizes}), ids())


text("bert", "BertModel", "BertConfig", hidden_size=256, intermediate_size=1024, num_hidden_layers=3)
text("roberta", "RobertaModel", "RobertaConfig", hidden_size=256, intermediate_size=1024, num_hidden_layers=3)
text("electra", "ElectraModel", "ElectraConfig", embedding_size=128)
text("albert", "AlbertModel", "AlbertConfig", embedding_size=64)
text("deberta_v2", "DebertaV2Model", "DebertaV2Config", relative_attention=True, pos_att_type=["p2c", "c2p"],
     max_position_embeddings=128)
text("mobilebert", "MobileBertModel", "MobileBertConfig", embedding_size=128, intra_bottleneck_size=128)
text("squeezebert", "SqueezeBertModel", "SqueezeBertConfig", embedding_size=128)
text("roformer", "RoFormerModel", "RoFormerConfig", embedding_size=128)
text("funnel", "FunnelBaseModel", "FunnelConfig", d_model=128, n_head=4, d_head=32, d_inner=256, block_sizes=[1, 1])
text("mpnet", "MPNetModel", "MPNetConfig")
text("nystromformer", "NystromformerModel", "NystromformerConfig", num_landmarks=16, segment_means_seq_len=64)
text("fnet", "FNetModel", "FNetConfig")
text("modernbert", "ModernBertModel", "ModernBertConfig", pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
     sep_token_id=2, reference_compile=False)
text("distilbert", "DistilBertModel", "DistilBertConfig", dim=128, n_layers=2, n_heads=4, hidden_dim=256)
text("gpt2", "GPT2Model", "GPT2Config", n_layer=3, n_embd=256, n_head=4, vocab_size=4000)
text("gpt_neo", "GPTNeoModel", "GPTNeoConfig", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]])
text("gpt_neox", "GPTNeoXModel", "GPTNeoXConfig")
text("opt", "OPTModel", "OPTConfig", ffn_dim=256, word_embed_proj_dim=128, pad_token_id=1)
text("bloom", "BloomModel", "BloomConfig", n_layer=2, n_head=4)
text("llama", "LlamaModel", "LlamaConfig", num_key_value_heads=2)
text("qwen2", "Qwen2Model", "Qwen2Config", num_key_value_heads=2)
text("qwen3", "Qwen3Model", "Qwen3Config", num_key_value_heads=2, head_dim=32)
text("mistral", "MistralModel", "MistralConfig", num_key_value_heads=2, sliding_window=16)
text("gemma", "GemmaModel", "GemmaConfig", num_key_value_heads=1, head_dim=32)
text("gemma2", "Gemma2Model", "Gemma2Config", num_key_value_heads=2, head_dim=32)
text("phi", "PhiModel", "PhiConfig")
text("phi3", "Phi3Model", "Phi3Config", pad_token_id=0)
text("falcon", "FalconModel", "FalconConfig")
text("stablelm", "StableLmModel", "StableLmConfig")
text("olmo", "OlmoModel", "OlmoConfig")
text("mamba", "MambaModel", "MambaConfig")
text("xglm", "XGLMModel", "XGLMConfig", d_model=128, num_layers=2, attention_heads=4, ffn_dim=256)
add("t5", functools.partial(hf, "T5EncoderModel", "T5Config", num_layers=3, d_model=256, d_ff=1024, num_heads=4,
                            vocab_size=4000), ids())


def with_decoder(model, config, **sizes):
    import torch
    import transformers as t
    c = getattr(t, config)(**sizes)
    c._attn_implementation = "eager"
    m = getattr(t, model)(c)
    m.config.use_cache = False

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = m

        def forward(self, x):
            return self.model(x, decoder_input_ids=torch.zeros_like(x[:, :8].long()) + 2, use_cache=False).last_hidden_state

    return Both()


add("bart", functools.partial(with_decoder, "BartModel", "BartConfig", d_model=128, encoder_layers=2, decoder_layers=2,
                              encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
                              decoder_ffn_dim=256, vocab_size=1000), ids())
add("t5_both", functools.partial(with_decoder, "T5Model", "T5Config", num_layers=2, d_model=128, d_ff=256, num_heads=4,
                                 vocab_size=1000), ids())
add("whisper", functools.partial(with_decoder, "WhisperModel", "WhisperConfig", d_model=128, encoder_layers=2,
                                 decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                 encoder_ffn_dim=256, decoder_ffn_dim=256, vocab_size=1000, max_source_positions=200,
                                 pad_token_id=0), ("x", (80, 400), "smooth"))
VISION = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256)
WAVE = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, conv_dim=(64,) * 7)
wave = ("x", (16000,), "smooth")
for n, m, c in (("wav2vec2", "Wav2Vec2Model", "Wav2Vec2Config"), ("hubert", "HubertModel", "HubertConfig"),
                ("wavlm", "WavLMModel", "WavLMConfig"), ("sew", "SEWModel", "SEWConfig")):
    add(n, functools.partial(hf, m, c, **WAVE), wave)
add("audio_spectrogram", functools.partial(hf, "ASTModel", "ASTConfig", max_length=256, **VISION), ("x", (256, 128), "smooth"))
add("clip_vision", functools.partial(hf, "CLIPVisionModel", "CLIPVisionConfig", image_size=112, patch_size=16, **VISION), image(112))
add("siglip_vision", functools.partial(hf, "SiglipVisionModel", "SiglipVisionConfig", image_size=112, patch_size=16, **VISION),
    image(112))
add("clip_text", functools.partial(hf, "CLIPTextModel", "CLIPTextConfig", **SMALL), ids())
add("vit", functools.partial(hf, "ViTModel", "ViTConfig", **VISION), image())
add("dinov2", functools.partial(hf, "Dinov2Model", "Dinov2Config", image_size=112, **VISION), image(112))
add("vit_mae", functools.partial(hf, "ViTMAEModel", "ViTMAEConfig", mask_ratio=0.0, image_size=112, **VISION), image(112))
add("beit", functools.partial(hf, "BeitModel", "BeitConfig", use_relative_position_bias=True, **VISION), image())
add("yolos", functools.partial(hf, "YolosForObjectDetection", "YolosConfig", "logits", image_size=[224, 224], **VISION), image())
add("segformer", functools.partial(hf, "SegformerForSemanticSegmentation", "SegformerConfig", "logits", eager=False), image(128))
add("dpt", functools.partial(hf, "DPTForDepthEstimation", "DPTConfig", "predicted_depth", image_size=112,
                             backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 32, 64, 64], fusion_hidden_size=32,
                             **{**VISION, "num_hidden_layers": 4}), image(112))
add("depth_anything", functools.partial(
    lambda: hf("DepthAnythingForDepthEstimation", "DepthAnythingConfig", "predicted_depth",
               backbone_config=__import__("transformers").Dinov2Config(image_size=112, out_indices=[1, 2, 3, 4],
                                                                       reshape_hidden_states=False, apply_layernorm=True,
                                                                       **{**VISION, "num_hidden_layers": 4}),
               reassemble_hidden_size=128, patch_size=14, neck_hidden_sizes=[16, 32, 64, 64], fusion_hidden_size=32)), image(112))
add("detr", functools.partial(hf, "DetrForObjectDetection", "DetrConfig", "logits", use_pretrained_backbone=False,
                              backbone="resnet18", use_timm_backbone=True, encoder_layers=2, decoder_layers=2, d_model=64,
                              encoder_ffn_dim=128, decoder_ffn_dim=128, encoder_attention_heads=4, decoder_attention_heads=4,
                              num_queries=20), image())
add("rt_detr", functools.partial(
    lambda: hf("RTDetrForObjectDetection", "RTDetrConfig", "logits", d_model=64, encoder_hidden_dim=64, num_queries=30,
               encoder_ffn_dim=128, decoder_ffn_dim=128, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, decoder_in_channels=[64] * 3, encoder_in_channels=[128, 256, 512],
               backbone_config=__import__("transformers").RTDetrResNetConfig(
                   depths=[1, 1, 1, 1], hidden_sizes=[64, 128, 256, 512], layer_type="basic", out_features=["stage2", "stage3", "stage4"]))),
    image(256), fixed=True)
add("swin2sr", functools.partial(hf, "Swin2SRForImageSuperResolution", "Swin2SRConfig", "reconstruction", embed_dim=32,
                                 depths=[2, 2], num_heads=[2, 2], image_size=64, window_size=8), image(64))
add("convnext_hf", functools.partial(hf, "ConvNextModel", "ConvNextConfig", depths=[1, 1, 2, 1], hidden_sizes=[24, 48, 96, 192]),
    image(128))
add("mobilevit_seg", functools.partial(hf, "MobileViTForSemanticSegmentation", "MobileViTConfig", "logits",
                                       hidden_sizes=[48, 64, 80]), image(256))
add("upernet", functools.partial(
    lambda: hf("UperNetForSemanticSegmentation", "UperNetConfig", "logits", eager=False, hidden_size=64,
               backbone_config=__import__("transformers").ConvNextConfig(
                   depths=[1, 1, 2, 1], hidden_sizes=[24, 48, 96, 192], out_features=["stage1", "stage2", "stage3", "stage4"]),
               auxiliary_in_channels=96)), image(128))
add("glpn", functools.partial(hf, "GLPNForDepthEstimation", "GLPNConfig", "predicted_depth", eager=False), image(128))
add("trocr", functools.partial(hf, "TrOCRForCausalLM", "TrOCRConfig", "logits", d_model=128, decoder_layers=2,
                               decoder_attention_heads=4, decoder_ffn_dim=256, vocab_size=1000), ids(32))
add("patchtst", functools.partial(hf, "PatchTSTModel", "PatchTSTConfig", num_input_channels=4, context_length=128,
                                  patch_length=16, patch_stride=8, d_model=64, num_attention_heads=4), ("x", (128, 4), "smooth"))
add("vits_encoder", functools.partial(hf, "VideoMAEModel", "VideoMAEConfig", image_size=64, num_frames=4, **VISION),
    ("x", (4, 3, 64, 64), "smooth"))
add("timesformer", functools.partial(hf, "TimesformerModel", "TimesformerConfig", image_size=64, num_frames=4, **VISION),
    ("x", (4, 3, 64, 64), "smooth"))

# ---- written by hand

def own(name):
    """Small networks of what the libraries have little of."""
    import torch
    from torch import nn
    conv = lambda i, o, k=3, s=1: nn.Conv2d(i, o, k, s, k // 2)
    norm = {"style_instance": lambda c: nn.InstanceNorm2d(c, affine=True), "style_group": lambda c: nn.GroupNorm(8, c)}

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(40, 64, 2, batch_first=True, bidirectional=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.cells(x)[0][:, -1])

    if name.startswith("unet"):
        up = (lambda i, o: nn.ConvTranspose2d(i, o, 2, 2)) if name == "unet_transposed" else (
            lambda i, o: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), conv(i, o)))
        layers = [conv(3, 24), nn.ReLU(), conv(24, 48, s=2), nn.ReLU(), conv(48, 96, s=2), nn.ReLU(), up(96, 48), nn.ReLU(),
                  up(48, 24), nn.ReLU(), conv(24, 4)]
    elif name.startswith("style"):
        block = lambda i, o, s=1: [nn.ReflectionPad2d(1), nn.Conv2d(i, o, 3, s), norm[name](o), nn.ReLU()]
        layers = block(3, 32) + block(32, 64, 2) + block(64, 64) + [nn.Upsample(scale_factor=2)] + block(64, 32) + [conv(32, 3)]
    elif name == "face_prelu":
        block = lambda i, o, s: [conv(i, o, s=s), nn.BatchNorm2d(o), nn.PReLU(o)]
        layers = block(3, 32, 2) + block(32, 64, 1) + block(64, 64, 2) + block(64, 128, 2) + [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    elif name == "super_resolution":
        layers = [conv(1, 32, 5), nn.Tanh(), conv(32, 16), nn.Tanh(), conv(16, 9), nn.PixelShuffle(3)]
    elif name == "detector_leaky":
        layers = []
        for i, o in ((3, 16), (16, 32), (32, 64), (64, 128)):
            layers += [conv(i, o), nn.BatchNorm2d(o), nn.LeakyReLU(0.1), nn.MaxPool2d(2)]
        layers += [nn.Upsample(scale_factor=2), conv(128, 64, 1), nn.Mish(), conv(64, 18, 1)]
    elif name == "tcn":
        layers = []
        for d in (1, 2, 4, 8):
            layers += [nn.Conv1d(40, 40, 3, padding=d, dilation=d, groups=4), nn.GELU(), nn.Conv1d(40, 40, 1)]
    elif name == "volumes":
        layers = [nn.Conv3d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv3d(16, 32, 3, 1, 1), nn.InstanceNorm3d(32), nn.SiLU(),
                  nn.ConvTranspose3d(32, 8, 2, 2)]
    else:
        return Lstm()
    return nn.Sequential(*layers)


for n, shape in dict(
        unet_transposed=(3, 128, 128), unet_resize=(3, 128, 128), style_instance=(3, 224, 224), style_group=(3, 224, 224),
        face_prelu=(3, 112, 112), super_resolution=(1, 128, 128), detector_leaky=(3, 224, 224), lstm=(50, 40), tcn=(40, 300),
        volumes=(1, 16, 48, 48)).items():
    add(n, functools.partial(own, n), ("x", shape, "smooth"))

# ---- the other exporter, other opsets

for n in ("resnet18 mobilenet_v3_small shufflenet_v2_x1_0 convnext_tiny swin_t deeplabv3_mobilenet_v3_large r3d_18 "
          "ghostnet_100 edgenext_small mobilevit_s poolformer_s12 maxvit_tiny_rw_224 davit_tiny gcvit_xxtiny "
          "xcit_nano_12_p16_224 skresnet18 resnest14d efficientvit_m0 coat_lite_tiny bert gpt2 t5 llama qwen2 mistral gemma "
          "deberta_v2 distilbert bart whisper wav2vec2 clip_vision vit dinov2 segformer dpt swin2sr").split():
    build, inputs, options = NETWORKS[n]
    NETWORKS[n + "@dynamo"] = (build, inputs, {**options, "dynamo": True, "opset": 18})
for n, opset in (("resnet18", 11), ("mobilenet_v3_small", 11), ("shufflenet_v2_x1_0", 12), ("convnext_tiny", 13), ("swin_t", 12),
                 ("bert", 11), ("gpt2", 14), ("deeplabv3_mobilenet_v3_large", 11), ("edgenext_small", 16),
                 ("mixer_s16_224", 19), ("levit_128s", 20), ("repvit_m0_9", 20)):
    build, inputs, options = NETWORKS[n]
    NETWORKS[f"{n}@{opset}"] = (build, inputs, {**options, "opset": opset})
for n, opset in (("convnext_tiny", 20), ("swin_t", 21), ("bert", 21), ("llama", 23)):
    build, inputs, options = NETWORKS[n]
    NETWORKS[f"{n}@dynamo{opset}"] = (build, inputs, {**options, "dynamo": True, "opset": opset})
