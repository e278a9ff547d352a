"""The architectures of sweep.py: how each is built, what goes in, how it is exported.

A network is a row (build, inputs, options). `inputs` are (name, shape of a sample, kind): an image or a
wave whose neighbours are alike, or integers below `kind`. Options: dynamo (torch.export's exporter),
opset, fixed (the batch is 1: detectors whose ends follow the data), open (axes of any size beside the
batch: {axis: name}), half (f16 weights, inputs and outputs).
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

# families that none of those above belongs to
for n, size in listed(
        "cpubone_nano cspnext_tiny densenetblur121d:128 dla46x_c dla60_res2net:128 ecaresnet26t:128 efficientvim_m1 "
        "efficientnet_b0_g8_gn:128 fastvit_mci0:256 gcresnext26ts:128 ghostnetv3_050 iformer_m lcnetv2_small legacy_seresnext26_32x4d:128 "
        "lowformer_b0 regnetv_040:128 resnetv2_18d resnetv2_50d_evos:128 rexnetr_100 skresnext50_32x4d:128 starnet_s050 "
        "vgg11_bn vit_small_r26_s32_224 swin_s3_tiny_224 xcit_nano_12_p8_224 mobilevit_xxs:256 resnetaa50:128 resnetblur50:128 "
        "eca_nfnet_l0:128 convnext_atto_rms tinynet_e tf_mixnet_s:128 tf_efficientnet_es:128 test_vit_relpos:160 vit_relpos_small_patch16_224 "
        "swinv2_cr_tiny_ns_224 ese_vovnet39b_evos:128 hgnetv2_b2:128 crossvit_9_dagger_240:240 coat_mini "
        "tnt_s_patch16_224 vit_tiny_r_s16_p8_224 mixer_b32_224 seresnextaa101d_32x8d:96 inception_resnet_v2:299 res2next50:128 "
        "resnetrs50:128 efficientnet_es_pruned:128 fbnetc_100 mobilenetv1_100 test_efficientnet_evos "
        "test_efficientnet_ln test_nfnet test_resnet test_byobnet test_convnext2 test_convnext3"):
    add(n, functools.partial(tm, n), image(size))
for n, size in listed("ssd300_vgg16:300 maskrcnn_resnet50_fpn:224 keypointrcnn_resnet50_fpn:224"):
    add(n, functools.partial(tv_part, n, boxes), image(size), fixed=True)
add("swin3d_t", functools.partial(tv, "swin3d_t"), ("x", (3, 8, 64, 64), "smooth"))

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
    return picked(m, lambda y: y if key is None else getattr(y, key), **(dict(attention_mask=torch.ones_like) if mask else {}))


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

text("convbert", "ConvBertModel", "ConvBertConfig", embedding_size=128)
text("xlnet", "XLNetModel", "XLNetConfig", d_model=128, n_layer=2, n_head=4, d_inner=256)
text("megatron", "MegatronBertModel", "MegatronBertConfig")
text("esm", "EsmModel", "EsmConfig", pad_token_id=1, position_embedding_type="rotary", max_position_embeddings=130)
text("ibert", "IBertModel", "IBertConfig")
text("layoutlm", "LayoutLMModel", "LayoutLMConfig")
text("splinter", "SplinterModel", "SplinterConfig")
text("rembert", "RemBertModel", "RemBertConfig", input_embedding_size=64)
text("canine", "CanineModel", "CanineConfig", downsampling_rate=4, num_hash_buckets=1000)
text("gptj", "GPTJModel", "GPTJConfig", n_embd=128, n_layer=2, n_head=4, rotary_dim=16)
text("codegen", "CodeGenModel", "CodeGenConfig", n_embd=128, n_layer=2, n_head=4, rotary_dim=16)
text("cohere", "CohereModel", "CohereConfig", num_key_value_heads=2, pad_token_id=0)
text("granite", "GraniteModel", "GraniteConfig", num_key_value_heads=2)
text("starcoder2", "Starcoder2Model", "Starcoder2Config", num_key_value_heads=2)
text("persimmon", "PersimmonModel", "PersimmonConfig")
text("rwkv", "RwkvModel", "RwkvConfig", attention_hidden_size=128)
text("olmo2", "Olmo2Model", "Olmo2Config")
text("smollm3", "SmolLM3Model", "SmolLM3Config", num_key_value_heads=2, pad_token_id=0)
text("nemotron", "NemotronModel", "NemotronConfig", num_key_value_heads=2)
text("biogpt", "BioGptModel", "BioGptConfig")
for n, m, c in (("wav2vec2_conformer", "Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig"), ("unispeech", "UniSpeechModel", "UniSpeechConfig"),
                ("data2vec_audio", "Data2VecAudioModel", "Data2VecAudioConfig")):
    add(n, functools.partial(hf, m, c, **WAVE), wave)
add("pvt_hf", functools.partial(hf, "PvtModel", "PvtConfig", eager=False, image_size=128), image(128))
add("regnet_hf", functools.partial(hf, "RegNetModel", "RegNetConfig", eager=False, embedding_size=32, hidden_sizes=[32, 64, 96, 128],
                                   depths=[1, 1, 2, 1], groups_width=16), image(128))
add("levit_hf", functools.partial(hf, "LevitModel", "LevitConfig", eager=False), image())
add("vitpose", functools.partial(
    lambda: hf("VitPoseForPoseEstimation", "VitPoseConfig", "heatmaps", eager=False,
               backbone_config=__import__("transformers").VitPoseBackboneConfig(image_size=(128, 96), patch_size=(16, 16),
                                                                                out_indices=[2], **VISION))), image((128, 96)))
add("zoedepth", functools.partial(
    lambda: hf("ZoeDepthForDepthEstimation", "ZoeDepthConfig", "predicted_depth", eager=False, neck_hidden_sizes=[16, 32, 64, 64],
               fusion_hidden_size=32, bottleneck_features=32, reassemble_factors=[4, 2, 1, 0.5], num_attractors=[4, 2, 2, 1],
               backbone_config=__import__("transformers").BeitConfig(image_size=128, use_relative_position_bias=True,
                                                                     reshape_hidden_states=False, out_indices=[1, 2, 3, 4],
                                                                     **{**VISION, "num_hidden_layers": 4}))), image(128), fixed=True)
add("conditional_detr", functools.partial(hf, "ConditionalDetrForObjectDetection", "ConditionalDetrConfig", "logits",
                                          use_pretrained_backbone=False, backbone="resnet18", use_timm_backbone=True,
                                          encoder_layers=2, decoder_layers=2, d_model=64, encoder_ffn_dim=128,
                                          decoder_ffn_dim=128, encoder_attention_heads=4, decoder_attention_heads=4,
                                          num_queries=20), image(128))
add("deformable_detr", functools.partial(hf, "DeformableDetrForObjectDetection", "DeformableDetrConfig", "logits",
                                         use_pretrained_backbone=False, backbone="resnet18", use_timm_backbone=True,
                                         encoder_layers=2, decoder_layers=2, d_model=64, encoder_ffn_dim=128,
                                         decoder_ffn_dim=128, encoder_attention_heads=4, decoder_attention_heads=4,
                                         num_queries=20, disable_custom_kernels=True), image(128), fixed=True)
add("superpoint", functools.partial(hf, "SuperPointForKeypointDetection", "SuperPointConfig", "scores", eager=False), image(128),
    fixed=True)
add("encodec", functools.partial(
    lambda: picked(__import__("transformers").EncodecModel(__import__("transformers").EncodecConfig(
        num_filters=8, hidden_size=32, num_lstm_layers=1)).encoder, lambda y: y)), ("x", (1, 8000), "smooth"))
add("hifigan", functools.partial(hf, "SpeechT5HifiGan", "SpeechT5HifiGanConfig", None, eager=False,
                                 upsample_initial_channel=64), ("x", (50, 80), "smooth"))
add("patchtsmixer", functools.partial(hf, "PatchTSMixerModel", "PatchTSMixerConfig", eager=False, context_length=128,
                                          patch_length=8, num_input_channels=4), ("x", (128, 4), "smooth"))
add("sam_vision", functools.partial(hf, "SamVisionModel", "SamVisionConfig", "last_hidden_state", image_size=128, window_size=4,
                                    global_attn_indexes=[1], num_pos_feats=64, output_channels=32, **VISION), image(128))
add("ijepa", functools.partial(hf, "IJepaModel", "IJepaConfig", image_size=112, **VISION), image(112))
add("owlvit_vision", functools.partial(hf, "OwlViTVisionModel", "OwlViTVisionConfig", image_size=128, patch_size=16, **VISION), image(128))
add("donut_swin", functools.partial(hf, "DonutSwinModel", "DonutSwinConfig", embed_dim=32, depths=[2, 2], num_heads=[2, 4],
                                    image_size=128), image(128))
add("textnet", functools.partial(hf, "TextNetModel", "TextNetConfig", eager=False), image(128))

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


def ended(name):
    """Networks whose ends or middles are operators other than products and convolutions."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    conv = lambda i, o, k=3, s=1, act=nn.ReLU: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), act())

    class Called(nn.Module):
        def __init__(self, call, *parts):
            super().__init__()
            self.parts, self.call = nn.ModuleList(parts), call

        def forward(self, x):
            return self.call(x, *self.parts)

    def crnn(x, front, cells, head):
        return F.log_softmax(head(cells(front(x).squeeze(2).transpose(1, 2))[0]), -1)

    def spatial(x, where, front, head):
        theta = where(x).reshape(-1, 2, 3) * 0.2 + torch.tensor([[1.0, 0, 0], [0, 1, 0]])
        return head(front(F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False),
                                        align_corners=False)))

    def graph(x, first, second):  # edges to the nearest points, as in dynamic graph networks
        for layer in (first, second):
            distance = -(x.unsqueeze(2) - x.unsqueeze(1)).square().sum(-1)
            near = distance.topk(8, -1).indices
            picked = torch.gather(x.unsqueeze(1).expand(-1, x.shape[1], -1, -1), 2,
                                  near.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]))
            x = layer(torch.cat([picked - x.unsqueeze(2), x.unsqueeze(2).expand_as(picked)], -1)).amax(2)
        return x.amax(1)

    def messages(x, layer, head):  # sums over fixed edges
        a, b = torch.arange(200) % 64, (torch.arange(200) * 7) % 64
        for _ in range(3):
            x = x + torch.zeros_like(x).scatter_add(1, a[None, :, None].expand(x.shape[0], -1, x.shape[2]), layer(x[:, b]))
        return head(x)

    def classes(x, body):
        return F.interpolate(body(x), scale_factor=4.0, mode="bilinear").argmax(1)

    def sharper(x, body):
        return F.interpolate(x, scale_factor=2.0, mode="bicubic") + F.pixel_shuffle(body(x), 2)

    def decay(x, inner, head):  # a gated sum along time
        gate = F.logsigmoid(inner(x)).cumsum(1)
        return head(torch.exp(gate - gate.max(1, keepdim=True).values) * x)

    def residual(x, head, a, b, tail):
        x = head(x)
        return tail(x + b(a(x) + x))

    def parts(x, down, cells, up):
        y = cells(down(x))
        return up(F.normalize(y, dim=1) * y.std(1, keepdim=True))

    return {
        "crnn": lambda: Called(crnn, nn.Sequential(conv(1, 32, s=2), conv(32, 64), nn.MaxPool2d((2, 1)), conv(64, 64),
                                                   nn.MaxPool2d((8, 1))), nn.LSTM(64, 48, 2, bidirectional=True, batch_first=True),
                               nn.Linear(96, 80)),
        "spatial_transformer": lambda: Called(spatial, nn.Sequential(conv(3, 8, s=4), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                                                                     nn.Linear(128, 6)), conv(3, 24),
                                              nn.Conv2d(24, 8, 3)),
        "dynamic_graph": lambda: Called(graph, nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2)),
                                        nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2))),
        "messages": lambda: Called(messages, nn.Sequential(nn.Linear(32, 32), nn.SiLU()), nn.Linear(32, 8)),
        "segment_classes": lambda: Called(classes, nn.Sequential(conv(3, 24, s=2, act=nn.Hardswish), conv(24, 48, s=2), nn.Conv2d(48, 21, 1))),
        "sharper_cubic": lambda: Called(sharper, nn.Sequential(conv(3, 32, act=nn.PReLU), conv(32, 32, act=nn.ELU), nn.Conv2d(32, 12, 3, padding=1))),
        "gated_sum": lambda: Called(decay, nn.Linear(64, 64), nn.Linear(64, 16)),
        "sr_residual": lambda: Called(residual, conv(3, 32, 9, act=nn.PReLU), conv(32, 32, act=nn.PReLU), conv(32, 32, act=nn.Identity),
                                      nn.Sequential(nn.Conv2d(32, 128, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(), nn.Conv2d(32, 3, 9, padding=4))),
        "speech_separation": lambda: Called(parts, nn.Sequential(nn.Conv1d(1, 64, 16, 8), nn.PReLU(), nn.GroupNorm(1, 64)),
                                            nn.Sequential(*[m for d in (1, 2, 4) for m in (
                                                nn.Conv1d(64, 64, 3, padding=d, dilation=d, groups=64), nn.PReLU(), nn.Conv1d(64, 64, 1))]),
                                            nn.ConvTranspose1d(64, 1, 16, 8)),
        "gru_tagger": lambda: Called(lambda x, a, b: b(a(x)[0]).softmax(-1), nn.GRU(40, 64, 2, batch_first=True), nn.Linear(64, 12)),
        "encoder_layers": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu",
                                                                                   norm_first=True), 2, enable_nested_tensor=False),
        "tabular": lambda: nn.Sequential(nn.BatchNorm1d(40), *[m for i, o in ((40, 256), (256, 256), (256, 64)) for m in (
            nn.Linear(i, o), nn.BatchNorm1d(o), nn.SELU())], nn.Linear(64, 2), nn.LogSoftmax(-1)),
        "csp_detector": lambda: Called(lambda x, stem, a, b, mid, pool, head: head(torch.cat([p(y) for y in [mid(torch.cat([a(stem(x)), b(stem(x))], 1))]
                                                                                              for p in (nn.Identity(), *([pool] * 3))], 1)),
                                       conv(3, 32, 6, 2, nn.SiLU), conv(32, 16, 1, 1, nn.SiLU), conv(32, 16, 3, 1, nn.SiLU),
                                       conv(32, 64, 3, 2, nn.SiLU), nn.MaxPool2d(5, 1, 2), nn.Conv2d(256, 255, 1)),
    }[name]()


