#!/bin/bash
# bash, git and what they start: a repository built, searched, repacked and collected; prints only what is
# reproducible.
set -euo pipefail
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_DATE='1700000000 +0000' LC_ALL=C
cd "$1"
git init -q -b main repository
cd repository
git config pack.threads 4
git config gc.auto 0
git config index.threads 4
git config core.preloadIndex true
for round in 1 2 3; do
    for ((file = 0; file < 120; file++)); do
        printf 'file %d\n%s\nneedle %d\n' "$file" "$(printf 'line %d\n' {1..60})" $((file * round)) >"file-$file"
    done
    git add .
    git commit -q -m "round $round"
done
git grep --threads=4 -n -e 'needle [0-9]*7$' | sort | cksum
git repack -q -a -d -f --threads=4 --window=20 --depth=20
git gc -q --aggressive --prune=now
git fsck --full --strict
git status --porcelain | wc -l
git cat-file --batch-all-objects --batch-check | cksum
git log --format='%H %s'
# Job control, pipes and substitutions of the shell itself.
for n in 1 2 3; do (sleep 0.0$n; echo "job $n" >"job-$n") & done
wait
cat job-1 job-2 job-3 | tr a-z A-Z | tee >(cksum >sum) >/dev/null
sleep 0.02
diff <(printf 'JOB %d\n' 1 2 3) <(tr a-z A-Z <job-1; tr a-z A-Z <job-2; tr a-z A-Z <job-3) && echo same
