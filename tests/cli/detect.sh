#!/usr/bin/env bash
# ctest-timeout: 400, ctest-labels: slow
# ctest-cost: 40
# A real detector on COCO images: calibrate, compare, gate; FP32 has the reference's AP.
. "$1/tests/support/cli.sh"

sample=$QB_SHARED/tasks/coco-sample models=$QB_SHARED/tasks/models
[ -d "$sample" ] && [ -e "$models/FastestDet.onnx" ] || skip "no coco-sample in $QB_SHARED"
cp "$models"/FastestDet.onnx "$models"/FastestDet.json .
expect 0 "$QBENCH" calibrate --data "$sample/instances_calib.json"
complains 'no --method, and the task is detect: auto'
expect 1 "$QBENCH" compare fp32 int8 --data "$sample/instances_val.json" --batches 1,4 # told before anything is scored
complains "batch 4: the model has a fixed batch .input '.*' is 1x3x352x352"
grep -q evaluate "$work/.err" && fail 'a batch that cannot be had is found after the scores'
expect 1 "$QBENCH" bench FastestDet.onnx --batch 4 --duration 0.01
complains "batch 4: the model has a fixed batch .input '.*' is 1x3x352x352"
expect 0 "$QBENCH" compare fp32 int8 --data "$sample/instances_val.json" --duration 0.1 --no-figures
says '^fp32 +15.2[0-9] +1[0-9.]+ to 1[0-9.]+ +28.9[0-9] +14.1[0-9] +\+0.00 '
says '^int8 +1[45].[0-9]+ '
expect 0 cat compare.json
says '^ "task": "detect",$'
says '^   "ap": 15.2[0-9]+,$'
says '^   "ap_small": 3.2[0-9]+,$'
says '^   "ar100": 21.4[0-9]+,$'
says '^   "voc": 28.6[0-9]+,$'
says '^   "user_recall": 38.2[0-9]+,$'
says '"box_shift": [1-9]'
says '"reference_boxes": '
expect 0 "$QBENCH" report -o page.html
expect 0 cat page.html
says '<li class="pair"><figure><svg viewBox="0 0 [0-9]+ [0-9]+"'
says '<rect class="box alone"'
python3 - page.html <<'PY' || fail 'a name of a box lies over another'
import re, sys
for svg in re.findall(r"<svg viewBox.*?</svg>", open(sys.argv[1]).read(), re.S):
    taken = []
    for x, y, size, anchor, text in re.findall(r'<text class="box" x="([-\d.]+)" y="([-\d.]+)" '
                                               r'font-size="([\d.]+)" text-anchor="(\w+)">([^<]*)<', svg):
        x, y, size, width = float(x), float(y), float(size), len(text) * float(size) / 2
        box = (x - width if anchor == "end" else x, y - size, x if anchor == "end" else x + width, y)
        for b in taken: # places are rounded
            if min(box[2], b[2]) - max(box[0], b[0]) > 1 and min(box[3], b[3]) - max(box[1], b[1]) > 1:
                sys.exit(f"{text}: {box} over {b}")
        taken.append(box)
PY
says '<dt>AP</dt><dd><b>1[45]\.'
says '<th scope="row" title="AP small %">' # a row a metric: a screen has no room for all of them side by side
python3 - <<'EOF' || fail 'the record could not be changed'
import json
run = json.load(open("compare.json"))
run["rows"][1]["metrics"] = run["rows"][0]["metrics"]
json.dump(run, open("same.json", "w"))
EOF
expect 0 "$QBENCH" report same.json -o page.html
expect 0 cat page.html
says '99 % rule \(<code>--mlperf</code>\) holds'
expect 0 "$QBENCH" gate --max-drop 5
says '^PASS int8 max-drop of AP: .*limit 5'
expect 3 "$QBENCH" gate --max-drop -5 --metric ap50 --junit gate.xml
says '^FAIL int8 max-drop of AP50: '
expect 0 cat gate.xml
says 'failure message="max-drop of AP50: '
expect 3 "$QBENCH" gate --max-drop 0 --metric ap_small --confidence pass
says 'max-drop of AP small: could not be measured .*no interval'
expect 2 "$QBENCH" gate --max-drop 1 --metric app
complains "did you mean 'ap'"

# The ground truth is looked at, too.
expect 0 "$QBENCH" data doctor --data "$sample/instances_calib.json" --samples 20
says '^good  truth .*instances_calib.json: [0-9]+ objects of [0-9]+ categories in 20 images, [0-9]+ of them crowds or difficult$'
says '^note  truth .* categories have no object: '
python3 - "$sample" <<'PY'
import json, sys
d = json.load(open(sys.argv[1] + "/instances_calib.json"))
for a in d["annotations"][:200]:
    a["bbox"] = [v + 400 for v in a["bbox"]]
