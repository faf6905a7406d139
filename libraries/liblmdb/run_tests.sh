#!/bin/sh
# Runs test programs one after the other, in the current directory, and adds up their results.
#
#     run_tests.sh [NAME=value | program]...
#
# An assignment is put into the environment of the programs behind it. Each program prints `N passed, M failed` at its
# end. One that does not, or that exits with a failure in spite of M = 0 (killed, a sanitizer's report), counts as one
# failure more. The last line has the sums; the exit status is 0 only if something passed and nothing failed.
set -u

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP

setting=
passed_sum=0
failed_sum=0
failures=

program_run()
{
    ./"$1" >"$log" 2>&1 </dev/null
    status=$?
    result=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    passed=${result%% *}
    failed=${result#*, }
    failed=${failed%% *}
    if [ -z "$result" ]; then
        passed=0
        failed=1
    elif [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
    fi
    grep -vxF "${result:-none}" "$log"
    [ "$status" -lt 2 ] || echo "exit status $status"
    echo "$passed passed, $failed failed"
    passed_sum=$((passed_sum + passed))
    failed_sum=$((failed_sum + failed))
    [ "$failed" -eq 0 ] || failures="$failures
$1 $setting"
}

for argument in "$@"; do
    case $argument in
    *=*)
        export "${argument?}"
        setting=$argument
        ;;
    *)
        echo "$argument $setting"
        program_run "$argument"
        ;;
    esac
done

[ -z "$failures" ] || echo "Failures in:$failures"
echo "$passed_sum passed, $failed_sum failed"
[ "$failed_sum" -eq 0 ] && [ "$passed_sum" -gt 0 ]
