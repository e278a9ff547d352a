# Sourced by scripts in tests/cli: ONNX models byte by byte, with names and fields of any kind.

hex() { printf '%s' "$1" | od -An -tx1 | tr -d ' \n'; }
varint() {
    local n=$1
    while [ "$n" -ge 128 ]; do
        printf '%02x' $((n % 128 + 128))
        n=$((n / 128))
    done
    printf '%02x' "$n"
}
field() { printf '%s' "$1$(varint $((${#2} / 2)))$2"; } # TAG HEX
text() { field "$1" "$(hex "$2")"; }                    # TAG TEXT
pair() { field 6a "$(text 0a "$1")$(text 12 "$2")"; }   # an entry of external data
port() { # NAME DIMENSIONS: a float tensor
    local dims='' d
    for d in $2; do dims+=$(field 0a "08$(varint "$d")"); done
    text 0a "$1"
    field 12 "$(field 0a "0801$(field 12 "$dims")")"
}
tensor() { # NAME DIMENSIONS FIELDS: a float tensor with its data
    local d
    for d in $2; do printf '08%s' "$(varint "$d")"; done
    printf '1001%s%s' "$(text 42 "$1")" "$3"
}
node() { # OPERATOR NAME OUTPUT INPUT...
    local operator=$1 name=$2 output=$3
    shift 3
    for input in "$@"; do text 0a "$input"; done
    text 12 "$output"
    text 1a "$name"
    text 22 "$operator"
}
model() { # FILE GRAPH [FIELDS of the model]: of hexadecimal digits
    printf '%b' "$(printf '%s' "0808$(field 3a "$2")$(field 42 1011)${3:-}" | sed 's/../\\x&/g')" >"$1"
}