for n, shape in dict(
        crnn=(1, 32, 160), spatial_transformer=(3, 64, 64), dynamic_graph=(256, 3), messages=(64, 32), segment_classes=(3, 160, 160),
        sharper_cubic=(3, 64, 64), gated_sum=(100, 64), sr_residual=(3, 64, 64), speech_separation=(1, 8000), gru_tagger=(50, 40),
        encoder_layers=(50, 64), tabular=(40,), csp_detector=(3, 224, 224)).items():
    add(n, functools.partial(ended, n), ("x", shape, "smooth"), opset=20 if n == "spatial_transformer" else 17)

# ---- further families

def deferred(model, config, key, sizes):
    """As hf, with sizes that are made when the network is."""
    return hf(model, config, key, **sizes())


def config_of(kind, **sizes):
    import transformers
    return getattr(transformers, kind)(**sizes)


add("rt_detr_v2", functools.partial(deferred, "RTDetrV2ForObjectDetection", "RTDetrV2Config", "logits", lambda: dict(
    d_model=64, encoder_hidden_dim=64, num_queries=30, encoder_ffn_dim=128, decoder_ffn_dim=128, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, decoder_in_channels=[64] * 3, encoder_in_channels=[128, 256, 512],
    backbone_config=config_of("RTDetrResNetConfig", depths=[1, 1, 1, 1], hidden_sizes=[64, 128, 256, 512], layer_type="basic",
                              out_features=["stage2", "stage3", "stage4"]))), image(256), fixed=True)
