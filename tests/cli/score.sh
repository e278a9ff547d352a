#!/usr/bin/env bash
# qbench score: the reference's numbers, what counts for nothing, and errors with their place.
. "$1/tests/support/cli.sh"

cat >gt.json <<'JSON'
{"images": [{"id": 1, "width": 100, "height": 80}], "categories": [{"id": 3, "name": "cat"}],
 "annotations": [{"image_id": 1, "category_id": 3, "bbox": [10, 10, 40, 40], "area": 1600,
  "segmentation": [[10, 10, 50, 10, 50, 50, 10, 50]]}]}
JSON
cat >dt.json <<'JSON'
[{"image_id": 1, "category_id": 3, "bbox": [10, 10, 40, 32], "score": 0.9},
 {"image_id": 1, "category_id": 8, "bbox": [10, 10, 40, 40], "score": 0.9}]
JSON
# IoU 0.8: found at 0.5, 0.55, ..., 0.8.
expect 0 "$QBENCH" score --annotations gt.json --results dt.json --per-category
says '^all +70.00 +100.00 +100.00 +- +70.00 +- +70.00 +70.00 +70.00 +- +70.00 +-$'
says '^cat +70.00 +100.00 '
says '^1 images, 1 objects, 2 detections; by boxes$'
complains 'dt.json: 1 detections of categories that gt.json does not have do not count'
expect 0 "$QBENCH" score --annotations gt.json --results dt.json --json -
says '"AP50": (1.0|0.9999999[0-9]*),'
says '"APl": -1.0,'
says '"category_id": 3,'
echo '[{"image_id": 1, "category_id": 3, "score": 1, "segmentation":
 {"size": [80, 100], "counts": [0, 8000]}}]' >masks.json
expect 0 "$QBENCH" score --annotations gt.json --results masks.json --masks
says '^all +0.00 '
for id in 0 1 10 '"0"'; do
    sed "s/\[{\"image_id\"/[{\"id\": $id, \"image_id\"/" gt.json >numbered.json
    expect 0 "$QBENCH" score --annotations numbered.json --results dt.json
    said=$(grep -c "an annotation's id is 0: pycocotools takes its match for none" "$work/.err")
    [ "$said" = $([ "$id" = 0 ] && echo 1 || echo 0) ] || fail "id $id is told $said times"
done
echo '[]' >none.json
expect 0 "$QBENCH" score --annotations gt.json --results none.json
says '^all +0.00 '

# Two points of which one lies (3, 4) off an object of 100 pixels: similarity (1 + exp(-1 / 8)) / 2 = 0.941.
echo '{"images": [{"id": 1, "width": 90, "height": 90}], "categories": [{"id": 1}], "annotations": [{"image_id": 1,
 "category_id": 1, "bbox": [15, 15, 10, 10], "area": 100, "keypoints": [18, 18, 2, 22, 22, 1], "num_keypoints": 2}]}' >points.json
echo '[{"image_id": 1, "category_id": 1, "score": 1, "keypoints": [18, 18, 1, 25, 26, 1]}]' >seen.json
expect 0 "$QBENCH" score --annotations points.json --results seen.json --keypoints
says '^all +90.00 +100.00 +100.00 +- +- +- +90.00 +90.00 +90.00 +- +- +-$'
says 'detections; by keypoints$'
echo '[{"image_id": 1, "category_id": 1, "score": 1, "keypoints": [18, 18, 1]}]' >seen.json
expect 1 "$QBENCH" score --annotations points.json --results seen.json --keypoints
complains 'seen.json: a detection of 1 key points, the ground truth has 2'
echo '[{"image_id": 1, "category_id": 1, "score": 1, "keypoints": [18, 18]}]' >seen.json
expect 1 "$QBENCH" score --annotations points.json --results seen.json --keypoints
complains 'keypoints: expected x, y and visibility of each'

# Masks that cannot be: the error has the file.
while IFS='|' read -r wanted mask; do
    sed "s/\"segmentation\": .*/\"segmentation\": $mask}]}/" gt.json >mask.json
    expect 1 "$QBENCH" score --annotations mask.json --results masks.json --masks
    complains "segmentation in image 1: mask.json: $wanted"
done <<'CASES'
mask: a polygon with the coordinate|[[10, 10, 1e300, 10, 50, 50]]
mask: a polygon whose outline is 1.6e.06 pixels long, in an image of 100 x 80|[[-99999,0,99999,1,-99999,0,99999,1,-99999,0,99999,1,-99999,0,99999,1]]
mask: runs of 7999 pixels, the image has 8000|{"size": [80, 100], "counts": [7999]}
mask: runs of 0 pixels, the image has 8000|{"size": [80, 100], "counts": "000"}
line 3, column [0-9]*: counts: a run of -5 pixels|{"size": [80, 100], "counts": [-5, 8005]}
line 3, column [0-9]*: a mask of 2 x 2 pixels|{"size": [2, 2], "counts": [4]}
line 3, column [0-9]*: expected a number|[[[10, 10, 50, 10, 50, 50]]]
CASES

expect 2 "$QBENCH" score --annotations gt.json
complains 'expected --annotations and --results'
expect 1 "$QBENCH" score --annotations gt.json --results dt.json --masks
complains 'image 1 has an object without segmentation'
expect 1 "$QBENCH" score --annotations gt.json --results gt.json
complains 'gt.json: line 1, column 1: expected a list'
expect 1 "$QBENCH" score --annotations dt.json --results dt.json
complains 'dt.json: line 1, column 1: expected an object'
expect 1 "$QBENCH" score --annotations gt.json --results nowhere.json
complains 'nowhere.json'

# The reference detections of a real detector, as the reference evaluator scores them.
sample=$QB_SHARED/tasks/coco-sample
if [ -d "$sample" ]; then
    expect 0 "$QBENCH" score --annotations "$sample/instances_val.json" \
        --results "$sample/reference/fastestdet_fp32_pillow.json"
    says '^all +15.22 +28.93 +14.17 +3.23 +14.05 +26.12 +14.53 +20.91 +21.41 +3.74 +19.55 +37.61$'
    expect 0 "$QBENCH" score --annotations "$sample/instances_val.json" --masks \
        --results "$sample/reference/segm_synthetic.json"
    says '^all +28.26 +58.54 +21.14 '
fi
done_testing