json.dump(d, open("moved.json", "w"))
PY
expect 3 "$QBENCH" data doctor --data moved.json --images "$sample/images" --samples 60
says '^bad   truth .*moved.json: [0-9]+ of [0-9]+ boxes leave their image$'

# Nobody tells anything: init guesses, and says so.
mkdir -p new && cd new && cp "$models/FastestDet.onnx" .
expect 0 "$QBENCH" init --data "$sample/instances_calib.json" --evaluation "$sample/instances_val.json"
says '^task detect: boxes of classes$'
says '^outputs look like fastestdet:$'
expect 0 cat qbench.yaml
says '^task: detect '
says '^  decode: fastestdet$'
says '^    mode: stretch '
says '^  color: BGR '
expect 0 "$QBENCH" compare fp32 --samples 12 --duration 0.1 --no-figures
says '^fp32 +[0-9.]+ '
rm qbench.yaml
expect 0 "$QBENCH" compare fp32 --data "$sample/instances_val.json" --samples 12 --duration 0.1 --no-figures
complains '^task detect '
complains 'outputs look like fastestdet '
complains "class 0 is taken for category 'person'"
cd ..

# Images elsewhere are told to init, too, which writes them down.
mkdir -p apart && cp "$models/FastestDet.onnx" "$sample/instances_calib.json" apart/ && cd apart
expect 0 "$QBENCH" init --data instances_calib.json --images "$sample/images"
expect 0 cat qbench.yaml
says "^  images: '$sample/images' "
says '^  max_drop: 1.0  # points of ap that int8 may lose$'
says '^  # mlperf: true  # ap at least 99 % of FP32'
expect 1 grep min_agreement qbench.yaml # a detector has no class for an image
expect 1 "$QBENCH" init --data instances_calib.json --images nowhere -f
complains 'option --images: nowhere: '
cd ..

# On some of the images what other forms of the same ground truth give is compared with this.
some="--samples 60 --duration 0.1 --no-figures"
ap() { sed -n 's/^   "ap": \([0-9.]*\),$/\1/p' "$1/compare.json"; }
near() { # FOLDER: its AP is at most 0.1 away
    checks=$((checks + 1))
    awk -v a="$(ap some)" -v b="$(ap "$1")" 'BEGIN {exit !(a > 5 && a - b <= 0.1 && b - a <= 0.1)}' ||
        fail "AP of $1 is $(ap "$1"), expected $(ap some) within 0.1"
}
expect 0 "$QBENCH" compare fp32 --data "$sample/instances_val.json" $some -o some

# A category that the model has no class for does not count.
python3 - "$sample/instances_val.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
d["categories"].append({"id": 2000, "name": "unheard of"})
d["annotations"] += [dict(a, id=10**9 + a["id"], category_id=2000, iscrowd=0) for a in d["annotations"]]
json.dump(d, open("more.json", "w"))
PY
expect 0 "$QBENCH" compare fp32 --data more.json --images "$sample/images" $some -o more
[ "$(ap more)" = "$(ap some)" ] || fail 'a category without a class counts'
complains "the model has a class for 80 of the data's 81 categories"

# The same ground truth as a YOLO data set, without crowds: nearly the same AP.
mkdir -p yolo/images yolo/labels/val && ln -s "$sample/images" yolo/images/val
python3 - "$sample/instances_val.json" yolo <<'PY'
import json, sys
d, to = json.load(open(sys.argv[1])), sys.argv[2]
cats = sorted(d["categories"], key=lambda c: c["id"])
number = {c["id"]: i for i, c in enumerate(cats)}
image = {i["id"]: i for i in d["images"]}
lines = {}
for a in d["annotations"]:
    i, (x, y, w, h) = image[a["image_id"]], a["bbox"]
    if not a["iscrowd"]:
        lines.setdefault(i["file_name"], []).append("%d %.8f %.8f %.8f %.8f" % (
            number[a["category_id"]], (x + w / 2) / i["width"], (y + h / 2) / i["height"],
            w / i["width"], h / i["height"]))
for name, rows in lines.items():
    open(f"{to}/labels/val/{name[:-4]}.txt", "w").write("\n".join(rows) + "\n")
open(f"{to}/val.txt", "w").write("".join(f"./images/val/{i['file_name']}\n" for i in d["images"]))
open(f"{to}/data.yaml", "w").write("path: ../elsewhere\nval: val.txt\nnames:\n" + "".join(
    f"  {i}: {c['name']}\n" for i, c in enumerate(cats)))