add("mask_former", functools.partial(deferred, "MaskFormerForInstanceSegmentation", "MaskFormerConfig", "masks_queries_logits", lambda: dict(
    fpn_feature_size=32, mask_feature_size=32,
    backbone_config=config_of("ResNetConfig", depths=[1, 1, 1, 1], hidden_sizes=[32, 64, 96, 128], layer_type="basic", embedding_size=32,
                              out_features=["stage1", "stage2", "stage3", "stage4"]),
    decoder_config=config_of("DetrConfig", d_model=64, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=128,
                             decoder_attention_heads=4, num_queries=20))), image(128), fixed=True)
add("vitmatte", functools.partial(deferred, "VitMatteForImageMatting", "VitMatteConfig", "alphas", lambda: dict(
    hidden_size=128, convstream_hidden_sizes=[16, 32, 48], fusion_hidden_sizes=[64, 48, 32, 16],
    backbone_config=config_of("VitDetConfig", image_size=128, num_channels=4, out_features=["stage2"], **VISION))), image(128, 4))
add("table_transformer", functools.partial(hf, "TableTransformerForObjectDetection", "TableTransformerConfig", "logits",
                                           use_pretrained_backbone=False, backbone="resnet18", use_timm_backbone=True,
                                           encoder_layers=1, decoder_layers=2, d_model=64, encoder_ffn_dim=128, decoder_ffn_dim=128,
                                           encoder_attention_heads=4, decoder_attention_heads=4, num_queries=20), image(128))
