#!/usr/bin/env bash
# The same images in class folders, tar shards, TFRecord, LMDB and a table: the same record. Damage is
# named, counted and left out; shards of a comparison and resumed calibrations have the same bytes.
# ctest-labels: slow, ctest-timeout: 300, ctest-cost: 20
. "$1/tests/support/cli.sh"

demo 5 5
cd demo
rm -f compare.json
make() { python3 "$QB_SOURCE/tests/support/make_shards.py" "$@"; }
QB_SOURCE=$1
mkdir few
for class in test/*; do
    mkdir "few/${class#test/}"
    for file in $(ls "$class" | head -4); do cp "$class/$file" "few/${class#test/}/"; done
done
make few forms
cp -r few forms/images
numbers() { # what is measured of the data in compare.json, but for their names
    python3 -c 'import json, sys
d = json.load(open("compare.json"))
print(d["dataset"]["hash"], d["dataset"]["samples"], d["dataset"]["skipped"])
for row in d["rows"]:
    print(row["top1"], row["agreement_top1"], row["sqnr_db"], row["recall"])'
}
brief="--duration 0.01 --no-figures --thumbnails 0"
expect 0 "$QBENCH" compare fp32 int8 --data few $brief
numbers >wanted
mkdir forms/gz forms/zst
for i in 00 01; do gzip <forms/tar/set-$i.tar >forms/gz/set-$i.tar.gz; done
packed=forms/gz
if command -v zstd >/dev/null; then
    zstd -q forms/tar/set-*.tar --output-dir-flat forms/zst
    packed="$packed forms/zst/set-{00..01}.tar.zst"
fi
sed "2,\$s|^\"|&$PWD/forms/images/|" forms/labels.csv >absolute.csv
forms="$packed absolute.csv forms/tar forms/tar/set-{00..01}.tar forms/tar/set-{00,01}.tar forms/set.tfrecord forms/labels.csv forms/datum"
for data in $forms; do
    expect 0 "$QBENCH" compare fp32 int8 --data "$data" $brief
    numbers >got
    same_bytes wanted got
done
expect 0 "$QBENCH" compare fp32 int8 --data "forms/tar/set-{00..01}.tar" $brief
complains 'evaluate: [0-9]+ samples'
expect 0 "$QBENCH" compare fp32 int8 --data forms/plain $brief # images alone
says '^fp32 .* 100.00 '

# Parts, and calibration in two shards: the bytes of the whole.
expect 0 "$QBENCH" compare fp32 int8 --data forms/tar $brief -o whole.json
for i in 1 2; do expect 0 "$QBENCH" compare fp32 int8 --data forms/tar $brief --shard $i/2; done
expect 0 "$QBENCH" merge part_1.json part_2.json --no-figures
numbers >got
same_bytes wanted got
expect 0 "$QBENCH" calibrate --data forms/set.tfrecord -o whole.calib.h5
for i in 1 2; do expect 0 "$QBENCH" calibrate --data forms/set.tfrecord --shard $i/2 -o $i.calib.h5; done
expect 0 "$QBENCH" calib merge 1.calib.h5 2.calib.h5 -o both.calib.h5
same_bytes whole.calib.h5 both.calib.h5

# Damage: one image cut in half; a length that is wrong; an end that is missing.
make few damaged --damage
for data in damaged/tar damaged/set.tfrecord; do
    expect 0 "$QBENCH" compare fp32 int8 --data $data $brief
    complains 'skipped sample .*set'
    expect 0 cat compare.json
    says '"skipped": 1$'
    expect 1 "$QBENCH" compare fp32 int8 --data $data $brief --strict
done
cp forms/set.tfrecord cut.tfrecord
printf 'x' | dd of=cut.tfrecord bs=1 seek=5 conv=notrunc status=none
expect 1 "$QBENCH" compare fp32 int8 --data cut.tfrecord $brief
complains 'cut.tfrecord\[0\].*damaged at byte 0: a length with another checksum'
head -c 30000 forms/set.tfrecord >cut.tfrecord
expect 0 "$QBENCH" compare fp32 int8 --data cut.tfrecord $brief
complains 'skipped sample .cut.tfrecord\[[0-9]+\].*it ends within a record'
head -c 30000 forms/tar/set-00.tar >cut.tar
expect 0 "$QBENCH" compare fp32 int8 --data cut.tar $brief
complains 'skipped sample .cut.tar\[[0-9]+\].*damaged at byte [0-9]+: Truncated tar archive'
black_image black.png
# Members that give no image, or no class, are told; two of one name are two; a header with another
# checksum ends the file.
python3 - <<'PY'
import io, tarfile
png = open("black.png", "rb").read()
def tar(name, *members):
    with tarfile.open(name, "w") as out:
        for path, content, kind in members:
            info = tarfile.TarInfo(path)
            info.type, info.linkname = kind, "/etc/passwd" if kind != tarfile.REGTYPE else ""
            info.size = len(content) if kind == tarfile.REGTYPE else 0
            out.addfile(info, io.BytesIO(content))
F = tarfile.REGTYPE
tar("odd.tar", ("a.png", png, F), ("a.cls", b"1", F), ("b.png", b"", tarfile.SYMTYPE), ("b.cls", b"1", F),
    ("c.png", b"", tarfile.LNKTYPE), ("d.png", png, F), ("d.cls", b"-7", F), ("a.png", png, F), ("a.png", png, F), ("a.cls", b"2", F),
    ("x" * 5000 + ".png", png, F))
data = bytearray(open("odd.tar", "rb").read())
at = data.index(b"d.png")
data[at + 100:at + 103] = b"777"
open("sum.tar", "wb").write(data)
PY
expect 0 "$QBENCH" compare fp32 --data odd.tar --duration 0.01 --no-figures
complains "odd.tar: links, sparse files and devices hold no image: 'b.png' .2 such files.: left out$"
complains "odd.tar: expected a class: 'd.cls' .1 such files.: its sample has none"
complains "odd.tar: a name beyond 4,095 bytes: 'xxx"
says '2 of 4 samples have no class: accuracy is of the others'
expect 0 "$QBENCH" compare fp32 --data sum.tar --duration 0.01 --no-figures
complains "skipped sample 'sum.tar.1.': damaged at byte [0-9]+: Damaged tar archive"
cp forms/gz/set-00.tar.gz sum.tar.gz # its last eight bytes are CRC-32 and length
printf '\1\2\3\4' | dd of=sum.tar.gz bs=1 conv=notrunc seek=$(($(stat -c %s sum.tar.gz) - 8)) 2>/dev/null
expect 0 "$QBENCH" compare fp32 --data sum.tar.gz $brief
complains "skipped sample 'sum.tar.gz.[0-9]+.': damaged at byte [0-9]+: its contents are not those that its checksum is of"
{ cat forms/gz/set-00.tar.gz && head -c 2000 /dev/zero && echo junk; } >longer.tar.gz
expect 0 "$QBENCH" compare fp32 --data longer.tar.gz $brief
! grep -q skipped "$work/.err" || fail 'what follows a gzip file counts'
python3 - <<'END'
import io, tarfile
image = open("few/circle/0000.png", "rb").read()
with tarfile.open("pairs.tar", "w") as tar:
    for name, data in (("0.png", image), ("0.jpg", image), ("0.cls", b"1"), ("1.png", image), ("2.cls", b"1")):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
END
python3 - "$QB_SOURCE/tests/support" <<'END' # several classes or images are not one
import runpy, struct, sys
sys.path.insert(0, sys.argv[1])
sys.argv[1:] = ["few", "again"]
m = runpy.run_path(sys.path[0] + "/make_shards.py")
field, varint, crc, image = m["field"], m["varint"], m["crc"], m["samples"][0][3]
def many(key, number, values):
    return field(1, field(1, key) + field(2, field(number, b"".join(field(1, v) for v in values))))
with open("many.tfrecord", "wb") as file:
    for classes, images in (([1], [image]), ([1, 2], [image]), ([1], [image, image])):
        record = field(1, many(b"image", 1, images) + many(b"label", 3, [b"".join(map(varint, classes))]))
        length = struct.pack("<Q", len(record))
        file.write(length + crc(length) + record + crc(record))
END
expect 0 "$QBENCH" compare fp32 --data many.tfrecord $brief
complains "skipped sample 'many.tfrecord.2.': .*expected a JPEG or PNG file in one of its features"
says '^warning: 1 of 2 samples have no class'
expect 0 "$QBENCH" compare fp32 --data pairs.tar $brief
complains "pairs.tar: a sample has one image: '0.jpg' .1 such files.: left out"
complains "pairs.tar: a class without an image beside it: '2' .1 such files.: left out"
head -c 20000 forms/gz/set-00.tar.gz >cut.tar.gz
expect 1 "$QBENCH" compare fp32 int8 --data cut.tar.gz $brief
complains 'skipped sample .cut.tar.gz\[0\].*truncated gzip input'
python3 - <<'END'
import io, tarfile
class Zeros(io.RawIOBase):
    def read(self, n=-1): return bytes(n)
with tarfile.open("bomb.tar.gz", "w:gz", compresslevel=9) as tar:
    member = tarfile.TarInfo("0001.png")
    member.size = 200 << 20
    tar.addfile(member, Zeros())
END
expect 1 "$QBENCH" compare fp32 int8 --data bomb.tar.gz $brief
complains 'bomb.tar.gz\[0\].*it unpacks to over 200 times its size'
head -c 4096 forms/datum/data.mdb >cut.mdb
expect 1 "$QBENCH" compare fp32 int8 --data cut.mdb $brief
complains 'cut.mdb\[0\].*damaged at byte 0: '

# What is not there, and what is not read.
cp -r few mixed
touch mixed/circle/a.webp mixed/cross/b.BMP mixed/cross/.c.gif mixed/cross/Thumbs.db
expect 0 "$QBENCH" compare fp32 --data mixed $brief
complains 'data mixed: 2 files are left out, as images other than JPEG and PNG are not read .[ab]\.'
cp -r few nested
mkdir nested/circle/more
cp few/circle/0000.png nested/circle/more
ln -s /gone/image.png nested/circle/9998.png
mkfifo nested/circle/9999.png
expect 0 "$QBENCH" compare fp32 --data nested $brief
complains 'data nested: 1 folder inside class folders is left out .circle/more.$'
complains "skipped sample 'circle/9998.png': open nested/circle/9998.png: No such file"
complains "skipped sample 'circle/9999.png': open nested/circle/9999.png: "
says '^warning: 2 samples could not be read'
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp -r few shut
    chmod 311 shut
    chmod 777 "$work" .
    expect 1 setpriv --reuid 65534 --clear-groups "$QBENCH" compare fp32 --data shut $brief -o x.json
    complains 'data shut: Permission denied'
fi
mkdir flat
cp few/circle/*.png flat
touch flat/a.tiff
expect 0 "$QBENCH" compare fp32 --data flat $brief
complains 'data flat: 1 file is left out, .* .a.tiff.$'

# A folder less than classes, and no labels: all behind it would count as another class.
mkdir unnamed
cp model.onnx unnamed
python3 -c 'import json
d = json.load(open("model.json"))
del d["labels"]
json.dump(d, open("unnamed/model.json", "w"))'
expect 0 "$QBENCH" compare fp32 --model unnamed/model.onnx --data few $brief
! grep -q 'outputs of the model' "$work/.out" || fail 'warns of ten folders for ten classes'
rm -r mixed/star
expect 0 "$QBENCH" compare fp32 fp32@cpu,ref --model unnamed/model.onnx --data mixed $brief
says '9 folders, 10 outputs of the model: folders are numbered 0 to 8 in byte order'
expect 3 "$QBENCH" gate compare.json --max-drop 100 --min-samples 1
says 'allow class-numbers'
expect 0 "$QBENCH" compare fp32 --model model.onnx --data mixed $brief
expect 1 "$QBENCH" compare fp32 --data "forms/tar/set-{00..02}.tar" $brief
complains 'set-02.tar'
echo PAR1 >x.parquet
expect 1 "$QBENCH" compare fp32 --data x.parquet $brief
complains 'Parquet is not read: .*labels.csv'
printf 'image,label\nnowhere,0\n' >wrong.csv
expect 1 "$QBENCH" compare fp32 --data wrong.csv $brief
complains "'nowhere', the first image, is neither in"
printf 'a,b,c\n1,2,3\n' >wrong.csv
expect 1 "$QBENCH" compare fp32 --data wrong.csv $brief
complains "expected a column 'path'"
printf 'image,label,Label\n1,2,3\n' >wrong.csv # which of them counts is chance
expect 1 "$QBENCH" compare fp32 --data wrong.csv $brief
complains "line 1: columns 2 and 3 are both 'label'"
printf 'path,label,path\n1,2,3\n' >wrong.csv
expect 1 "$QBENCH" compare fp32 --data wrong.csv $brief
complains "line 1: columns 1 and 3 are both 'path'"
done_testing
