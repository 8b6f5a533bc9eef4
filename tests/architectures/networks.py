"""The networks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import ModelProto

from architectures import classification as c
from architectures import images as i
from architectures import sequences as s
from architectures import signals as g

PUBLISHED: Mapping[str, Callable[[], ModelProto]] = {
    "BIG_efficientnet_b0_224": c.efficientnet_b0_224,
    "BIG_mobilenet_v2_100_224": c.mobilenet_v2_100_224,
    "FastestDet": i.fastest_det,
    "alexa_v0.1": g.wake_word_dense,
    "dtln_1": s.dtln_1,
    "dtln_2": s.dtln_2,
    "embedding_model": g.embedding_model,
    "esp_model": g.esp_model,
    "hey_jarvis_v0.1": g.hey_jarvis,
    "hey_rhasspy_v0.1": g.hey_rhasspy,
    "magika": s.magika,
    "silero_vad_16k": s.silero_vad,
    "streaming_model": g.streaming_model,
    "version-RFB-320_without_postprocessing": i.face_rfb,
    "version-slim-320_simplified": i.face_slim,
    "yunet_n_320_320": i.yunet_n,
    "yunet_s_320_320": i.yunet_s,
}
"""Published files that are not here: networks of the same operators, smaller, with random weights."""

BUILT: tuple[Callable[[], ModelProto], ...] = (
    *(c.argmax_digit_28, c.batch4_cnn_28, c.cbam_cnn_48, c.cnn_elu_avgpool_ceil_29, c.convnext_pico_48),
    *(c.densenet_tiny_32, c.ds_cnn_stride_padsame, c.dynamic_batch_cnn_28, c.eca_cnn_48),
    *(c.efficientnet_lite_relu6_64, c.efficientnet_nano_silu_se_64, c.ghostnet_tiny_64, c.groupnorm_cnn_32),
    *(c.lenet_tanh_logsoftmax, c.maxpool_indices_gather_scatter, c.mlp_batchnorm_tabular, c.mnasnet_050_64),
    *(c.mobilenet_v2_035_96, c.mobilenet_v3_small_050_64, c.multi_output_age_gender_48, c.nin_globalmax_lrn_32),
    *(c.normalize_in_graph_48, c.preact_resnet_32, c.prelu_mobilefacenet_48, c.repvgg_plain_32),
    *(c.shufflenet_v2_x05_96, c.siamese_two_inputs_32, c.squeezenet11_96, c.uint8_nhwc_input_48),
    *(i.centernet_topk_64, i.deeplab_aspp_48, i.espcn_pixelshuffle_24, i.fomo_mbv2_96, i.instancenorm_style_32),
    *(i.nms_tail_64, i.pose_heatmap_softargmax_64, i.ssd_lite_64, i.unet_bilinear_argmax_48),
    *(i.unet_convtranspose_48, i.unet_nearest_softmax_48, i.yolov3_leaky_96, i.yolov5_pico_96, i.yolov8_pico_dfl_96),
    *(g.attention_pool_kws, g.bc_resnet_1, g.conv_autoencoder_1d_mse, g.ecg_resnet_se_1d, g.har_cnn_1d),
    *(g.logmel_front_end_cnn, g.matchboxnet_1d, g.radar_conv3d, g.streaming_tcn_states, g.tc_resnet8_1d),
    *(g.tcn_causal_1d, g.unrolled_gru_cell, g.wavenet_gated_1d),
    *(s.bilstm_har, s.crnn_conv_gru, s.denoise_mask_gru_multi_io, s.embedding_text_intent, s.gru_kws),
    *(s.gru_streaming_state, s.lstm_kws, s.lstm_streaming_state_vad, s.transformer_text_encoder),
)
"""Networks that are called like their functions."""

NETWORKS: Mapping[str, Callable[[], ModelProto]] = dict(
    sorted(
        {
            **PUBLISHED,
            **{build.__name__: build for build in BUILT},
            "kwt_keyword_transformer": s.kwt_keyword_transformer,
            "mlp_mixer_32": s.mlp_mixer_32,
            "vit_tiny_32": s.vit_tiny_32,
        }.items(),
        key=lambda item: item[0].lower(),
    )
)
"""All of them, in the order of their names."""
