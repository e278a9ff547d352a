/* Shapes that operators infer, with symbols, and what they refuse. */
#include "op_text.h"

#include <stdio.h>
#include <string.h>

/* The expected outputs, separated by "|"; or "!" and a part of the error message. */
typedef struct row {
    const char *op, *inputs, *attrs, *expected;
} row;

static const row rows[] = {
    /* windows keep the batch symbol; a spatial one only where the window keeps the size */
    {"Conv", "f32:N,3,8,9 f32:6,3,3,3", "", "N,6,6,7"},
    {"Conv", "f32:N,3,8,9 f32:6,3,3,3", "strides=2,2 pads=1,1,1,1", "N,6,4,5"},
    {"Conv", "f32:N,3,8,9 f32:6,3,3,3", "auto_pad=SAME_UPPER strides=3,2", "N,6,3,5"},
    {"Conv", "f32:N,3,8,9 f32:6,3,3,3", "auto_pad=VALID dilations=2,2", "N,6,4,5"},
    {"Conv", "f32:N,3,M,K f32:6,3,3,1", "pads=1,0,1,0", "N,6,M,K"},
    {"Conv", "f32:N,3,M,K f32:6,3,3,3", "", "N,6,?,?"},
    {"Conv", "f32:N,3,M,K f32:6,3,3,3", "auto_pad=SAME_LOWER", "N,6,M,K"},
    {"Conv", "f32:N,4,5 f32:6,2,5 f32:6", "group=2", "N,6,1"},
    {"Conv", "f32:* f32:6,3,3,3", "", "*"},
    {"Conv", "f32:1,3,8,8 f32:6,4,3,3", "",
     "!weight dimension 1 (input channels / group): expected 3, got 4"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "group=2",
     "!3 input channels are not divisible by group 2"},
    {"Conv", "f32:1,4,8,8 f32:5,2,3,3", "group=2",
     "!5 output channels are not divisible by group 2"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "group=0", "!attribute group: expected at least 1, got 0"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "strides=0,1",
     "!attribute strides: expected values from 1"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "strides=1,1,1",
     "!attribute strides: expected 2 values, got 3"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "pads=0,0,-1,0", "!attribute pads: expected values from 0"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "kernel_shape=3,5",
     "!attribute kernel_shape: expected the weight's 3, got 5"},
    {"Conv", "f32:1,3,2,8 f32:6,3,3,3", "",
     "!size 2 with padding 0 is smaller than the window's extent 3"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3 f32:5", "",
     "!bias size (output channels): expected 6, got 5"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "auto_pad=SOME", "!got 'SOME'"},
    {"Conv", "f32:1,3 f32:6,3", "", "!expected rank 3 to 5, got 2 (1x3)"},
    {"Conv", "f32:1,3,8,8 u8:6,3,3,3", "", "!expected type f32, got u8"},
    {"Conv", "f32:1,3,8,8 f32:6,3,3,3", "dilations=2147483647,1",
     "!smaller than the window's extent 4294967295"},
    {"ConvTranspose", "f32:N,6,4,4 f32:6,3,3,3", "strides=2,2", "N,3,9,9"},
    {"ConvTranspose", "f32:N,6,4,4 f32:6,3,3,3", "strides=2,2 pads=1,1,1,1 output_padding=1,1",
     "N,3,8,8"},
    {"ConvTranspose", "f32:N,6,4,4 f32:6,3,3,3", "group=2 output_shape=10,10 strides=2,2",
     "N,6,10,10"},
    {"ConvTranspose", "f32:N,6,4,4 f32:6,3,3,3", "strides=2,2 auto_pad=SAME_UPPER", "N,3,8,8"},
    {"ConvTranspose", "f32:N,6,M,4 f32:6,3,3,3", "", "N,3,?,6"},
    {"ConvTranspose", "f32:N,6,4,4 f32:5,3,3,3", "",
     "!weight dimension 0 (input channels): expected 6, got 5"},
    {"ConvTranspose", "f32:N,6,1,4 f32:6,3,3,3", "pads=4,0,4,0", "!gives output size -5"},
    {"MaxPool", "f32:N,3,8,8", "kernel_shape=3,3 strides=2,2", "N,3,3,3"},
    {"MaxPool", "f32:N,3,8,8", "kernel_shape=3,3 strides=2,2 ceil_mode=1", "N,3,4,4"},
    /* the window that ceil_mode adds would start in the padding behind the data */
    {"MaxPool", "f32:1,1,2,2", "kernel_shape=1,1 strides=2,2 ceil_mode=1", "1,1,1,1"},
    {"MaxPool", "f32:N,3,8,8", "kernel_shape=2,2", "N,3,7,7|N,3,7,7"},
    {"MaxPool", "f32:N,3,8,8", "", "!attribute kernel_shape is required"},
    {"AveragePool", "f32:N,3,8,8", "kernel_shape=3,3 auto_pad=SAME_UPPER strides=2,2", "N,3,4,4"},
    {"GlobalAveragePool", "f32:N,3,M,8", "", "N,3,1,1"},
    /* products */
    {"MatMul", "f32:N,4,5 f32:5,6", "", "N,4,6"},
    {"MatMul", "f32:5 f32:N,5,6", "", "N,6"},
    {"MatMul", "f32:4,5 f32:5", "", "4"},
    {"MatMul", "f32:5 f32:5", "", ""},
    {"MatMul", "f32:2,4,5 f32:3,5,6", "",
     "!leading dimensions: shapes 2 and 3 cannot be broadcast"},
    {"MatMul", "f32:4,5 f32:6,7", "", "!inner dimensions of 4x5 and 6x7 differ: 5 and 6"},
    {"Gemm", "f32:N,5 f32:6,5 f32:6", "transB=1", "N,6"},
    {"Gemm", "f32:5,N f32:5,6", "transA=1", "N,6"},
    {"Gemm", "f32:4,5 f32:5,6 f32:4,1", "", "4,6"},
    {"Gemm", "f32:4,5 f32:5,1 f32:6", "", "!dimension 1 does not broadcast to 1"},
    {"Gemm", "f32:4,5 f32:5,6 f32:7", "", "!cannot be broadcast"},
    /* broadcasting: a size other than 1 beats a symbol, two symbols give nothing */
    {"Add", "f32:N,3,1 f32:3,M", "", "N,3,M"},
    {"Add", "f32:N,3 f32:N,1", "", "N,3"},
    {"Add", "f32:N,3 f32:4,3", "", "4,3"},
    {"Add", "f32:N,3 f32:M,3", "", "?,3"},
    {"Add", "f32:2,3 f32:2,4", "", "!shapes 2x3 and 2x4 cannot be broadcast"},
    {"Add", "f32:2 s64:2", "", "!expected type f32, got s64"},
    {"PRelu", "f32:N,3,4 f32:3,1", "", "N,3,4"},
    {"PRelu", "f32:3,4 f32:2,3,4", "", "!slope of shape 2x3x4 does not broadcast to the data"},
    {"Where", "bool:N,1 f32:3 f32:", "", "N,3"},
    {"Where", "f32:N,1 f32:3 f32:3", "", "!expected type bool, got f32"},
    {"Equal", "f32:N,3 f32:", "", "N,3"},
    {"Sum", "f32:N,1 f32:3 f32:N,3", "", "N,3"},
    /* reshaping */
    {"Reshape", "f32:N,512,1,1 =-1,512", "", "N,512"},
    {"Reshape", "f32:N,512,7,7 =0,-1", "", "N,25088"},
    {"Reshape", "f32:N,6,4 =-1,4", "", "?,4"},
    {"Reshape", "f32:N,M,4 =0,-1,2,2", "", "N,M,2,2"},
    {"Reshape", "f32:2,3,4 =0,-1", "", "2,12"},
    {"Reshape", "f32:2,3,4 =0,5", "", "!(24 elements) cannot become 2x5 (10)"},
    {"Reshape", "f32:2,3,4 =-1,5", "", "!24 elements do not divide into rows of 5"},
    {"Reshape", "f32:2,3 =-1,-1", "", "!-1 at 0 and 1"},
    {"Reshape", "f32:2,3 =2,3,0", "", "!0 at 2, but the data has rank 2"},
    {"Reshape", "f32:0,3 =3,0", "allowzero=1", "3,0"},
    {"Reshape", "f32:2,3 =-2,3", "", "!expected at least -1 at 0, got -2"},
    {"Reshape", "f32:2,3 s64:4", "", "?,?,?,?"},
    {"Reshape", "f32:2,3 s64:*", "", "*"},
    {"Flatten", "f32:N,3,4,5", "", "N,60"},
    {"Flatten", "f32:N,3,4,5", "axis=-2", "?,20"},
    {"Flatten", "f32:N,3", "axis=0", "1,?"},
    {"Flatten", "f32:2,3", "axis=3", "!axis: expected -2 to 2 for rank 2, got 3"},
    {"Squeeze", "f32:N,1,4,1 =1,-1", "", "N,4"},
    {"Squeeze", "f32:2,1,4,1", "", "2,4"},
    {"Squeeze", "f32:N,1", "", "*"},
    {"Squeeze", "f32:2,3 =1", "", "!axis 1: expected size 1, got 3"},
    {"Unsqueeze", "f32:N,3 =0,-1", "", "1,N,3,1"},
    {"Unsqueeze", "f32:N,3 =0,0", "", "!axis 0 is given twice"},
    {"Transpose", "f32:N,3,4,5", "perm=0,2,3,1", "N,4,5,3"},
    {"Transpose", "f32:N,3,4", "", "4,3,N"},
    {"Transpose", "f32:2,3", "perm=0,0", "!expected a permutation"},
    /* moving */
    {"Concat", "f32:N,3,8 f32:N,5,8", "axis=1", "N,8,8"},
    {"Concat", "f32:N,3 f32:2,3", "axis=1", "2,6"},
    {"Concat", "f32:N,3 f32:N,3", "axis=0", "?,3"},
    {"Concat", "f32:2,3 f32:3,3", "axis=1", "!dimension 0: expected 2, got 3"},
    {"Concat", "f32:2,3 f32:2", "axis=1", "!expected rank 2, got 1"},
    {"Split", "f32:N,7", "axis=1", "N,4|N,3"},
    {"Split", "f32:N,7", "axis=1 num_outputs=2", "N,4|N,3"},
    {"Split", "f32:N,7", "axis=1 num_outputs=3", "!num_outputs: expected 2 as there are, got 3|"},
    {"Split", "f32:N,7 =2,5", "axis=1", "N,2|N,5"},
    {"Split", "f32:N,7 =2,4", "axis=1", "!the sizes add up to 6, expected 7|"},
    {"Split", "f32:N,7 =7", "axis=1", "!expected 2 sizes, got 1|"},
    {"Slice", "f32:N,10,4 =1,0 =-1,9999999999 =1,0", "", "N,8,4"},
    {"Slice", "f32:10 =8 =0 =0 =-3", "", "3"},
    {"Slice", "f32:N,4 =1 =3", "", "?,4"},
    {"Slice", "f32:10 =0 =5 =0 =0", "", "!step along axis 0: expected not 0"},
    {"Slice", "f32:10 =8 =-99 =0 =-9223372036854775808", "", "1"},
    {"Slice", "f32:10 =0,0 =5", "", "!as many ends, axes and steps as starts (2)"},
    {"Slice", "f32:10 =20 =30", "", "0"},
    {"Gather", "f32:N,5,4 s64:2,3", "axis=1", "N,2,3,4"},
    {"Gather", "f32:N,5,4 s64:", "axis=2", "N,5"},
    {"Expand", "f32:N,1,4 =3,4", "", "N,3,4"},
    {"Tile", "f32:N,3 =1,4", "", "N,12"},
    {"Tile", "f32:4611686018427387904,1 =4,1", "", "!is too large"},
    {"Pad", "f32:N,3,4 =0,0,1,0,0,2", "", "N,3,7"},
    {"Pad", "f32:N,3,4 =-1,2 - =-2", "mode=edge", "N,4,4"},
    {"Pad", "f32:N,3,4 =1,1", "", "!pads: expected 6 values, got 2"},
    {"Pad", "f32:2,3 =0,0,0,0", "mode=mirror", "!got 'mirror'"},
    {"Pad", "f32:2,3 =0,-4,0,0", "", "!dimension 1: size 3 cannot be padded by -4"},
    {"DepthToSpace", "f32:N,12,4,5", "blocksize=2", "N,3,8,10"},
    {"DepthToSpace", "f32:N,10,4,5", "blocksize=2", "!channels: 10 is not divisible by 4"},
    {"SpaceToDepth", "f32:N,3,8,M", "blocksize=2", "N,12,4,?"},
    {"Resize", "f32:N,3,4,5 - =f32:1,1,2,2.5", "", "N,3,8,12"},
    {"Resize", "f32:N,3,4,5 - - =1,3,7,7", "", "1,3,7,7"},
    {"Resize", "f32:N,3,4,8 - - =6,6", "axes=2,3 keep_aspect_ratio_policy=not_larger", "N,3,3,6"},
    {"Resize", "f32:N,3,4,8 - - =6,6", "axes=2,3 keep_aspect_ratio_policy=not_smaller", "N,3,6,12"},
    {"Resize", "f32:N,3,M,5 - =f32:1,1,2,2", "", "N,3,?,10"},
    {"Resize", "f32:1,3,4,5 - =f32:1,1,0,2", "", "!scales: expected more than 0, got 0"},
    {"Resize", "f32:1,3,4,5 - =f32:1,1,2,2 =1,3,8,10", "", "!expected scales or sizes, got both"},
    {"Resize", "f32:1,3,4,5 - =1,1,2,2", "", "!scales: type s64 is not supported"},
    {"Resize", "f32:1,2 =f32:0,nan,1,1 =f32:1,2",
     "coordinate_transformation_mode=tf_crop_and_resize", "!roi: expected finite numbers, got nan"},
    {"Resize", "f32:1,3,4,5 - =f32:2,2", "", "!scales: expected 4 values, got 2"},
    {"Resize", "f32:1,3,4,5 - =f32:1,1,2,2", "mode=area",
     "!attribute mode: 'area' is not supported"},
    /* reductions and the rest */
    {"ReduceMean", "f32:N,3,4,5 =2,3", "", "N,3,1,1"},
    {"ReduceMean", "f32:N,3,4,5 =-1", "keepdims=0", "N,3,4"},
    {"ReduceSum", "f32:N,3", "", "1,1"},
    {"ReduceSum", "f32:N,3", "noop_with_empty_axes=1", "N,3"},
    {"ReduceMax", "f32:N,3 =2", "", "!axis: expected -2 to 1 for rank 2, got 2"},
    {"ArgMax", "f32:N,3,4", "axis=1 keepdims=0", "N,4"},
    {"Softmax", "f32:N,3", "axis=2", "!axis: expected -2 to 1 for rank 2, got 2"},
    {"BatchNormalization", "f32:N,3,4 f32:3 f32:3 f32:3 f32:3", "", "N,3,4"},
    {"BatchNormalization", "f32:N,3,4 f32:3 f32:2 f32:3 f32:3", "", "!expected 3 channels, got 2"},
    {"LayerNormalization", "f32:N,3,4 s64:4", "", "!expected a float type, got s64"},
    {"LayerNormalization", "f32:N,3,4 f32:4 u8:4", "", "!expected a float type, got u8"},
    {"RMSNormalization", "f32:N,3,4 s8:4", "", "!expected a float type, got s8"},
    {"GroupNormalization", "f32:N,4,3 f32:4 bool:4", "num_groups=2",
     "!expected a float type, got bool"},
    {"RotaryEmbedding", "f32:N,2,3,4 s32:N,3,2 f32:N,3,2", "", "!expected a float type, got s32"},
    {"Attention", "f32:N,2,3,4 s64:N,2,3,4 f32:N,2,3,4", "", "!expected a float type, got s64"},
    {"Attention", "f32:N,2,3,4 f32:N,2,3,4 bool:N,2,3,4", "", "!expected a float type, got bool"},
    {"LayerNormalization", "f32:N,3,4 f32:4 f32:4", "", "N,3,4|N,3,1|N,3,1"},
    {"Shape", "f32:N,3,4", "start=1", "2"},
    {"Shape", "f32:N,3,4", "start=-2 end=-1", "1"},
    {"Range", "=1 =10 =4", "", "3"},
    {"Range", "=1 =10 =0", "", "!no range from 1 to 10 by 0"},
    {"ConstantOfShape", "=2,3", "", "2,3"},
    {"ConstantOfShape", "=2,-3", "", "!dimension 1: expected at least 0, got -3"},
    {"ConstantOfShape", "=4611686018427387904,4", "", "!is too large"},
    {"Clip", "f32:N,3 =f32:0 =f32:6", "", "N,3"},
    {"Clip", "f32:N,3 =f32:0,1", "", "!expected one number, got 2"},
    {"Dropout", "f32:N,3", "", "N,3|N,3"},
    {"Dropout", "f32:N,3 - =bool:1", "", "!training_mode: expected false, got true"},
    {"QuantizeLinear", "f32:N,3 f32:3 s8:3", "", "N,3"},
    {"QuantizeLinear", "f32:N,3 f32:2 s8:2", "", "!scale: expected 3 elements (axis 1), got 2"},
    {"DequantizeLinear", "u8:N,3 f32: u8:", "", "N,3"},
    {"DequantizeLinear", "u8:N,3 f32: s8:", "", "!expected type u8, got s8"},
    {"Cast", "f32:N,3", "to=8", "!attribute to: type 8 is not supported"},
    /* regions, sequences, chosen elements and spectra */
    {"RoiAlign", "f32:1,5,8,8 f32:N,4 s64:N", "output_height=3 output_width=2", "N,5,3,2"},
    {"RoiAlign", "f32:1,5,8,8 f32:N,5 s64:N", "", "!rois: expected 4 coordinates, got 5"},
    {"RoiAlign", "f32:1,5,8,8 f32:2,4 s64:3", "", "!batch_indices: expected 2, got 3"},
    {"RoiAlign", "f32:1,5,8,8 f32:2,4 s64:2", "mode=sum", "!mode: expected avg or max, got 'sum'"},
    {"ReverseSequence", "f32:M,N,4 s64:N", "", "M,N,4"},
    {"ReverseSequence", "f32:6,5,4 s64:4", "", "!sequence_lens: expected 5, got 4"},
    {"ReverseSequence", "f32:6,5,4 f32:5", "", "!sequence_lens: expected type s64 or s32, got f32"},
    {"ReverseSequence", "f32:6,5 s64:5", "time_axis=1", "!another axis than batch_axis"},
    {"TensorScatter", "f32:N,2,8,4 f32:N,2,M,4 s64:N", "", "N,2,8,4"},
    {"TensorScatter", "f32:N,2,8,4 f32:N,2,9,4 s64:N", "", "!dimension 2: expected at most 8"},
    {"TensorScatter", "f32:3,2,8,4 f32:3,2,1,4 f32:3", "",
     "!write_indices: expected type s64 or s32, got f32"},
    {"TensorScatter", "f32:3,2,8,4 f32:3,2,1,4 s64:2", "", "!write_indices: expected 3, got 2"},
    {"Compress", "f32:N,3 bool:3", "axis=1", "N,?"},
    {"Compress", "f32:N,3 bool:3", "", "?"},
    {"Compress", "f32:2,3 =bool:1,0,1", "axis=1", "2,2"},
    {"Compress", "f32:2,3 f32:3", "", "!condition: expected type bool, got f32"},
    {"Unique", "f32:2,3", "", "?|?|6|?"},
    {"Unique", "f32:N,3", "axis=-1", "N,?|?|?|?"},
    {"Unique", "f32:2,3", "axis=2", "!axis: expected -2 to 1"},
    {"DFT", "f32:N,8,1", "", "N,8,2"},
    {"DFT", "f32:N,8,1 =16", "onesided=1", "N,9,2"},
    {"DFT", "f32:N,5,2", "onesided=1 inverse=1", "N,8,1"},
    {"DFT", "f32:N,M,1", "", "N,M,2"},
    {"DFT", "f32:N,M,1", "onesided=1", "N,?,2"},
    {"DFT", "f32:N,M,2", "onesided=1 inverse=1", "N,?,1"},
    {"DFT", "f32:N,8,2", "onesided=1", "!onesided: expected a real signal"},
    {"DFT", "f32:N,8,3", "", "!last dimension: expected 1 or 2, got 3"},
    {"DFT", "f32:N,8,1 - =-1", "", "!axis: expected any but the last dimension"},
    {"STFT", "f32:N,16,1 =4 f32:8", "", "N,3,5,2"},
    {"STFT", "f32:N,16,2 =4 - =8", "onesided=0", "N,3,8,2"},
    {"STFT", "f32:N,16,1 s64:1 f32:8", "", "N,?,5,2"},
    {"STFT", "f32:N,16,1 =0 f32:8", "", "!frame_step: expected 1 to"},
    {"STFT", "f32:N,16,1 =4 f32:8 =9", "", "!window: expected frame_length 9, got 8"},
    {"STFT", "f32:N,16,1 =4 - =17", "", "!frame_length: expected 1 to 16, got 17"},
    {"HannWindow", "=5", "", "5"},
    {"HannWindow", "s64:", "", "?"},
    {"HannWindow", "=-1", "", "!size: expected 0 to"},
    {"MelWeightMatrix", "=8 =16 =100 =f32:0 =f32:50", "", "9,8"},
    {"MelWeightMatrix", "=-1 =16 =100 =f32:0 =f32:50", "", "!expected one number from 0"},
    {"ConstantOfShape", "=2,-9223372036854775808", "", "!-9223372036854775808 is no size"},
    {"Expand", "f32:2 =-9223372036854775808", "", "!-9223372036854775808 is no size"},
    {"Reshape", "f32:2 =-9223372036854775808", "", "!-9223372036854775808 is no size"},
    {"AffineGrid", "f32:N,2,3 s64:4", "", "N,?,?,2"},
    {"AffineGrid", "f32:N,2,3 =2,3,5,6", "", "2,5,6,2"},
    {"AffineGrid", "f32:2,2,3 =2,3,4,5,6", "", "!theta: dimension 1: expected 3, got 2"},
    {"CenterCropPad", "f32:N,3,8,8 =4,10", "axes=2,-1", "N,3,4,10"},
    {"CenterCropPad", "f32:N,3 s64:2", "", "?,?"},
    {"CenterCropPad", "f32:N,3 =4", "", "!shape: expected 2 sizes, got 1"},
    {"Col2Im", "f32:N,8,4 =3,3 =2,2", "", "N,2,3,3"},
    {"Col2Im", "f32:N,8,4 s64:2 =2,2", "", "N,?,?,?"},
    {"Col2Im", "f32:N,8,4 =-2,3 s64:2", "", "!image_shape: expected at least 0, got -2"},
    {"Col2Im", "f32:N,8,5 =3,3 =2,2", "", "!columns: expected 4 blocks, got 5"},
    {"Col2Im", "f32:N,7,4 =3,3 =2,2", "", "!7 rows are not divisible by the block's size 4"},
    {"Col2Im", "f32:N,8,4 =3,3 =2,4", "", "!smaller than the block's extent 4"},
    {"MaxUnpool", "f32:N,3,4,5 s64:N,3,4,5", "kernel_shape=2,2 strides=2,2", "N,3,8,10"},
    {"MaxUnpool", "f32:N,3,4,5 s64:N,3,4,5 =1,3,9,9", "kernel_shape=2,2 strides=2,2",
     "!dimension 3: expected at least 10, got 9"},
    {"MaxUnpool", "f32:1,3,4,5 s64:1,3,4,4", "kernel_shape=2,2", "!I: expected the shape of X"},
    {"DeformConv", "f32:N,4,8,8 f32:6,2,3,3 f32:N,36,6,6 f32:6 f32:N,18,6,6",
     "group=2 offset_group=2", "N,6,6,6"},
    {"DeformConv", "f32:N,4,M,8 f32:6,4,3,3 f32:N,18,K,6", "", "N,6,?,6"},
    {"DeformConv", "f32:1,4,8,8 f32:6,4,3,3 f32:1,17,6,6", "", "!channels: expected 18, got 17"},
    {"DeformConv", "f32:1,4,8,8 f32:6,4,3,3 f32:1,18,6,5", "", "!width: expected 6, got 5"},
    {"DeformConv", "f32:1,4,8,8 f32:6,4,3,3 f32:1,18,6,6", "group=3", "!not divisible by group 3"},
    {"LpPool", "f32:N,3,8,8", "kernel_shape=3,3 strides=2,2 ceil_mode=1", "N,3,4,4"},
    {"GlobalLpPool", "f32:N,3,8,8", "", "N,3,1,1"},
    {"BitCast", "f32:N,3", "to=7", "!attribute to: s64 has another size than f32"},
    {"LinearAttention", "f32:N,M,8 f32:N,M,4 f32:N,M,6 - f32:N,M,2 f32:N,M,2",
     "q_num_heads=4 kv_num_heads=2", "N,M,12|N,2,2,3"},
    {"LinearAttention", "f32:1,5,8 f32:1,5,4 f32:1,5,6", "q_num_heads=4 kv_num_heads=2",
     "!update_rule gated_delta: expected an input decay"},
    {"LinearAttention", "f32:1,5,8 f32:1,5,4 f32:1,5,6", "q_num_heads=3 kv_num_heads=2",
     "!expected a multiple of 2, got 3"},
    {"LinearAttention", "f32:1,5,8 f32:1,5,8 s8:1,5,8", "q_num_heads=2 kv_num_heads=2",
     "!expected type f32, got s8"},
    {"LinearAttention", "f32:1,5,8 f32:1,5,8 f32:1,5,8 u8:1,2,4,4", "q_num_heads=2 kv_num_heads=2",
     "!past_state: expected a float type, got u8"},
    {"LinearAttention", "f32:1,5,8 f32:1,4,8 f32:1,5,8",
     "q_num_heads=1 kv_num_heads=1 update_rule=linear", "!length: expected 5, got 4"},
    {"CausalConvWithState", "f32:N,6,M f32:6,1,4 f32:6 f32:N,6,3", "", "N,6,M|N,6,3"},
    {"CausalConvWithState", "f32:N,6,M f32:6,1,4 - f32:N,6,4", "", "!dimension 2: size"},
    {"CausalConvWithState", "f32:N,6,M f32:6,1,4", "activation=relu", "!got 'relu'"},
};

