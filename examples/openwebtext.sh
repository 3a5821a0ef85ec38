#!/usr/bin/env bash
# The paper's OpenWebText run, command by command, on a uniform-state checkpoint.
#
#   examples/openwebtext.sh TEXT.jsonl CHECKPOINT OUT
#
# TEXT.jsonl has a document a line in the field "text". CHECKPOINT is a Hugging Face directory or a
# Lightning file of DUO's family, as it was published. The paper starts from Di4C + ReDi; any
# checkpoint of the family is taken. It says nothing of batch, learning rate and optimizer: these are
# DUO's. It is a run of DiT small at length 1024, for a machine with many cores.
set -euo pipefail
text=$1 checkpoint=$2 out=$3
export PATH="$PWD/target/release:$PATH"

# DUO's packing: an end-of-text symbol after each document, blocks cut from the stream.
fewstep data "$text" --out "$out/data" --tokenizer gpt2

# Appendix impl: pairs from two logit-normal noise levels, a quarter at rest, eq. v-loss with eq. duo-U
# and the one-draw estimator of eq. transport-general, 1,000 iterations, all weights.
fewstep accelerate --from "$checkpoint" --data "$out/data" --out "$out/paper" \
    --method dag --objective paper --adapt full --logit-normal --at-rest 0.25 \
    --steps 1000 --batch 32 --rate 3e-4 --warmup 100 --ema 0.999 --clip 1

# Ours: the same denoiser on the uniform mixture chain, where the correction is not zero, with the
# linear target; sample it with a gain.
fewstep accelerate --from "$checkpoint" --data "$out/data" --out "$out/linear" \
    --method dag --chain uniform --grids 4,8,16,32,64 \
    --steps 1000 --batch 32 --rate 1e-3 --warmup 100 --ema 0.999 --clip 1

# Ours, what accelerate does unless told: law matching, on the same chain. A second network of the
# checkpoint's size is trained beside it.
fewstep accelerate --from "$checkpoint" --data "$out/data" --out "$out/law" \
    --chain uniform --steps 1000 --batch 32 --warmup 100

for steps in 4 8 16 32 64; do
    fewstep sample --from "$out/paper" --steps "$steps" -n 128 --json > "$out/paper-$steps.jsonl"
    fewstep sample --from "$out/law" --steps "$steps" -n 128 --json > "$out/law-$steps.jsonl"
    fewstep sample --from "$out/linear" --steps "$steps" -n 128 --gain 2 --json > "$out/linear-$steps.jsonl"
done
