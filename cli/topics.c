#include "topics.h"

#include <string.h>

const qb_topic qb_topics[] = {
    {"exit-codes", "what a command's exit code says",
     "0    done; for gate and verify: every check held\n"
     "1    failure: a file, a model or the machine; the message names it\n"
     "2    usage: an option or argument that makes no sense\n"
     "3    a check did not hold: an accuracy drop over the limit, a failed test case\n"
     "130  interrupted by Ctrl-C or SIGTERM; files written before are whole\n"},
    {"environment", "environment variables",
     "NO_COLOR  set: messages without color\n"
     "PATH      gnuplot is looked up in it when charts are drawn\n"},
    {"files", "what is read and written, and where",
     "qbench.yaml           settings of a project: written by init, read by all commands\n"
     "MODEL.json            preprocessing and labels beside a model, read where present\n"
     "MODEL.calib.h5        statistics and ranges: written by calibrate\n"
     "MODEL.calib.h5.part   a calibration under way, for calibrate --resume\n"
     "MODEL.qdq.onnx        explicit Q/DQ model: written by quantize\n"
     "MODEL.PRECISION.qbe   engine file: written by build, read by bench\n"
     "MODEL.search.qbe      the plan that search picked: also MODEL.search.plan.json and\n"
     "                      MODEL.search.qdq.onnx; MODEL.search.json: all that it measured,\n"
     "                      MODEL.search.part: for search --resume\n"
     "compare.json          the measurements: written by compare, read by gate and report\n"
     "qbench.run.json       what run made its files from\n"
     "report.html           the page for those who decide; also report -o FILE.pdf\n"
     "figures/              charts with their data (.tsv) and script (.gp)\n"
     "\n"
     "Artifacts go to the current folder, or to where -o says. A file appears as a\n"
     "whole or not at all: a killed run leaves the old one. A link in its place is\n"
     "replaced, not followed.\n"
     "\n"
     "What a model or MODEL.json names (weights, labels) must lie in its folder;\n"
     "--allow-outside PATH allows more.\n"},
    {"data", "what --data can be",
     "Images (JPEG, PNG), prepared as the model's JSON file or qbench.yaml says:\n"
     "  DIR/CLASS/NAME.jpg          class folders\n"
     "  DIR/NAME.jpg                a flat folder, without labels\n"
     "  LIST.txt                    lines: path [TAB label]\n"
     "  TABLE.csv                   columns path and label, under usual names\n"
     "  train-{00..09}.tar          WebDataset shards: 0001.jpg, 0001.cls; also a folder of them\n"
     "  train-{00..09}.tfrecord     tf.train.Example with image files and labels\n"
     "  DIR/data.mdb                LMDB of image files or Caffe's Datum\n"
     "  FILE.h5                     images [N,H,W,C] of bytes, labels [N]\n"
     "\n"
     "For a model that makes images, compare --targets names what they should become: any\n"
     "of these, in the same order, at the output's size; FILE.h5 may hold them as targets.\n"
     "\n"
     "Tensors, which go into the model as they are, for any number and type of inputs:\n"
     "  FILE.h5                     a dataset [N,...] for each input, labels [N]\n"
     "  FILE.npz, FILE.npy          the same as numpy.savez(_compressed) or save writes it\n"
     "  DIR/NAME.npz                a sample a file, each at its own shape; also .npy, .pb\n"
     "  DIR/NAME.bin                raw elements; --shapes where the model leaves them open\n"
     "  DIR/SAMPLE/INPUT.npy        a sample a folder, a file for each input; also .bin\n"
     "  DIR/test_data_set_0/        ONNX test data: input_0.pb, input_1.pb, ...\n"
     "  DIR/CLASS/NAME.npy          class folders; LIST.txt of such files with labels\n"
     "\n"
     "Inputs are found by name, or by position where there is none; an axis for the batch\n"
     "may be missing. Samples may differ in size where the model's axes are open.\n"
     "\n"
     "  qbench calibrate bert.onnx --data tokens.npz\n"
     "  qbench calibrate net.onnx --data raw/ --shapes image:1x3x224x224\n"
     "\n"
     "'qbench data doctor' looks for what is wrong with a set.\n"},
    {"precisions", "what compare can be asked for",
     "fp32                    the reference; the first precision is what others are held\n"
     "                        against\n"
     "tf32                    fp32 whose products may round their factors to 10 bits; on a GPU\n"
     "fp16                    on a GPU\n"
     "bf16                    on a processor with AVX512-BF16: weights and activations of\n"
     "                        convolutions and matrix products have 8 bits of precision,\n"
     "                        sums are in fp32; inspect --steps shows what stays in fp32\n"
     "int8                    INT8 wherever an integer kernel exists, with the calibration's\n"
     "                        chosen method\n"
     "int8:METHOD             with another one of the calibration: int8:percentile:99.9\n"
     "int8+s8-symmetric       another scheme: u8-affine, s8-affine or s8-symmetric\n"
     "int8+per-tensor         one weight scale a tensor instead of one a channel\n"
     "int8+weights-mse        weight ranges of least squared error\n"
     "int8+recover            the model that calibrate --recover made, by its own ranges\n"
     "best                    what the build finds fastest: of INT8, BF16 (FP16 on a GPU) and\n"
     "                        FP32, group by group; what follows int8 may follow it, too\n"
     "FILE.onnx               another model with the same inputs and outputs\n"
     "FILE.qbe                an engine that build made, for the same batch and threads\n"
     "\n"
     "Parts combine: int8:minmax+s8-symmetric+per-tensor\n"
     "\n"
     "Behind an @ stands where it runs, so that one run compares backends too:\n"
     "\n"
     "...@cuda                the GPU (@cuda,cpu: the CPU takes what it cannot)\n"
     "...@cpu                 the CPU, with all kernels: the default without --providers\n"
     "...@dnnl, ...@ref       only oneDNN, only the scalar reference; lists as --backends\n"
     "                        takes them (@cpu,ref: the own kernels alone)\n"
     "\n"
     "  qbench compare fp32 fp32@dnnl int8 int8@ref other.onnx@dnnl\n"
     "\n"
     "What this build or machine lacks is an error. An engine file runs on what it was\n"
     "built for. gate --precision int8@dnnl names such a row.\n"},
    {"numbers", "definitions of what is measured",
     "top-1, top-5   samples whose label is the largest, among the five largest outputs\n"
     "drop           points of top-1 lost against the first precision\n"
     "agreement      samples with the first precision's top-1 class\n"
     "SQNR           10 log10(sum ref^2 / sum (ref - q)^2) over all samples, on the value\n"
     "               before a final Softmax or ArgMax\n"
     "PSNR           10 log10(peak^2 / mean squared error) an image against FP32's output,\n"
     "               averaged; PSNR to target: against the true image, in pixels of 0..255\n"
     "latency        host time of one run of a batch, after warm-up; engines alternate,\n"
     "               so that all of them see the same noise\n"
     "speed-up       the first precision's median latency over this one's\n"
     "throughput     items of a batch over the mean latency\n"
     "weights        constants that a run reads; arena: activations of one context\n"},
    {"providers", "where nodes run: a GPU, the CPU",
     "--providers cuda,cpu: each node runs on the GPU where it can, else on the CPU;\n"
     "copies are planned where the two meet. inspect --steps says for each step where it\n"
     "runs and, on the CPU, why not on the GPU. --providers cpu, and no option: the CPU.\n"
     "\n"
     "A provider that is not there (no GPU, or a qbench without CUDA) is passed over with\n"
     "one warning, and the CPU stands last whether it is named or not, as in onnxruntime:\n"
     "the same model and command run everywhere. Results and compare.json name the\n"
     "provider that really ran.\n"
     "\n"
     "--backends chooses families of kernels (cpu, dnnl, ref) to compare or to debug; there\n"
     "what is missing is an error. --backends cuda is the GPU, or an error.\n"},
    {"plugins", "operators of your own",
     "A plugin is a shared library of operators in ONNX domains of their own\n"
     "(qbench/plugin.h). --plugin LIB.so loads one for a command; qbench.yaml names those\n"
     "of a project under plugins: [LIB.so, ...]. Its nodes are calibrated, quantized by the\n"
     "plugin's rule, measured and shown like others. An engine file knows which plugins it\n"
     "needs, by name and version, and is refused without them.\n"
     "\n"
     "  qbench plugin new NAME         a plugin that compiles, to start from\n"
     "  qbench plugin inspect LIB.so   what a plugin says of itself\n"},
    {"quantization", "the arithmetic of INT8 in qbench",
     "v = S (q - Z): a float v from its quantized value q, scale S and zero point Z.\n"
     "\n"
     "Activations are u8, with one scale and zero point a tensor; Z = 0 where a tensor\n"
     "is never negative. Weights are s8 with Z = 0 and one scale an output channel.\n"
     "Biases are int32 with scale S_in S_w. Sums are exact in int32; what leaves a layer\n"
     "is rounded once, to the nearest code, ties to even.\n"},
    {0},
};

const qb_topic *qb_topic_find(const char *name) {
    for (const qb_topic *topic = qb_topics; topic->name; topic++)
        if (strcmp(topic->name, name) == 0) return topic;
    return NULL;
}
