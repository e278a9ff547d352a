#!/usr/bin/env bash
# qbench optimize --outputs, --inputs: parts of models; beside onnxruntime where there is one (QB_PYTHON: a python
# that has it; default: python3).
. "$1/tests/support/cli.sh"

demo 1 1
model=demo/model.onnx
expect 0 "$QBENCH" inspect "$model" --graph
inner=$(sed -n "s/^Conv .* -> \\([^:]*\\):.*/\\1/p" "$work/.out" | sed -n 2p)
expect 0 "$QBENCH" optimize "$model" --outputs "$inner" -o part.onnx
says "^outputs +$inner  f32  "
expect 0 "$QBENCH" optimize "$model" --outputs "$inner" --json - -o again.onnx
says '"schema": "qbench.optimize/1"'
same_bytes part.onnx again.onnx
expect 0 "$QBENCH" optimize part.onnx -o whole.onnx
same_bytes part.onnx whole.onnx # a part is a model like any other
expect 0 "$QBENCH" inspect part.onnx
says "^outputs +$inner"

expect 1 "$QBENCH" optimize "$model" --outputs "${inner}x" -o none.onnx
complains "no tensor '${inner}x'; near it are '$inner'"
absent none.onnx
expect 2 "$QBENCH" optimize "$model" --outputs "$inner,," -o none.onnx
complains "--outputs: expected NAME\\[,NAME...\\]"

# What a run cannot know is refused with the part that can be run.
python=${QB_PYTHON:-python3}
if "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
    mkdir parts
    expect 0 "$python" "$1/tests/e2e/parts.py" --qbench "$QBENCH" --shared "$QB_SHARED" parts
    cat "$work/.out"
    expect 0 "$QBENCH" build parts/boxes_only.onnx --precision fp32 -o whole.qbe # sizes that only a run knows
    expect 0 "$QBENCH" optimize parts/boxes_only.onnx --outputs boxes,scores -o ends.onnx
    expect 0 "$QBENCH" build ends.onnx --precision fp32 -o ends.qbe
fi

done_testing