for n, m, c, size, more in (
        ("swinv2_hf", "Swinv2Model", "Swinv2Config", 128, dict(image_size=128, window_size=8, embed_dim=32, depths=[1, 1], num_heads=[2, 4])),
        ("focalnet_hf", "FocalNetModel", "FocalNetConfig", 128, dict(image_size=128, embed_dim=32, depths=[1, 1, 2, 1])),
        ("mobilenet_v2_hf", "MobileNetV2Model", "MobileNetV2Config", 128, dict(depth_multiplier=0.5)),
        ("vit_msn", "ViTMSNModel", "ViTMSNConfig", 112, dict(image_size=112, **VISION)),
        ("vit_det", "VitDetModel", "VitDetConfig", 128, dict(image_size=128, window_size=4, window_block_indices=[0], **VISION)),
        ("clipseg_vision", "CLIPSegVisionModel", "CLIPSegVisionConfig", 112, dict(image_size=112, patch_size=16, **VISION))):
    add(n, functools.partial(hf, m, c, **more), image(size))
add("vivit", functools.partial(hf, "VivitModel", "VivitConfig", image_size=64, num_frames=4, tubelet_size=[2, 16, 16], **VISION),
    ("x", (4, 3, 64, 64), "smooth"))
text("xlm", "XLMModel", "XLMConfig", emb_dim=128, n_layers=2, n_heads=4)
text("big_bird", "BigBirdModel", "BigBirdConfig", attention_type="original_full")
text("longformer", "LongformerModel", "LongformerConfig", attention_window=16, max_position_embeddings=130)
text("mra", "MraModel", "MraConfig", max_position_embeddings=130)
text("gemma3", "Gemma3TextModel", "Gemma3TextConfig", num_key_value_heads=2, head_dim=32, sliding_window=16)
text("mpt", "MptModel", "MptConfig", d_model=128, n_heads=4, n_layers=2)
text("recurrent_gemma", "RecurrentGemmaModel", "RecurrentGemmaConfig", num_key_value_heads=1, lru_width=128, attention_window_size=32)
text("helium", "HeliumModel", "HeliumConfig", num_key_value_heads=2, head_dim=32)
text("ctrl", "CTRLModel", "CTRLConfig", n_embd=128, n_layer=2, n_head=4, dff=256)
add("marian", functools.partial(with_decoder, "MarianModel", "MarianConfig", d_model=128, encoder_layers=2, decoder_layers=2,
                                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256,
                                vocab_size=1000, pad_token_id=0), ids())


