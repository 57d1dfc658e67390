#!/bin/sh
# What cargo calls in place of rustc. Counters on every edge, and what is compared told to the fuzzer, in
# what is ours and in what reads text for it. Everything else is only built, and so are build scripts and
# macros, which are for no target. Cargo does not look in here: after a change, remove what was built.
case "$CARGO_PKG_NAME: $* " in
    tenure*" --target "* | granit-parser*" --target "* | idna:*" --target "* | \
    percent-encoding*" --target "* | prost*" --target "* | serde-saphyr*" --target "* | \
    serde_json*" --target "* | toml*" --target "* | url:*" --target "*)
        exec "$@" --cfg fuzzing -Cpasses=sancov-module \
            -Cllvm-args=-sanitizer-coverage-level=4 \
            -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
            -Cllvm-args=-sanitizer-coverage-pc-table \
            -Cllvm-args=-sanitizer-coverage-trace-compares
        ;;
    *) exec "$@" ;;
esac
