"""ort_formats.py JSON FLATBUFFERS MODEL QDQ: reads what `calib export` wrote with onnxruntime's own
readers, and quantizes the model by it."""
import sys

import onnxruntime
from onnxruntime.quantization import quantize_static
from onnxruntime.quantization.calibrate import load_tensors_data
import onnxruntime.quantization.CalTableFlatBuffers.TrtTable as TrtTable

ranges = {name: (float(t.lowest), float(t.highest)) for name, t in
          load_tensors_data(sys.argv[1]).items()}
table = TrtTable.TrtTable.GetRootAsTrtTable(open(sys.argv[2], "rb").read(), 0)
largest = {table.Dict(i).Key().decode(): float(table.Dict(i).Value())
           for i in range(table.DictLength())}
assert ranges.keys() >= largest.keys() and largest  # beside what a Relu reads
for name, amax in largest.items():
    low, high = ranges[name]
    assert abs(amax - max(abs(low), abs(high))) <= 1e-6 * amax, name
quantize_static(sys.argv[3], sys.argv[4], None, calibration_cache_path=sys.argv[1])
onnxruntime.InferenceSession(sys.argv[4])
print(len(ranges), "tensors")
