#include "topics.h"

#include <string.h>

#include "datasets/dataset.h"

const qb_topic qb_topics[] = {
    {"exit-codes", "what a command's exit code says",
     "0    done; for gate and verify: every check held\n"
     "1    failure: a file, a model or the machine; the message names it\n"
     "2    usage: an option or argument that makes no sense\n"
     "3    a check did not hold: an accuracy drop over the limit, a failed test case\n"
     "130  interrupted by Ctrl-C or SIGTERM; files written before are whole\n",
     NULL},
    {"environment", "environment variables",
     "NO_COLOR           set and not empty: messages without color\n"
     "PATH               gnuplot is looked up in it when charts are drawn\n"
     "QB_CPU             scalar, avx2, avx2-vnni, avx512, avx512-vnni or avx512-bf16:\n"
     "                   kernels of no more than that; oneDNN is held to it as well;\n"
     "                   empty: as not set\n"
     "QBENCH_VERIFY_KEY  the key that --require-signature checks engine files with\n"
     "SOURCE_DATE_EPOCH  the date in records and pages, in seconds since 1970\n"
     "TMPDIR             where other GPUs' engines and Chromium's files lie meanwhile\n",
     NULL},
    {"files", "what is read and written, and where",
     "qbench.yaml           settings of a project: written by init, read by all\n"
     "                      commands\n"
     "MODEL.json            preprocessing and labels beside a model, read where\n"
     "                      present\n"
     "MODEL.calib.h5        statistics and ranges: written by calibrate\n"
     "MODEL.calib.h5.part   a calibration under way, for calibrate --resume\n"
     "MODEL.qdq.onnx        explicit Q/DQ model: written by quantize\n"
     "MODEL.PRECISION.qbe   engine file: written by build, read by bench\n"
     "MODEL.search.qbe      the plan that search picked: also MODEL.search.plan.json\n"
     "                      and MODEL.search.qdq.onnx; MODEL.search.json: all that it\n"
     "                      measured, MODEL.search.part: for search --resume\n"
     "compare.json          the measurements: written by compare, read by gate and\n"
     "                      report\n"
     "qbench.run.json       what run made its files from\n"
     "report.html           the page for those who decide; also report -o FILE.pdf\n"
     "figures/              charts with their data (.tsv) and script (.gp)\n"
     "\n"
     "Artifacts go to the current folder, or to where -o says. A file appears as a\n"
     "whole or not at all: a killed run leaves the old one. A link in its place is\n"
     "replaced, not followed.\n"
     "\n"
     "What a model or MODEL.json names (weights, labels) must lie in its folder;\n"
     "--allow-outside PATH allows more.\n",
     NULL},
    {"data", "what --data can be",
     "Images (JPEG, PNG), prepared as the model's JSON file or qbench.yaml says:\n"
     "  DIR/CLASS/NAME.jpg          class folders\n"
     "  DIR/NAME.jpg                a flat folder, without labels\n"
     "  LIST.txt                    lines: path [TAB label]\n"
     "  TABLE.csv                   columns path and label, under usual names\n"
     "  train-{00..09}.tar          WebDataset shards: 0001.jpg, 0001.cls; also\n"
     "                              .tar.gz, .tar.zst, a folder of them\n"
     "  train-{00..09}.tfrecord     tf.train.Example with image files and labels\n"
     "  DIR/data.mdb                LMDB of image files or Caffe's Datum\n"
     "  FILE.h5                     images [N,H,W,C] of bytes, labels [N]\n"
     "\n"
     "For a model that makes images, compare --targets names what they should become:\n"
     "any of these, in the same order, at the output's size; FILE.h5 may hold them as\n"
     "targets.\n"
     "\n"
     "Tensors, which go into the model as they are, for any number and type of inputs:\n"
     "  FILE.h5                     a dataset [N,...] for each input, labels [N]\n"
     "  FILE.npz, FILE.npy          the same as numpy.savez(_compressed) or save\n"
     "                              writes it\n"
     "  DIR/NAME.npz                a sample a file, each at its own shape; also\n"
     "                              .npy, .pb\n"
     "  DIR/NAME.bin                raw elements; --shapes where the model leaves\n"
     "                              them open\n"
     "  DIR/SAMPLE/INPUT.npy        a sample a folder, a file for each input; also\n"
     "                              .bin\n"
     "  DIR/test_data_set_0/        ONNX test data: input_0.pb, input_1.pb, ...\n"
     "  DIR/CLASS/NAME.npy          class folders; LIST.txt of such files with labels\n"
     "\n"
     "Inputs are found by name, or by position where there is none; an axis for the\n"
     "batch may be missing. Samples may differ in size where the model's axes are\n"
     "open.\n"
     "\n"
     "  qbench calibrate bert.onnx --data tokens.npz\n"
     "  qbench calibrate net.onnx --data raw/ --shapes image:1x3x224x224\n"
     "\n"
     "'qbench data doctor' looks for what is wrong with a set.\n"
     "\n"
     "All kinds, in the order in which they are tried:\n",
     qb_dataset_format_row},
    {"precisions", "what compare can be asked for",
     "fp32                    the reference; the first precision is what others are\n"
     "                        held against\n"
     "tf32                    fp32 whose products may round their factors to 10 bits;\n"
     "                        on a GPU\n"
     "fp16                    on a GPU\n"
     "bf16                    on a processor with AVX512-BF16: weights and\n"
     "                        activations of convolutions and matrix products have 8\n"
     "                        bits of precision, sums are in fp32; inspect --steps\n"
     "                        shows what stays in fp32\n"
     "int8                    INT8 wherever an integer kernel exists, with the\n"
     "                        calibration's chosen method\n"
     "int8:METHOD             with another one of the calibration:\n"
     "                        int8:percentile:99.9\n"
     "int8+s8-symmetric       another scheme: u8-affine, s8-affine or s8-symmetric\n"
     "int8+per-tensor         one weight scale a tensor instead of one a channel\n"
     "int8+weights-mse        weight ranges of least squared error\n"
     "int8+recover            the model that calibrate --recover made, by its own\n"
     "                        ranges\n"
     "best                    what the build finds fastest: of INT8, BF16 (FP16 on a\n"
     "                        GPU) and FP32, group by group; what follows int8 may\n"
     "                        follow it, too\n"
     "FILE.onnx               another model with the same inputs and outputs\n"
     "FILE.qbe                an engine that build made, for the same batch and\n"
     "                        threads\n"
     "\n"
     "Parts combine: int8:minmax+s8-symmetric+per-tensor\n"
     "\n"
     "Behind an @ stands where it runs, so that one run compares backends too:\n"
     "\n"
     "...@cuda                the GPU (@cuda,cpu: the CPU takes what it cannot)\n"
     "...@cpu                 the CPU, with all kernels: the default without\n"
     "                        --providers\n"
     "...@dnnl, ...@ref       only oneDNN, only the scalar reference; lists as\n"
     "                        --backends takes them (@cpu,ref: the own kernels alone)\n"
     "\n"
     "  qbench compare fp32 fp32@dnnl int8 int8@ref other.onnx@dnnl\n"
     "\n"
     "What this build or machine lacks is an error. An engine file runs on what it was\n"
     "built for. gate --precision int8@dnnl names such a row.\n",
     NULL},
    {"numbers", "definitions of what is measured",
     "top-1, top-5   samples whose label is the largest, among the five largest\n"
     "               outputs\n"
     "drop           points of top-1 lost against the first precision\n"
     "agreement      samples with the first precision's top-1 class\n"
     "SQNR           10 log10(sum ref^2 / sum (ref - q)^2) over all samples, on the\n"
     "               value before a final Softmax or ArgMax\n"
     "PSNR           10 log10(peak^2 / mean squared error) an image against FP32's\n"
     "               output, averaged; PSNR to target: against the true image, in\n"
     "               pixels of 0..255\n"
     "latency        host time of one run of a batch, after warm-up; engines\n"
     "               alternate, so that all of them see the same noise\n"
     "speed-up       the first precision's median latency over this one's\n"
     "throughput     items of a batch over the mean latency\n"
     "weights        constants that a run reads; arena: activations of one context\n",
     NULL},
    {"providers", "where nodes run: a GPU, the CPU",
     "--providers cuda,cpu: each node runs on the GPU where it can, else on the CPU;\n"
     "copies are planned where the two meet. inspect --steps says for each step where\n"
     "it runs and, on the CPU, why not on the GPU. --providers cpu, and no option:\n"
     "the CPU.\n"
     "\n"
     "A provider that is not there (no GPU, or a qbench without CUDA) is passed over\n"
     "with one warning, and the CPU stands last whether it is named or not, as in\n"
     "onnxruntime: the same model and command run everywhere. Results and\n"
     "compare.json name the provider that really ran.\n"
     "\n"
     "--backends chooses families of kernels (cpu, dnnl, ref) to compare or to debug;\n"
     "there what is missing is an error. --backends cuda is the GPU, or an error.\n",
     NULL},
    {"plugins", "operators of your own",
     "A plugin is a shared library of operators in ONNX domains of their own\n"
     "(qbench/plugin.h). --plugin LIB.so loads one for a command; qbench.yaml names\n"
     "those of a project under plugins: [LIB.so, ...]. Its nodes are calibrated,\n"
     "quantized by the plugin's rule, measured and shown like others. An engine file\n"
     "knows which plugins it needs, by name and version, and is refused without them.\n"
     "\n"
     "  qbench plugin new NAME         a plugin that compiles, to start from\n"
     "  qbench plugin inspect LIB.so   what a plugin says of itself\n",
     NULL},
    {"quantization", "the arithmetic of INT8 in qbench",
     "v = S (q - Z): a float v from its quantized value q, scale S and zero point Z.\n"
     "\n"
     "Activations are u8, with one scale and zero point a tensor; Z = 0 where a\n"
     "tensor is never negative. Weights are s8 with Z = 0 and one scale an output\n"
     "channel. Biases are int32 with scale S_in S_w. Sums are exact in int32; what\n"
     "leaves a layer is rounded once, to the nearest code, ties to even.\n",
     NULL},
    {0},
};

const qb_topic *qb_topic_find(const char *name) {
    for (const qb_topic *topic = qb_topics; topic->name; topic++)
        if (strcmp(topic->name, name) == 0) return topic;
    return NULL;
}

/* Words of a row behind its name, as many to a line as fit. */
static void put_row(qb_strbuf *out, const char *name, const char *text) {
    enum { COLUMN = 18, WIDTH = 80 };
    int at = COLUMN;
    qb_strbuf_addf(out, "  %-*s", COLUMN - 3, name);
    for (size_t n; *text; text += n + (text[n] == ' ')) {
        n = strcspn(text, " ");
        if (at + 1 + (int)n > WIDTH) {
            qb_strbuf_addf(out, "\n%*s", COLUMN - 1, "");
            at = COLUMN;
        }
        qb_strbuf_addf(out, " %.*s", (int)n, text);
        at += 1 + (int)n;
    }
    qb_strbuf_add(out, "\n");
}

void qb_topic_put(const qb_topic *topic, qb_strbuf *out) {
    const char *name, *text;
    qb_strbuf_add(out, topic->text);
    for (int i = 0; topic->row && (name = topic->row(i, &text)); i++) put_row(out, name, text);
}
