#!/usr/bin/env bash
# Signed engine files: made by build --sign, asked for by --verify and --require-signature.
# ctest-timeout: 120
. "$1/tests/support/cli.sh"

command -v openssl >/dev/null || skip 'no openssl'
openssl genpkey -algorithm ed25519 -out key.pem 2>/dev/null || skip 'openssl knows no Ed25519'
openssl pkey -in key.pem -pubout -out key.pub
openssl genpkey -algorithm ed25519 -out other.pem && openssl pkey -in other.pem -pubout -out other.pub
openssl genpkey -algorithm ed25519 -aes-256-cbc -pass pass:x -out locked.pem
openssl genrsa -out rsa.pem 2048 2>/dev/null
demo 3 4
cp demo/model.onnx demo/model.json . && cp -r demo/test data
short=(--duration=0 --iterations=2 --warmUp=0)

"$QBENCH" build model.onnx --precision fp32 --sign key.pem -o net.qbe >.out 2>.err ||
    { grep -q 'built without OpenSSL' .err && skip 'built without OpenSSL'; }
checks=$((checks + 1))
[ "$(stat -c %s net.qbe.sig)" = 64 ] || fail 'net.qbe.sig has not 64 bytes'
checks=$((checks + 1))
openssl pkeyutl -verify -pubin -inkey key.pub -rawin -in net.qbe -sigfile net.qbe.sig >.out 2>&1 ||
    fail 'openssl does not take the signature'
expect 0 "$QBENCH" inspect net.qbe --verify key.pub
expect 0 "$QBENCH" bench --loadEngine=net.qbe --verify key.pub "${short[@]}"
expect 0 env QBENCH_VERIFY_KEY=key.pub "$QBENCH" bench --loadEngine=net.qbe --require-signature "${short[@]}"
expect 0 "$QBENCH" compare fp32 ./net.qbe --model model.onnx --data data --duration 0.01 --no-figures --verify key.pub
expect 0 "$QBENCH" bench --loadEngine=net.qbe --no-machine-code "${short[@]}"
expect 2 "$QBENCH" bench --loadEngine=net.qbe --require-signature "${short[@]}"
complains 'name the public key by --verify KEY or QBENCH_VERIFY_KEY'

# Who else signed it, what was changed, what is not signed.
expect 1 "$QBENCH" bench --loadEngine=net.qbe --verify other.pub "${short[@]}"
complains 'net.qbe: the signature is not that of other.pub'
cp net.qbe bad.qbe && cp net.qbe.sig bad.qbe.sig
for at in 0 100 5000 "$(($(stat -c %s net.qbe) - 1))"; do
    cp net.qbe bad.qbe
    byte=$(dd if=bad.qbe bs=1 skip="$at" count=1 2>/dev/null | od -An -tu1)
    printf '%b' "\\x$(printf '%02x' $((byte ^ 1)))" | dd of=bad.qbe bs=1 seek="$at" conv=notrunc 2>/dev/null
    for command in inspect 'bench --duration=0 --loadEngine'; do
        # shellcheck disable=SC2086
        expect 1 "$QBENCH" $command bad.qbe --verify key.pub
        complains 'bad.qbe: the signature is not that of key.pub'
    done
done
cp net.qbe bad.qbe
for size in 0 63; do
    head -c $size net.qbe.sig >bad.qbe.sig
    expect 1 "$QBENCH" inspect bad.qbe --verify key.pub
    complains 'the signature is not that of'
done
{ cat net.qbe.sig && echo; } >bad.qbe.sig
expect 1 "$QBENCH" inspect bad.qbe --verify key.pub
rm bad.qbe.sig
expect 1 "$QBENCH" inspect bad.qbe --verify key.pub
complains 'bad.qbe: it is not signed: there is no bad.qbe.sig'
mkfifo bad.qbe.sig
expect 1 timeout -s KILL 2 "$QBENCH" inspect bad.qbe --verify key.pub
complains 'got a FIFO'
expect 1 "$QBENCH" compare fp32 ./bad.qbe --model model.onnx --data data --duration 0.01 --no-figures --verify key.pub

# Keys that are none.
for key in key.pub rsa.pem locked.pem model.json missing.pem; do
    expect 1 "$QBENCH" build model.onnx --precision fp32 --sign $key -o x.qbe
    complains "$key"
    absent x.qbe.sig
done
for key in key.pem rsa.pem model.json missing.pem; do
    expect 1 "$QBENCH" inspect net.qbe --verify $key
    complains "$key"
done
done_testing