def flow(name):
    import torch

    class Flow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = tv(name)

        def forward(self, x):
            return self.model(x[:, :3], x[:, 3:], num_flow_updates=2)[-1]

    return Flow()


add("raft_small", functools.partial(flow, "raft_small"), ("x", (6, 128, 128), "smooth"), fixed=True)

# ---- further ones written by hand

for n, (inputs, options, _) in __import__("sweep_further").SMALL.items():
    add(n, functools.partial(lambda n: __import__("sweep_further").SMALL[n][2](), n), *inputs, **options)

# ---- the seventy-eight of docs/benchmarks/sweep.md, chosen without looking at what has kernels

for n, size in listed(
        "deit_tiny_distilled_patch16_224 botnet50ts_256:256 cs3sedarknet_l cspresnext50 dla60x_c ecaresnext26t_32x4d "
        "gcresnext50ts haloregnetz_b lamhalobotnet50ts_256:256 maxxvitv2_nano_rw_256:256 nfnet_l0 poolformerv2_s12 "
        "regnetz_b16 resnest26d sebotnet33ts_256:256 sehalonet33ts mobilenetv4_conv_aa_medium "
        "mobilenetv4_hybrid_medium_075 convnext_zepto_rms efficientvit_b1 efficientvit_m3 edgenext_small_rw fastvit_s12 "
        "hgnetv2_b4 pit_xs_224 repvit_m1_1 rexnet_150 swiftformer_s tf_efficientnetv2_b0 gcvit_xtiny efficientformer_l3 "
        "ghostnetv3_100 starnet_s3 lcnet_050 mixnet_m levit_192 xcit_tiny_12_p16_224 convnextv2_pico flexivit_small:240 "
        "coatnext_nano_rw_224 resnet51q seresnext26ts skresnet34 selecsls60 vovnet57a xception41p dpn68b "
        "mobilevitv2_075:256 mvitv2_small darknet17:256 resnet33ts:256 fastvit_ma36 vit_pe_core_tiny_patch16_384:384 "
        "vit_dpwee_patch16_reg1_gap_256:256 vit_dwee_patch16_reg1_gap_256:256 focalnet_tiny_lrf nest_small "
        "crossvit_15_240:240 tiny_vit_11m_224 hieradet_small:224 inception_next_tiny mobilenetv3_rw "
        "eva02_small_patch14_224 rdnet_small mambaout_tiny fasternet_s"):
    add(n, functools.partial(tm, n), image(size))

