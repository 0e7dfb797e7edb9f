#!/usr/bin/env bash
# Checks on a CUDA GPU in under six minutes, without network, with one table at the end:
#
#   [OUT=runs/gpu] [WHEELS=folder] [PYTHON=python3] benchmarks/on_gpu.sh [--tiny] [STEP ...]
#
# OUT is the folder of all files, and OUT/table.md is the table. Packages in WHEELS are installed into OUT/site, for this
# script only. --tiny tests the script with small models, also on a CPU. Each step has its own time limit; a step that
# fails or takes too long becomes a line of the table, and the exit code is then 1. STEPs: see LIMITS. audit, plain and
# training need the model that the step model makes.
set -uo pipefail
cd "$(dirname "$0")/.."

OUT=${OUT:-runs/gpu}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
if [ -z "${PYTHON:-}" ]; then
  PYTHON=python3
  [ -x .venv/bin/python ] && PYTHON=.venv/bin/python
fi
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

# Seconds of each step on a GPU. They add up to less than six minutes.
declare -A LIMITS=(
  [model]=70 [plain]=20 [audit]=80 [lstm]=25 [precisions]=35 [training]=35 [compat]=45 [tests]=40
)
declare -A MODULES=(
  [model]=big_model [plain]=plain [audit]=audit [lstm]=lstm [precisions]=precisions [training]=training
  [compat]=compat [tests]=gpu_tests
)
# The model of 1 B parameters is not needed by the last four, which therefore run even if time is short.
ORDER=(model plain audit training lstm precisions tests compat)

TINY=()
STEPS=()
for word in "$@"; do
  if [ "$word" = --tiny ]; then
    TINY=(--tiny)
  elif [ -n "${LIMITS[$word]:-}" ]; then
    STEPS+=("$word")
  else
    echo "on_gpu.sh: unknown step $word: use --tiny or some of ${ORDER[*]}" >&2
    exit 2
  fi
done
[ ${#STEPS[@]} -eq 0 ] && STEPS=("${ORDER[@]}")

if [ -n "${WHEELS:-}" ]; then
  "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$OUT/site" "$WHEELS"/*.whl || exit 2
  export PYTHONPATH="$PYTHONPATH:$OUT/site"
fi
CHECK='
import sys
tiny = sys.argv[1:] == ["--tiny"]
try:
    import lm_eval, peft, torch, transformers, leakage_tasks
except ImportError as error:
    sys.exit(f"on_gpu.sh: {error}: install the package, or give a folder of wheels with WHEELS=")
if not tiny and not torch.cuda.is_available():
    sys.exit("on_gpu.sh: torch finds no CUDA GPU: run it on a machine with one, or test the script with --tiny")
'
"$PYTHON" -c "$CHECK" "${TINY[@]}" || exit 2

RESULTS=()
for step in "${STEPS[@]}"; do
  rm -f "$OUT/$step.jsonl" "$OUT/$step.progress"
  limit=${LIMITS[$step]}
  # A CPU that other programs use may need much longer for imports alone.
  [ ${#TINY[@]} -eq 0 ] || limit=${TINY_LIMIT:-180}
  echo "== $step (at most $limit s)"
  started=$SECONDS
  timeout --kill-after=5 "$limit" "$PYTHON" -m "benchmarks.gpu.${MODULES[$step]}" --out "$OUT" "${TINY[@]}" \
    >"$OUT/$step.log" 2>&1
  code=$?
  echo "   exit code $code after $((SECONDS - started)) s"
  RESULTS+=("$step=$code:$((SECONDS - started))")
done

"$PYTHON" -m benchmarks.gpu.report "$OUT" "${RESULTS[@]}"
