#!/usr/bin/env bash
# The two commands from a fresh clone: in folders of any name, as root and as an ordinary user, without HOME.
#
#   scripts/fresh_clone.sh              all of it (part of `make test-long`; an hour and more)
#   scripts/fresh_clone.sh 'a b' long   only these places: keepfit, 'a b', ünï, long
#
# It clones what is committed. The whole suite runs once, as root in the clone named `keepfit`; in the others, and as
# `nobody`, the tests marked `quick` do.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
long=$(printf 'x%.0s' $(seq 1 90))/$(printf 'y%.0s' $(seq 1 110))
[ $# -gt 0 ] || set -- keepfit 'a b' ünï long
failed=0

# as USER COMMAND…: what an ordinary user has who has nothing: no HOME, no groups, TMPDIR in a place of its own.
as() {
    local user=$1
    shift
    if [ "$user" = root ] || [ "$(id -u)" != 0 ]; then
        "$@"
    else
        mkdir -p "$scratch/tmp of $user" && chown "$user" "$scratch/tmp of $user"
        setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups \
            env -u HOME -u XDG_STATE_HOME TMPDIR="$scratch/tmp of $user" "$@"
    fi
}

# step WHAT USER FOLDER COMMAND…
step() {
    local what=$1 user=$2 folder=$3 began=$SECONDS log=$scratch/log
    shift 3
    if (cd "$folder" && as "$user" "$@") >"$log" 2>&1 </dev/null; then
        printf 'ok      %-24s %-7s %s (%d s)\n' "$what" "$user" "${folder#"$scratch"/*/}" $((SECONDS - began))
    else
        printf 'FAILED  %-24s %-7s %s\n' "$what" "$user" "${folder#"$scratch"/*/}"
        tail -n 40 "$log"
        failed=1
    fi
}

users=$(id -un)
[ "$(id -u)" = 0 ] && users='root nobody'
for place in "$@"; do
    for user in $users; do
        name=$place
        [ "$place" = long ] && name=$long
        folder=$scratch/$user/$name
        mkdir -p "$(dirname "$folder")"
        git clone --quiet "$here" "$folder" || exit 1
        [ "$user" = nobody ] && chown -R nobody "$scratch/$user"
        step 'make demo' "$user" "$folder" make demo
        if [ "$place" = keepfit ] && [ "$user" != nobody ]; then
            step 'make test' "$user" "$folder" make test
        else
            step 'make test (quick)' "$user" "$folder" make test ARGS='-m quick'
        fi
        step 'make demo, once more' "$user" "$folder" make demo
        rm -rf "$folder"
    done
done
exit $failed