ENCODER = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
DECODER = dict(vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               max_position_embeddings=256)


def unmasked(name, model, config, **sizes):
    add(name, functools.partial(hf, model, config, **sizes), ids(64, 900))


add("hf_poolformer", functools.partial(hf, "PoolFormerModel", "PoolFormerConfig", hidden_sizes=[32, 64, 96, 128], eager=False), image(160))
add("hf_resnet", functools.partial(hf, "ResNetModel", "ResNetConfig", hidden_sizes=[64, 128, 256, 256], depths=[2, 2, 2, 2], eager=False), image(160))
add("hf_dinov3", functools.partial(hf, "DINOv3ViTModel", "DINOv3ViTConfig", num_register_tokens=4, **ENCODER), image(160))
add("hf_dinov3_convnext", functools.partial(hf, "DINOv3ConvNextModel", "DINOv3ConvNextConfig", hidden_sizes=[32, 64, 96, 128], depths=[2, 2, 2, 2],
    eager=False), image(160))
add("hf_hgnet", functools.partial(hf, "HGNetV2ForImageClassification", "HGNetV2Config", "logits", eager=False), image(160))
add("hf_dfine", functools.partial(hf, "DFineForObjectDetection", "DFineConfig", "logits", eager=False, d_model=64, encoder_hidden_dim=64,
    num_queries=30, decoder_layers=2, encoder_ffn_dim=128, decoder_ffn_dim=128, decoder_in_channels=[64, 64, 64]), image(160), fixed=True)
add("hf_mask2former", functools.partial(hf, "Mask2FormerForUniversalSegmentation", "Mask2FormerConfig", "masks_queries_logits", eager=False,
    feature_size=64, mask_feature_size=64, hidden_dim=64, encoder_layers=1, decoder_layers=2, num_queries=20), image(160), fixed=True)
add("hf_videomae", functools.partial(hf, "VideoMAEModel", "VideoMAEConfig", num_frames=4, image_size=64, tubelet_size=2, **ENCODER), ("x", (4, 3,
    64, 64), "smooth"))
add("hf_ast", functools.partial(hf, "ASTModel", "ASTConfig", max_length=128, num_mel_bins=64, **ENCODER), ("x", (128, 64), "smooth"))
add("hf_sew_d", functools.partial(hf, "SEWDModel", "SEWDConfig", **ENCODER), ("x", (8000,), "smooth"))
add("hf_w2vbert", functools.partial(hf, "Wav2Vec2BertModel", "Wav2Vec2BertConfig", **ENCODER), ("x", (64, 160), "smooth"))
add("hf_unispeech_sat", functools.partial(hf, "UniSpeechSatModel", "UniSpeechSatConfig", **ENCODER), ("x", (8000,), "smooth"))
add("hf_dac", functools.partial(hf, "DacModel", "DacConfig", "audio_codes", encoder_hidden_size=16, decoder_hidden_size=128), ("x", (1, 4800),
    "smooth"))
add("hf_hiera", functools.partial(hf, "HieraModel", "HieraConfig", eager=False), image(224))
add("hf_swiftformer", functools.partial(hf, "SwiftFormerModel", "SwiftFormerConfig", eager=False), image(224))
add("hf_mobilenet_v1", functools.partial(hf, "MobileNetV1Model", "MobileNetV1Config", eager=False, depth_multiplier=0.5), image(160))
add("hf_align_vision", functools.partial(hf, "AlignVisionModel", "AlignVisionConfig", eager=False, width_coefficient=0.6, depth_coefficient=0.6),
    image(160))
