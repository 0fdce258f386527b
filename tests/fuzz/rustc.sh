#!/bin/sh
# The compiler of the fuzz build. It instruments the crates whose branches libFuzzer is to see:
# ours and the readers below them. The flags are those of `cargo fuzz -s none`; all are stable.
case " $* " in
*" --crate-name build_script_"*) exec "$@" ;;
*" --crate-name logmill_"* | *" --crate-name targets "* | *" --crate-name serde_json "* | \
    *" --crate-name parquet "*)
    exec "$@" --cfg fuzzing -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares \
        -Cllvm-args=-simplifycfg-branch-fold-threshold=0
    ;;
*) exec "$@" ;;
esac