static void check_row(const row *r) {
    qb_ctx cx;
    char text[256] = "", all[512] = "";
    int32_t n_out = 1;
    for (const char *c = r->expected; *c; c++) n_out += *c == '|';
    qb_ctx_init(&cx);
    qb_graph *graph = graph_of(r->op, r->inputs, r->attrs, n_out, QB_GRAPH_OPSET);
    qb_status status = qb_graph_infer(&cx, graph);
    if (r->expected[0] == '!') {
        size_t n = strcspn(r->expected + 1, "|");
        snprintf(text, sizeof text, "%.*s", (int)n, r->expected + 1);
        if (status == QB_OK || !strstr(cx.message, text))
            fail_msg("%s (%s) %s: expected an error with '%s', got '%s'", r->op, r->inputs,
                     r->attrs, text, cx.message);
    } else {
        if (status != QB_OK) fail_msg("%s (%s) %s: %s", r->op, r->inputs, r->attrs, cx.message);
        for (int32_t i = 0; i < n_out; i++) {
            const qb_shape *shape = &graph->values[graph->outputs[i]].shape;
            if (i) strcat(all, "|");
            strcat(all, dims_text(shape, text, sizeof text));
        }
        if (strcmp(all, r->expected) != 0)
            fail_msg("%s (%s) %s: expected %s, got %s", r->op, r->inputs, r->attrs, r->expected,
                     all);
    }
    qb_graph_free(graph);
}