add("hf_siglip2", functools.partial(hf, "Siglip2VisionModel", "Siglip2VisionConfig", **ENCODER), image(160))
unmasked("hf_ernie", "ErnieModel", "ErnieConfig", vocab_size=1000, **ENCODER)
unmasked("hf_rocbert", "RoCBertModel", "RoCBertConfig", vocab_size=1000, **ENCODER)
unmasked("hf_luke", "LukeModel", "LukeConfig", vocab_size=1000, **ENCODER)
unmasked("hf_yoso", "YosoModel", "YosoConfig", vocab_size=1000, use_expectation=True, **ENCODER)
unmasked("hf_xmod", "XmodModel", "XmodConfig", vocab_size=1000, default_language="en_XX", **ENCODER)
unmasked("hf_qwen3_moe", "Qwen3MoeModel", "Qwen3MoeConfig", **DECODER, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64)
unmasked("hf_mixtral", "MixtralModel", "MixtralConfig", num_local_experts=4, **DECODER)
unmasked("hf_olmoe", "OlmoeModel", "OlmoeConfig", num_experts=4, num_experts_per_tok=2, **DECODER)
unmasked("hf_mamba2", "Mamba2Model", "Mamba2Config", vocab_size=1000, hidden_size=64, num_heads=8, head_dim=16, num_hidden_layers=2, state_size=16,
    n_groups=2, chunk_size=16)
unmasked("hf_lfm2", "Lfm2Model", "Lfm2Config", **DECODER, layer_types=["conv", "full_attention"])
unmasked("hf_bamba", "BambaModel", "BambaConfig", **DECODER, mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16, mamba_chunk_size=16,
    attn_layer_indices=[1])
unmasked("hf_jamba", "JambaModel", "JambaConfig", **DECODER, use_mamba_kernels=False, num_experts=2)
unmasked("hf_glm4", "Glm4Model", "Glm4Config", head_dim=32, **DECODER)
unmasked("hf_deepseek_v3", "DeepseekV3Model", "DeepseekV3Config", vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=1,
    kv_lora_rank=32, q_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=32, moe_intermediate_size=64)
unmasked("hf_gptoss", "GptOssModel", "GptOssConfig", head_dim=32, num_local_experts=4, **DECODER)
unmasked("hf_gemma3", "Gemma3TextModel", "Gemma3TextConfig", head_dim=32, **DECODER)
unmasked("hf_exaone4", "Exaone4Model", "Exaone4Config", **DECODER)
unmasked("hf_ministral", "Ministral3Model", "Ministral3Config", **DECODER)
unmasked("hf_seed", "SeedOssModel", "SeedOssConfig", head_dim=32, **DECODER)
unmasked("hf_xlstm", "xLSTMModel", "xLSTMConfig", vocab_size=1000, hidden_size=64, num_heads=4, num_blocks=2, num_hidden_layers=2)
unmasked("hf_modernbert_dec", "ModernBertDecoderModel", "ModernBertDecoderConfig", vocab_size=1000, pad_token_id=0, **ENCODER)
unmasked("hf_nomic", "NomicBertModel", "NomicBertConfig", vocab_size=1000, **ENCODER)
unmasked("hf_arcee", "ArceeModel", "ArceeConfig", **DECODER)
add("hf_jetmoe", functools.partial(hf, "JetMoeModel", "JetMoeConfig", mask=True, num_local_experts=4, num_experts_per_tok=2, kv_channels=32,
    vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_key_value_heads=2, max_position_embeddings=256),
    ids(40, 900), fixed=True, dynamo=True, opset=18)
add("hf_mobilevitv2", functools.partial(hf, "MobileViTV2Model", "MobileViTV2Config", eager=False, image_size=128), image(128), fixed=True,
    dynamo=True, opset=20)
add("hf_led", functools.partial(with_decoder, "LEDModel", "LEDConfig", d_model=128, encoder_layers=2, decoder_layers=2,
    encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, vocab_size=1000,
    attention_window=32, max_encoder_position_embeddings=256, max_decoder_position_embeddings=64), ids(64, 900), fixed=True)
add("hf_ocr_detector", functools.partial(hf, "PPOCRV5MobileDetForObjectDetection", "PPOCRV5MobileDetConfig", None, eager=False), image(128),
    fixed=True)

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
