"""ort_formats.py JSON FLATBUFFERS: reads what `calib export` wrote with onnxruntime's own readers."""
import sys

from onnxruntime.quantization.calibrate import load_tensors_data
import onnxruntime.quantization.CalTableFlatBuffers.TrtTable as TrtTable

ranges = {name: (float(t.lowest), float(t.highest)) for name, t in
          load_tensors_data(sys.argv[1]).items()}
table = TrtTable.TrtTable.GetRootAsTrtTable(open(sys.argv[2], "rb").read(), 0)
largest = {table.Dict(i).Key().decode(): float(table.Dict(i).Value())
           for i in range(table.DictLength())}
assert ranges.keys() == largest.keys() and ranges
for name, (low, high) in ranges.items():
    amax = max(abs(low), abs(high))
    assert abs(largest[name] - amax) <= 1e-6 * amax, name
print(len(ranges), "tensors")
