#!/usr/bin/env bash
# The paper's ImageNet run, command by command, on the public MaskGIT and VQGAN.
#
#   examples/imagenet.sh IMAGENET MASKGIT VQGAN INCEPTION REFERENCE OUT
#
# IMAGENET is the directory of training pictures with a folder for each class (n01440764 and on: their order
# is that of the classes). MASKGIT and VQGAN are files as they were published (MaskGIT_ImageNet_256.pth,
# last.ckpt). The paper starts from ReDi^2, whose files have the same layout. INCEPTION holds the weights of the
# FID's network under the names of its archive as a .safetensors file, REFERENCE mu and sigma, or features, as
# .npz. The paper says nothing of batch, learning rate and optimizer: these are ours. It is a run of 174 M
# parameters, for a machine with many cores; encoding ImageNet alone is a long one. To try it first without any
# download: `fewstep maskgit random --out random` writes a MaskGIT and a VQGAN of these sizes with random weights;
# STEPS, BATCH and COUNT shorten the run.
set -euo pipefail
imagenet=$1 maskgit=$2 vqgan=$3 inception=$4 reference=$5 out=$6
export PATH="$PWD/target/release:$PATH"
steps=${STEPS:-1000} count=${COUNT:-50000}
mkdir -p "$out"

fewstep doctor "$maskgit"
fewstep doctor "$vqgan"

# Pictures as 16 x 16 codes and a class.
[ -e "$out/codes.npy" ] || fewstep maskgit encode "$imagenet" --vqgan "$vqgan" --out "$out/codes.npy"

# Appendix impl: the network sees t and r - t; tau_t is the arccos mask ratio, tau_r logit-normal(-3, 2) and no
# larger, a quarter of the pairs at rest; eq. loss-masked with one draw of eq. C-estimator-masked.
fewstep maskgit accelerate --from "$maskgit" --codes "$out/codes.npy" --out "$out/run" \
    --steps "$steps" --batch "${BATCH:-32}" --rate 1e-4 --warmup 100 --ema 0.999

# 50 pictures of each class in four steps; the published network beside it, in MaskGIT's own order.
for guidance in 0 1 3; do
    fewstep maskgit sample --maskgit "$out/run/maskgit.safetensors" --vqgan "$vqgan" \
        --steps 4 --guidance "$guidance" --rising -n "$count" --out "$out/ours-w$guidance"
    fewstep maskgit sample --maskgit "$maskgit" --vqgan "$vqgan" --order confidence --order-noise 4.5 \
        --steps 4 --guidance "$guidance" --rising -n "$count" --out "$out/base-w$guidance"
    for who in ours base; do
        fewstep metrics "$out/$who-w$guidance" --inception "$inception" --reference "$reference" --json \
            | tee "$out/$who-w$guidance.json"
    done
done