PY
sed '/"category_ids"/,/\]/d' "$models/FastestDet.json" | tr '\n' ' ' | sed 's/, *} *}/ } }/' >FastestDet.json
expect 0 "$QBENCH" compare fp32 --data yolo/data.yaml $some -o yolo
near yolo
echo '80 0.5 0.5 0.1 0.1' >"yolo/labels/val/$(ls yolo/labels/val | sed -n 1p)"
expect 1 "$QBENCH" compare fp32 --data yolo/data.yaml
complains 'yolo/labels/val/.*.txt:1: class 80: expected 0 to 79'
printf '0 0.5 0.5 0.1 0.1\n\0\n' >"yolo/labels/val/$(ls yolo/labels/val | sed -n 1p)"
expect 1 "$QBENCH" compare fp32 --data yolo/data.yaml
complains 'yolo/labels/val/.*.txt:2: expected text, got a zero byte'
# And as VOC's folders, whose names are found among the labels, whatever their spaces.
mkdir -p voc/Annotations voc/ImageSets/Main && ln -s "$sample/images" voc/JPEGImages
python3 - "$sample/instances_val.json" voc FastestDet.json <<'PY'
import json, sys
d, to = json.load(open(sys.argv[1])), sys.argv[2]
name = {c["id"]: c["name"].replace(" ", "_") for c in d["categories"]}
objects = {}
for a in d["annotations"]:
    x, y, w, h = a["bbox"]
    if not a["iscrowd"]:
        objects.setdefault(a["image_id"], []).append(
            f"<object><name>{name[a['category_id']]}</name><difficult>0</difficult><bndbox>"
            f"<xmin>{x + 1}</xmin><ymin>{y + 1}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>"
            "</bndbox></object>\n")
open(f"{to}/ImageSets/Main/val.txt", "w").write(
    "".join(i["file_name"][:-4] + "\n" for i in d["images"]))
for i in d["images"]:
    open(f"{to}/Annotations/{i['file_name'][:-4]}.xml", "w").write(
        "<annotation>" + "".join(objects.get(i["id"], [])) + "</annotation>\n")
side = json.load(open(sys.argv[3]))
side["labels"] = [c["name"] for c in sorted(d["categories"], key=lambda c: c["id"])]
json.dump(side, open(sys.argv[3], "w"))
PY
expect 0 "$QBENCH" compare fp32 --data voc $some -o voc.out
near voc.out
sed -i 's/<xmin>/<xmn>/' "voc/Annotations/$(ls voc/Annotations | sed -n 1p)"
expect 1 "$QBENCH" compare fp32 --data voc
complains '\.xml:1: </xmin>, but open is xmn'
cp "$models/FastestDet.json" .

# The other preparation of the same images, told by the settings: OpenCV's resize.
echo 'preprocess: {resize: {filter: linear}}' >qbench.yaml
expect 0 "$QBENCH" compare fp32 --data "$sample/instances_val.json" --duration 0.1 --no-figures -o cv2
says '^fp32 +14.8[0-9] '
rm qbench.yaml

# Images elsewhere, some of them missing; a few samples.
mkdir -p moved/images
cp "$sample/instances_val.json" moved/
expect 0 "$QBENCH" compare fp32 int8 --data moved/instances_val.json --images "$sample/images" \
    --samples 12 --duration 0.1 --no-figures -o few
says '12 samples'
says '^warning: 12 samples: small drops cannot be told from chance$' # no sample has a share of AP
ls "$sample/images" | sed -n '1,3p' | while read -r name; do
    cp "$sample/images/$name" moved/images/
done
expect 0 "$QBENCH" compare fp32 --data moved/instances_val.json --duration 0.1 --no-figures -o few
says 'skipped\)'
complains 'skipped sample'

# Wrong settings and data are named.
sed 's/"decode": "fastestdet"/"decode": "fastestdat"/' "$models/FastestDet.json" >FastestDet.json
expect 1 "$QBENCH" compare fp32 --data "$sample/instances_val.json"
complains "FastestDet.json: key 'detection.decode': expected yunet, .*did you mean 'fastestdet'"
sed 's/"nms_iou"/"nms_ioo"/' "$models/FastestDet.json" >FastestDet.json
expect 0 "$QBENCH" compare fp32 --data "$sample/instances_val.json" --samples 4 --duration 0.1 --no-figures -o few
complains "key 'detection.nms_ioo' is not known .did you mean 'nms_iou'"
sed 's/"decode": "fastestdet"/"decode": "yunet"/' "$models/FastestDet.json" >FastestDet.json
expect 1 "$QBENCH" compare fp32 --data "$sample/instances_val.json"
complains 'decoder yunet takes outputs cls_S'
cp "$models/FastestDet.json" .
expect 1 "$QBENCH" compare fp32 --task detekt --data "$sample/instances_val.json"
complains "did you mean 'detect'"
expect 1 "$QBENCH" compare fp32 --data moved/instances_val.json --images nowhere
complains 'nowhere: there is no such folder'
echo '{"images": [{"id": 1, "file_name": "../x.jpg", "width": 1, "height": 1}], "categories": [{"id": 1}]}' >out.json
expect 1 "$QBENCH" compare fp32 --data out.json
complains "file_name '../x.jpg' leads out of the folder"
done_testing