static void operators_infer_shapes_and_refuse_what_does_not_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_row(&rows[i]);
}

static void infer_settles_types(void **state) {
    (void)state;
    static const struct {
        const char *op, *inputs, *attrs;
        qb_dtype type;
    } cases[] = {{"Shape", "f32:N", "", QB_DTYPE_S64},
                 {"Equal", "f32:N f32:N", "", QB_DTYPE_BOOL},
                 {"Cast", "f32:N", "to=10", QB_DTYPE_F16},
                 {"ArgMax", "f32:N", "", QB_DTYPE_S64},
                 {"QuantizeLinear", "f32:N f32:", "", QB_DTYPE_U8},
                 {"QuantizeLinear", "f32:N f32: s16:", "", QB_DTYPE_S16},
                 {"DequantizeLinear", "s32:N f32:", "", QB_DTYPE_F32},
                 {"ConstantOfShape", "=2", "", QB_DTYPE_F32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_graph *graph = graph_of(cases[i].op, cases[i].inputs, cases[i].attrs, 1, QB_GRAPH_OPSET);
        assert_ok(&cx, qb_graph_infer(&cx, graph));
        assert_int_equal(graph->values[graph->outputs[0]].dtype, cases[i].type);
        qb_graph_free(graph);
    }
}

static void the_table_is_sorted_and_complete(void **state) {
    (void)state;
    int32_t n;
    const qb_op *const *ops = qb_ops(&n);
    for (int32_t i = 0; i < n; i++) {
        const int order = i > 0 ? strcmp(ops[i - 1]->name, ops[i]->name) : -1;
        assert_true(order < 0 || (order == 0 && strcmp(ops[i - 1]->domain, ops[i]->domain) < 0));
        assert_ptr_equal(qb_op_find(ops[i]->name, ops[i]->domain), ops[i]);
        if (!*ops[i]->domain) assert_ptr_equal(qb_op_find(ops[i]->name, "ai.onnx"), ops[i]);
        assert_null(qb_op_find(ops[i]->name, "com.example"));
        assert_non_null(ops[i]->infer);
        assert_non_null(ops[i]->eval);
        assert_true(ops[i]->min_in <= ops[i]->max_in && ops[i]->min_out <= ops[i]->max_out);
        assert_int_equal(ops[i]->attr_size > 0, ops[i]->attrs != NULL);
        assert_int_equal(ops[i]->qrule == QB_QRULE_COMPUTE, ops[i]->weight_input >= 0);
    }
    assert_null(qb_op_find("NoSuchOperator", ""));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(operators_infer_shapes_and_refuse_what_does_not_fit),
    cmocka_unit_test(infer_settles_types),
    cmocka_unit_test(the_table_is_sorted_and_complete),
};
QB_TEST_MAIN(tests)
