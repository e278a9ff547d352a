"""Writes the seeds of fuzz_ranges into corpus/ranges, which tests/unit/calib/test_ranges.c reads as
well: calibration files of other tools. Those of onnxruntime are made by onnxruntime itself, from the
same two tensors; the others as their tools lay them out.
Needs onnxruntime and flatbuffers: python3 make_ranges_seeds.py"""
import os

import numpy as np
import onnxruntime
from onnxruntime.quantization.calibrate import (CalibrationMethod, TensorData, TensorsData,
                                                save_tensors_data)
from onnxruntime.quantization.quant_utils import write_calibration_table

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "ranges")
os.makedirs(FOLDER, exist_ok=True)
os.chdir(FOLDER)


def data(low, high):
    return TensorData(lowest=np.float32(low), highest=np.float32(high))


tensors = {"input": data(-2.0, 2.5), "conv1/relu:0": data(0.0, 7.25)}
save_tensors_data(TensorsData(CalibrationMethod.MinMax, tensors), "ort_cache.json")
write_calibration_table({k: TensorData(lowest=np.array(v.lowest), highest=np.array(v.highest))
                         for k, v in tensors.items()}, ".")
for name in ("json", "cache", "flatbuffers"):
    os.replace(f"calibration.{name}", f"ort_calibration.{name}")
print("onnxruntime", onnxruntime.__version__)

TEXTS = {
    "trt.calib": "TRT-8205-EntropyCalibration2\ninput: 3b810a13\ninput.1: 3c96d93c\n"
                 "(Unnamed Layer* 22) [Constant]_output: 3a4b050c\nconv1/relu:0: 3d69d3a7\n",
    "ncnn.table": "conv1_param_0 156.639840 97.130000 \nfc_param_0 31.500000 \n#conv2_param_0 1.0 \n"
                  "conv1 121.931389 \nfc 63.500000 \n",
    "ppq.json": '{"act_quant_info": {"input": 2.5, "conv1/relu:0": 7.25}}',
    "aimet_061.encodings": """{"version": "0.6.1", "activation_encodings": {
 "input": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "max": 1.55, "min": -1.0,
            "offset": -100, "scale": 0.01}],
 "conv1/relu:0": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "max": 1.27, "min": -1.28,
                   "offset": -128, "scale": 0.01}],
 "half": [{"bitwidth": 16, "dtype": "float"}]}, "param_encodings": {}}""",
    "aimet_100.encodings": """{"version": "1.0.0", "activation_encodings": [
 {"name": "input", "bw": 8, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": false,
  "offset": [-100], "scale": [0.01]}], "param_encodings": []}""",
}
for name, text in TEXTS.items():
    with open(name, "w") as file:
        file.write(text)
